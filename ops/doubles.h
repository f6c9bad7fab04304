// For reference kernels that compute in f64, whatever the element type.
#ifndef MILLRACE_OPS_DOUBLES_H_
#define MILLRACE_OPS_DOUBLES_H_

#include <vector>

#include "graph/tensor.h"
#include "ops/op_def.h"

namespace millrace {

// Operand i; nullptr where the node omits it.
const Tensor* OptionalOperand(const ReferenceContext& c, size_t i);

// Somebody wants result i.
bool HasResult(const ReferenceContext& c, size_t i);

std::vector<double> ToDoubles(const Tensor& tensor);
// Rounded once; nothing happens where nobody wants result i. As many values as it has elements.
absl::Status StoreDoubles(const std::vector<double>& values, const ReferenceContext& c, size_t i);

}  // namespace millrace

#endif  // MILLRACE_OPS_DOUBLES_H_
