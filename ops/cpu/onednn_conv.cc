// Convolutions, forward and both ways back, as oneDNN primitives.
//
// Conv runs on plain (NCHW) operands where that is as fast: pointwise windows of one group, which
// are a matrix product as they are. Otherwise oneDNN picks the layouts (`any`), and the operands
// are reordered on each run: source, weights, and the result back. Measured with oneDNN 2.6 on a
// Xeon with AVX-512, one thread, reorders included (bench/cpu_kernels_bench.cc): 3x3 and 7x7
// windows 1.1 to 2.2 times as fast as plain, depthwise ones 3 to 4 times, pointwise ones 0.6 to 1.0
// times. The gradients do the same.
//
// ConvTranspose is the gradient by the source of the convolution it transposes; its bias is added
// in a sweep over the result.
//
// Where neighbours lie channels-last, so do the operands, and weights that are packed already
// (fused.Prepack) are taken as they are: nothing is reordered. A first convolution, or a last one,
// whose other side lies row-major reorders that side only.
#include <algorithm>

#include "graph/channels_last.h"
#include "graph/strings.h"
#include "ops/cpu/onednn_conv_spec.h"
#include "ops/cpu/onednn_families.h"
#include "ops/cpu/team.h"
#include "ops/prepack.h"

namespace millrace {
namespace {

// Which operands lie otherwise than in row-major order.
struct ConvLayouts {
  bool src_last = false, dst_last = false;  // channels
  bool packed = false;                      // weights

  bool any() const { return src_last || dst_last || packed; }
};

// Makes the primitive only when it is wanted: that compiles code.
struct ConvPrimitive {
  PrimitiveOperands operands;
  dnnl::primitive primitive;
};

// An operand of a forward convolution where it lies as `last` says.
PrimitiveOperand ImageOperand(int arg, bool is_output, size_t index, const DnnlDims& dims,
                              bool last, const dnnl::memory::desc& wanted) {
  const bool alike = dims.size() >= 4 && !HasChannelsLast(Shape(dims));
  const bool channels_last = last || (alike && wanted == ChannelsLastDesc(dims));
  return {arg, is_output, index, channels_last ? ChannelsLastDesc(dims) : PlainDesc(dims), wanted};
}

// The operand of a step of the epilogue. A sum's is what the result starts from.
void AddOperand(const ConvSpec& s, size_t step, std::vector<PrimitiveOperand>& operands) {
  const int operand = s.epilogue.steps[step].operand;
  if (operand < 0 || operand == s.epilogue.sum_operand) return;
  const dnnl::memory::desc desc = PlainDesc(ToDnnlDims(s.epilogue.operand_shapes[operand]));
  const int arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(step)) | DNNL_ARG_SRC_1;
  operands.push_back({arg, false, s.first_operand + static_cast<size_t>(operand), desc, desc});
}

// nullopt: the team at hand would want its weights packed in another way.
std::optional<ConvPrimitive> MakeForward(const ConvSpec& s, const ConvLayouts& layouts,
                                         bool make_primitive) {
  const bool channels_last = layouts.any() || !s.epilogue.steps.empty();
  const ConvPlaces places = channels_last ? ConvPlaces::kChannelsLast
                            : s.plain     ? ConvPlaces::kPlain
                                          : ConvPlaces::kAny;
  const auto desc = ForwardDesc(
      s, places, places == ConvPlaces::kPlain ? PlainDesc(s.weights) : AnyDesc(s.weights));
  if (layouts.packed && desc.weights_desc() != PackedWeights(s)) return std::nullopt;
  ConvPrimitive conv;
  auto& operands = conv.operands.operands;
  operands.push_back(
      ImageOperand(DNNL_ARG_SRC, false, 0, s.src, layouts.src_last, desc.src_desc()));
  operands.push_back({DNNL_ARG_WEIGHTS, false, 1,
                      layouts.packed ? desc.weights_desc() : PlainDesc(s.weights),
                      desc.weights_desc()});
  if (s.has_bias) {
    operands.push_back({DNNL_ARG_BIAS, false, 2, PlainDesc(s.bias), PlainDesc(s.bias)});
  }
  for (size_t i = 0; i < s.epilogue.steps.size(); ++i) AddOperand(s, i, operands);
  operands.push_back(ImageOperand(DNNL_ARG_DST, true, 0, s.dst, layouts.dst_last, desc.dst_desc()));
  if (s.epilogue.sum_operand >= 0) {
    operands.back().starts_from = static_cast<int>(s.first_operand) + s.epilogue.sum_operand;
  }
  conv.operands.scratchpad = desc.scratchpad_desc();
  if (make_primitive) conv.primitive = dnnl::convolution_forward(desc);
  return conv;
}

ConvPrimitive MakeGradient(const ConvSpec& s, bool make_primitive) {
  ConvPrimitive conv;
  const auto add = [&](int arg, bool is_output, size_t index, const DnnlDims& dims,
                       const dnnl::memory::desc& wanted) {
    conv.operands.operands.push_back({arg, is_output, index, PlainDesc(dims), wanted});
  };
  if (s.role == ConvRole::kByWeights) {
    const auto desc = ByWeightsDesc(s);
    add(DNNL_ARG_SRC, false, 0, s.src, desc.src_desc());
    add(DNNL_ARG_DIFF_DST, false, 1, s.dst, desc.diff_dst_desc());
    add(DNNL_ARG_DIFF_WEIGHTS, true, 0, s.weights, desc.diff_weights_desc());
    conv.operands.scratchpad = desc.scratchpad_desc();
    if (make_primitive) conv.primitive = dnnl::convolution_backward_weights(desc);
  } else {
    const auto desc = BySourceDesc(s);
    add(DNNL_ARG_DIFF_DST, false, 0, s.dst, desc.diff_dst_desc());
    add(DNNL_ARG_WEIGHTS, false, 1, s.weights, desc.weights_desc());
    add(DNNL_ARG_DIFF_SRC, true, 0, s.src, desc.diff_src_desc());
    conv.operands.scratchpad = desc.scratchpad_desc();
    if (make_primitive) conv.primitive = dnnl::convolution_backward_data(desc);
  }
  return conv;
}

std::optional<ConvPrimitive> MakeConv(const ConvSpec& s, const ConvLayouts& layouts,
                                      bool make_primitive) {
  if (s.role == ConvRole::kForward) return MakeForward(s, layouts, make_primitive);
  return MakeGradient(s, make_primitive);
}

// ConvTranspose with a bias for each channel of the result.
class BiasedKernel final : public Kernel {
 public:
  BiasedKernel(std::unique_ptr<Kernel> kernel, const Shape& y, int threads)
      : kernel_(std::move(kernel)),
        planes_(y[0] * y[1]),
        channels_(y[1]),
        positions_(NumElements(y) / planes_),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    MILLRACE_RETURN_IF_ERROR(kernel_->Run(args));
    const auto* bias = static_cast<const float*>(args.inputs[2]);
    auto* y = static_cast<float*>(args.outputs[0]);
    ParallelFor(threads_, planes_, planes_ * positions_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const float b = bias[plane % channels_];
        for (int64_t i = plane * positions_; i < (plane + 1) * positions_; ++i) y[i] += b;
      }
    });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const int64_t planes_, channels_, positions_;
  const int threads_;
};

// The way to run the convolution over operands that lie so; nullopt: there is none.
std::optional<KernelVariant> OfferConv(const NodeQuery& query, const ConvSpec& spec,
                                       const ConvLayouts& layouts, int threads) {
  try {
    KernelVariant variant = DenseVariant(query, OneDnnVariant());
    std::optional<ConvPrimitive> conv;
    for (int team = TeamFor(spec.multiply_adds, threads); team > 0 && !conv.has_value(); --team) {
      const ScopedTeamSize size(team);
      conv = MakeConv(spec, layouts, /*make_primitive=*/false);
    }
    if (!conv.has_value()) return std::nullopt;
    variant.scratch_bytes = conv->operands.scratch_bytes();
    if (layouts.src_last) variant.in_layouts[0] = Layout::kNHWC;
    if (layouts.dst_last) variant.out_layouts[0] = Layout::kNHWC;
    if (layouts.dst_last && spec.epilogue.sum_operand >= 0) {
      variant.in_layouts[spec.first_operand + spec.epilogue.sum_operand] = Layout::kNHWC;
    }
    if (layouts.packed) {
      variant.in_layouts[1] = Layout::kPacked;
      variant.packed_bytes = static_cast<int64_t>(PackedWeights(spec).get_size());
    }
    return variant;
  } catch (const dnnl::error&) {  // no implementation for these sizes
    return std::nullopt;
  }
}

// Copies weights to a place in the layout PackedWeights. Throws.
ConvPrimitive MakePacker(const ConvSpec& spec, bool make_primitive) {
  const dnnl::memory::desc from = PlainDesc(spec.weights), to = PackedWeights(spec);
  const dnnl::reorder::primitive_desc desc(CpuEngine(), from, CpuEngine(), to, UserScratchpad());
  ConvPrimitive packer;
  packer.operands.operands = {{DNNL_ARG_FROM, false, 0, from, from},
                              {DNNL_ARG_TO, true, 0, to, to}};
  packer.operands.scratchpad = desc.scratchpad_desc();
  if (make_primitive) packer.primitive = dnnl::reorder(desc);
  return packer;
}

// The convolution whose weights a fused.Prepack packs.
std::optional<ConvSpec> PackedConvOf(const NodeQuery& query) {
  if (query.op != kPrepack || query.attrs.Int("input", 0) != 1) return std::nullopt;
  const absl::StatusOr<NodeQuery> reader = ParseQueryJson(query.attrs.String("reader", ""));
  if (!reader.ok()) return std::nullopt;
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(*reader);
  if (!normal.ok() || normal->inputs[1] != query.inputs[0]) return std::nullopt;
  const std::optional<ConvSpec> spec = ConvSpecOf(*normal);
  return spec.has_value() && HasChannelsLastConv(*spec) ? spec : std::nullopt;
}

}  // namespace

std::optional<KernelVariant> MatchOneDnnConv(const NodeQuery& query, int threads) {
  const std::optional<ConvSpec> spec = ConvSpecOf(query);
  if (!spec.has_value()) return std::nullopt;
  if (query.op == "fused.Conv" && !HasChannelsLastConv(*spec)) return std::nullopt;
  return OfferConv(query, *spec, {}, threads);
}

std::vector<KernelVariant> MoreOneDnnConv(const NodeQuery& query, int threads) {
  std::vector<KernelVariant> offers;
  const std::optional<ConvSpec> spec = ConvSpecOf(query);
  if (!spec.has_value() || !HasChannelsLastConv(*spec)) return offers;
  for (const ConvLayouts& layouts :
       {ConvLayouts{true, true, true}, ConvLayouts{true, true, false},
        ConvLayouts{false, true, true}, ConvLayouts{false, true, false},
        ConvLayouts{false, false, true}}) {
    if (auto variant = OfferConv(query, *spec, layouts, threads)) {
      offers.push_back(*std::move(variant));
    }
  }
  return offers;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnConv(const KernelRequest& request) {
  const ConvSpec spec = *ConvSpecOf(request.query);
  ConvLayouts layouts;
  if (spec.role == ConvRole::kForward) {
    layouts = {.src_last = request.inputs[0].layout == Layout::kNHWC,
               .dst_last = request.outputs[0].layout == Layout::kNHWC,
               .packed = request.inputs[1].layout == Layout::kPacked};
  }
  int threads = TeamFor(spec.multiply_adds, request.threads);
  std::unique_ptr<Kernel> kernel;
  try {
    for (; kernel == nullptr; --threads) {
      const ScopedTeamSize team(threads);
      const auto conv = MakeConv(spec, layouts, /*make_primitive=*/true);
      if (!conv.has_value()) continue;
      kernel = std::make_unique<PrimitiveKernel>(conv->primitive, conv->operands, threads);
    }
  } catch (const dnnl::error& error) {
    return InternalError(StrCat("oneDNN: ", error.what()));
  }
  if (spec.role != ConvRole::kTranspose || !HasInput(request.query, 2)) return kernel;
  return std::make_unique<BiasedKernel>(std::move(kernel), request.query.outputs[0]->shape,
                                        TeamFor(spec.multiply_adds, request.threads));
}

std::vector<KernelVariant> MoreOneDnnPacks(const NodeQuery& query, int threads) {
  const std::optional<ConvSpec> spec = PackedConvOf(query);
  if (!spec.has_value()) return {};
  const ScopedTeamSize team(threads);
  try {
    KernelVariant variant = DenseVariant(query, OneDnnVariant());
    variant.out_layouts[0] = Layout::kPacked;
    variant.packed_bytes = static_cast<int64_t>(PackedWeights(*spec).get_size());
    variant.scratch_bytes = MakePacker(*spec, /*make_primitive=*/false).operands.scratch_bytes();
    return {variant};
  } catch (const dnnl::error&) {
    return {};
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnPack(const KernelRequest& request) {
  const ScopedTeamSize team(request.threads);
  try {
    const ConvPrimitive packer = MakePacker(*PackedConvOf(request.query), /*make_primitive=*/true);
    return std::make_unique<PrimitiveKernel>(packer.primitive, packer.operands, request.threads);
  } catch (const dnnl::error& error) {
    return InternalError(StrCat("oneDNN: ", error.what()));
  }
}

}  // namespace millrace
