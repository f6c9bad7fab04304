// IEEE binary16 and bfloat16 as storage types. Arithmetic is done in float; conversion rounds to
// nearest even and keeps NaN and infinity.
#ifndef MILLRACE_GRAPH_HALF_H_
#define MILLRACE_GRAPH_HALF_H_

#include <bit>
#include <cstdint>

namespace millrace {

uint16_t FloatToHalfBits(float f);
float HalfBitsToFloat(uint16_t bits);

struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float f) : bits(FloatToHalfBits(f)) {}
  explicit operator float() const { return HalfBitsToFloat(bits); }
  explicit operator double() const { return HalfBitsToFloat(bits); }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(is_nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  explicit operator double() const { return static_cast<float>(*this); }
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_HALF_H_
