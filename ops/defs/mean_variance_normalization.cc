// MeanVarianceNormalization: X less its mean over some axes, divided by its deviation over them.
#include <algorithm>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/index_walk.h"
#include "ops/normalization.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// Added to the deviation, so that equal elements give 0.
constexpr double kDeviationEpsilon = 1e-9;

absl::StatusOr<std::vector<int>> MeanAxes(const Attrs& attrs, const Shape& x) {
  std::vector<int64_t> axes = {0, 2, 3};
  if (attrs.Find("axes") != nullptr) axes = attrs.Ints("axes");
  return NormalizeAxes(axes, x.rank());
}

absl::Status Infer(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(MeanAxes(c.attrs(), c.input(0).shape).status());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// X's dims as those that are normalized over, with X's strides, and those that are kept.
struct Axes {
  Shape kept, kept_strides, normalized, normalized_strides;
};

Axes AxesOf(const Shape& x, const std::vector<int>& axes) {
  const Shape strides = DenseStrides(x);
  Axes a;
  for (int d = 0; d < x.rank(); ++d) {
    const bool over = std::find(axes.begin(), axes.end(), d) != axes.end();
    (over ? a.normalized : a.kept).push_back(x[d]);
    (over ? a.normalized_strides : a.kept_strides).push_back(strides[d]);
  }
  return a;
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> axes, MeanAxes(c.attrs, shape));
  const Axes a = AxesOf(shape, axes);
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    WalkIndices<1>(a.kept, {a.kept_strides}, [&](const std::array<int64_t, 1>& start) {
      const auto each = [&](auto&& f) {
        WalkIndices<1>(a.normalized, {a.normalized_strides},
                       [&](const std::array<int64_t, 1>& at) { f(start[0] + at[0]); });
      };
      const Moments m = MomentsOf(NumElements(a.normalized), [&](auto&& f) {
        each([&](int64_t i) { f(static_cast<double>(x[i])); });
      });
      const double deviation = std::sqrt(m.variance) + kDeviationEpsilon;
      each([&](int64_t i) { y[i] = Narrow<T>((static_cast<double>(x[i]) - m.mean) / deviation); });
    });
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const absl::StatusOr<std::vector<int>> axes = MeanAxes(query.attrs, query.inputs[0]->shape);
  if (!axes.ok()) return {};
  return ElementwiseRulesExcept(query, *axes);
}

}  // namespace

OpDef MeanVarianceNormalizationOp() {
  return {.name = "MeanVarianceNormalization",
          .doc = "X less its mean over axes, divided by its deviation",
          .tier = 2,
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = {{.name = "axes",
                     .kind = AttrKind::kInts,
                     .doc = "the dims to normalize over; absent: 0, 2, 3"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kReduction,
          .infer = Infer,
          .reference = Reference,
          .sharding = Rules,
          .work = NormalizationWork};
}

}  // namespace millrace
