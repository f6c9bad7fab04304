// Runs the lanes of a prepared plan, one step at a time, in an order of its own.
#ifndef MILLRACE_TESTS_ADVERSARY_RUNNER_H_
#define MILLRACE_TESTS_ADVERSARY_RUNNER_H_

#include <cstdint>
#include <memory>

#include "graph/plan.h"
#include "graph/status.h"
#include "runtime/prepare.h"

namespace millrace {

struct RunnerOptions {
  uint64_t seed = 0;
  bool checked = true;
};

class Runner {
 public:
  // The plan was prepared on VirtualDevices with a VirtualCommunicator. It outlives the runner.
  Runner(PreparedPlan& prepared, const RunnerOptions& options);
  ~Runner();

  absl::Status Run(Section section);
  int64_t choices() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_ADVERSARY_RUNNER_H_
