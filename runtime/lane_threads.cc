#include "runtime/lane_threads.h"

#include <system_error>

#include "graph/strings.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<LaneThreads>> LaneThreads::Start(int num_lanes) {
  auto threads = std::unique_ptr<LaneThreads>(new LaneThreads());
  for (int lane = 1; lane < num_lanes; ++lane) {
    auto worker = std::make_unique<Worker>();
    try {
      worker->thread =
          std::thread([self = threads.get(), lane, w = worker.get()] { self->Serve(lane, *w); });
    } catch (const std::system_error& error) {  // the standard library's only way to say no
      return OutOfMemoryError(
          StrCat("cannot start thread ", lane, " of ", num_lanes, ": ", error.what()));
    }
    threads->workers_.push_back(std::move(worker));
  }
  return threads;
}

LaneThreads::~LaneThreads() {
  work_ = nullptr;
  for (const auto& worker : workers_) {
    worker->calls.fetch_add(1, std::memory_order_release);
    worker->calls.notify_one();
  }
  for (const auto& worker : workers_) worker->thread.join();
}

void LaneThreads::Serve(int lane, Worker& worker) {
  for (uint32_t served = 0;; ++served) {
    worker.calls.wait(served, std::memory_order_acquire);
    if (work_ == nullptr) return;
    (*work_)(lane);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void LaneThreads::Run(std::span<const int> lanes, absl::FunctionRef<void(int)> work) {
  if (lanes.empty()) return;
  const bool caller_works = lanes.front() == 0;
  const std::span<const int> others = lanes.subspan(caller_works ? 1 : 0);
  work_ = &work;
  running_.store(static_cast<int32_t>(others.size()), std::memory_order_relaxed);
  for (int lane : others) {
    Worker& worker = *workers_[lane - 1];
    worker.calls.fetch_add(1, std::memory_order_release);
    worker.calls.notify_one();
  }
  if (caller_works) work(0);
  for (int32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    running_.wait(left, std::memory_order_acquire);
  }
}

}  // namespace millrace
