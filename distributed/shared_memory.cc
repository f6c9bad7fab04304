#include "distributed/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "graph/strings.h"
#include "graph/types.h"

namespace millrace {
namespace {

absl::Status CannotShare(int64_t size_bytes, int error) {
  return OutOfMemoryError(
      StrCat("no shared memory of ", size_bytes, " bytes: ", std::strerror(error)));
}

}  // namespace

SharedMemory::SharedMemory() : segments_(std::make_shared<Segments>()) {}

absl::StatusOr<Buffer> SharedMemory::Allocate(MemorySpace space, int64_t size_bytes) {
  if (size_bytes < 0 || size_bytes > kMaxBytes) {
    return UsageError(StrCat("shared memory of ", size_bytes, " bytes"));
  }
  const int64_t mapped_bytes = std::max<int64_t>(size_bytes, 1);  // empty ones have an address too
  const int descriptor = memfd_create("millrace", MFD_CLOEXEC);
  if (descriptor < 0) return CannotShare(size_bytes, errno);
  // Reserves the pages: what is not there is refused here, not by a signal at the first touch.
  if (const int error = posix_fallocate(descriptor, 0, mapped_bytes); error != 0) {
    close(descriptor);
    return CannotShare(size_bytes, error);
  }
  void* data = mmap(nullptr, static_cast<size_t>(mapped_bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                    descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(descriptor);
    return CannotShare(size_bytes, error);
  }
  const std::lock_guard lock(segments_->mutex);
  segments_->by_address[static_cast<std::byte*>(data)] = {
      .owner = getpid(),
      .descriptor = descriptor,
      .address = reinterpret_cast<uint64_t>(data),
      .size_bytes = mapped_bytes};
  return Buffer(data, size_bytes, space, [segments = segments_](void* data, int64_t) {
    const std::lock_guard lock(segments->mutex);
    const auto found = segments->by_address.find(static_cast<std::byte*>(data));
    munmap(data, static_cast<size_t>(found->second.size_bytes));
    close(found->second.descriptor);
    segments->by_address.erase(found);
  });
}

std::vector<SegmentName> SharedMemory::Names() const {
  const std::lock_guard lock(segments_->mutex);
  std::vector<SegmentName> names;
  for (const auto& [address, name] : segments_->by_address) names.push_back(name);
  return names;
}

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::Map(
    std::span<const SegmentName> names) {
  auto memory = std::unique_ptr<MappedMemory>(new MappedMemory());
  for (const SegmentName& name : names) {
    const std::string path = StrCat("/proc/", name.owner, "/fd/", name.descriptor);
    const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* data = MAP_FAILED;
    if (descriptor >= 0) {
      data = mmap(nullptr, static_cast<size_t>(name.size_bytes), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_POPULATE, descriptor, 0);
    }
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    if (data == MAP_FAILED) {
      return DistributedError(
          StrCat("cannot map the memory of process ", name.owner, ": ", std::strerror(error)));
    }
    memory->ranges_.push_back({name.address, name.size_bytes, static_cast<std::byte*>(data)});
  }
  std::ranges::sort(memory->ranges_, {}, &Range::begin);
  return memory;
}

MappedMemory::~MappedMemory() {
  for (const Range& range : ranges_) munmap(range.here, static_cast<size_t>(range.size_bytes));
}

std::byte* MappedMemory::Find(const std::byte* address, int64_t size_bytes) const {
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto after = std::ranges::upper_bound(ranges_, at, {}, &Range::begin);
  if (after == ranges_.begin()) return nullptr;
  const Range& range = *std::prev(after);
  const auto offset = static_cast<int64_t>(at - range.begin);
  if (offset > range.size_bytes || size_bytes > range.size_bytes - offset) return nullptr;
  return range.here + offset;
}

}  // namespace millrace
