// Many small sums over devices as few large ones: a rewrite of lowered graphs.
#ifndef MILLRACE_PASSES_PARALLEL_BUCKET_REDUCTIONS_H_
#define MILLRACE_PASSES_PARALLEL_BUCKET_REDUCTIONS_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "passes/pass.h"

namespace millrace {

// A bucket is reduced while the backward pass makes the next one: large enough that starting it
// does not matter, small enough that the last one, which nothing hides, is short.
inline constexpr int64_t kReductionBucketBytes = int64_t{4} << 20;

// Joins comm.AllReduce nodes over the same axes, of one dtype and reduction, up to `bucket_bytes`,
// where no result is read before the last operand is there. Elements are summed in the same order
// as before, so no bit changes.
absl::Status BucketReductions(Graph& graph, int64_t bucket_bytes,
                              std::vector<RewriteRecord>& records);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_BUCKET_REDUCTIONS_H_
