// ReverseSequence: in each sequence of a batch, the first elements, as many as `sequence_lens`
// says, in reverse order. It is its own inverse, and its own gradient.
#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dim_maps.h"
#include "ops/elementwise.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// Dims 0 and 1, one of which is the batch.
struct Axes {
  int batch = 1, time = 0;
};

absl::StatusOr<Axes> AxesOf(const Attrs& attrs) {
  const int64_t batch = attrs.Int("batch_axis", 1), time = attrs.Int("time_axis", 0);
  if (batch + time == 1 && (batch == 0 || batch == 1)) {
    return Axes{static_cast<int>(batch), static_cast<int>(time)};
  }
  return BadInputError(
      StrCat("'batch_axis' is ", batch, " and 'time_axis' ", time, ": one must be 0, the other 1"));
}

absl::Status Infer(InferContext& c) {
  const Shape &x = c.input(0).shape, &lens = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Axes axes, AxesOf(c.attrs()));
  if (x.rank() < 2) {
    return BadInputError(StrCat("the input must have rank 2 or more, but has rank ", x.rank()));
  }
  if (lens != Shape{x[axes.batch]}) {
    return BadInputError(StrCat("'sequence_lens' must be [", x[axes.batch],
                                "], one for each sequence, but is ", ToString(lens)));
  }
  return InferLikeInput(c);
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  const Shape& shape = x.shape();
  if (x.num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Axes axes, AxesOf(c.attrs));
  const int64_t steps = shape[axes.time];
  const int64_t unit = x.size_bytes() / (shape[0] * shape[1]);
  const auto at = [&](int64_t sequence, int64_t step) {
    return (axes.batch == 0 ? sequence * steps + step : step * shape[axes.batch] + sequence) * unit;
  };
  for (int64_t b = 0; b < shape[axes.batch]; ++b) {
    const int64_t length = c.inputs[1].AsInt64(b);
    if (length < 0 || length > steps) {
      return BadInputError(StrCat("length ", length, " (element ", b,
                                  " of 'sequence_lens') is not in [0,", steps, "]"));
    }
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t from = t < length ? length - 1 - t : t;
      std::memcpy(c.outputs[0].mutable_bytes() + at(b, t), x.bytes() + at(b, from), unit);
    }
  }
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) {
    f.set_grad(0, Apply("ReverseSequence", {f.output_grad(0), f.input(1)}, f.attrs()));
  }
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<Axes> axes = AxesOf(query.attrs);
  if (!axes.ok()) return {};
  std::vector<bool> kept(shape.rank(), true);
  kept[0] = kept[1] = false;
  std::vector<ShardingRule> rules = KeptDimRules(query, kept);
  if (Divisible(shape, axes->batch)) {
    rules.push_back(
        {{ShardDim(axes->batch), ShardDim(0)}, {ShardDim(axes->batch)}, "split the batch"});
  }
  return rules;
}

}  // namespace

OpDef ReverseSequenceOp() {
  return {.name = "ReverseSequence",
          .doc = "The first elements of each sequence in reverse order",
          .tier = 2,
          .inputs = {{.name = "input", .same_as = "T"},
                     {.name = "sequence_lens",
                      .dtypes = {DType::kI64},
                      .doc = "how many elements of each sequence are reversed"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = {{.name = "batch_axis",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{1},
                     .doc = "0 or 1"},
                    {.name = "time_axis",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{0},
                     .doc = "0 or 1"}},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
