// Element types, shapes and tensor types. Sizes are checked: nothing here overflows silently.
#ifndef MILLRACE_GRAPH_TYPES_H_
#define MILLRACE_GRAPH_TYPES_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "graph/assert.h"

namespace millrace {

enum class DType : uint8_t {
  kBool, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kF16, kBF16, kF32, kF64,
};
inline constexpr int kNumDTypes = 13;

int64_t SizeOf(DType dtype);                            // bytes per element; bool is 1
std::string_view DTypeName(DType dtype);                // "bool", "i8", ..., "f64"
std::optional<DType> ParseDType(std::string_view name);
bool IsFloat(DType dtype);                              // f16, bf16, f32, f64
bool IsInteger(DType dtype);                            // signed or unsigned; not bool
bool IsSigned(DType dtype);                             // signed integers and floats

inline constexpr int kMaxRank = 8;
// No dim, element count or byte size of a well-formed type exceeds this (2^48).
inline constexpr int64_t kMaxBytes = int64_t{1} << 48;

// Concrete dims, each >= 0, at most kMaxRank of them. A value type without allocation.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    MILLRACE_CHECK(dims.size() <= kMaxRank);
    for (int64_t d : dims) dims_[rank_++] = d;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  void push_back(int64_t d) {
    MILLRACE_CHECK(rank_ < kMaxRank);
    dims_[rank_++] = d;
  }

  bool operator==(const Shape& o) const {
    if (rank_ != o.rank_) return false;
    for (int i = 0; i < rank_; ++i) if (dims_[i] != o.dims_[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int8_t rank_ = 0;
};

// Product of the dims; nullopt when a dim is negative or the product exceeds kMaxBytes. A zero dim
// gives 0 whatever the others are, as long as each is itself within bounds.
std::optional<int64_t> CheckedNumElements(const Shape& shape);
// Same, for shapes that were already verified; CHECKs.
int64_t NumElements(const Shape& shape);
std::string ToString(const Shape& shape);  // "[8,784]", "[]"

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

std::optional<int64_t> CheckedByteSize(const TensorType& type);
int64_t ByteSize(const TensorType& type);       // of verified types; CHECKs
std::string ToString(const TensorType& type);   // "f32[8,784]", "i64[]"

// Row-major strides, in elements.
Shape DenseStrides(const Shape& shape);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_TYPES_H_
