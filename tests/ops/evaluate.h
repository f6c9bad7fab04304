// Runs nodes and graphs with the reference kernels, one node after another.
#ifndef MILLRACE_TESTS_OPS_EVALUATE_H_
#define MILLRACE_TESTS_OPS_EVALUATE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace::optest {

// One node; operands without data are omitted. Every one of the `num_outputs` results is wanted.
absl::StatusOr<std::vector<Tensor>> RunReference(std::string_view op, const Attrs& attrs,
                                                 const std::vector<Tensor>& inputs,
                                                 int num_outputs = 1);

// Its error message; "" when there is none.
std::string ErrorOf(std::string_view op, const std::vector<Tensor>& inputs,
                    const Attrs& attrs = {});

// The graph's outputs. Results must have types; params are not supported, nor nested graphs.
absl::StatusOr<std::vector<Tensor>> Evaluate(const Graph& graph, std::span<const Tensor> inputs);

// Elements uniform in [low, high), reproducible by seed; integers are rounded down.
Tensor RandomTensor(const TensorType& type, uint64_t seed, double low = -2, double high = 2);

// `tensor` with each element converted (through double) to `dtype`.
Tensor Converted(const Tensor& tensor, DType dtype);

// Elements [begin, end) along `dim`, and the inverse for consecutive parts.
Tensor SliceOf(const Tensor& tensor, int dim, int64_t begin, int64_t end);
Tensor Joined(std::span<const Tensor> parts, int dim);

// The largest |a - b| / max(1, |b|); infinite when types differ, or only one is NaN.
double MaxError(const Tensor& a, const Tensor& b);

}  // namespace millrace::optest

#endif  // MILLRACE_TESTS_OPS_EVALUATE_H_
