#include "passes/attr_bits.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <variant>

#include "absl/hash/hash.h"

namespace millrace {
namespace {

// `value` with integers of the same bits for floats.
template <typename T>
const T& Bits(const T& value) {
  return value;
}
int64_t Bits(const double& value) { return std::bit_cast<int64_t>(value); }
std::vector<int64_t> Bits(const std::vector<double>& values) {
  std::vector<int64_t> bits;
  for (const double& value : values) bits.push_back(Bits(value));
  return bits;
}

bool SameBits(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& value) {
        return Bits(value) == Bits(std::get<std::decay_t<decltype(value)>>(b));
      },
      a);
}

}  // namespace

bool SameBits(const Attrs& a, const Attrs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && SameBits(x.second, y.second);
  });
}

size_t HashOfBits(const Attrs& attrs) {
  size_t hash = attrs.size();
  for (const auto& [name, attr] : attrs) {
    hash =
        std::visit([&](const auto& value) { return absl::HashOf(hash, name, Bits(value)); }, attr);
  }
  return hash;
}

}  // namespace millrace
