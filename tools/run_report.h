// What a run has to tell, as data, then as text or JSON.
#ifndef MILLRACE_TOOLS_RUN_REPORT_H_
#define MILLRACE_TOOLS_RUN_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "tools/output.h"
#include "tools/compare.h"
#include "tools/prediction.h"
#include "tools/profile.h"

namespace millrace {

struct OutputReport {
  std::string name;
  Tensor tensor;
};

struct ExpectReport {
  std::string name;
  Tensor actual, expected;
  double rtol = 0, atol = 0;
  Comparison comparison;
};

struct LabelsReport {
  std::string name;
  Accuracy all;
  int64_t every = 0, remainder = 0;  // every 0: no rows were held out
  Accuracy held_out;
};

struct RunReport {
  std::string plan;  // its name
  std::string hash;
  std::map<std::string, int64_t> device_bytes;  // by device, allocated
  double load_us = 0;                           // reading, and planning where that was needed
  double prepare_us = 0;                        // devices, weights, kernels
  std::vector<double> step_us;                  // one a step, warm-up apart, in order
  PredictedStep predicted;
  std::vector<OutputReport> outputs;
  std::vector<ExpectReport> expects;
  std::vector<LabelsReport> labels;
  std::vector<NodeProfile> profile;  // empty when not asked for
};

std::string ToText(const RunReport& report);
Json ToJson(const RunReport& report);

// Ok, or CheckFailedError about the outputs that are not as expected.
absl::Status CheckExpectations(const RunReport& report);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_RUN_REPORT_H_
