// Runs something in a process of its own, with limits, and says how it ended.
#ifndef MILLRACE_TESTS_BAD_INPUT_LIMITED_PROCESS_H_
#define MILLRACE_TESTS_BAD_INPUT_LIMITED_PROCESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "graph/status.h"

namespace millrace {

// Sanitizers map terabytes and slow things down: under them memory is measured only, and both
// limits are wider.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
inline constexpr int64_t kMostBytes = (kSanitized ? 4 : 1) * (int64_t{512} << 20);
inline constexpr double kMostSeconds = kSanitized ? 20 : 2;

struct LimitedResult {
  std::string ending;   // "signal 11", "no answer in 60 s"; empty: it came to an end
  int exit_code = -1;   // of the status
  std::string message;  // of the status
  double cpu_seconds = 0;
  int64_t peak_bytes = 0;  // resident
};

// `run` in `folder` as the current one.
LimitedResult RunLimited(const std::string& folder, const std::function<absl::Status()>& run);

}  // namespace millrace

#endif  // MILLRACE_TESTS_BAD_INPUT_LIMITED_PROCESS_H_
