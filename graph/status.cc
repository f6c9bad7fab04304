#include "graph/status.h"

#include "graph/strings.h"

namespace millrace {

absl::Status CheckFailedError(std::string_view m) { return absl::FailedPreconditionError(AbslView(m)); }
absl::Status UsageError(std::string_view m) { return absl::InvalidArgumentError(AbslView(m)); }
absl::Status BadInputError(std::string_view m) { return absl::DataLossError(AbslView(m)); }
absl::Status MissingFileError(std::string_view m) { return absl::NotFoundError(AbslView(m)); }
absl::Status InfeasibleError(std::string_view m) { return absl::OutOfRangeError(AbslView(m)); }
absl::Status OutOfMemoryError(std::string_view m) { return absl::ResourceExhaustedError(AbslView(m)); }
absl::Status DeviceError(std::string_view m) { return absl::UnavailableError(AbslView(m)); }
absl::Status DistributedError(std::string_view m) { return absl::AbortedError(AbslView(m)); }
absl::Status InternalError(std::string_view m) { return absl::InternalError(AbslView(m)); }

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kFailedPrecondition: return 1;
    case absl::StatusCode::kInvalidArgument: return 2;
    case absl::StatusCode::kDataLoss: return 3;
    case absl::StatusCode::kNotFound: return 3;
    case absl::StatusCode::kOutOfRange: return 4;
    case absl::StatusCode::kResourceExhausted: return 5;
    case absl::StatusCode::kUnavailable: return 6;
    case absl::StatusCode::kAborted: return 7;
    default: return 70;
  }
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), StrCat(context, ": ", status.message()));
}

}  // namespace millrace
