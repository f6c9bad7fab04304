// Host memory that other processes of this machine can map: what a cpu device allocates when a
// plan is run by several processes.
#ifndef MILLRACE_DISTRIBUTED_SHARED_MEMORY_H_
#define MILLRACE_DISTRIBUTED_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "graph/status.h"
#include "runtime/device.h"

namespace millrace {

// How another process finds a segment: an open descriptor of its owner, and where the owner has it.
struct SegmentName {
  int64_t owner = 0;  // process id
  int32_t descriptor = -1;
  uint64_t address = 0;
  int64_t size_bytes = 0;
};

// The segments of this process. They have no names in the file system, so a process that is killed
// leaves nothing behind. Thread safe; buffers may outlive it.
class SharedMemory {
 public:
  SharedMemory();

  // Zeros, page aligned, reserved when this returns. OutOfMemoryError.
  absl::StatusOr<Buffer> Allocate(MemorySpace space, int64_t size_bytes);
  // Of the buffers there are now.
  std::vector<SegmentName> Names() const;

 private:
  struct Segments {
    std::mutex mutex;
    std::map<std::byte*, SegmentName> by_address;
  };
  std::shared_ptr<Segments> segments_;
};

// The segments of another process, mapped here.
class MappedMemory {
 public:
  static absl::StatusOr<std::unique_ptr<MappedMemory>> Map(std::span<const SegmentName> names);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  // Where `size_bytes` bytes that the other process has at `address` lie here; null when they are
  // not in its segments. Does not allocate.
  std::byte* Find(const std::byte* address, int64_t size_bytes) const;

 private:
  struct Range {
    uint64_t begin = 0;  // there
    int64_t size_bytes = 0;
    std::byte* here = nullptr;
  };
  MappedMemory() = default;

  std::vector<Range> ranges_;  // ascending
};

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_SHARED_MEMORY_H_
