// FluidProblem: tasks in a partial order on shared resources, and when each of them runs. The core
// of the simulator; knows nothing of plans.
//
// A task begins when all that come before it have ended. Alone it takes `duration_us` and uses a
// fraction of each of its resources. Where the fractions of running tasks add up to more than the
// whole resource, all tasks on it slow down alike, by that sum; a task on several such resources by
// the greatest. So a task's speed changes whenever another one begins or ends.
#ifndef MILLRACE_RUNTIME_SIM_FLUID_H_
#define MILLRACE_RUNTIME_SIM_FLUID_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace millrace {

class FluidProblem {
 public:
  explicit FluidProblem(int32_t num_resources) : num_resources_(num_resources) {}

  // Tasks are numbered from 0.
  int32_t AddTask(double duration_us);
  // `share` of the resource while the task runs alone, 0 or more; above 1: the resource alone slows
  // it down.
  void AddUse(int32_t task, int32_t resource, double share);
  void AddOrder(int32_t before, int32_t after);

  int32_t num_tasks() const { return static_cast<int32_t>(durations_us_.size()); }
  int32_t num_resources() const { return num_resources_; }
  double duration_us(int32_t task) const { return durations_us_[task]; }

 private:
  friend class FluidPlayer;
  struct Use {
    int32_t task, resource;
    double share;
  };
  int32_t num_resources_;
  std::vector<double> durations_us_;
  std::vector<Use> uses_;
  std::vector<std::pair<int32_t, int32_t>> orders_;
};

struct FluidTimes {
  // By task. A task that never began (a cycle of orders) has end -1.
  std::vector<double> begin_us, end_us;
  // By task: of what came before it the one that ended last; -1: nothing did.
  std::vector<int32_t> last_before;
  // By task: the resource that slowed it down last; -1: none did.
  std::vector<int32_t> slowed_by;
  // By resource: the sum of share times duration, which is the time it would be busy at full rate.
  std::vector<double> busy_us;
  double total_us = 0;      // the last end
  int64_t never_begun = 0;  // tasks
};

// Deterministic. O((tasks + orders + begins and ends of tasks that share a resource) log).
FluidTimes Play(const FluidProblem& problem);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SIM_FLUID_H_
