// The emitter: turns a scheduled graph into the program of one device: one stream, program order,
// values packed into memory by their lifetimes, with control flow, host operands, values of unknown
// size and in-step updates.
#ifndef MILLRACE_PASSES_EMIT_PLAN_H_
#define MILLRACE_PASSES_EMIT_PLAN_H_

#include <string>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "graph/target.h"

namespace millrace {

struct EmitOptions {
  std::string device_kind = "cpu";
  int64_t device_index = 0;
  int threads = 1;  // of the one compute stream
};

// `graph` is inferred, verified, and has no constants in nested graphs. BadInputError naming every
// op for which the target has no kernel.
absl::StatusOr<Program> EmitProgram(const Graph& graph, const Target& target,
                                    const EmitOptions& options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_PLAN_H_
