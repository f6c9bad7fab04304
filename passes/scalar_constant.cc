#include "passes/scalar_constant.h"

namespace millrace {

std::optional<double> ScalarConstantOf(const Graph& graph, ValueId value) {
  constexpr int64_t kMaxWhole = int64_t{1} << 53;
  if (!value.valid() || graph.value(value).kind != ValueKind::kConstant ||
      NumElements(graph.value(value).type.shape) != 1) {
    return std::nullopt;
  }
  const std::optional<Tensor> tensor = ConstantTensor(graph, value);
  if (!tensor.has_value()) return std::nullopt;
  if (!IsFloat(tensor->dtype())) {
    const int64_t whole = tensor->AsInt64(0);
    if (whole < -kMaxWhole || whole > kMaxWhole) return std::nullopt;
  }
  return tensor->AsDouble(0);
}

}  // namespace millrace
