// A file that lies in memory only, for readers that take a path.
#ifndef MILLRACE_TESTS_FUZZ_IN_MEMORY_FILE_H_
#define MILLRACE_TESTS_FUZZ_IN_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/assert.h"

namespace millrace {

class InMemoryFile {
 public:
  InMemoryFile(const uint8_t* data, size_t size) : fd_(memfd_create("input", 0)) {
    MILLRACE_CHECK(fd_ >= 0);
    MILLRACE_CHECK(write(fd_, data, size) == static_cast<ssize_t>(size));
  }
  ~InMemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_IN_MEMORY_FILE_H_
