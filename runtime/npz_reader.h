// NumPy's .npz: a zip archive of .npy files, stored or deflated.
#ifndef MILLRACE_RUNTIME_NPZ_READER_H_
#define MILLRACE_RUNTIME_NPZ_READER_H_

#include <string>
#include <string_view>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

// The array called `name`. BadInputError with the nearest name when there is none, and for archives
// that are malformed, encrypted, beyond 4 GiB, or packed otherwise than by deflate.
absl::StatusOr<Tensor> ReadNpz(const std::string& path, std::string_view name);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_NPZ_READER_H_
