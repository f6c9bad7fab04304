// NumPy's .npy, versions 1 to 3, little-endian, C order or Fortran order (transposed on reading).
// bf16 is written as u16 with a note in the project's own tools; NumPy has no such type.
#ifndef MILLRACE_GRAPH_NPY_H_
#define MILLRACE_GRAPH_NPY_H_

#include <string>
#include <string_view>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

// BadInputError for malformed headers, dtypes the engine lacks, sizes that disagree with the file.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);
// The same for the bytes of such a file; `path` is for messages.
absl::StatusOr<Tensor> ParseNpy(std::string_view file, const std::string& path);
absl::Status WriteNpy(const std::string& path, const Tensor& tensor);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_NPY_H_
