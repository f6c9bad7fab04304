// Numbers from comma-separated text, plain or gzip.
#ifndef MILLRACE_RUNTIME_CSV_READER_H_
#define MILLRACE_RUNTIME_CSV_READER_H_

#include <string>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

// Columns `first_column` to `last_column` (from 0, both included) as f32[rows, columns]. Every row
// has as many fields as the first; all chosen fields are numbers (also nan and inf), blanks around
// them allowed; empty lines are skipped; line ends are \n or \r\n. BadInputError with
// "file:line:column" otherwise, and for more than `max_elements` numbers. Regular files only; one
// that grows more than 200-fold when decompressed is refused. Memory: the result and the longest
// line, at most 1 MiB.
absl::StatusOr<Tensor> ReadCsv(const std::string& path, int first_column, int last_column,
                               int64_t max_elements = kMaxBytes);

// How many fields its first row has; 0 for a file without rows. Errors as above.
absl::StatusOr<int64_t> CountCsvColumns(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CSV_READER_H_
