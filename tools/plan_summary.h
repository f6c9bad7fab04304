// A plan on one screen: who runs what, where memory goes, streams, and instructions.
#ifndef MILLRACE_TOOLS_PLAN_SUMMARY_H_
#define MILLRACE_TOOLS_PLAN_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/plan.h"
#include "tools/output.h"

namespace millrace {

struct ValueBytes {
  std::string name;
  int64_t bytes = 0;
};

// What the slices of a buffer hold. Slices may share bytes, so the parts may exceed the whole; the
// ratio of the two is how often a byte is used. No plan of the same values in the same order fits
// in fewer than `live_bytes`: so much is in use at the worst moment.
struct BufferSummary {
  std::string name;
  std::string space;
  int64_t size_bytes = 0;
  int64_t param_bytes = 0;   // params and constants
  int64_t input_bytes = 0;   // inputs and outputs of the graph
  int64_t result_bytes = 0;  // all other values
  int64_t scratch_bytes = 0;
  int64_t live_bytes = 0;
  std::string peak;                 // the worst moment: "launch 'conv1'"
  std::vector<ValueBytes> at_peak;  // what is in use then, most bytes first
};

struct StreamSummary {
  std::string name;
  std::string kind;
  int threads = 1;
  int64_t instructions = 0;  // instances in the step section
};

struct ProgramSummary {
  std::string name;
  int64_t num_devices = 1;                 // one per mesh coordinate
  std::vector<std::string> first_devices;  // the first few, by mesh coordinate
  int64_t device_bytes = 0;
  std::vector<BufferSummary> buffers;
  std::vector<StreamSummary> streams;
  int64_t events = 0;
  std::map<std::string, int64_t> instructions;  // instances by section
  std::map<std::string, int64_t> kinds;         // instances in the step section, by kind
  std::map<std::string, int64_t> variants;      // launches in the step section, by kernel variant
};

// `plan` is structurally sound (its loader or emitter made it), right or not.
std::vector<ProgramSummary> SummarizePlan(const PlanBundle& plan);

std::string ToText(const std::vector<ProgramSummary>& summary, const PlanBundle& plan);
Json ToJson(const std::vector<ProgramSummary>& summary, const PlanBundle& plan);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_PLAN_SUMMARY_H_
