#include "ops/normalization.h"

namespace millrace {

AttrSpec EpsilonAttr() {
  return {.name = "epsilon",
          .kind = AttrKind::kFloat,
          .default_value = kNormalizationEpsilon,
          .doc = "added to the variance"};
}

Work NormalizationWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 8 * static_cast<double>(NumElements(query.inputs[0]->shape));
  return work;
}

Term Mean(const Term& x, std::span<const int64_t> axes) {
  Attrs attrs;
  attrs.Set("axes", std::vector<int64_t>(axes.begin(), axes.end()));
  attrs.Set("keepdims", true);
  return Apply("ReduceMean", {x}, std::move(attrs));
}

Term InverseRoot(const Term& variance, double epsilon) {
  return Scalar(variance, 1) / Apply("Sqrt", {variance + epsilon});
}

Standardized Standardize(const Term& x, std::span<const int64_t> axes, double epsilon) {
  const Term centered = x - Mean(x, axes);
  const Term r = InverseRoot(Mean(centered * centered, axes), epsilon);
  return {centered * r, r};
}

Term StandardizeGrad(const Standardized& s, const Term& g, std::span<const int64_t> axes) {
  return s.r * (g - Mean(g, axes) - s.z * Mean(g * s.z, axes));
}

}  // namespace millrace
