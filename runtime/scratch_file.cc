#include "runtime/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "graph/strings.h"

namespace millrace {
namespace {

// A descriptor of an unlinked file; -1 with errno.
int OpenUnnamed(const std::string& directory) {
  std::string path = StrCat(directory, "/millrace-offload-XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd >= 0) unlink(path.c_str());
  return fd;
}

}  // namespace

absl::StatusOr<Buffer> CreateScratchFile(const std::string& directory, int64_t size_bytes) {
  const int fd = OpenUnnamed(directory);
  if (fd < 0) {
    return UsageError(StrCat("offload folder '", directory,
                             "': cannot make a file there: ", std::strerror(errno)));
  }
  const auto length = static_cast<size_t>(std::max<int64_t>(size_bytes, 1));
  int error;
  do {
    error = posix_fallocate(fd, 0, static_cast<off_t>(length));
  } while (error == EINTR);
  void* data = MAP_FAILED;
  if (error == 0) {
    data = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) error = errno;
  }
  close(fd);  // the mapping holds the file
  if (error != 0) {
    return OutOfMemoryError(StrCat("offload folder '", directory, "': cannot reserve ", size_bytes,
                                   " bytes: ", std::strerror(error)));
  }
  return Buffer(data, size_bytes, MemorySpace::kFile, [](void* data, int64_t size) {
    munmap(data, static_cast<size_t>(std::max<int64_t>(size, 1)));
  });
}

}  // namespace millrace
