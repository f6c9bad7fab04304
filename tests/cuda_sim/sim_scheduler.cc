// One operation is executed at a time, so the simulated GPU has no data races of its own:
// concurrency is the choice of the next operation among the heads of all queues that can run.
//
// Execution is lazy. Operations run when a host thread waits (Drain, Query), a few after each issue
// (how many at most is drawn from the seed: from none, the GPU far behind, to all it can, the GPU
// right behind the host), and when no call has come for `quiet_seconds`, since then the host may
// wait for a flag by itself. Laziness makes the choice wide, and a function of the seed: while one
// thread issues and only driver calls wait, the same program and seed give the same order. Each
// lane has a weight drawn from the seed, so that in some runs a stream is starved for long.
//
// The calling thread executes what it waits for; the simulator's own thread takes the functions of
// the host, which may not run on a thread that issues, and serves the quiet.
//
// What the host knows: an operation comes after all that host threads had waited for when it was
// issued. A flag written by a stream passes that stream's past on to those that wait for a value it
// is the first write to reach; a value that the host wrote passes on all that the host could know.
#include "tests/cuda_sim/sim_scheduler.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "graph/strings.h"

namespace millrace::sim {
namespace {

using std::chrono::steady_clock;

constexpr auto kFlagPoll = std::chrono::microseconds(100);  // host threads write flags unseen
constexpr uint64_t kMostPerQuery = 16;         // operations run while the host asks once, at most
constexpr double kHostFunctionSeconds = 0.05;  // that an issuing thread waits for one, at most

bool Satisfies(uint32_t value, const Op& wait) {
  switch (wait.flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<int32_t>(value - wait.value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return value == wait.value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (value & wait.value) != 0;
    default:
      return ~(value | wait.value) != 0;
  }
}

double SecondsSince(steady_clock::time_point t) {
  return std::chrono::duration<double>(steady_clock::now() - t).count();
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, std::mutex& mutex, SimMemory& memory,
                     std::vector<std::string>& violations)
    : mutex_(mutex),
      memory_(memory),
      violations_(violations),
      quiet_seconds_(options.quiet_seconds),
      stall_seconds_(options.stall_seconds),
      lost_(static_cast<size_t>(options.devices), CUDA_SUCCESS),
      weights_(3 * options.seed),
      picks_(3 * options.seed + 1),
      aheads_(3 * options.seed + 2),
      last_call_(steady_clock::now()),
      last_progress_(last_call_) {
  constexpr uint64_t kMostAhead[] = {0, 0, 1, 2, 4, 1000};
  most_ahead_ = kMostAhead[aheads_() % std::size(kMostAhead)];
  thread_ = std::thread([this] { Work(); });
}

void Scheduler::Stop() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    work_.notify_all();
  }
  thread_.join();
}

int Scheduler::AddLane(int device, std::string name) {
  auto lane = std::make_unique<Lane>();
  lane->device = device;
  lane->name = std::move(name);
  lane->weight = uint64_t{1} << (4 * (weights_() % 3));  // 1, 16 or 256
  lanes_.push_back(std::move(lane));
  return static_cast<int>(lanes_.size()) - 1;
}

void Scheduler::Push(int lane, Op op) {
  Lane& l = lane_at(lane);
  if (lost(l.device) != CUDA_SUCCESS) return;
  op.issued = host_clock_;
  op.label = StrCat(op.label, " (#", ++l.pushed, " of ", l.name, ")");
  l.queue.push_back(std::move(op));
  last_progress_ = steady_clock::now();
  work_.notify_all();
}

bool Scheduler::Idle(int lane) const {
  return lane_at(lane).queue.empty() && running_lane_ != lane;
}

// --- What may run next --------------------------------------------------------------------------

uint32_t Scheduler::FlagValue(uint64_t address) const {
  if (memory_.Find({address, address + 4}).kind != Place::Kind::kAllocated) return 0;  // a fault
  auto* word = reinterpret_cast<uint32_t*>(memory_.Backing(address));
  return std::atomic_ref<uint32_t>(*word).load(std::memory_order_acquire);
}

bool Scheduler::Runnable(const Lane& lane) const {
  if (lane.queue.empty()) return false;
  const Op& op = lane.queue.front();
  if (op.kind == Op::Kind::kWaitEvent) return op.instance == nullptr || op.instance->done;
  if (op.kind != Op::Kind::kWaitFlag) return true;
  if (memory_.Find({op.flag, op.flag + 4}).kind != Place::Kind::kAllocated) return true;  // a fault
  return Satisfies(FlagValue(op.flag), op);
}

int Scheduler::Pick() {
  uint64_t total = 0;
  for (const auto& lane : lanes_) {
    if (Runnable(*lane)) total += lane->weight;
  }
  if (total == 0) return -1;
  uint64_t drawn = picks_() % total;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (!Runnable(*lanes_[i])) continue;
    if (drawn < lanes_[i]->weight) return static_cast<int>(i);
    drawn -= lanes_[i]->weight;
  }
  return -1;  // a host thread wrote a flag between the two loops
}

// --- Executing one operation --------------------------------------------------------------------

Clock Scheduler::PastOf(int lane, const Op& op) const {
  Clock clock = lane_at(lane).clock;
  clock.Join(op.issued);
  if (op.kind == Op::Kind::kWaitEvent && op.instance != nullptr) clock.Join(op.instance->clock);
  if (op.kind == Op::Kind::kWaitFlag) clock.Join(PastOfFlag(op));
  clock.Set(lane, lane_at(lane).executed + 1);
  return clock;
}

// Of the writes that satisfy the wait the first one counts: in another order of execution the wait
// might have seen no more than that.
const Clock& Scheduler::PastOfFlag(const Op& wait) const {
  const auto written = flag_writes_.find(wait.flag);
  if (written == flag_writes_.end()) return host_could_know_;
  for (const FlagWrite& write : written->second) {
    if (Satisfies(write.value, wait)) return write.clock;
  }
  return host_could_know_;
}

bool Scheduler::CheckAccesses(const Op& op, const OpStamp& stamp, const Clock& clock, int device) {
  std::vector<Access> accesses = op.accesses;
  if (op.flag != 0) accesses.push_back({{op.flag, op.flag + 4}, false});
  // Reads first: an operation may overwrite what it has read.
  std::stable_sort(accesses.begin(), accesses.end(),
                   [](const Access& a, const Access& b) { return a.write < b.write; });
  for (const Access& access : accesses) {
    const Place place = memory_.Find(access.range);
    if (place.kind == Place::Kind::kPageable && op.pageable_allowed) continue;
    if (place.kind != Place::Kind::kAllocated) {
      violations_.push_back(StrCat(
          place.kind == Place::Kind::kFreed ? "use after free: " : "out of bounds: ", *stamp.label,
          access.write ? " writes " : " reads ", memory_.Describe(access.range)));
      LoseDevice(device, CUDA_ERROR_ILLEGAL_ADDRESS);
      return false;
    }
    if (op.flag != 0) continue;  // atomic by nature
    for (const AccessFault& fault :
         memory_.accesses().Touch(access.range, access.write, stamp, clock)) {
      const std::string bytes = memory_.Describe(fault.range);
      violations_.push_back(
          fault.kind == AccessFault::Kind::kUninitialized
              ? StrCat("uninitialized read: ", *stamp.label, " reads ", bytes,
                       ", which nothing has written")
              : StrCat("unsynchronized access: ", *stamp.label,
                       access.write ? " writes " : " reads ", bytes, ", which ",
                       *fault.earlier.label, fault.earlier_wrote ? " wrote" : " read",
                       "; no stream order, event, flag or wait of the host orders the two"));
    }
  }
  return true;
}

void Scheduler::Complete(int lane, const Op& op, const Clock& clock) {
  switch (op.kind) {
    case Op::Kind::kRecord:
      op.instance->done = true;
      op.instance->clock = clock;
      break;
    case Op::Kind::kWriteFlag: {
      const bool fences = (op.flags & CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) == 0;
      flag_writes_[op.flag].push_back({op.value, fences ? clock : Clock()});
      if (fences) host_could_know_.Join(clock);
      auto* word = reinterpret_cast<uint32_t*>(memory_.Backing(op.flag));
      std::atomic_ref<uint32_t>(*word).store(op.value, std::memory_order_release);
      break;
    }
    case Op::Kind::kWork:
      if (op.on_host) host_could_know_.Join(clock);
      break;
    case Op::Kind::kWaitEvent:
    case Op::Kind::kWaitFlag:
      break;
  }
  lane_at(lane).clock = clock;
  last_progress_ = steady_clock::now();
  done_.notify_all();
}

void Scheduler::Execute(Lock& lock, int lane) {
  Lane& l = lane_at(lane);
  const Clock clock = PastOf(lane, l.queue.front());
  const Op op = std::move(l.queue.front());
  l.queue.pop_front();
  const OpStamp stamp{lane, ++l.executed, std::make_shared<std::string>(op.label)};
  executed_.push_back(op.label);
  if (!CheckAccesses(op, stamp, clock, l.device)) return;
  if (op.run) {
    running_lane_ = lane;
    lock.unlock();
    const CUresult result = op.run();
    lock.lock();
    running_lane_ = -1;
    if (result != CUDA_SUCCESS) LoseDevice(l.device, result);
  }
  Complete(lane, op, clock);
}

void Scheduler::LoseDevice(int device, CUresult result) {
  if (lost(device) != CUDA_SUCCESS) return;
  lost_[static_cast<size_t>(device)] = result;
  for (const auto& lane : lanes_) {
    if (lane->device != device) continue;
    for (const Op& op : lane->queue) {
      if (op.kind == Op::Kind::kRecord) op.instance->done = true;
    }
    lane->queue.clear();
  }
  if (handed_over_ >= 0 && lane_at(handed_over_).device == device) handed_over_ = -1;
  done_.notify_all();
}

// --- The thread, and those who wait for it ------------------------------------------------------

bool Scheduler::HasPending() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return !lane->queue.empty(); });
}

void Scheduler::Work() {
  Lock lock(mutex_);
  while (!stopping_) {
    const bool quiet = waiting_calls_ == 0 && SecondsSince(last_call_) > quiet_seconds_;
    if (handed_over_ >= 0) {
      Execute(lock, std::exchange(handed_over_, -1));
    } else if (!HasPending()) {
      work_.wait(lock);
    } else if (!quiet) {
      work_.wait_for(lock, std::chrono::duration<double>(quiet_seconds_));
    } else if (const int lane = running_lane_ < 0 ? Pick() : -1; lane >= 0) {
      Execute(lock, lane);
    } else {
      work_.wait_for(lock, kFlagPoll);
    }
  }
}

bool Scheduler::WaitForTurn(Lock& lock) {
  const steady_clock::time_point begin = steady_clock::now();
  while (running_lane_ >= 0 || handed_over_ >= 0) {
    if (SecondsSince(begin) > kHostFunctionSeconds) return false;
    done_.wait_for(lock, std::chrono::milliseconds(10));
  }
  return true;
}

bool Scheduler::RunOne(Lock& lock) {
  if (!WaitForTurn(lock)) return false;
  const int lane = Pick();
  if (lane < 0) return false;
  if (!lane_at(lane).queue.front().on_host) {
    Execute(lock, lane);
    return true;
  }
  handed_over_ = lane;
  work_.notify_all();
  return WaitForTurn(lock);
}

void Scheduler::RunAhead(Lock& lock) {
  const uint64_t ahead = most_ahead_ == 0 ? 0 : aheads_() % (most_ahead_ + 1);
  for (uint64_t i = 0; i < ahead && RunOne(lock); ++i) {
  }
}

CUresult Scheduler::CheckStall(int lane) {
  if (running_lane_ >= 0 || SecondsSince(last_progress_) < stall_seconds_) return CUDA_SUCCESS;
  std::string heads;
  for (const auto& l : lanes_) {
    if (!l->queue.empty()) StrAppend(&heads, "; ", l->queue.front().label, " waits");
  }
  violations_.push_back(StrCat("deadlock: the host waits for ", lane_at(lane).name,
                               " and nothing has moved for ", stall_seconds_, " s", heads));
  LoseDevice(lane_at(lane).device, CUDA_ERROR_LAUNCH_TIMEOUT);
  return CUDA_ERROR_LAUNCH_TIMEOUT;
}

CUresult Scheduler::Drain(Lock& lock, int lane) {
  ++waiting_calls_;
  while (!Idle(lane)) {
    if (RunOne(lock)) continue;
    CheckStall(lane);
    done_.wait_for(lock, kFlagPoll);
  }
  --waiting_calls_;
  NoteCall();
  host_clock_.Join(lane_at(lane).clock);
  host_could_know_.Join(host_clock_);
  return lost(lane_at(lane).device);
}

void Scheduler::DrainAll(Lock& lock) {
  for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane) Drain(lock, lane);
}

CUresult Scheduler::Query(Lock& lock, int lane) {
  ++waiting_calls_;
  const uint64_t most = 1 + aheads_() % kMostPerQuery;
  for (uint64_t i = 0; i < most && !Idle(lane) && RunOne(lock); ++i) {
  }
  --waiting_calls_;
  NoteCall();
  CheckStall(lane);
  return Idle(lane) ? Drain(lock, lane) : CUDA_ERROR_NOT_READY;
}

void Scheduler::WaitForRunning(Lock& lock) {
  while (!WaitForTurn(lock)) {
  }
}

}  // namespace millrace::sim
