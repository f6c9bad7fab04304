// What kernel families of all backends ask of a query.
#ifndef MILLRACE_OPS_KERNEL_QUERY_H_
#define MILLRACE_OPS_KERNEL_QUERY_H_

#include <string>

#include "graph/status.h"
#include "graph/target.h"

namespace millrace {

// The query with the op's attribute defaults filled in, once its types are what the op's rules
// give: families take both for granted. (Where the rules need the data of host operands, the
// families of these ops check what they rely on.) BadInputError otherwise.
absl::StatusOr<NodeQuery> NormalizeQuery(const NodeQuery& query);

// A variant over dense operands with the work the op declares.
KernelVariant DenseVariant(const NodeQuery& query, std::string name);

// No result has an element.
bool GivesNothing(const NodeQuery& query);

// Operand i is there.
inline bool HasInput(const NodeQuery& query, size_t i) {
  return i < query.inputs.size() && query.inputs[i].has_value();
}
inline bool HasOutput(const NodeQuery& query, size_t i) {
  return i < query.outputs.size() && query.outputs[i].has_value();
}
// All operands that are there have element type `dtype`.
bool AllOf(const NodeQuery& query, DType dtype);

}  // namespace millrace

#endif  // MILLRACE_OPS_KERNEL_QUERY_H_
