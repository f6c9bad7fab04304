// Device memory is one sparse file mapped twice: where the addresses handed out point, nothing may
// be read or written, so code that takes device memory for its own crashes on the spot; the
// simulator uses the other mapping. A device has many times its capacity in addresses, taken in
// turn with gaps between, so that a freed address or one past the end is not soon another's.
#include "tests/cuda_sim/sim_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "graph/assert.h"
#include "graph/strings.h"

namespace millrace::sim {
namespace {

constexpr uint64_t kGranule = 512;  // alignment of device allocations, and the gap after each
constexpr uint64_t kAddressesPerByte = 64;
constexpr int kPoison = 0xFF;

uint64_t RoundUp(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
uint64_t Address(const void* p) { return reinterpret_cast<uint64_t>(p); }

}  // namespace

SimMemory::SimMemory(int devices, int64_t device_bytes, int64_t pinned_bytes)
    : device_bytes_(device_bytes),
      pinned_bytes_(pinned_bytes),
      span_(RoundUp(static_cast<uint64_t>(device_bytes) * kAddressesPerByte, 4096)) {
  for (int i = 0; i < devices; ++i) {
    const int file = memfd_create("cuda_sim", MFD_CLOEXEC);
    MILLRACE_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(span_)) == 0);
    Arena arena;
    void* visible = mmap(nullptr, span_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    void* backing =
        mmap(nullptr, span_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    MILLRACE_CHECK(visible != MAP_FAILED && backing != MAP_FAILED);
    close(file);
    arena.visible = static_cast<std::byte*>(visible);
    arena.backing = static_cast<std::byte*>(backing);
    arenas_.push_back(arena);
  }
}

SimMemory::~SimMemory() {
  for (const Arena& arena : arenas_) {
    munmap(arena.visible, span_);
    munmap(arena.backing, span_);
  }
  for (auto [data, size] : pinned_mappings_) munmap(data, size);
}

const Allocation* SimMemory::Enter(int device, ByteRange range) {
  auto reused = allocations_.lower_bound(range.begin);
  if (reused != allocations_.begin() && std::prev(reused)->second.range.end > range.begin) --reused;
  while (reused != allocations_.end() && reused->first < range.end) {
    reused = allocations_.erase(reused);
  }
  Allocation& a = allocations_[range.begin];
  a = {.id = next_id_++, .device = device, .range = range, .freed = false};
  accesses_.Add(range, /*initialized=*/device == kPinned);  // the host writes pinned memory unseen
  return &a;
}

std::optional<uint64_t> SimMemory::FindSpace(const Arena& arena, uint64_t size_bytes) const {
  const uint64_t base = Address(arena.visible);
  for (uint64_t from : {arena.cursor, uint64_t{0}}) {
    uint64_t offset = from;
    while (offset + size_bytes + kGranule <= span_) {
      // The last live allocation that ends too late or begins too early for this place.
      auto next = allocations_.lower_bound(base + offset + size_bytes + kGranule);
      while (next != allocations_.begin() && std::prev(next)->second.freed) --next;
      if (next == allocations_.begin()) return offset;
      const ByteRange& taken = std::prev(next)->second.range;
      if (taken.end < base || taken.end + kGranule <= base + offset) return offset;
      offset = RoundUp(taken.end - base, kGranule) + kGranule;
    }
  }
  return std::nullopt;
}

const Allocation* SimMemory::AllocateDevice(int device, uint64_t size_bytes) {
  Arena& arena = arenas_[static_cast<size_t>(device)];
  const auto charged = RoundUp(size_bytes, kGranule);
  if (charged > static_cast<uint64_t>(device_bytes_ - arena.used)) return nullptr;
  const std::optional<uint64_t> offset = FindSpace(arena, size_bytes);
  if (!offset.has_value()) return nullptr;
  arena.used += static_cast<int64_t>(charged);
  arena.cursor = *offset + charged + kGranule;
  std::memset(arena.backing + *offset, kPoison, size_bytes);
  const uint64_t begin = Address(arena.visible) + *offset;
  return Enter(device, {begin, begin + size_bytes});
}

const Allocation* SimMemory::AllocatePinned(uint64_t size_bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t mapped = RoundUp(size_bytes, page) + page;  // an untouchable page at the end
  if (size_bytes > static_cast<uint64_t>(pinned_bytes_ - pinned_used_)) return nullptr;
  void* data = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  MILLRACE_CHECK(mprotect(data, mapped - page, PROT_READ | PROT_WRITE) == 0);
  std::memset(data, kPoison, size_bytes);
  pinned_mappings_.emplace_back(data, mapped);
  pinned_used_ += static_cast<int64_t>(size_bytes);
  return Enter(kPinned, {Address(data), Address(data) + size_bytes});
}

const Allocation* SimMemory::FindLive(uint64_t begin) const {
  auto it = allocations_.find(begin);
  return it == allocations_.end() || it->second.freed ? nullptr : &it->second;
}

std::optional<OpStamp> SimMemory::Free(const Allocation& allocation, const Clock& host) {
  const ByteRange range = allocation.range;
  const uint64_t size_bytes = range.end - range.begin;
  allocations_.at(range.begin).freed = true;
  if (allocation.device == kPinned) {
    pinned_used_ -= static_cast<int64_t>(size_bytes);
    void* data = reinterpret_cast<void*>(range.begin);
    MILLRACE_CHECK(mprotect(data, size_bytes, PROT_NONE) == 0);
    madvise(data, size_bytes, MADV_DONTNEED);
  } else {
    Arena& arena = arenas_[static_cast<size_t>(allocation.device)];
    arena.used -= static_cast<int64_t>(RoundUp(size_bytes, kGranule));
    std::memset(arena.backing + (range.begin - Address(arena.visible)), kPoison, size_bytes);
  }
  return accesses_.Remove(range, host);
}

const Allocation* SimMemory::AtOrBefore(uint64_t address) const {
  auto next = allocations_.upper_bound(address);
  return next == allocations_.begin() ? nullptr : &std::prev(next)->second;
}

const SimMemory::Arena* SimMemory::ArenaOf(uint64_t address) const {
  for (const Arena& arena : arenas_) {
    if (address >= Address(arena.visible) && address - Address(arena.visible) < span_) {
      return &arena;
    }
  }
  return nullptr;
}

Place SimMemory::Find(ByteRange range) const {
  const Allocation* a = AtOrBefore(range.begin);
  const bool begins_inside = a != nullptr && range.begin < a->range.end;
  if (begins_inside && a->freed) return {Place::Kind::kFreed, a};
  if (begins_inside && range.end <= a->range.end) return {Place::Kind::kAllocated, a};
  if (begins_inside || ArenaOf(range.begin) != nullptr) return {Place::Kind::kOutOfBounds, a};
  return {Place::Kind::kPageable, nullptr};
}

std::byte* SimMemory::Backing(uint64_t address) const {
  const Arena* arena = ArenaOf(address);
  if (arena == nullptr) return reinterpret_cast<std::byte*>(address);
  return arena->backing + (address - Address(arena->visible));
}

std::string SimMemory::Describe(ByteRange range) const {
  const Place place = Find(range);
  if (place.kind == Place::Kind::kPageable) {
    return StrCat(range.end - range.begin, " bytes of pageable host memory");
  }
  if (place.allocation == nullptr) return "device memory before the first allocation";
  const Allocation& a = *place.allocation;
  return StrCat("bytes [", range.begin - a.range.begin, ", ", range.end - a.range.begin, ") of ",
                a.device == kPinned ? "pinned" : "device", " allocation ", a.id, " (",
                a.range.end - a.range.begin, " bytes", a.freed ? ", freed)" : ")");
}

std::vector<const Allocation*> SimMemory::Live() const {
  std::vector<const Allocation*> live;
  for (const auto& [address, a] : allocations_) {
    if (!a.freed) live.push_back(&a);
  }
  std::sort(live.begin(), live.end(),
            [](const Allocation* a, const Allocation* b) { return a->id < b->id; });
  return live;
}

}  // namespace millrace::sim
