// Numbers as people read them. Three significant digits; powers of 1024 for bytes, of 1000 else.
#ifndef MILLRACE_TOOLS_UNITS_H_
#define MILLRACE_TOOLS_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

std::string FormatCount(int64_t count);                          // "38,282"
std::string FormatPlural(int64_t count, std::string_view noun);  // "1 node", "2 nodes"
std::string FormatBytes(double bytes);                           // "0 B", "512 B", "149 KiB"
std::string FormatDuration(double time_us);                      // "850 ns", "2.31 ms", "61.2 s"
std::string FormatPercent(double fraction);                      // "99.7 %"

// With an SI prefix: FormatSi(1.2e9, "FLOP/s") is "1.2 GFLOP/s".
std::string FormatSi(double value, std::string_view unit);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_UNITS_H_
