// Values on the command line: "NAME=SPEC" where SPEC is
//   @x.npy               a NumPy file
//   @x.idx[.gz]          an IDX file, also @x-ubyte[.gz]
//   @x.csv[.gz]:0-63     columns, from 0, both included, of a comma-separated file
//   rand[:SEED]          floats uniform in [0, 1); integers and bool 0 or 1
//   2x2xf32=1 2 3 4      elements in row-major order; f32=1 is a scalar
#ifndef MILLRACE_TOOLS_VALUE_SPEC_H_
#define MILLRACE_TOOLS_VALUE_SPEC_H_

#include <string>
#include <string_view>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

struct ValueSpec {
  std::string name;  // before the first '='
  std::string spec;  // after it
};

// UsageError naming `option` ("--input") when there is no '=' or one side is empty.
absl::StatusOr<ValueSpec> ParseValueSpec(std::string_view option, std::string_view text);

// The data of `spec` with exactly the type `wanted`: CSV columns are converted, and reshaped when
// the element counts agree; anything else must have the type. `option` is for messages. UsageError
// for a malformed spec or another type; the file's own error otherwise.
absl::StatusOr<Tensor> ReadValue(std::string_view option, const ValueSpec& spec,
                                 const TensorType& wanted);

// The data of `spec` as they are, `max_elements` of them at most where they come from CSV. Not for
// "rand", which needs a type.
absl::StatusOr<Tensor> ReadValue(std::string_view option, const ValueSpec& spec,
                                 int64_t max_elements);

// UsageError unless the spec names a file that WriteValue can write, as far as that can be known.
absl::Status CheckWritable(std::string_view option, const ValueSpec& spec);
// Writes to "@x.npy".
absl::Status WriteValue(const ValueSpec& spec, const Tensor& tensor);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_VALUE_SPEC_H_
