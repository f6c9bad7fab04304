// Which of two elements goes first, for ops that look for the largest or the smallest ones. NaN
// goes before any number in both orders, as numpy has it, so it is never passed over.
#ifndef MILLRACE_OPS_ORDERING_H_
#define MILLRACE_OPS_ORDERING_H_

namespace millrace {

// On elements as NativeType has them.
inline constexpr auto kLargerFirst = [](auto a, auto b) { return a > b || (a != a && b == b); };
inline constexpr auto kSmallerFirst = [](auto a, auto b) { return a < b || (a != a && b == b); };

}  // namespace millrace

#endif  // MILLRACE_OPS_ORDERING_H_
