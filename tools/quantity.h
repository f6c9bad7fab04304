// Amounts with units on the command line: "40GiB", "900 GB/s", "2.5us".
#ifndef MILLRACE_TOOLS_QUANTITY_H_
#define MILLRACE_TOOLS_QUANTITY_H_

#include <string_view>

#include "graph/status.h"

namespace millrace {

// A number, an optional prefix and `unit`, which is "B", "B/s" or "FLOP/s" (prefixes k, M, G, T, P
// for powers of 1000, Ki, Mi, Gi, Ti, Pi for powers of 1024) or "us" (also written ns, ms or s).
// Bytes may go without a unit. UsageError that shows the form; no negative or infinite amounts.
absl::StatusOr<double> ParseQuantity(std::string_view text, std::string_view unit);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_QUANTITY_H_
