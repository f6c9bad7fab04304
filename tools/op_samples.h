// Sample uses of an op, made from its signature alone, so that `millrace ops NAME` can ask a Target
// which kernels it has without a model at hand.
#ifndef MILLRACE_TOOLS_OP_SAMPLES_H_
#define MILLRACE_TOOLS_OP_SAMPLES_H_

#include <string>
#include <vector>

#include "graph/target.h"
#include "graph/types.h"
#include "ops/op_def.h"

namespace millrace {

// The kernels `target` has for `op` on small dense operands whose free element type is `dtype`: the
// first shapes of a fixed list that the op's inference accepts. Where none is, those there are for
// any operands: on a cpu, the reference. Empty when there is no kernel.
std::vector<std::string> SampleKernels(const OpDef& op, DType dtype, const Target& target);

// Element types of the op's first operand that has a choice, in DType's order; all 13 for an op
// that takes any.
std::vector<DType> SampleTypes(const OpDef& op);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_OP_SAMPLES_H_
