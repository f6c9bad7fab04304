// Where the time of a run went, by node.
#ifndef MILLRACE_TOOLS_PROFILE_H_
#define MILLRACE_TOOLS_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/plan.h"
#include "runtime/trace.h"
#include "tools/output.h"

namespace millrace {

struct NodeProfile {
  std::string node, op;
  std::string variant;  // kernel variant; empty for nodes that no Launch runs
  int64_t runs = 0;     // over all steps traced
  double time_us = 0;   // a step, on average
  double share = 0;     // of the time of all nodes
  double flops_per_s = 0, bytes_per_s = 0;
};

// Longest first. `steps` were traced. On an asynchronous device a time is that of issuing.
std::vector<NodeProfile> ProfileByNode(const Tracer& tracer, const PlanBundle& plan, int64_t steps);

std::string ToText(const std::vector<NodeProfile>& profile);
Json ToJson(const std::vector<NodeProfile>& profile);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_PROFILE_H_
