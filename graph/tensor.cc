#include "graph/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr size_t kAlignment = 64;

std::shared_ptr<const std::byte> AllocateBytes(int64_t size) {
  const size_t rounded = (static_cast<size_t>(size) + kAlignment) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return nullptr;
  return {static_cast<const std::byte*>(memory),
          [](const std::byte* p) { std::free(const_cast<std::byte*>(p)); }};
}

// Calls f with a pointer to the elements, of their C++ type.
template <typename F>
auto Visit(DType dtype, const std::byte* bytes, F f) {
  switch (dtype) {
    case DType::kBool:
      return f(reinterpret_cast<const uint8_t*>(bytes));
    case DType::kI8:
      return f(reinterpret_cast<const int8_t*>(bytes));
    case DType::kU8:
      return f(reinterpret_cast<const uint8_t*>(bytes));
    case DType::kI16:
      return f(reinterpret_cast<const int16_t*>(bytes));
    case DType::kU16:
      return f(reinterpret_cast<const uint16_t*>(bytes));
    case DType::kI32:
      return f(reinterpret_cast<const int32_t*>(bytes));
    case DType::kU32:
      return f(reinterpret_cast<const uint32_t*>(bytes));
    case DType::kI64:
      return f(reinterpret_cast<const int64_t*>(bytes));
    case DType::kU64:
      return f(reinterpret_cast<const uint64_t*>(bytes));
    case DType::kF16:
      return f(reinterpret_cast<const Half*>(bytes));
    case DType::kBF16:
      return f(reinterpret_cast<const BFloat16*>(bytes));
    case DType::kF32:
      return f(reinterpret_cast<const float*>(bytes));
    case DType::kF64:
      return f(reinterpret_cast<const double*>(bytes));
  }
  MILLRACE_CHECK(false);
  return f(reinterpret_cast<const double*>(bytes));
}

template <typename T>
T Saturate(double v) {
  if (std::isnan(v)) return 0;
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest());
  constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
  if (v <= kLow) return std::numeric_limits<T>::lowest();
  if (v >= kHigh) return std::numeric_limits<T>::max();
  return static_cast<T>(v);
}

}  // namespace

absl::StatusOr<Tensor> Tensor::Allocate(const TensorType& type) {
  const std::optional<int64_t> size = CheckedByteSize(type);
  std::shared_ptr<const std::byte> bytes = size ? AllocateBytes(*size) : nullptr;
  if (bytes == nullptr) {
    return OutOfMemoryError(StrCat("the host has no memory for a tensor ", ToString(type)));
  }
  return Wrap(type, std::move(bytes));
}

Tensor Tensor::Zeros(const TensorType& type) {
  absl::StatusOr<Tensor> tensor = Allocate(type);
  MILLRACE_CHECK(tensor.ok());
  std::memset(tensor->mutable_bytes(), 0, tensor->size_bytes());
  return *std::move(tensor);
}

Tensor Tensor::Wrap(const TensorType& type, std::shared_ptr<const std::byte> bytes) {
  Tensor tensor;
  tensor.type_ = type;
  tensor.bytes_ = std::move(bytes);
  return tensor;
}

Tensor Tensor::Reshaped(const Shape& shape) const {
  MILLRACE_CHECK(NumElements(shape) == num_elements());
  return Wrap({type_.dtype, shape}, bytes_);
}

double Tensor::AsDouble(int64_t i) const {
  return Visit(type_.dtype, bytes_.get(), [i](const auto* p) { return static_cast<double>(p[i]); });
}

int64_t Tensor::AsInt64(int64_t i) const {
  return Visit(type_.dtype, bytes_.get(), [i](const auto* p) -> int64_t {
    using T = std::decay_t<decltype(*p)>;
    if constexpr (std::is_integral_v<T>) {
      return static_cast<int64_t>(p[i]);
    } else {
      return Saturate<int64_t>(static_cast<double>(p[i]));
    }
  });
}

void Tensor::Set(int64_t i, double value) {
  if (type_.dtype == DType::kBool) {
    reinterpret_cast<uint8_t*>(mutable_bytes())[i] = value != 0;
    return;
  }
  Visit(type_.dtype, bytes_.get(), [i, value](const auto* p) {
    using T = std::decay_t<decltype(*p)>;
    auto* element = const_cast<T*>(p + i);
    if constexpr (std::is_integral_v<T>) {
      *element = Saturate<T>(value);
    } else {
      *element = T(static_cast<float>(value));
      if constexpr (std::is_same_v<T, double>) *element = value;
    }
  });
}

bool BitEqual(const Tensor& a, const Tensor& b) {
  if (a.has_data() != b.has_data() || a.type() != b.type()) return false;
  return !a.has_data() || std::memcmp(a.bytes(), b.bytes(), a.size_bytes()) == 0;
}

}  // namespace millrace
