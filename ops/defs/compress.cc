// Compress keeps the slices along an axis, or the elements, where a condition holds.
#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

struct Kept {
  AxisView view;
  Shape shape;  // of the result, but for the size of `axis`
  int axis = 0;
};

absl::StatusOr<Kept> KeptOf(const Attrs& attrs, const Shape& x) {
  Kept kept;
  kept.shape = x;
  if (attrs.Find("axis") != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(kept.axis, NormalizeAxis(attrs.Int("axis", 0), x.rank()));
    kept.view = ViewAround(x, kept.axis);
  } else {
    kept.view = {.outer = 1, .size = NumElements(x), .inner = 1};
    kept.shape = {kept.view.size};
  }
  return kept;
}

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(Kept kept, KeptOf(c.attrs(), c.input(0).shape));
  const Shape& condition = c.input(1).shape;
  if (condition.rank() != 1) return BadInputError("the condition must have rank 1");
  if (condition[0] > kept.view.size) {
    return BadInputError(StrCat("the condition has ", condition[0], " elements for ",
                                kept.view.size, " to choose from"));
  }
  kept.shape[kept.axis] = condition[0];
  c.set_output(0, {c.input(0).dtype, kept.shape}, /*bounded=*/true);
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  MILLRACE_ASSIGN_OR_RETURN(Kept kept, KeptOf(c.attrs, x.shape()));
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < c.inputs[1].num_elements(); ++i) {
    if (c.inputs[1].AsInt64(i) != 0) chosen.push_back(i);
  }
  kept.shape[kept.axis] = static_cast<int64_t>(chosen.size());
  MILLRACE_ASSIGN_OR_RETURN(Tensor y, Tensor::Allocate({x.dtype(), kept.shape}));
  const int64_t slice = kept.view.inner * SizeOf(x.dtype());
  std::byte* to = y.mutable_bytes();
  for (int64_t o = 0; o < kept.view.outer; ++o) {
    for (int64_t i : chosen) {
      std::memcpy(to, x.bytes() + (o * kept.view.size + i) * slice, static_cast<size_t>(slice));
      to += slice;
    }
  }
  c.outputs[0] = std::move(y);
  return absl::OkStatus();
}

}  // namespace

OpDef CompressOp() {
  return {.name = "Compress",
          .doc = "The slices along an axis, or the elements, where the condition holds",
          .tier = 2,
          .inputs = {{.name = "input", .same_as = "T"},
                     {.name = "condition",
                      .dtypes = {DType::kBool},
                      .doc = "from the first on; what it does not reach is left out"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {{.name = "axis", .kind = AttrKind::kInt, .doc = "absent: elements"}},
          .traits = {.host_call = true},
          .infer = Infer,
          .reference = Reference};
}

}  // namespace millrace
