// Reads the file of a case as `millrace` would.
#ifndef MILLRACE_TESTS_BAD_INPUT_READ_INPUT_H_
#define MILLRACE_TESTS_BAD_INPUT_READ_INPUT_H_

#include "graph/status.h"
#include "tests/bad_input/bad_case.h"

namespace millrace {

// In the current folder. What was read is thrown away.
absl::Status ReadInput(const BadCase& c);

}  // namespace millrace

#endif  // MILLRACE_TESTS_BAD_INPUT_READ_INPUT_H_
