// Measures the kernels of plans one by one on this machine's cpu, for a cost table.
//
// A kernel is run in a loop on operands of its own, warm, but not warmer than in the model: its
// weights and results take turns in as many places as the model's weights and arena have room for,
// so that they come from the cache, or the memory, that they would come from there. A kernel's time
// is the median of a few batches of runs, and of several such rounds, with all other kernels'
// in between, the least: what else the machine does meanwhile can only make it longer.
#ifndef MILLRACE_TOOLS_MEASURE_KERNELS_H_
#define MILLRACE_TOOLS_MEASURE_KERNELS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/cost_table.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "graph/target.h"
#include "graph/tensor.h"
#include "runtime/kernel.h"

namespace millrace {

// One distinct kernel of a plan.
struct KernelSample {
  KernelKey key;
  NodeQuery query;
  int64_t scratch_bytes = 0;
  std::vector<OperandLayout> inputs, outputs;  // as the plan places them
  std::vector<Tensor> data;     // per input; has_data() false: any will do
  std::vector<bool> is_weight;  // per input: a param or constant
  int64_t weight_bytes = 0;     // of the whole model
  int64_t arena_bytes = 0;      // of the whole plan, without weights
};

// The kernels that cpu programs of the plan launch or call on the host, each once, in plan order.
std::vector<KernelSample> KernelsOf(const PlanBundle& plan);

struct MeasureOptions {
  double seconds = 30;  // for all together; every kernel is measured at least once
  int rounds = 5;       // at most
  // Called now and then: so many of so many samples are done.
  std::function<void(int64_t done, int64_t all)> progress = {};
};

// Adds or replaces the kernels' times.
absl::Status MeasureKernels(const std::vector<KernelSample>& samples, const MeasureOptions& options,
                            DeviceCosts& costs);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_MEASURE_KERNELS_H_
