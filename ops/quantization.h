// What quantized ops share. A quantized element q stands for (q - zero point) * scale; scale and
// zero point belong to the whole tensor or to a row, column or channel of it.
#ifndef MILLRACE_OPS_QUANTIZATION_H_
#define MILLRACE_OPS_QUANTIZATION_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "ops/op_def.h"

namespace millrace {

inline std::vector<DType> ByteTypes() { return {DType::kI8, DType::kU8}; }

// Ties to even; NaN becomes 0.
inline double RoundHalfEven(double x) { return std::isnan(x) ? 0 : std::nearbyint(x); }
// The nearest representable Q.
template <typename Q>
Q Saturate(double x) {
  return static_cast<Q>(std::clamp(x, static_cast<double>(std::numeric_limits<Q>::lowest()),
                                   static_cast<double>(std::numeric_limits<Q>::max())));
}

// A scale or zero point and the shape with which it broadcasts. `tensor` is null when the node
// omits it: 1 or 0.
struct QuantizationParam {
  const Tensor* tensor = nullptr;
  Shape shape;
};
// One element serves all; a list of them goes along the dim that has `after` others behind it;
// anything else broadcasts as it is.
Shape ParamShape(const Shape& param, int after);
QuantizationParam ParamOf(const ReferenceContext& c, size_t input, int after);
// BadInputError unless input i, if there, broadcasts to `to`.
absl::Status CheckParam(const InferContext& c, int i, std::string_view name, int after,
                        const Shape& to);

// Elements less their zero points.
std::vector<int64_t> Centered(const Tensor& x, const QuantizationParam& zero);

// y = round(sum * a * b / scale) + zero, saturated: sums of products of elements with scales a and
// b, as elements of a quantized y.
struct Requantization {
  QuantizationParam a, b, scale, zero;
};
absl::Status StoreQuantized(const std::vector<int64_t>& sums, const Requantization& q, Tensor& y);

}  // namespace millrace

#endif  // MILLRACE_OPS_QUANTIZATION_H_
