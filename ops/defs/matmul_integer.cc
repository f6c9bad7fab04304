// MatMulInteger: the product of matrices of bytes, less their zero points, in i32. QLinearMatMul:
// the same, scaled to bytes again. A's zero point and scale may change by row, B's by column.
#include "ops/product.h"
#include "ops/quantization.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

// Dims behind the one that a list of zero points or scales goes along.
constexpr int kRows = 1, kColumns = 0;

std::vector<int64_t> Multiply(const Product& p, const std::vector<int64_t>& a,
                              const std::vector<int64_t>& b) {
  std::vector<int64_t> sums(NumElements(p.result));
  if (sums.empty()) return sums;
  ForEachMatrix(p, [&](int64_t of_a, int64_t of_b, int64_t of_out) {
    for (int64_t i = 0; i < p.m; ++i) {
      int64_t* row = sums.data() + (of_out * p.m + i) * p.n;
      for (int64_t l = 0; l < p.k; ++l) {
        const int64_t x = a[(of_a * p.m + i) * p.k + l];
        for (int64_t j = 0; j < p.n; ++j) row[j] += x * b[(of_b * p.k + l) * p.n + j];
      }
    }
  });
  return sums;
}

absl::Status Infer(InferContext& c) {
  const Shape &a = c.input(0).shape, &b = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Product p, ProductOf(a, b));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 2, "a_zero_point", kRows, a));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 3, "b_zero_point", kColumns, b));
  c.set_output(0, {DType::kI32, p.result});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Product p, ProductOf(c.inputs[0].shape(), c.inputs[1].shape()));
  const std::vector<int64_t> sums = Multiply(p, Centered(c.inputs[0], ParamOf(c, 2, kRows)),
                                             Centered(c.inputs[1], ParamOf(c, 3, kColumns)));
  const std::span<int32_t> y = c.outputs[0].mutable_data<int32_t>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(sums[i]);
  return absl::OkStatus();
}

absl::Status InferQLinear(InferContext& c) {
  const Shape &a = c.input(0).shape, &b = c.input(3).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Product p, ProductOf(a, b));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 2, "a_zero_point", kRows, a));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 5, "b_zero_point", kColumns, b));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 1, "a_scale", kRows, p.result));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 4, "b_scale", kColumns, p.result));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 6, "y_scale", kRows, p.result));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 7, "y_zero_point", kRows, p.result));
  c.set_output(0, {c.input(7).dtype, p.result});
  return absl::OkStatus();
}

absl::Status QLinearReference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Product p, ProductOf(c.inputs[0].shape(), c.inputs[3].shape()));
  const std::vector<int64_t> sums = Multiply(p, Centered(c.inputs[0], ParamOf(c, 2, kRows)),
                                             Centered(c.inputs[3], ParamOf(c, 5, kColumns)));
  return StoreQuantized(
      sums,
      {ParamOf(c, 1, kRows), ParamOf(c, 4, kColumns), ParamOf(c, 6, kRows), ParamOf(c, 7, kRows)},
      c.outputs[0]);
}

}  // namespace

OpDef MatMulIntegerOp() {
  return {.name = "MatMulInteger",
          .doc = "The product of matrices of bytes, in i32",
          .tier = 2,
          .inputs = {{.name = "A", .dtypes = ByteTypes(), .same_as = "A"},
                     {.name = "B", .dtypes = ByteTypes(), .same_as = "B"},
                     {.name = "a_zero_point",
                      .dtypes = ByteTypes(),
                      .optional = true,
                      .same_as = "A",
                      .doc = "one, or one a row; absent: 0"},
                     {.name = "b_zero_point",
                      .dtypes = ByteTypes(),
                      .optional = true,
                      .same_as = "B",
                      .doc = "one, or one a column; absent: 0"}},
          .outputs = {{.name = "Y"}},
          .fusion = FusionClass::kContraction,
          .infer = Infer,
          .reference = Reference};
}

OpDef QLinearMatMulOp() {
  const std::vector<DType> bytes = ByteTypes(), floats = {DType::kF32};
  return {.name = "QLinearMatMul",
          .doc = "The product of quantized matrices, quantized",
          .tier = 2,
          .inputs = {{.name = "a", .dtypes = bytes, .same_as = "A"},
                     {.name = "a_scale", .dtypes = floats, .doc = "one, or one a row"},
                     {.name = "a_zero_point", .dtypes = bytes, .same_as = "A"},
                     {.name = "b", .dtypes = bytes, .same_as = "B"},
                     {.name = "b_scale", .dtypes = floats, .doc = "one, or one a column"},
                     {.name = "b_zero_point", .dtypes = bytes, .same_as = "B"},
                     {.name = "y_scale", .dtypes = floats, .doc = "one, or one a row"},
                     {.name = "y_zero_point", .dtypes = bytes}},
          .outputs = {{.name = "y", .doc = "in the type of y_zero_point"}},
          .fusion = FusionClass::kContraction,
          .infer = InferQLinear,
          .reference = QLinearReference};
}

}  // namespace millrace
