// Shape and Size: what a type says, as data.
#include <algorithm>

#include "ops/elementwise.h"

namespace millrace {
namespace {

// The dims [start, end) that are asked for; both count from the end when negative, and are clamped.
std::span<const int64_t> DimsOf(const Attrs& attrs, const Shape& shape) {
  const int64_t rank = shape.rank();
  const auto clamp = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamp(attrs.Int("start", 0)), end = clamp(attrs.Int("end", rank));
  return shape.dims().subspan(start, std::max<int64_t>(end - start, 0));
}

absl::Status InferShape(InferContext& c) {
  const auto count = static_cast<int64_t>(DimsOf(c.attrs(), c.input(0).shape).size());
  c.set_output(0, {DType::kI64, {count}});
  return absl::OkStatus();
}

absl::Status ShapeReference(const ReferenceContext& c) {
  const std::span<const int64_t> dims = DimsOf(c.attrs, c.inputs[0].shape());
  std::copy(dims.begin(), dims.end(), c.outputs[0].mutable_data<int64_t>().begin());
  return absl::OkStatus();
}

absl::Status InferSize(InferContext& c) {
  c.set_output(0, {DType::kI64, {}});
  return absl::OkStatus();
}

absl::Status SizeReference(const ReferenceContext& c) {
  c.outputs[0].mutable_data<int64_t>()[0] = c.inputs[0].num_elements();
  return absl::OkStatus();
}

Work NoWork(const NodeQuery&) { return {}; }

}  // namespace

OpDef ShapeOp() {
  return {.name = "Shape",
          .doc = "The dims of data, as a list",
          .inputs = {{.name = "data"}},
          .outputs = {{.name = "shape", .dtypes = {DType::kI64}}},
          .attrs = {{.name = "start",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{0},
                     .doc = "the first dim asked for; negative: from the end"},
                    {.name = "end",
                     .kind = AttrKind::kInt,
                     .doc = "the dim before which to stop; absent: all to the last"}},
          .type_only_inputs = {0},
          .sizes_by_rank = true,
          .infer = InferShape,
          .reference = ShapeReference,
          .work = NoWork};
}

OpDef SizeOp() {
  return {.name = "Size",
          .doc = "The number of elements of data",
          .inputs = {{.name = "data"}},
          .outputs = {{.name = "size", .dtypes = {DType::kI64}}},
          .type_only_inputs = {0},
          .infer = InferSize,
          .reference = SizeReference,
          .work = NoWork};
}

}  // namespace millrace
