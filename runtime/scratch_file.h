// Scratch files for kFile buffers, for any device.
#ifndef MILLRACE_RUNTIME_SCRATCH_FILE_H_
#define MILLRACE_RUNTIME_SCRATCH_FILE_H_

#include <cstdint>
#include <string>

#include "graph/status.h"
#include "runtime/device.h"

namespace millrace {

// A file in `directory` without a name, mapped shared, its blocks reserved (so a full disk is an
// OutOfMemoryError here, not a fault later). It vanishes with the buffer, or with the process.
absl::StatusOr<Buffer> CreateScratchFile(const std::string& directory, int64_t size_bytes);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SCRATCH_FILE_H_
