// Tensors that follow from a shape: ConstantOfShape, all elements alike, and EyeLike, ones on a
// diagonal.
#include <algorithm>
#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

AttrSpec DTypeAttr(std::string doc, std::optional<AttrValue> otherwise) {
  AttrSpec attr{.name = "dtype",
                .kind = AttrKind::kString,
                .default_value = std::move(otherwise),
                .doc = std::move(doc)};
  for (int i = 0; i < kNumDTypes; ++i) {
    attr.choices.emplace_back(DTypeName(static_cast<DType>(i)));
  }
  return attr;
}

absl::Status InferConstant(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ConstantInts(c, 0, "input", kMaxRank));
  for (int64_t d : dims) {
    if (d < 0) return BadInputError(StrCat("the shape has a dim of ", d));
  }
  c.set_output(0, {*ParseDType(c.attrs().String("dtype", "f32")), Shape(dims)});
  return absl::OkStatus();
}

absl::Status ConstantReference(const ReferenceContext& c) {
  Tensor& out = c.outputs[0];
  Tensor value = Tensor::Zeros({out.dtype(), {}});
  value.Set(0, c.attrs.Float("value", 0));
  const int64_t size = SizeOf(out.dtype());
  for (int64_t at = 0; at < out.size_bytes(); at += size) {
    std::memcpy(out.mutable_bytes() + at, value.bytes(), size);
  }
  return absl::OkStatus();
}

absl::Status InferEye(InferContext& c) {
  const TensorType& input = c.input(0);
  if (input.shape.rank() != 2) {
    return BadInputError(StrCat("the input must have rank 2, but has rank ", input.shape.rank()));
  }
  const std::string dtype = c.attrs().String("dtype", DTypeName(input.dtype));
  c.set_output(0, {*ParseDType(dtype), input.shape});
  return absl::OkStatus();
}

absl::Status EyeReference(const ReferenceContext& c) {
  Tensor& out = c.outputs[0];
  const int64_t rows = out.shape()[0], columns = out.shape()[1], k = c.attrs.Int("k", 0);
  std::memset(out.mutable_bytes(), 0, out.size_bytes());
  if (k < -rows || k > columns) return absl::OkStatus();
  for (int64_t row = std::max<int64_t>(0, -k); row < std::min(rows, columns - k); ++row) {
    out.Set(row * columns + row + k, 1);
  }
  return absl::OkStatus();
}

Work WriteWork(const NodeQuery& query) {
  return {.flops = 0, .bytes = static_cast<double>(ByteSize(*query.outputs[0]))};
}

}  // namespace

OpDef ConstantOfShapeOp() {
  return {.name = "ConstantOfShape",
          .doc = "A tensor of a given shape with all elements alike",
          .inputs = {{.name = "input", .dtypes = {DType::kI64}, .doc = "the shape"}},
          .outputs = {{.name = "output"}},
          .attrs = {{.name = "value",
                     .kind = AttrKind::kFloat,
                     .default_value = 0.0,
                     .doc = "the value of each element"},
                    DTypeAttr("the element type", "f32")},
          .traits = {.host_inputs = {0}},
          .infer = InferConstant,
          .reference = ConstantReference,
          .work = WriteWork};
}

OpDef EyeLikeOp() {
  return {.name = "EyeLike",
          .doc = "A matrix in the shape of another, ones on a diagonal, zeros elsewhere",
          .tier = 2,
          .inputs = {{.name = "input", .doc = "only its type matters"}},
          .outputs = {{.name = "output"}},
          .attrs = {DTypeAttr("the element type; absent: that of the input", std::nullopt),
                    {.name = "k",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{0},
                     .doc = "the diagonal: 0 is the main one, 1 the one above"}},
          .type_only_inputs = {0},
          .infer = InferEye,
          .reference = EyeReference,
          .work = WriteWork};
}

}  // namespace millrace
