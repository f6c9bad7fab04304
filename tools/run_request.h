// What the command line of `run` asks to read, write and compare, taken apart and looked at before
// anything runs.
#ifndef MILLRACE_TOOLS_RUN_REQUEST_H_
#define MILLRACE_TOOLS_RUN_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/plan.h"
#include "graph/status.h"
#include "graph/tensor.h"
#include "tools/value_spec.h"

namespace millrace {

// The options as given.
struct RunRequestTexts {
  std::vector<std::string> inputs, outputs, expects, labels;
  std::string held_out;
};

struct RunRequest {
  std::vector<ValueSpec> inputs, outputs, expects, labels;
  int64_t every = 0, remainder = 0;  // --held-out
};

// UsageError for what is malformed whatever the plan is.
absl::StatusOr<RunRequest> ParseRunRequest(const RunRequestTexts& texts);

// The data that a request names.
struct RunData {
  std::vector<Tensor> inputs;            // of all inputs, in the graph's order
  std::vector<Tensor> expected, labels;  // one a spec
};

// UsageError for names that the plan's graph lacks, inputs not given, and types that do not fit;
// the files' own errors otherwise.
absl::StatusOr<RunData> ReadRunData(const RunRequest& request, const PlanBundle& plan);

std::vector<std::string> NamesOf(const Graph& graph, const std::vector<ValueId>& values);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_RUN_REQUEST_H_
