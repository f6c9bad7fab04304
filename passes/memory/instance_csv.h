// Packing problems as files: comma-separated id, lower, upper, size, the form public instances
// have.
#ifndef MILLRACE_PASSES_MEMORY_INSTANCE_CSV_H_
#define MILLRACE_PASSES_MEMORY_INSTANCE_CSV_H_

#include <string_view>
#include <vector>

#include "graph/status.h"
#include "passes/memory/pack.h"

namespace millrace {

// A header line that names the columns, in any order, then a line a buffer; further columns are
// ignored. Numbers are whole and lie in [0, 2^53]. BadInputError with "file:line" otherwise.
absl::StatusOr<std::vector<TimedBuffer>> ParseInstanceCsv(std::string_view text,
                                                          std::string_view file);

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_INSTANCE_CSV_H_
