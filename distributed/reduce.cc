// In blocks that stay in the first-level cache: each rank's block is folded into an accumulator in
// turn, so every loop is a plain one over contiguous memory that compilers vectorize. Results too
// large for a cache are stored past it: an ordinary store would first read what it overwrites.
#include "distributed/reduce.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "graph/half.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kBlock = 256;  // elements
constexpr int64_t kCacheBytes = int64_t{1} << 20;

template <typename T>
using Accumulator =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// Sums and products of integers, without the undefined overflow of signed types.
template <typename A>
A Add(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}
template <typename A>
A Multiply(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    // uint64_t, since smaller types are promoted to (signed) int.
    return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}
template <typename A>
A Divide(A sum, size_t ranks) {
  if constexpr (std::is_integral_v<A> && std::is_signed_v<A>) {
    return static_cast<A>(int64_t{sum} / static_cast<int64_t>(ranks));
  } else if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(uint64_t{sum} / ranks);
  } else {
    return sum / static_cast<A>(ranks);
  }
}
// NaN of any rank wins, as in ONNX's Max and Min.
template <typename A>
A Larger(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    return std::isnan(a) || a > b ? a : b;
  } else {
    return a > b ? a : b;
  }
}
template <typename A>
A Smaller(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    return std::isnan(a) || a < b ? a : b;
  } else {
    return a < b ? a : b;
  }
}

// What all results of a reduction have in common.
struct Results {
  std::span<std::byte* const> places;
  bool past_cache = false;
};

// One block of a result. `to` has the alignment of its element.
void StoreBlock(std::byte* to, const std::byte* block, int64_t size_bytes, bool past_cache) {
  const hwy::HWY_NAMESPACE::ScalableTag<uint8_t> lanes;
  const auto step = static_cast<int64_t>(hwy::HWY_NAMESPACE::Lanes(lanes));
  int64_t at = 0;
  if (past_cache && reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(step) == 0) {
    for (; at + step <= size_bytes; at += step) {
      const auto bytes =
          hwy::HWY_NAMESPACE::LoadU(lanes, reinterpret_cast<const uint8_t*>(block + at));
      hwy::HWY_NAMESPACE::Stream(bytes, lanes, reinterpret_cast<uint8_t*>(to + at));
    }
  }
  std::memcpy(to + at, block + at, static_cast<size_t>(size_bytes - at));
}

// kCombine is known when this is compiled, so that it becomes part of the loops.
template <typename T, auto kCombine>
void Fold(std::span<const std::byte* const> inputs, int64_t count, const Results& results,
          bool mean) {
  using A = Accumulator<T>;
  alignas(64) A sums[kBlock];
  [[maybe_unused]] alignas(64) T rounded[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    const auto block = [&](const std::byte* input) {
      return reinterpret_cast<const T*>(input) + begin;
    };
    const T* first = block(inputs[0]);
    if (inputs.size() == 1) {
      for (int64_t i = 0; i < size; ++i) sums[i] = static_cast<A>(first[i]);
    } else {
      const T* second = block(inputs[1]);
      for (int64_t i = 0; i < size; ++i) {
        sums[i] = kCombine(static_cast<A>(first[i]), static_cast<A>(second[i]));
      }
      for (const std::byte* input : inputs.subspan(2)) {
        const T* next = block(input);
        for (int64_t i = 0; i < size; ++i) sums[i] = kCombine(sums[i], static_cast<A>(next[i]));
      }
    }
    if (mean) {
      for (int64_t i = 0; i < size; ++i) sums[i] = Divide(sums[i], inputs.size());
    }
    const void* result = sums;
    if constexpr (!std::is_same_v<T, A>) {
      for (int64_t i = 0; i < size; ++i) rounded[i] = static_cast<T>(sums[i]);
      result = rounded;
    }
    const auto element = static_cast<int64_t>(sizeof(T));
    for (std::byte* place : results.places) {
      StoreBlock(place + begin * element, static_cast<const std::byte*>(result), size * element,
                 results.past_cache);
    }
  }
  if (results.past_cache) hwy::FlushStream();
}

template <typename T>
void ReduceAs(Reduction reduction, std::span<const std::byte* const> inputs, int64_t count,
              std::span<std::byte* const> outputs) {
  using A = Accumulator<T>;
  const Results results = {
      outputs, count * static_cast<int64_t>(sizeof(T)) * std::ssize(outputs) > kCacheBytes};
  switch (reduction) {
    case Reduction::kSum:
      return Fold<T, Add<A>>(inputs, count, results, false);
    case Reduction::kMean:
      return Fold<T, Add<A>>(inputs, count, results, true);
    case Reduction::kProd:
      return Fold<T, Multiply<A>>(inputs, count, results, false);
    case Reduction::kMax:
      return Fold<T, Larger<A>>(inputs, count, results, false);
    case Reduction::kMin:
      return Fold<T, Smaller<A>>(inputs, count, results, false);
  }
}

}  // namespace

absl::Status ReduceRanks(Reduction reduction, DType dtype, std::span<const std::byte* const> inputs,
                         int64_t count, std::byte* output) {
  return ReduceRanks(reduction, dtype, inputs, count, std::span<std::byte* const>(&output, 1));
}

absl::Status ReduceRanks(Reduction reduction, DType dtype, std::span<const std::byte* const> inputs,
                         int64_t count, std::span<std::byte* const> outputs) {
  const auto reduce = [&]<typename T>(T) {
    ReduceAs<T>(reduction, inputs, count, outputs);
    return absl::OkStatus();
  };
  switch (dtype) {
    case DType::kBool:
      break;
    case DType::kI8:
      return reduce(int8_t{});
    case DType::kU8:
      return reduce(uint8_t{});
    case DType::kI16:
      return reduce(int16_t{});
    case DType::kU16:
      return reduce(uint16_t{});
    case DType::kI32:
      return reduce(int32_t{});
    case DType::kU32:
      return reduce(uint32_t{});
    case DType::kI64:
      return reduce(int64_t{});
    case DType::kU64:
      return reduce(uint64_t{});
    case DType::kF16:
      return reduce(Half{});
    case DType::kBF16:
      return reduce(BFloat16{});
    case DType::kF32:
      return reduce(float{});
    case DType::kF64:
      return reduce(double{});
  }
  return UsageError(
      StrCat("no ", ReductionName(reduction), " over devices of ", DTypeName(dtype), " values"));
}

}  // namespace millrace
