// The project's errors by who must act, and the exit code of `millrace` for each. Every fallible
// function returns absl::Status; these constructors are the only place where a meaning is tied to
// an absl code.
#ifndef MILLRACE_GRAPH_STATUS_H_
#define MILLRACE_GRAPH_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/strings.h"

namespace millrace {

absl::Status CheckFailedError(std::string_view message);   // exit 1: numerics, lint, plan refused
absl::Status UsageError(std::string_view message);         // exit 2: the command or call is wrong
absl::Status BadInputError(std::string_view message);      // exit 3: a file is malformed
absl::Status MissingFileError(std::string_view message);   // exit 3: a file is not there
absl::Status InfeasibleError(std::string_view message);    // exit 4: no plan exists under the limits
absl::Status OutOfMemoryError(std::string_view message);   // exit 5: an allocation failed
absl::Status DeviceError(std::string_view message);        // exit 6: device or driver
absl::Status DistributedError(std::string_view message);   // exit 7: a rank failed (names it)
absl::Status InternalError(std::string_view message);      // exit 70: our bug

// The exit code of `millrace` for `status`; 0 for ok.
int ExitCode(const absl::Status& status);

// `status` with "context: " before its message; ok stays ok.
absl::Status Annotate(const absl::Status& status, std::string_view context);

}  // namespace millrace

// Returns from the enclosing function when the expression is an error.
#define MILLRACE_RETURN_IF_ERROR(expr)                    \
  do {                                                    \
    if (absl::Status status_ = (expr); !status_.ok()) {   \
      return status_;                                     \
    }                                                     \
  } while (false)

// MILLRACE_ASSIGN_OR_RETURN(auto x, F()): declares x, or returns F's error.
#define MILLRACE_ASSIGN_OR_RETURN(lhs, expr) \
  MILLRACE_ASSIGN_OR_RETURN_(MILLRACE_CONCAT_(statusor_, __LINE__), lhs, expr)
#define MILLRACE_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).status();   \
  lhs = *std::move(tmp)
#define MILLRACE_CONCAT_(a, b) MILLRACE_CONCAT_INNER_(a, b)
#define MILLRACE_CONCAT_INNER_(a, b) a##b

#endif  // MILLRACE_GRAPH_STATUS_H_
