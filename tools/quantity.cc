#include "tools/quantity.h"

#include <cmath>
#include <optional>

#include "absl/strings/numbers.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// What a prefix multiplies by; nullopt for what is none.
std::optional<double> PrefixOf(std::string_view prefix) {
  constexpr std::string_view kPrefixes = "kMGTP";
  if (prefix.empty()) return 1;
  const bool binary = prefix.size() == 2 && prefix[1] == 'i';
  // "Ki" is spelled with a capital.
  const size_t power = binary && prefix[0] == 'K' ? 0 : kPrefixes.find(prefix[0]);
  if (power == std::string_view::npos || (!binary && prefix.size() != 1)) return std::nullopt;
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

std::optional<double> FactorOf(std::string_view suffix, std::string_view unit) {
  if (unit == "us") {
    if (suffix == "ns") return 1e-3;
    if (suffix == "us") return 1;
    if (suffix == "ms") return 1e3;
    if (suffix == "s") return 1e6;
    return std::nullopt;
  }
  if (suffix.empty() && unit == "B") return 1;
  if (!suffix.ends_with(unit)) return std::nullopt;
  return PrefixOf(suffix.substr(0, suffix.size() - unit.size()));
}

std::string_view Example(std::string_view unit) {
  if (unit == "B") return "40GiB";
  if (unit == "B/s") return "900GB/s";
  if (unit == "us") return "2.5us";
  return "60TFLOP/s";
}

}  // namespace

absl::StatusOr<double> ParseQuantity(std::string_view text, std::string_view unit) {
  const size_t end = text.find_first_not_of("0123456789.eE+-");
  size_t digits = end == std::string_view::npos ? text.size() : end;
  // An exponent needs digits: the E of "4E" does not belong to the number.
  while (digits > 0 && (text[digits - 1] < '0' || text[digits - 1] > '9') &&
         text[digits - 1] != '.') {
    --digits;
  }
  double number = 0;
  std::string_view suffix = text.substr(digits);
  while (!suffix.empty() && suffix[0] == ' ') suffix.remove_prefix(1);
  const std::optional<double> factor = FactorOf(suffix, unit);
  if (!absl::SimpleAtod(AbslView(text.substr(0, digits)), &number) || !factor.has_value() ||
      !(number >= 0) || std::isinf(number * *factor)) {
    return UsageError(StrCat("'", text, "' is no amount; expected one like ", Example(unit)));
  }
  return number * *factor;
}

}  // namespace millrace
