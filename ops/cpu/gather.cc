// Gather along any axis, any element type: the operand is [outer, axis, row of bytes], and each
// index picks a row. Negative indices count from the end; others out of range are the input's
// fault.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/cpu/copy_rows.h"
#include "ops/cpu/kernel_families.h"

namespace millrace {
namespace {

struct GatherPlan {
  int64_t outer = 1;
  int64_t axis_size = 0;
  int64_t row_bytes = 0;
  int64_t count = 0;  // indices
};

template <typename Index>
class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const GatherPlan& plan) : plan_(plan) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* data = static_cast<const std::byte*>(args.inputs[0]);
    const auto* indices = static_cast<const Index*>(args.inputs[1]);
    auto* out = static_cast<std::byte*>(args.outputs[0]);
    for (int64_t i = 0; i < plan_.count; ++i) {
      int64_t index = static_cast<int64_t>(indices[i]);
      if (index < 0) index += plan_.axis_size;
      if (index < 0 || index >= plan_.axis_size) return OutOfRange(i, indices[i]);
      CopyRows(out + i * plan_.row_bytes, plan_.count * plan_.row_bytes,
               data + index * plan_.row_bytes, plan_.axis_size * plan_.row_bytes, plan_.row_bytes,
               plan_.outer);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status OutOfRange(int64_t i, int64_t index) const {
    return BadInputError(StrCat("Gather: index ", index, " (element ", i,
                                " of 'indices') is out of range [", -plan_.axis_size, ",",
                                plan_.axis_size, ")"));
  }

  const GatherPlan plan_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (query.op != "Gather" || !HasOutput(query, 0)) return std::nullopt;
  const DType index = query.inputs[1]->dtype;
  if (index != DType::kI32 && index != DType::kI64) return std::nullopt;
  return DenseVariant(query, "copy");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const NodeQuery& query = request.query;
  const Shape& shape = query.inputs[0]->shape;
  int64_t axis = query.attrs.Int("axis", 0);
  if (axis < 0) axis += shape.rank();
  const AxisView view = ViewAround(shape, static_cast<int>(axis));
  const GatherPlan plan{.outer = view.outer,
                        .axis_size = view.size,
                        .row_bytes = view.inner * SizeOf(query.inputs[0]->dtype),
                        .count = NumElements(query.inputs[1]->shape)};
  if (query.inputs[1]->dtype == DType::kI32) return std::make_unique<GatherKernel<int32_t>>(plan);
  return std::make_unique<GatherKernel<int64_t>>(plan);
}

}  // namespace

KernelFamily GatherFamily() { return {"copy", Match, Prepare}; }

}  // namespace millrace
