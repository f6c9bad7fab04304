// What a simulation has to tell, as data, then as text on one screen or JSON.
#ifndef MILLRACE_TOOLS_SIM_REPORT_H_
#define MILLRACE_TOOLS_SIM_REPORT_H_

#include <string>
#include <vector>

#include "graph/machine.h"
#include "graph/plan.h"
#include "tools/output.h"
#include "tools/prediction.h"

namespace millrace {

// Time on the critical path by what limits it.
struct LimitShare {
  std::string limit;  // "memory", "launching", "fixed costs", ...
  double time_us = 0;
};
std::vector<LimitShare> LimitsOf(const SimResult& result);  // longest first

// One machine that was tried: as it is, or a variation of it.
struct SimOutcome {
  std::string what;  // "bandwidth=2x"; "" for the machine as it is
  double step_us = 0;
  std::string bottleneck;  // the longest of LimitsOf
  MemoryFit memory;
};

struct SimReport {
  std::string plan;     // its name
  std::string machine;  // its name
  std::string note;     // about how the plan came about; may be empty
  Prediction prediction;
  std::vector<SimOutcome> outcomes;  // the machine as it is, then the variations
};

std::string ToText(const SimReport& report, const PlanBundle& plan);
Json ToJson(const SimReport& report, const PlanBundle& plan);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_SIM_REPORT_H_
