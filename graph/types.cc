#include "graph/types.h"

#include "graph/strings.h"

namespace millrace {
namespace {

struct DTypeInfo {
  std::string_view name;
  int64_t size;
};

constexpr DTypeInfo kDTypes[kNumDTypes] = {
    {"bool", 1}, {"i8", 1},  {"u8", 1},  {"i16", 2},  {"u16", 2}, {"i32", 4}, {"u32", 4},
    {"i64", 8},  {"u64", 8}, {"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8},
};

}  // namespace

int64_t SizeOf(DType dtype) { return kDTypes[static_cast<int>(dtype)].size; }

std::string_view DTypeName(DType dtype) { return kDTypes[static_cast<int>(dtype)].name; }

std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool IsFloat(DType dtype) { return dtype >= DType::kF16; }
bool IsInteger(DType dtype) { return dtype != DType::kBool && !IsFloat(dtype); }
bool IsSigned(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return true;
    default:
      return IsFloat(dtype);
  }
}

std::optional<int64_t> CheckedNumElements(const Shape& shape) {
  bool has_zero = false;
  for (int64_t d : shape) {
    if (d < 0 || d > kMaxBytes) return std::nullopt;
    has_zero |= d == 0;
  }
  if (has_zero) return 0;
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d > kMaxBytes / n) return std::nullopt;
    n *= d;
  }
  return n;
}

int64_t NumElements(const Shape& shape) {
  const std::optional<int64_t> n = CheckedNumElements(shape);
  MILLRACE_CHECK(n.has_value());
  return *n;
}

std::string ToString(const Shape& shape) {
  std::string s = "[";
  for (int i = 0; i < shape.rank(); ++i) StrAppend(&s, i > 0 ? "," : "", shape[i]);
  s += "]";
  return s;
}

std::optional<int64_t> CheckedByteSize(const TensorType& type) {
  const std::optional<int64_t> n = CheckedNumElements(type.shape);
  if (!n.has_value() || *n > kMaxBytes / SizeOf(type.dtype)) return std::nullopt;
  return *n * SizeOf(type.dtype);
}

int64_t ByteSize(const TensorType& type) {
  const std::optional<int64_t> n = CheckedByteSize(type);
  MILLRACE_CHECK(n.has_value());
  return *n;
}

std::string ToString(const TensorType& type) {
  return StrCat(DTypeName(type.dtype), ToString(type.shape));
}

Shape DenseStrides(const Shape& shape) {
  Shape strides = shape;
  // Unsigned: beside a dim of 0 the others may overflow, and then no stride is ever used.
  uint64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= shape[i] > 0 ? static_cast<uint64_t>(shape[i]) : 1;
  }
  return strides;
}

}  // namespace millrace
