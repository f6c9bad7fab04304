// Convolutions, forward and both ways back, as oneDNN primitives.
//
// Conv runs on plain (NCHW) operands where that is as fast: pointwise windows of one group, which
// are a matrix product as they are. Otherwise oneDNN picks the layouts (`any`), and the operands
// are reordered on each run: source, weights, and the result back. Measured with oneDNN 2.6 on a
// Xeon with AVX-512, one thread, reorders included (bench/cpu_kernels_bench.cc): 3x3 and 7x7
// windows 1.1 to 2.2 times as fast as plain, depthwise ones 3 to 4 times, pointwise ones 0.6 to 1.0
// times. Prepacked weights and blocked neighbours will save the reorders. The gradients do the
// same.
//
// ConvTranspose is the gradient by the source of the convolution it transposes; its bias is added
// in a sweep over the result.
#include <algorithm>

#include "graph/strings.h"
#include "ops/convolution.h"
#include "ops/cpu/onednn_families.h"
#include "ops/cpu/onednn_primitive.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

constexpr int64_t kMaxWindowNumber = int64_t{1} << 16;  // oneDNN counts in int

enum class ConvRole : uint8_t { kForward, kBySource, kByWeights, kTranspose };

std::optional<ConvRole> RoleOf(std::string_view op) {
  if (op == "Conv") return ConvRole::kForward;
  if (op == "grad.ConvInput") return ConvRole::kBySource;
  if (op == "grad.ConvWeight") return ConvRole::kByWeights;
  if (op == "ConvTranspose") return ConvRole::kTranspose;
  return std::nullopt;
}

// The convolution behind a node, in oneDNN's terms.
struct ConvSpec {
  ConvRole role = ConvRole::kForward;
  DnnlDims src, weights, bias, dst;  // weights with the groups in front where there are any
  DnnlDims strides, dilations, pad_begin, pad_end;
  double multiply_adds = 0;
  bool has_bias = false;
  bool plain = false;  // on the operands as they lie
};

absl::StatusOr<Convolution> ConvolutionOf(const NodeQuery& query, ConvRole role) {
  const Shape& first = query.inputs[0]->shape;
  switch (role) {
    case ConvRole::kForward:
      return ConvolutionOf(query.attrs, first, query.inputs[1]->shape);
    case ConvRole::kBySource:
      return ConvolutionOf(query.attrs, query.outputs[0]->shape, query.inputs[1]->shape);
    case ConvRole::kByWeights:
      return ConvolutionOf(query.attrs, first, query.outputs[0]->shape);
    case ConvRole::kTranspose:
      return TransposedConvolutionOf(query.attrs, first, query.inputs[1]->shape);
  }
  return InternalError("no such role");
}

std::optional<ConvSpec> ConvSpecOf(const NodeQuery& query) {
  const std::optional<ConvRole> role = RoleOf(query.op);
  if (!role.has_value() || !AllOf(query, DType::kF32) || !HasOutput(query, 0)) return std::nullopt;
  if (!AllSized(query.inputs) || !AllSized(query.outputs)) return std::nullopt;
  const absl::StatusOr<Convolution> conv = ConvolutionOf(query, *role);
  if (!conv.ok()) return std::nullopt;
  const Window& w = conv->window;

  ConvSpec spec;
  spec.role = *role;
  spec.src = ToDnnlDims(OperandShape(*conv));
  spec.dst = ToDnnlDims(ResultShape(*conv));
  spec.weights = {conv->out_channels, conv->in_channels};
  for (int64_t d : Dims(w, w.kernel)) spec.weights.push_back(d);
  if (conv->group > 1) spec.weights.insert(spec.weights.begin(), conv->group);
  spec.bias = {spec.dst[1]};
  spec.has_bias = *role == ConvRole::kForward && HasInput(query, 2);
  spec.multiply_adds = static_cast<double>(NumElements(ResultShape(*conv))) *
                       static_cast<double>(conv->in_channels) *
                       static_cast<double>(Volume(w.kernel));
  spec.plain = conv->group == 1;
  for (int d = kMaxSpatial - w.rank; d < kMaxSpatial; ++d) {
    // oneDNN wants as much padding at the end as the last window needs, not as the node says.
    const int64_t pad_end = std::max<int64_t>(Reach(w, d) - w.in[d], 0);
    for (int64_t number : {w.kernel[d], w.strides[d], w.dilations[d], w.pads_begin[d], pad_end}) {
      if (number > kMaxWindowNumber) return std::nullopt;
    }
    spec.strides.push_back(w.strides[d]);
    spec.dilations.push_back(w.dilations[d] - 1);
    spec.pad_begin.push_back(w.pads_begin[d]);
    spec.pad_end.push_back(pad_end);
    spec.plain &= w.kernel[d] == 1 && w.strides[d] == 1 && w.pads_begin[d] == 0 && pad_end == 0;
  }
  return spec;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

// The primitive for the calling thread's team. These throw.
dnnl::convolution_forward::primitive_desc ForwardDesc(const ConvSpec& s, dnnl::prop_kind kind) {
  using Conv = dnnl::convolution_forward;
  const auto desc = s.plain ? PlainDesc : AnyDesc;
  const Conv::desc op =
      s.has_bias ? Conv::desc(kind, kAlgorithm, desc(s.src), desc(s.weights), PlainDesc(s.bias),
                              desc(s.dst), s.strides, s.dilations, s.pad_begin, s.pad_end)
                 : Conv::desc(kind, kAlgorithm, desc(s.src), desc(s.weights), desc(s.dst),
                              s.strides, s.dilations, s.pad_begin, s.pad_end);
  return {op, UserScratchpad(), CpuEngine()};
}

dnnl::convolution_backward_data::primitive_desc BySourceDesc(const ConvSpec& s) {
  const auto desc = s.plain ? PlainDesc : AnyDesc;
  const dnnl::convolution_backward_data::desc op(kAlgorithm, desc(s.src), desc(s.weights),
                                                 desc(s.dst), s.strides, s.dilations, s.pad_begin,
                                                 s.pad_end);
  return {op, UserScratchpad(), CpuEngine(), ForwardDesc(s, dnnl::prop_kind::forward_training)};
}

dnnl::convolution_backward_weights::primitive_desc ByWeightsDesc(const ConvSpec& s) {
  const auto desc = s.plain ? PlainDesc : AnyDesc;
  const dnnl::convolution_backward_weights::desc op(kAlgorithm, desc(s.src), desc(s.weights),
                                                    desc(s.dst), s.strides, s.dilations,
                                                    s.pad_begin, s.pad_end);
  return {op, UserScratchpad(), CpuEngine(), ForwardDesc(s, dnnl::prop_kind::forward_training)};
}

// Makes the primitive only when it is wanted: that compiles code.
struct ConvPrimitive {
  PrimitiveOperands operands;
  dnnl::primitive primitive;
};

ConvPrimitive MakeConv(const ConvSpec& s, bool make_primitive) {
  ConvPrimitive conv;
  const auto input = [&](int arg, size_t index, const DnnlDims& dims, dnnl::memory::desc wanted) {
    conv.operands.operands.push_back({arg, false, index, dims, std::move(wanted)});
  };
  const auto output = [&](int arg, const DnnlDims& dims, dnnl::memory::desc wanted) {
    conv.operands.operands.push_back({arg, true, 0, dims, std::move(wanted)});
  };
  if (s.role == ConvRole::kForward) {
    const auto desc = ForwardDesc(s, dnnl::prop_kind::forward_inference);
    input(DNNL_ARG_SRC, 0, s.src, desc.src_desc());
    input(DNNL_ARG_WEIGHTS, 1, s.weights, desc.weights_desc());
    if (s.has_bias) input(DNNL_ARG_BIAS, 2, s.bias, PlainDesc(s.bias));
    output(DNNL_ARG_DST, s.dst, desc.dst_desc());
    conv.operands.scratchpad = desc.scratchpad_desc();
    if (make_primitive) conv.primitive = dnnl::convolution_forward(desc);
  } else if (s.role == ConvRole::kByWeights) {
    const auto desc = ByWeightsDesc(s);
    input(DNNL_ARG_SRC, 0, s.src, desc.src_desc());
    input(DNNL_ARG_DIFF_DST, 1, s.dst, desc.diff_dst_desc());
    output(DNNL_ARG_DIFF_WEIGHTS, s.weights, desc.diff_weights_desc());
    conv.operands.scratchpad = desc.scratchpad_desc();
    if (make_primitive) conv.primitive = dnnl::convolution_backward_weights(desc);
  } else {
    const auto desc = BySourceDesc(s);
    input(DNNL_ARG_DIFF_DST, 0, s.dst, desc.diff_dst_desc());
    input(DNNL_ARG_WEIGHTS, 1, s.weights, desc.weights_desc());
    output(DNNL_ARG_DIFF_SRC, s.src, desc.diff_src_desc());
    conv.operands.scratchpad = desc.scratchpad_desc();
    if (make_primitive) conv.primitive = dnnl::convolution_backward_data(desc);
  }
  return conv;
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

}  // namespace

std::optional<KernelVariant> MatchOneDnnConv(const NodeQuery& query, int threads) {
  const std::optional<ConvSpec> spec = ConvSpecOf(query);
  if (!spec.has_value()) return std::nullopt;
  const ScopedTeamSize team(TeamFor(spec->multiply_adds, threads));
  try {
    KernelVariant variant = DenseVariant(query, OneDnnVariant());
    variant.scratch_bytes = MakeConv(*spec, /*make_primitive=*/false).operands.scratch_bytes();
    return variant;
  } catch (const dnnl::error&) {  // no implementation for these sizes
    return std::nullopt;
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnConv(const KernelRequest& request) {
  const ConvSpec spec = *ConvSpecOf(request.query);
  const int threads = TeamFor(spec.multiply_adds, request.threads);
  const ScopedTeamSize team(threads);
  std::unique_ptr<Kernel> kernel;
  try {
    const ConvPrimitive conv = MakeConv(spec, /*make_primitive=*/true);
    kernel = std::make_unique<PrimitiveKernel>(conv.primitive, conv.operands, threads);
  } catch (const dnnl::error& error) {
    return InternalError(StrCat("oneDNN: ", error.what()));
  }
  if (spec.role != ConvRole::kTranspose || !HasInput(request.query, 2)) return kernel;
  return std::make_unique<BiasedKernel>(std::move(kernel), request.query.outputs[0]->shape,
                                        threads);
}

}  // namespace millrace
