// What the adversary fills memory with before anything is written there.
#ifndef MILLRACE_TESTS_ADVERSARY_RED_ZONE_H_
#define MILLRACE_TESTS_ADVERSARY_RED_ZONE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/device.h"

namespace millrace {

inline constexpr int64_t kRedZone = kBufferAlignment;  // bytes before and after
inline constexpr std::byte kRed{0xA5};                 // in them
inline constexpr std::byte kPoison{0xFF};              // between them: NaN in every float type

}  // namespace millrace

#endif  // MILLRACE_TESTS_ADVERSARY_RED_ZONE_H_
