// The memory of the simulated machine: device memory that the host cannot touch, pinned memory that
// it can, and the record of what was allocated and freed.
#ifndef MILLRACE_TESTS_CUDA_SIM_SIM_MEMORY_H_
#define MILLRACE_TESTS_CUDA_SIM_SIM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda_sim/sim_access.h"

namespace millrace::sim {

inline constexpr int kPinned = -1;  // "device" of pinned memory

struct Allocation {
  int64_t id = 0;  // counted from 1, in order of allocation
  int device = 0;  // or kPinned
  ByteRange range;
  bool freed = false;
};

// What an address range is to the driver.
struct Place {
  enum class Kind { kAllocated, kFreed, kOutOfBounds, kPageable };
  Kind kind = Kind::kPageable;             // memory of the host that the driver knows nothing of
  const Allocation* allocation = nullptr;  // the one concerned or nearest; null for kPageable
};

class SimMemory {
 public:
  SimMemory(int devices, int64_t device_bytes, int64_t pinned_bytes);
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;

  // Filled with 0xFF, which as floats is NaN. Freed addresses stay unused for as long as there are
  // others, so that a use after free is seen. nullptr: over capacity.
  const Allocation* AllocateDevice(int device, uint64_t size_bytes);
  const Allocation* AllocatePinned(uint64_t size_bytes);
  // The live allocation that begins here, or nullptr.
  const Allocation* FindLive(uint64_t begin) const;
  // The first access that the host has not waited for. Touching pinned memory later crashes.
  std::optional<OpStamp> Free(const Allocation& allocation, const Clock& host);

  Place Find(ByteRange range) const;
  // Where the simulator itself reads and writes the byte at `address`, which Find gave kAllocated,
  // or which is pageable.
  std::byte* Backing(uint64_t address) const;

  // "bytes [0, 64) of device allocation 3 (256 bytes, freed)".
  std::string Describe(ByteRange range) const;

  int64_t capacity_bytes() const { return device_bytes_; }
  int64_t used_bytes(int device) const { return arenas_[static_cast<size_t>(device)].used; }
  std::vector<const Allocation*> Live() const;
  AccessMap& accesses() { return accesses_; }

 private:
  // Address space of one device: `visible` may not be touched, `backing` is the same bytes.
  struct Arena {
    std::byte* visible = nullptr;
    std::byte* backing = nullptr;
    uint64_t cursor = 0;  // offset where the search for free space begins
    int64_t used = 0;
  };

  const Arena* ArenaOf(uint64_t address) const;
  std::optional<uint64_t> FindSpace(const Arena& arena, uint64_t size_bytes) const;
  const Allocation* Enter(int device, ByteRange range);
  // The last allocation beginning at or before `address`, or nullptr.
  const Allocation* AtOrBefore(uint64_t address) const;

  const int64_t device_bytes_, pinned_bytes_;
  const uint64_t span_;  // address space of each device
  std::vector<Arena> arenas_;
  std::map<uint64_t, Allocation> allocations_;  // by address; freed ones stay until reused
  std::vector<std::pair<void*, size_t>> pinned_mappings_;
  int64_t pinned_used_ = 0;
  int64_t next_id_ = 1;
  AccessMap accesses_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TESTS_CUDA_SIM_SIM_MEMORY_H_
