#include "ops/op_def.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape& shape = c.input(0).shape;
  const std::optional<int64_t> count = CheckedNumElements(shape);
  if (!count.has_value()) return BadInputError("the input is too large");
  c.set_output(0, {DType::kI64, {shape.rank(), *count}}, /*bounded=*/true);
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  std::vector<int64_t> found;  // row-major positions
  MILLRACE_RETURN_IF_ERROR(VisitAll(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> data = x.data<T>();
    for (size_t i = 0; i < data.size(); ++i) {
      if (static_cast<ComputeType<T>>(data[i]) != 0) found.push_back(static_cast<int64_t>(i));
    }
    return absl::OkStatus();
  }));

  const int64_t count = static_cast<int64_t>(found.size());
  MILLRACE_ASSIGN_OR_RETURN(Tensor result,
                            Tensor::Allocate({DType::kI64, {x.shape().rank(), count}}));
  const std::span<int64_t> to = result.mutable_data<int64_t>();
  const Shape strides = DenseStrides(x.shape());
  for (int d = 0; d < x.shape().rank(); ++d) {
    for (int64_t i = 0; i < count; ++i) to[d * count + i] = found[i] / strides[d] % x.shape()[d];
  }
  c.outputs[0] = std::move(result);
  return absl::OkStatus();
}

}  // namespace

OpDef NonZeroOp() {
  return {.name = "NonZero",
          .doc = "Positions of the elements that are not zero: one row per dim, in row-major order",
          .inputs = {{.name = "X"}},
          .outputs = {{.name = "Y", .doc = "i64[rank,N]; N is known only at run time"}},
          .traits = {.host_call = true},
          .infer = Infer,
          .reference = Reference};
}

}  // namespace millrace
