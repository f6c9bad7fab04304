// Range: start, start + delta, ... up to and without limit.
#include "graph/strings.h"
#include "ops/op_def.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

// How many steps there are. Of integers modulo 2^64, so that no difference overflows.
absl::StatusOr<int64_t> CountOf(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return BadInputError("'delta' is 0");
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit);
  const uint64_t distance = delta > 0 ? to - from : from - to;
  const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
  const uint64_t count = (distance - 1) / step + 1;
  if (count > static_cast<uint64_t>(kMaxBytes)) return BadInputError("the result is too large");
  return static_cast<int64_t>(count);
}

absl::StatusOr<int64_t> CountOf(double start, double limit, double delta) {
  if (delta == 0) return BadInputError("'delta' is 0");
  const double count = std::ceil((limit - start) / delta);
  if (std::isnan(count)) return BadInputError("'start', 'limit' or 'delta' is no number");
  if (count > static_cast<double>(kMaxBytes)) return BadInputError("the result is too large");
  return std::max<int64_t>(0, static_cast<int64_t>(std::max(count, 0.0)));
}

absl::Status Infer(InferContext& c) {
  static constexpr std::string_view kNames[] = {"start", "limit", "delta"};
  Tensor operands[3];
  for (int i = 0; i < 3; ++i) {
    if (NumElements(c.input(i).shape) != 1) {
      return BadInputError(
          StrCat("'", kNames[i], "' must have one element, but is ", ToString(c.input(i).shape)));
    }
    const std::optional<Tensor> known = c.constant(i);
    if (!known.has_value()) {
      return BadInputError(
          StrCat("'", kNames[i], "' must be known while planning, but ", c.why_unknown(i)));
    }
    operands[i] = *known;
  }
  const auto& [start, limit, delta] = operands;
  const DType dtype = c.input(0).dtype;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t count,
                            IsFloat(dtype)
                                ? CountOf(start.AsDouble(0), limit.AsDouble(0), delta.AsDouble(0))
                                : CountOf(start.AsInt64(0), limit.AsInt64(0), delta.AsInt64(0)));
  c.set_output(0, {dtype, {count}});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  return VisitNumeric(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Sum = SumType<T>;
    const auto start = static_cast<Sum>(c.inputs[0].data<T>()[0]);
    const auto delta = static_cast<Sum>(c.inputs[2].data<T>()[0]);
    const std::span<T> to = c.outputs[0].mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(start + static_cast<Sum>(i) * delta);
    return absl::OkStatus();
  });
}

}  // namespace

OpDef RangeOp() {
  const auto scalar = [](std::string name, std::string doc) {
    return OperandSpec{.name = std::move(name),
                       .dtypes = {DType::kI16, DType::kI32, DType::kI64, DType::kF16, DType::kBF16,
                                  DType::kF32, DType::kF64},
                       .same_as = "T",
                       .doc = std::move(doc)};
  };
  return {.name = "Range",
          .doc = "Numbers start, start + delta, ...",
          .inputs = {scalar("start", "the first one"), scalar("limit", "before which to stop"),
                     scalar("delta", "from one to the next; not 0")},
          .outputs = {{.name = "output", .same_as = "T"}},
          .traits = {.host_inputs = {0, 1, 2}},
          .infer = Infer,
          .reference = Reference};
}

}  // namespace millrace
