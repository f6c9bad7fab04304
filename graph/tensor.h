// Tensor: dense row-major data on the host. Copies share the bytes; treat shared bytes as constant
// (mutable_data is for whoever just made the tensor). Memory on a device is a runtime Buffer.
#ifndef MILLRACE_GRAPH_TENSOR_H_
#define MILLRACE_GRAPH_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "graph/half.h"
#include "graph/status.h"
#include "graph/types.h"

namespace millrace {

// DType of a C++ element type: bool, intN_t, uintN_t, Half, BFloat16, float, double.
template <typename T>
struct DTypeOf;
template <> struct DTypeOf<bool> { static constexpr DType value = DType::kBool; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::kI8; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::kU8; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = DType::kI16; };
template <> struct DTypeOf<uint16_t> { static constexpr DType value = DType::kU16; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::kI32; };
template <> struct DTypeOf<uint32_t> { static constexpr DType value = DType::kU32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::kI64; };
template <> struct DTypeOf<uint64_t> { static constexpr DType value = DType::kU64; };
template <> struct DTypeOf<Half> { static constexpr DType value = DType::kF16; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = DType::kBF16; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::kF32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::kF64; };

class Tensor {
 public:
  Tensor() = default;  // empty: has_data() is false

  // Uninitialized, 64-byte aligned; OutOfMemoryError when the host has not that much.
  static absl::StatusOr<Tensor> Allocate(const TensorType& type);
  // Zero-filled; aborts when memory is out. For tests and small constants.
  static Tensor Zeros(const TensorType& type);
  // Bytes owned by someone else (a mapped file); `owner` keeps them alive. size = ByteSize(type).
  static Tensor Wrap(const TensorType& type, std::shared_ptr<const std::byte> bytes);
  // From values in row-major order; values.size() must be the element count.
  template <typename T>
  static Tensor Of(const Shape& shape, std::initializer_list<T> values) {
    return FromSpan<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor FromSpan(const Shape& shape, std::span<const T> values) {
    Tensor t = Zeros({DTypeOf<T>::value, shape});
    MILLRACE_CHECK(static_cast<int64_t>(values.size()) == t.num_elements());
    std::copy(values.begin(), values.end(), t.mutable_data<T>().begin());
    return t;
  }
  template <typename T>
  static Tensor Scalar(T value) { return FromSpan<T>(Shape{}, std::span<const T>(&value, 1)); }

  bool has_data() const { return bytes_ != nullptr; }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t num_elements() const { return NumElements(type_.shape); }
  int64_t size_bytes() const { return ByteSize(type_); }

  const std::byte* bytes() const { return bytes_.get(); }
  std::byte* mutable_bytes() { return const_cast<std::byte*>(bytes_.get()); }
  template <typename T>
  std::span<const T> data() const {
    MILLRACE_CHECK(DTypeOf<T>::value == type_.dtype);
    return {reinterpret_cast<const T*>(bytes_.get()), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  std::span<T> mutable_data() {
    MILLRACE_CHECK(DTypeOf<T>::value == type_.dtype);
    return {reinterpret_cast<T*>(mutable_bytes()), static_cast<size_t>(num_elements())};
  }

  // The same bytes under another shape of as many elements.
  Tensor Reshaped(const Shape& shape) const;

  // Element i (row-major) widened: integers and bool to int64, floats to double.
  double AsDouble(int64_t i) const;
  int64_t AsInt64(int64_t i) const;  // floats are truncated
  // Writes element i, converting to the element type (float to integer saturates).
  void Set(int64_t i, double value);

 private:
  TensorType type_;
  std::shared_ptr<const std::byte> bytes_;
};

// Type, shape and every byte equal (so NaN equals the same NaN, and 0 differs from -0).
bool BitEqual(const Tensor& a, const Tensor& b);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_TENSOR_H_
