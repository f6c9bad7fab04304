// The emitter: turns a scheduled graph into the program of one device: nodes in program order on
// their streams, values packed into memory by their lifetimes, with control flow, host operands,
// values of unknown size and in-step updates.
#ifndef MILLRACE_PASSES_EMIT_PLAN_H_
#define MILLRACE_PASSES_EMIT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "graph/target.h"

namespace millrace {

struct EmitOptions {
  std::string device_kind = "cpu";
  LinearExpr device_index = 0;  // by mesh coordinate
  int threads = 1;  // of each compute stream
  // By node of the outermost graph, from 0; empty: all on stream 0. Nodes are issued in graph
  // order.
  std::vector<int32_t> stream_of_node = {};
  // Likewise the kernel each node runs, of the target's (null: it runs none); empty: the best ones
  // (passes/assign_layouts.h).
  std::vector<const KernelVariant*> variant_of_node = {};
};

// `graph` is inferred, verified, and has no constants in nested graphs. BadInputError naming every
// op for which the target has no kernel.
absl::StatusOr<Program> EmitProgram(const Graph& graph, const Target& target,
                                    const EmitOptions& options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_PLAN_H_
