// A scratch file mapped into memory: where swapped-out values of a kFile buffer lie.
#ifndef MILLRACE_RUNTIME_CUDA_SCRATCH_FILE_H_
#define MILLRACE_RUNTIME_CUDA_SCRATCH_FILE_H_

#include <cstdint>
#include <string>

#include "graph/status.h"
#include "runtime/device.h"

namespace millrace {

// A kFile buffer in a new file of `directory` that has no name, so that it goes with the process.
// Its blocks are reserved: a full disk shows here (OutOfMemoryError) and not as a crash later.
absl::StatusOr<Buffer> MapScratchFile(const std::string& directory, int64_t size_bytes);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CUDA_SCRATCH_FILE_H_
