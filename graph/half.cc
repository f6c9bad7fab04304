#include "graph/half.h"

namespace millrace {

uint16_t FloatToHalfBits(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u | static_cast<uint16_t>((u >> 13) & 0x1ffu);
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity
  if (magnitude < 0x33000001u) return sign;             // rounds to zero (2^-25 is a tie, to even)
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  // A subnormal half has a fixed exponent of -14 and drops more bits the smaller the number is.
  const int dropped = exponent < -14 ? 13 + (-14 - exponent) : 13;
  const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  uint32_t rounded = significand >> dropped;
  const uint32_t rest = significand & ((1u << dropped) - 1);
  const uint32_t half = 1u << (dropped - 1);
  if (rest > half || (rest == half && (rounded & 1u) != 0)) ++rounded;
  // The carry of rounding runs into the exponent field, as it should.
  const uint32_t bits =
      exponent < -14 ? rounded : (static_cast<uint32_t>(exponent + 14) << 10) + rounded;
  return sign | static_cast<uint16_t>(bits);
}

float HalfBitsToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

}  // namespace millrace
