// Kernel: one node's computation, prepared for fixed types, layouts, variant and team size, so that
// running it is one call. KernelLibrary: prepares kernels; bound to a device by the caller.
#ifndef MILLRACE_RUNTIME_KERNEL_H_
#define MILLRACE_RUNTIME_KERNEL_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/status.h"
#include "graph/target.h"

namespace millrace {

class Device;

// Addresses in the device's space; null for operands the node does not have.
struct KernelArgs {
  void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  void* scratch = nullptr;
  void* native_stream = nullptr;  // CUstream on cuda; null on cpu
  // True shapes of operands, for kernels of bounded values (HostCall) only; null otherwise. An
  // entry is null for an absent operand. Output shapes are written by the kernel.
  const Shape* const* input_shapes = nullptr;
  Shape* const* output_shapes = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Called by one thread at a time. No allocation, no locks in variants meant to be fast.
  virtual absl::Status Run(const KernelArgs& args) = 0;
};

struct OperandLayout {
  Layout layout = Layout::kStrided;
  std::vector<int64_t> strides;  // elements; empty: dense row-major
  int64_t size_bytes = 0;        // of the slice; what is packed needs to be asked
};

struct KernelRequest {
  NodeQuery query;
  std::string variant;
  std::vector<OperandLayout> inputs, outputs;
  int threads = 1;
  int64_t scratch_bytes = 0;
  Device* device = nullptr;
  bool true_shapes = false;  // operands may be bounded: KernelArgs carries shapes
};

class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;
  // InternalError when the library never offered this variant for the query.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_KERNEL_H_
