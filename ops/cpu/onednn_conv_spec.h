// The convolution behind a node, and the oneDNN primitives for it. Included by onednn_*.cc only.
#ifndef MILLRACE_OPS_CPU_ONEDNN_CONV_SPEC_H_
#define MILLRACE_OPS_CPU_ONEDNN_CONV_SPEC_H_

#include "ops/cpu/onednn_epilogue.h"
#include "ops/cpu/onednn_primitive.h"

namespace millrace {

enum class ConvRole : uint8_t { kForward, kBySource, kByWeights, kTranspose };

// How the operands of a forward convolution lie.
enum class ConvPlaces : uint8_t {
  kPlain,         // NCHW, for the primitive too
  kAny,           // NCHW; the primitive chooses, and operands are reordered
  kChannelsLast,  // the primitive works on NHWC
};

// The convolution behind a node, in oneDNN's terms.
struct ConvSpec {
  ConvRole role = ConvRole::kForward;
  DnnlDims src, weights, bias, dst;  // weights with the groups in front where there are any
  DnnlDims strides, dilations, pad_begin, pad_end;
  double multiply_adds = 0;
  bool has_bias = false;
  EpiloguePlan epilogue;     // kForward
  size_t first_operand = 0;  // of the epilogue's
  bool plain = false;        // NCHW is as good as any other layout
};

// nullopt: no convolution, or none for oneDNN.
std::optional<ConvSpec> ConvSpecOf(const NodeQuery& query);

// The primitive for the calling thread's team. These throw. `weights`: in what layout they come.
dnnl::convolution_forward::primitive_desc ForwardDesc(const ConvSpec& spec, ConvPlaces places,
                                                      const dnnl::memory::desc& weights);
dnnl::convolution_backward_data::primitive_desc BySourceDesc(const ConvSpec& spec);
dnnl::convolution_backward_weights::primitive_desc ByWeightsDesc(const ConvSpec& spec);

// Whether there is a convolution on channels-last operands: nodes of rank 4 and 5, and no primitive
// of the last resort. Does not throw.
bool HasChannelsLastConv(const ConvSpec& spec);

// How weights lie once packed: as the primitive for a team of one likes them, on channels-last
// operands. Teams of other sizes can use that too, or give way to smaller ones. Throws.
dnnl::memory::desc PackedWeights(const ConvSpec& spec);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ONEDNN_CONV_SPEC_H_
