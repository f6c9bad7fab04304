// The queues of the simulated GPUs, and how they are drained, in any order that streams, events and
// flags allow, chosen by seed.
#ifndef MILLRACE_TESTS_CUDA_SIM_SIM_SCHEDULER_H_
#define MILLRACE_TESTS_CUDA_SIM_SIM_SCHEDULER_H_

#include <cuda.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_sim/sim_access.h"
#include "tests/cuda_sim/sim_clock.h"
#include "tests/cuda_sim/sim_memory.h"

namespace millrace::sim {

// One Record of an event.
struct EventInstance {
  bool done = false;
  Clock clock;  // once done
};

struct Access {
  ByteRange range;
  bool write = false;
};

// An entry of a queue.
struct Op {
  enum class Kind { kWork, kRecord, kWaitEvent, kWriteFlag, kWaitFlag };
  Kind kind = Kind::kWork;
  std::string label;
  std::vector<Access> accesses;             // kWork: what `run` touches
  std::function<CUresult()> run;            // kWork; called without the lock
  bool on_host = false;                     // kWork: a function of the host
  bool pageable_allowed = false;            // kWork: accesses may be to other host memory
  std::shared_ptr<EventInstance> instance;  // kRecord, kWaitEvent; null: nothing to wait for
  int captured_instance = -1;               // the same inside a graph: which Record of it
  uint64_t flag = 0;                        // kWriteFlag, kWaitFlag: address
  uint32_t value = 0;
  unsigned flags = 0;  // CUstreamWaitValue_flags, CUstreamWriteValue_flags
  Clock issued;        // what the host had waited for; set by Push
};

struct SchedulerOptions {
  int devices = 1;
  uint64_t seed = 0;
  double quiet_seconds = 0.001;
  double stall_seconds = 20;
};

// All functions need the lock of the mutex it was given; those that take it as an argument release
// it while they wait.
class Scheduler {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Scheduler(const SchedulerOptions& options, std::mutex& mutex, SimMemory& memory,
            std::vector<std::string>& violations);
  void Stop();  // without the lock; nothing runs afterwards

  int AddLane(int device, std::string name);
  const std::string& name(int lane) const { return lane_at(lane).name; }
  void Push(int lane, Op op);
  bool Idle(int lane) const;
  // Lets the GPUs run ahead of the host for a while, as the seed says. After what was issued.
  void RunAhead(Lock& lock);

  // Runs until `lane` is idle, and notes that the host knows. The device's error if it is lost; it
  // is when nothing has moved for `stall_seconds`.
  CUresult Drain(Lock& lock, int lane);
  // Until nothing is queued anywhere.
  void DrainAll(Lock& lock);
  // Runs a few operations of any lane; CUDA_ERROR_NOT_READY while `lane` is not idle.
  CUresult Query(Lock& lock, int lane);
  // Until no operation is being executed.
  void WaitForRunning(Lock& lock);

  // Everything queued is dropped, and `result` is the device's answer from now on.
  void LoseDevice(int device, CUresult result);
  CUresult lost(int device) const { return lost_[static_cast<size_t>(device)]; }

  void NoteCall() { last_call_ = std::chrono::steady_clock::now(); }
  const Clock& host_clock() const { return host_clock_; }
  // Labels of what was executed so far, in that order.
  const std::vector<std::string>& executed() const { return executed_; }

 private:
  struct Lane {
    int device = 0;
    std::string name;
    uint64_t weight = 1;
    std::deque<Op> queue;
    int64_t pushed = 0;
    int64_t executed = 0;
    Clock clock;  // after the last operation executed
  };
  // A write of a flag by a stream.
  struct FlagWrite {
    uint32_t value = 0;
    Clock clock;
  };

  Lane& lane_at(int lane) { return *lanes_[static_cast<size_t>(lane)]; }
  const Lane& lane_at(int lane) const { return *lanes_[static_cast<size_t>(lane)]; }

  void Work();  // the thread
  bool HasPending() const;
  // Executes one operation, or has the thread do it; false when that is not possible now.
  bool RunOne(Lock& lock);
  // Until no operation is being executed. False after a while: a function of the host may be
  // waiting for the very thread that waits here.
  bool WaitForTurn(Lock& lock);
  void Execute(Lock& lock, int lane);  // the head of the lane, which can run
  int Pick();
  bool Runnable(const Lane& lane) const;
  uint32_t FlagValue(uint64_t address) const;
  Clock PastOf(int lane, const Op& op) const;
  const Clock& PastOfFlag(const Op& wait) const;
  // Whether all accesses are to live memory; otherwise the device is lost.
  bool CheckAccesses(const Op& op, const OpStamp& stamp, const Clock& clock, int device);
  void Complete(int lane, const Op& op, const Clock& clock);
  CUresult CheckStall(int lane);

  std::mutex& mutex_;
  SimMemory& memory_;
  std::vector<std::string>& violations_;
  const double quiet_seconds_, stall_seconds_;

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<CUresult> lost_;                              // by device
  std::map<uint64_t, std::vector<FlagWrite>> flag_writes_;  // by address, oldest first
  Clock host_clock_;       // what host threads waited for through the driver
  Clock host_could_know_;  // that, and what streams told the host by flags and functions
  std::vector<std::string> executed_;

  std::mt19937_64 weights_, picks_, aheads_;
  uint64_t most_ahead_ = 0;  // operations run ahead at each issue, at most

  std::condition_variable work_, done_;
  int waiting_calls_ = 0;  // host threads within Drain or Query
  int running_lane_ = -1;  // whose operation is being executed, without the lock
  int handed_over_ = -1;   // lane whose head the thread is to execute
  bool stopping_ = false;
  std::chrono::steady_clock::time_point last_call_, last_progress_;
  std::thread thread_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TESTS_CUDA_SIM_SIM_SCHEDULER_H_
