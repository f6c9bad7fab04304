// The null device: computes nothing and records what was asked of it. The template for a new
// backend, the observer in tests of the executor, and the floor in benchmarks of it.
#ifndef MILLRACE_RUNTIME_NULL_NULL_DEVICE_H_
#define MILLRACE_RUNTIME_NULL_NULL_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/kernel.h"

namespace millrace {

// Asynchronous: one thread issues for all streams, in the plan's issue order. Runs kernels of
// NullKernelLibrary only. Memory is real, reads as zeros and costs nothing until touched, so plans
// of any size can be prepared and issued. Host functions are recorded, not run.
class NullDevice : public Device {
 public:
  // What streams were asked to do since the last Clear, in order:
  //   main: launch MatMul (reference) b0+0 b0+64 -> b0+128 scratch b1+0
  //   copy: wait e0 #1
  // Buffers (b), events (e) and flags (f) are numbered as they were made; "?" is not this device's.
  virtual std::vector<std::string> Log() const = 0;
  virtual void Clear() = 0;
  virtual void set_recording(bool recording) = 0;  // on at first
};

std::unique_ptr<NullDevice> CreateNullDevice(std::string name, std::string kind);

// Offers every variant of every op; its kernels do nothing.
class NullKernelLibrary : public KernelLibrary {
 public:
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_NULL_NULL_DEVICE_H_
