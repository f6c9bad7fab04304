#include "ops/cpu/onednn_conv_spec.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "graph/strings.h"
#include "ops/convolution.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

constexpr int64_t kMaxWindowNumber = int64_t{1} << 16;  // oneDNN counts in int
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

std::optional<ConvRole> RoleOf(std::string_view op) {
  if (op == "Conv" || op == "fused.Conv") return ConvRole::kForward;
  if (op == "grad.ConvInput") return ConvRole::kBySource;
  if (op == "grad.ConvWeight") return ConvRole::kByWeights;
  if (op == "ConvTranspose") return ConvRole::kTranspose;
  return std::nullopt;
}

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

// What the gradients' primitives go by.
dnnl::convolution_forward::primitive_desc TrainingDesc(const ConvSpec& s) {
  const auto desc = s.plain ? PlainDesc : AnyDesc;
  const dnnl::convolution_forward::desc op(dnnl::prop_kind::forward_training, kAlgorithm,
                                           desc(s.src), desc(s.weights), desc(s.dst), s.strides,
                                           s.dilations, s.pad_begin, s.pad_end);
  return {op, UserScratchpad(), CpuEngine()};
}

}  // namespace

std::optional<ConvSpec> ConvSpecOf(const NodeQuery& query) {
  const std::optional<ConvRole> role = RoleOf(query.op);
  if (!role.has_value() || !AllOf(query, DType::kF32) || !HasOutput(query, 0)) return std::nullopt;
  if (!AllSized(query.inputs) || !AllSized(query.outputs)) return std::nullopt;
  const absl::StatusOr<Convolution> conv = ConvolutionOf(query, *role);
  if (!conv.ok()) return std::nullopt;
  EpiloguePlan epilogue;
  size_t first_operand = 0;
  if (query.op == "fused.Conv") {
    const std::optional<FusedProduct> product = FusedProductOf(query);
    if (!product.has_value()) return std::nullopt;
    std::optional<EpiloguePlan> plan = PlanEpilogue(*product);
    if (!plan.has_value() || !ArePostOps(*plan)) return std::nullopt;
    epilogue = *std::move(plan);
    first_operand = product->first_operand;
  }
  const Window& w = conv->window;

  ConvSpec spec;
  spec.role = *role;
  spec.epilogue = std::move(epilogue);
  spec.first_operand = first_operand;
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

dnnl::convolution_forward::primitive_desc ForwardDesc(const ConvSpec& s, ConvPlaces places,
                                                      const dnnl::memory::desc& weights) {
  using Conv = dnnl::convolution_forward;
  dnnl::memory::desc (*const desc)(const DnnlDims&) = places == ConvPlaces::kPlain ? PlainDesc
                                                      : places == ConvPlaces::kAny
                                                          ? AnyDesc
                                                          : ChannelsLastDesc;
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  const Conv::desc op =
      s.has_bias ? Conv::desc(kKind, kAlgorithm, desc(s.src), weights, PlainDesc(s.bias),
                              desc(s.dst), s.strides, s.dilations, s.pad_begin, s.pad_end)
                 : Conv::desc(kKind, kAlgorithm, desc(s.src), weights, desc(s.dst), s.strides,
                              s.dilations, s.pad_begin, s.pad_end);
  return {op, AttrFor(s.epilogue), CpuEngine()};
}

dnnl::convolution_backward_data::primitive_desc BySourceDesc(const ConvSpec& s) {
  const auto desc = s.plain ? PlainDesc : AnyDesc;
  const dnnl::convolution_backward_data::desc op(kAlgorithm, desc(s.src), desc(s.weights),
                                                 desc(s.dst), s.strides, s.dilations, s.pad_begin,
                                                 s.pad_end);
  return {op, UserScratchpad(), CpuEngine(), TrainingDesc(s)};
}

dnnl::convolution_backward_weights::primitive_desc ByWeightsDesc(const ConvSpec& s) {
  const auto desc = s.plain ? PlainDesc : AnyDesc;
  const dnnl::convolution_backward_weights::desc op(kAlgorithm, desc(s.src), desc(s.weights),
                                                    desc(s.dst), s.strides, s.dilations,
                                                    s.pad_begin, s.pad_end);
  return {op, UserScratchpad(), CpuEngine(), TrainingDesc(s)};
}

bool HasChannelsLastConv(const ConvSpec& s) {
  if (s.role != ConvRole::kForward || s.src.size() < 4) return false;
  try {
    const std::string name =
        ForwardDesc(s, ConvPlaces::kChannelsLast, AnyDesc(s.weights)).impl_info_str();
    return !absl::StartsWith(name, "ref");
  } catch (const dnnl::error&) {
    return false;
  }
}

dnnl::memory::desc PackedWeights(const ConvSpec& s) {
  const ScopedTeamSize alone(1);
  return ForwardDesc(s, ConvPlaces::kChannelsLast, AnyDesc(s.weights)).weights_desc();
}

}  // namespace millrace
