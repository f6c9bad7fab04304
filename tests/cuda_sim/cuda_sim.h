// CudaSim: a simulated NVIDIA driver behind the CudaDriver table. Host memory and one thread stand
// in for the GPUs. Streams are queues, drained in any order that streams, events and flags allow,
// chosen by seed (sim_scheduler.cc says how far a seed fixes the order). Whatever a real driver
// would punish, now and then or never in a test, is found and collected as a violation:
//
//   unsynchronized access   two operations touch the same bytes, one writes, nothing orders them
//   use after free          by a queued operation, or memory freed before the host waited for its
//   use out of bounds           also kernels outside the ranges they declare uninitialized read of
//   device memory that nothing has written pageable memory         copied while earlier work of the
//   stream is pending: the driver would
//                           hold up the issuing thread
//   capture                 calls that break a capture, streams left unjoined, captured events used
//                           outside
//   invalid handle          destroyed or foreign streams, events, graphs, modules; the wrong or no
//                           current context; the legacy default stream; calls from host functions
//   deadlock                the host waits and nothing moves
//   leak                    at the end, whatever was not freed
//
// A host thread that touches device memory crashes on the spot, as with a real GPU. Pinned memory
// is the host's too: its accesses by the host are not seen, and it counts as initialized.
//
// One CudaSim at a time in a process: driver functions carry no context. Its destructor aborts with
// the list when there are violations or leaks that nobody took, so a test cannot overlook them.
#ifndef MILLRACE_TESTS_CUDA_SIM_CUDA_SIM_H_
#define MILLRACE_TESTS_CUDA_SIM_CUDA_SIM_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/cuda_driver.h"

namespace millrace {

namespace sim {
struct State;
}

struct CudaSimOptions {
  int devices = 1;
  int64_t memory_bytes = int64_t{64} << 20;  // of each device
  int64_t pinned_bytes = int64_t{1} << 30;   // of the host
  uint64_t seed = 0;                         // of the order of execution
  bool peer_access = true;                   // devices can reach each other's memory
  double quiet_seconds = 0.001;              // without a call: the host waits, GPUs run on
  double stall_seconds = 20;                 // without progress while the host waits: deadlock
};

// Device bytes that a kernel reads or writes.
struct SimAccess {
  CUdeviceptr address = 0;
  int64_t size_bytes = 0;
  bool write = false;
};

// One launch of a kernel, as the kernel sees it.
class SimLaunch {
 public:
  SimLaunch(std::vector<std::vector<std::byte>> params, sim::State* state)
      : params_(std::move(params)), state_(state) {}

  template <typename T>
  T Param(size_t i) const {
    T value;
    std::memcpy(&value, params_.at(i).data(), sizeof(T));
    return value;
  }
  // Where the kernel finds device bytes; they must lie within one declared access of the kind,
  // otherwise that is a violation and nullptr.
  const std::byte* Read(CUdeviceptr address, int64_t size_bytes) const;
  std::byte* Write(CUdeviceptr address, int64_t size_bytes) const;

  void set_accesses(std::vector<SimAccess> accesses) { accesses_ = std::move(accesses); }
  const std::vector<SimAccess>& accesses() const { return accesses_; }

 private:
  std::byte* Map(CUdeviceptr address, int64_t size_bytes, bool write) const;

  std::vector<std::vector<std::byte>> params_;
  std::vector<SimAccess> accesses_;
  mutable size_t last_found_ = 0;  // index into accesses_: kernels walk them in order
  sim::State* state_;
};

struct SimKernel {
  std::vector<size_t> param_bytes;  // sizes of its parameters; copied when it is launched
  std::function<std::vector<SimAccess>(const SimLaunch&)> accesses;
  // Anything but CUDA_SUCCESS loses the device, as a fault in a kernel does.
  std::function<CUresult(const SimLaunch&)> run;
};

class CudaSim {
 public:
  explicit CudaSim(const CudaSimOptions& options = {});
  ~CudaSim();
  CudaSim(const CudaSim&) = delete;
  CudaSim& operator=(const CudaSim&) = delete;

  // Loaded and initialized. Valid until the CudaSim goes.
  const CudaDriver& driver() const;

  // What was found so far, in order; whoever takes violations has expected them.
  std::vector<std::string> TakeViolations();
  // What is allocated or created and not freed or destroyed: "leak: ...".
  std::vector<std::string> Leaks() const;
  // Takes no notice of the leaks there are now.
  void ForgiveLeaks();

  // Faults. Entry points are named as in the table ("MemAlloc"); calls are counted from 1 since the
  // simulator was made. A sticky error loses the device of the calling thread's context. Functions
  // that free or destroy do so even when they fail, as the driver's do.
  void FailCall(std::string_view entry, int64_t nth, CUresult result);
  void FailAnyCall(int64_t nth, CUresult result);
  void LoseDevice(int ordinal, CUresult result);
  int64_t CountCalls(std::string_view entry) const;
  int64_t CountCalls() const;

  // Kernels that modules loaded from ModuleImage() offer.
  void RegisterKernel(std::string name, SimKernel kernel);
  static const void* ModuleImage();

  // What was executed so far, in order: "MemcpyAsync of 64 bytes (#3 of stream 1)".
  std::vector<std::string> ExecutionOrder() const;

 private:
  std::unique_ptr<sim::State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIM_CUDA_SIM_H_
