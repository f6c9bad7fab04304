// IDX, the format of the MNIST files: a header with dims, then numbers, all big-endian; plain or
// gzip.
#ifndef MILLRACE_RUNTIME_IDX_READER_H_
#define MILLRACE_RUNTIME_IDX_READER_H_

#include <string>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

// BadInputError for a malformed header, spoiled or cut compressed data, and sizes that disagree
// with the file.
absl::StatusOr<Tensor> ReadIdx(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_IDX_READER_H_
