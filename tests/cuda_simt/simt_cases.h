// All op cases in all element types, as queries of the cuda target.
#ifndef MILLRACE_TESTS_CUDA_SIMT_SIMT_CASES_H_
#define MILLRACE_TESTS_CUDA_SIMT_SIMT_CASES_H_

#include <optional>
#include <string>
#include <vector>

#include "graph/strings.h"
#include "ops/cuda/cuda_target.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"

namespace millrace {

struct SimtCase {
  std::string name;
  NodeQuery query;
  std::vector<Tensor> inputs;
};

// The case with its f64 operands in another type; nullopt when the op does not take it.
inline std::optional<SimtCase> SimtCaseOf(const optest::OpCase& c, DType dtype) {
  SimtCase result;
  result.name = StrCat(c.name, " as ", DTypeName(dtype));
  result.query = {c.op, c.attrs, {}, {}};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& t = c.inputs[i];
    const bool data = t.has_data() && t.dtype() == DType::kF64;
    result.inputs.push_back(data ? optest::Converted(t, dtype) : t);
    result.query.inputs.push_back(t.has_data() ? std::optional(result.inputs.back().type())
                                               : std::nullopt);
    if (!t.has_data() || t.dtype() != DType::kI64 || t.shape().rank() > 1) continue;
    std::vector<int64_t>& known = result.query.known[static_cast<int>(i)];
    for (int64_t e = 0; e < t.num_elements(); ++e) known.push_back(t.AsInt64(e));
  }
  result.query.outputs.assign(static_cast<size_t>(c.num_outputs), TensorType());
  const auto types = InferOutputs(result.query, result.inputs);
  if (!types.ok()) return std::nullopt;
  for (size_t k = 0; k < types->size(); ++k) result.query.outputs[k] = (*types)[k];
  return result;
}

// Of the cases whose number is `part` modulo `parts`; ops whose results are of unknown size left
// out.
inline std::vector<SimtCase> SimtCases(size_t part = 0, size_t parts = 1) {
  std::vector<SimtCase> cases;
  size_t at = 0;
  for (const optest::OpCase& each : optest::OpCases()) {
    if (at++ % parts != part || FindOp(each.op)->traits.host_call) continue;
    for (int d = 0; d < kNumDTypes; ++d) {
      if (auto c = SimtCaseOf(each, static_cast<DType>(d))) cases.push_back(*std::move(c));
    }
  }
  return cases;
}

// Of |a - b| / max(1, |b|): a few roundings of the type, or of f32 sums.
inline double SimtToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 4e-3;
    case DType::kBF16:
      return 3e-2;
    case DType::kF32:
      return 2e-5;
    case DType::kF64:
      return 1e-12;
    default:
      return 0;
  }
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIMT_SIMT_CASES_H_
