#include "tools/units.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_format.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// Three significant digits without an exponent, for values below about 1000; whole numbers bare.
std::string Significant(double value) {
  const double magnitude = std::abs(value);
  int decimals = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
  if (magnitude == std::floor(magnitude) && magnitude < 1000) decimals = 0;
  return absl::StrFormat("%.*f", decimals, value);
}

}  // namespace

std::string FormatCount(int64_t count) {
  std::string digits = StrCat(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, 1, ',');
  return digits;
}

std::string FormatPlural(int64_t count, std::string_view noun) {
  return StrCat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

std::string FormatBytes(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return StrCat(Significant(bytes), " ", kUnits[unit]);
}

std::string FormatDuration(double time_us) {
  if (time_us < 0.9995) return StrCat(Significant(time_us * 1e3), " ns");
  if (time_us < 999.5) return StrCat(Significant(time_us), " us");
  if (time_us < 999.5e3) return StrCat(Significant(time_us * 1e-3), " ms");
  if (time_us < 999.5e6) return StrCat(Significant(time_us * 1e-6), " s");
  return StrCat(FormatCount(std::llround(time_us * 1e-6)), " s");
}

std::string FormatPercent(double fraction) {
  // All right and nearly all right must not look alike.
  const double percent = fraction * 100;
  if (percent > 99.9 && percent < 100) return absl::StrFormat("%.2f %%", std::min(percent, 99.99));
  return absl::StrFormat("%.1f %%", percent);
}

std::string FormatSi(double value, std::string_view unit) {
  static constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++prefix;
  }
  std::string text = StrCat(Significant(value), " ", kPrefixes[prefix], unit);
  text.erase(text.find_last_not_of(' ') + 1);  // neither prefix nor unit
  return text;
}

}  // namespace millrace
