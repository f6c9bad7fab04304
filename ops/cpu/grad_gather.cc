// grad.Gather in f32: zeros, then each slice of dY added where it was picked from. The operand is
// [outer, axis, row]; members of the team own ranges of its rows, fill them and scan all indices
// for those that are theirs, so sums are in the order of the indices for any team.
#include <algorithm>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

template <typename Index>
class GradGatherKernel final : public Kernel {
 public:
  GradGatherKernel(const AxisView& view, int64_t count, int threads)
      : view_(view), count_(count), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* dy = static_cast<const float*>(args.inputs[0]);
    const auto* indices = static_cast<const Index*>(args.inputs[1]);
    auto* dx = static_cast<float*>(args.outputs[0]);
    for (int64_t i = 0; i < count_; ++i) {
      if (indices[i] < -view_.size || indices[i] >= view_.size) {
        return BadInputError(StrCat("grad.Gather: index ", indices[i], " (element ", i,
                                    " of 'indices') is out of range [", -view_.size, ",",
                                    view_.size, ")"));
      }
    }
    const int64_t rows = view_.outer * view_.size;
    ParallelFor(threads_, rows, rows * view_.inner, 1, [&](int64_t begin, int64_t end) {
      std::fill(dx + begin * view_.inner, dx + end * view_.inner, 0.0f);
      for (int64_t o = 0; o < view_.outer; ++o) {
        AddSlices(dy + o * count_ * view_.inner, indices, dx, o * view_.size, begin, end);
      }
    });
    return absl::OkStatus();
  }

 private:
  // Slices for rows [first, first + axis_size), of which [begin, end) are to be done.
  void AddSlices(const float* dy, const Index* indices, float* dx, int64_t first, int64_t begin,
                 int64_t end) const {
    if (first >= end || first + view_.size <= begin) return;
    for (int64_t i = 0; i < count_; ++i) {
      const auto index = static_cast<int64_t>(indices[i]);
      const int64_t row = first + (index < 0 ? index + view_.size : index);
      if (row < begin || row >= end) continue;
      const float* from = dy + i * view_.inner;
      float* to = dx + row * view_.inner;
      for (int64_t e = 0; e < view_.inner; ++e) to[e] += from[e];
    }
  }

  const AxisView view_;  // of the result
  const int64_t count_;  // indices
  const int threads_;
};

std::optional<KernelVariant> MatchGradGather(const NodeQuery& query, int) {
  if (query.op != "grad.Gather" || !HasOutput(query, 0)) return std::nullopt;
  if (query.inputs[0]->dtype != DType::kF32) return std::nullopt;
  const DType index = query.inputs[1]->dtype;
  if (index != DType::kI32 && index != DType::kI64) return std::nullopt;
  return DenseVariant(query, "loop");
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareGradGather(const KernelRequest& request) {
  const NodeQuery& query = request.query;
  const Shape& shape = query.outputs[0]->shape;
  int64_t axis = query.attrs.Int("axis", 0);
  if (axis < 0) axis += shape.rank();
  const AxisView view = ViewAround(shape, static_cast<int>(axis));
  const int64_t count = NumElements(query.inputs[1]->shape);
  if (query.inputs[1]->dtype == DType::kI32) {
    return std::make_unique<GradGatherKernel<int32_t>>(view, count, request.threads);
  }
  return std::make_unique<GradGatherKernel<int64_t>>(view, count, request.threads);
}

}  // namespace

KernelFamily GradGatherFamily() { return {"loop", MatchGradGather, PrepareGradGather}; }

}  // namespace millrace
