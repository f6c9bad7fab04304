#include "ops/doubles.h"

#include <algorithm>

#include "ops/reference_dispatch.h"

namespace millrace {

const Tensor* OptionalOperand(const ReferenceContext& c, size_t i) {
  return i < c.inputs.size() && c.inputs[i].has_data() ? &c.inputs[i] : nullptr;
}

bool HasResult(const ReferenceContext& c, size_t i) {
  return i < c.outputs.size() && c.outputs[i].has_data();
}

std::vector<double> ToDoubles(const Tensor& tensor) {
  std::vector<double> values(tensor.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.AsDouble(static_cast<int64_t>(i));
  return values;
}

absl::Status StoreDoubles(const std::vector<double>& values, const ReferenceContext& c, size_t i) {
  if (!HasResult(c, i)) return absl::OkStatus();
  return VisitFloats(c.outputs[i].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> to = c.outputs[i].mutable_data<T>();
    MILLRACE_CHECK(to.size() == values.size());
    std::transform(values.begin(), values.end(), to.begin(), [](double x) { return Narrow<T>(x); });
    return absl::OkStatus();
  });
}

}  // namespace millrace
