// One op, computed on the host by its reference kernel: what folding and known values are made of.
#ifndef MILLRACE_OPS_EVALUATE_H_
#define MILLRACE_OPS_EVALUATE_H_

#include <span>
#include <vector>

#include "graph/status.h"
#include "graph/target.h"
#include "graph/tensor.h"

namespace millrace {

// `query` with its attributes normalized, defaults filled in, and the types that the op's rules
// give the outputs it asks for (any type asks). `inputs` has a tensor per input of the query,
// without data where they are not known. Errors: the signature's and inference's.
absl::StatusOr<NodeQuery> ResolveQuery(const NodeQuery& query, std::span<const Tensor> inputs);

// The results of a resolved query; no data where an output was not asked for. Inputs have data, but
// for omitted ones. Not for ops with nested graphs nor collectives. Errors: the kernel's own.
absl::StatusOr<std::vector<Tensor>> RunReference(const NodeQuery& resolved,
                                                 std::span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_OPS_EVALUATE_H_
