// The threads of a plan with several lanes: one per lane but the first, which is the caller's own.
#ifndef MILLRACE_RUNTIME_LANE_THREADS_H_
#define MILLRACE_RUNTIME_LANE_THREADS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/status.h"

namespace millrace {

// A lane always runs on the same thread, so whatever a kernel keeps per thread (a team) stays warm.
class LaneThreads {
 public:
  // OutOfMemoryError when the system gives no more threads.
  static absl::StatusOr<std::unique_ptr<LaneThreads>> Start(int num_lanes);
  ~LaneThreads();

  // Runs work(lane) once for each lane listed (ascending), each on its own thread, lane 0 on the
  // caller's; returns when all are done. Neither allocates nor locks.
  void Run(std::span<const int> lanes, absl::FunctionRef<void(int lane)> work);

 private:
  struct Worker {
    std::atomic<uint32_t> calls{0};  // grows by one for each Run it takes part in
    std::thread thread;
  };

  LaneThreads() = default;
  void Serve(int lane, Worker& worker);

  std::vector<std::unique_ptr<Worker>> workers_;  // lane i + 1
  absl::FunctionRef<void(int)>* work_ = nullptr;  // null: leave
  std::atomic<int32_t> running_{0};
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_LANE_THREADS_H_
