// A program at one mesh coordinate, bound to its device: its arenas and where each slice lies.
#ifndef MILLRACE_RUNTIME_BOUND_PROGRAM_H_
#define MILLRACE_RUNTIME_BOUND_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/plan.h"
#include "graph/status.h"
#include "runtime/communicator.h"
#include "runtime/device_table.h"
#include "runtime/strided_copy.h"

namespace millrace {

struct BoundProgram {
  const Program* program = nullptr;
  Endpoint endpoint;
  std::string device_name;  // "cpu:1"
  DeviceBinding binding;
  std::vector<Buffer> buffers;                // as program->buffers
  std::vector<std::vector<int64_t>> strides;  // by slice: its own, or those of kNHWC

  Device& device() const { return *binding.device; }
  const Slice& slice(SliceId id) const { return program->slices[id.index]; }
  MemorySpace space(SliceId id) const { return program->buffers[slice(id).buffer.index].space; }
  // Where the slice of this microbatch begins, as the device sees it; null for an invalid id.
  std::byte* Address(SliceId id, int64_t microbatch) const;
  StridedPlace Place(SliceId id, int64_t microbatch) const;
  // Host threads may read and write what lies there.
  bool HostReaches(SliceId id) const {
    return space(id) == MemorySpace::kHost || device().host_accessible();
  }
};

// Every program at every coordinate of the mesh: programs in order, coordinates row-major.
// Allocates all buffers. What runs on a device that the table lacks is another process's and left
// out when there are `others`, else a UsageError; OutOfMemoryError from the device.
absl::StatusOr<std::vector<BoundProgram>> BindPrograms(const PlanBundle& plan,
                                                       const DeviceTable& devices, bool others);

// "program 'stage0' at data=1 on cpu:1", for messages.
std::string Describe(const BoundProgram& bound, const Mesh& mesh);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_BOUND_PROGRAM_H_
