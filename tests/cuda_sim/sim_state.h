// The simulated driver's state, and how an entry point comes to it.
#ifndef MILLRACE_TESTS_CUDA_SIM_SIM_STATE_H_
#define MILLRACE_TESTS_CUDA_SIM_SIM_STATE_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "graph/strings.h"
#include "tests/cuda_sim/cuda_sim.h"
#include "tests/cuda_sim/sim_memory.h"
#include "tests/cuda_sim/sim_scheduler.h"

namespace millrace::sim {

// Handles are numbers, never reused, so that one that was destroyed, or never was, is known.
template <typename Handle, typename Object>
class HandleTable {
 public:
  // `first` sets the tables apart; handles are multiples of 16 from there.
  explicit HandleTable(uint64_t first) : next_(first) {}

  Handle Add(Object object) {
    const uint64_t handle = next_;
    next_ += 16;
    objects_.emplace(handle, std::move(object));
    return reinterpret_cast<Handle>(handle);
  }
  Object* Find(Handle handle) {
    auto it = objects_.find(reinterpret_cast<uint64_t>(handle));
    return it == objects_.end() ? nullptr : &it->second;
  }
  void Remove(Handle handle) { objects_.erase(reinterpret_cast<uint64_t>(handle)); }
  auto begin() { return objects_.begin(); }
  auto end() { return objects_.end(); }
  size_t size() const { return objects_.size(); }

 private:
  uint64_t next_;
  std::map<uint64_t, Object> objects_;
};

// What a capture records: operations in the order of issue, by captured stream.
struct CapturedOp {
  int lane = 0;  // index into Capture::streams
  Op op;
};
struct CapturedGraph {
  std::vector<CapturedOp> ops;
  int lanes = 0;
  int instances = 0;  // Records
};

struct Capture {
  CUstream origin = nullptr;
  std::thread::id thread;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool active = true;
  bool invalid = false;  // a forbidden call was made; ends in CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
  std::vector<CUstream> streams;  // the origin first
  std::vector<Clock> clocks;      // by stream: which captured operations it comes after
  std::vector<Clock> instances;   // the same at each Record
  CapturedGraph graph;
};

struct Stream {
  int device = 0;
  int lane = 0;
  std::shared_ptr<Capture> capture;  // while capturing
  int capture_lane = 0;
};

struct Event {
  int device = 0;
  std::shared_ptr<EventInstance> last;  // of the last Record outside captures
  std::shared_ptr<Capture> capture;     // the last Record was captured
  int captured_instance = 0;
};

struct GraphExec {
  int device = 0;
  CapturedGraph graph;
  std::vector<int> lanes;
};

struct Module {
  int device = 0;
  std::vector<CUfunction> functions;
};
struct Function {
  int device = 0;
  std::string name;
  const SimKernel* kernel = nullptr;
};

struct Context {
  CUcontext handle = nullptr;
  int retained = 0;
  std::set<CUcontext> peers;
};

struct Fault {
  std::string entry;  // empty: any
  int64_t nth = 0;
  CUresult result = CUDA_SUCCESS;
};

struct State {
  explicit State(const CudaSimOptions& options);

  // Notes a violation and returns `result`.
  CUresult Violate(CUresult result, std::string message);
  // The device of the calling thread's context, or the error for having none.
  std::optional<int> CurrentDevice() const;
  // The calls that a capture in progress forbids to this thread; marks the capture as broken.
  std::optional<CUresult> ForbiddenInCapture(std::string_view entry);

  const CudaSimOptions options;
  mutable std::mutex mutex;
  std::vector<std::string> violations;
  SimMemory memory;
  std::vector<Context> contexts;  // by device
  HandleTable<CUstream, Stream> streams{0x1'0000'0000};
  HandleTable<CUevent, Event> events{0x2'0000'0000};
  HandleTable<CUgraph, CapturedGraph> graphs{0x3'0000'0000};
  HandleTable<CUgraphExec, GraphExec> graph_execs{0x4'0000'0000};
  HandleTable<CUmodule, Module> modules{0x5'0000'0000};
  HandleTable<CUfunction, Function> functions{0x6'0000'0000};
  std::vector<std::shared_ptr<Capture>> captures;  // active ones
  std::map<std::string, SimKernel, std::less<>> kernels;
  std::set<CUdeviceptr> opened_handles;
  int streams_made = 0, graphs_made = 0;

  std::map<std::string, int64_t, std::less<>> calls;
  int64_t all_calls = 0;
  std::vector<Fault> faults;
  std::set<std::string> forgiven;

  Scheduler scheduler;  // last: its thread uses the rest
};

// The simulator of the process, or nullptr.
State* CurrentState();
void SetCurrentState(State* state);

// Set while the calling thread runs a host function for a stream.
bool& InHostFunction();
// The context current to the calling thread, as set by CtxSetCurrent.
CUcontext& ThreadContext();

// Counts the call and applies faults; the result to fail with, if any.
std::optional<CUresult> CountCall(State& state, std::string_view entry);

// The frame of every entry point: finds the simulator, takes its lock, counts the call and applies
// faults. `frees`: the body runs although the call fails.
template <typename Body>
CUresult Enter(std::string_view entry, Body body, bool frees = false) {
  State* state = CurrentState();
  if (state == nullptr) return CUDA_ERROR_DEINITIALIZED;
  Scheduler::Lock lock(state->mutex);
  const std::optional<CUresult> fault = CountCall(*state, entry);
  if (fault.has_value() && !frees) return *fault;
  const CUresult result = body(*state, lock);
  return fault.value_or(result);
}

// The frame of entry points that work in the current context: body(state, lock, device). A lost
// device answers with its error.
template <typename Body>
CUresult EnterContext(std::string_view entry, Body body, bool frees = false) {
  return Enter(
      entry,
      [&](State& state, Scheduler::Lock& lock) -> CUresult {
        const std::optional<int> device = state.CurrentDevice();
        if (!device.has_value()) {
          return state.Violate(CUDA_ERROR_INVALID_CONTEXT,
                               StrCat("invalid handle: ", entry, " without a current context"));
        }
        const CUresult lost = state.scheduler.lost(*device);
        if (lost != CUDA_SUCCESS && !frees) return lost;
        const CUresult result = body(state, lock, *device);
        return lost != CUDA_SUCCESS ? lost : result;
      },
      frees);
}

// Each fills its part of the table.
void AddDeviceEntries(CudaDriver& driver);
void AddMemoryEntries(CudaDriver& driver);
void AddStreamEntries(CudaDriver& driver);
void AddGraphEntries(CudaDriver& driver);
void AddKernelEntries(CudaDriver& driver);

// For entry points that issue work: the stream, if it may be used by a thread whose context is that
// of `device`; otherwise a violation, and *error is set.
Stream* UsableStream(State& state, std::string_view entry, CUstream handle, int device,
                     CUresult* error);
// Queues an operation, or records it when the stream is being captured.
CUresult Issue(State& state, Scheduler::Lock& lock, Stream& stream, Op op);

}  // namespace millrace::sim

#endif  // MILLRACE_TESTS_CUDA_SIM_SIM_STATE_H_
