#include "runtime/cuda/scratch_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "graph/strings.h"

namespace millrace {
namespace {

absl::Status FileError(const std::string& directory, int64_t size_bytes, int error) {
  const std::string message = StrCat("a scratch file of ", size_bytes, " bytes in '", directory,
                                     "' (offload directory): ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      return OutOfMemoryError(message);
    default:
      return UsageError(message);
  }
}

// Descriptor of an unlinked file of the given size; a negative errno otherwise.
int OpenScratch(const std::string& directory, int64_t size_bytes) {
  std::string path = StrCat(directory, "/millrace-XXXXXX");
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return -errno;
  unlink(path.c_str());
  if (const int error = posix_fallocate(file, 0, size_bytes); error != 0) {
    close(file);
    return -error;
  }
  return file;
}

}  // namespace

absl::StatusOr<Buffer> MapScratchFile(const std::string& directory, int64_t size_bytes) {
  const int file = OpenScratch(directory, size_bytes);
  if (file < 0) return FileError(directory, size_bytes, -file);
  void* data =
      mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);  // the mapping keeps the file
  if (data == MAP_FAILED) return FileError(directory, size_bytes, error);
  return Buffer(data, size_bytes, MemorySpace::kFile,
                [](void* p, int64_t size) { munmap(p, static_cast<size_t>(size)); });
}

}  // namespace millrace
