// Dropout: in training, each element of `data` is dropped with probability `ratio`, and those that
// stay are divided by the probability to stay. Else the identity.
//
// Random numbers are counter-based: whether element i stays depends on (seed, step, i) alone, so a
// node run again, or by another kernel, drops the same elements. Elements 4 k to 4 k + 3 go by the
// four words of block k of Philox4x32-10 with the seed as key and (k, step) as counter: word w as
// w / 2^32 in 24 bits, compared to ratio.
//
// So dY flows back through the very same op. A device that has a part of the data is told by
// `place` which: the first element along each dim, then the sizes of the whole; i is that of the
// whole.
#include "graph/strings.h"
#include "graph/weights.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

constexpr double kRatio = 0.5;

absl::Status Infer(InferContext& c) {
  constexpr std::string_view kNames[] = {"data", "ratio", "training_mode", "step"};
  for (int i = 1; i < 4; ++i) {
    if (!c.has_input(i) || NumElements(c.input(i).shape) == 1) continue;
    return BadInputError(
        StrCat("'", kNames[i], "' must have one element, but is ", ToString(c.input(i).shape)));
  }
  const int64_t rank = c.input(0).shape.rank();
  if (c.has_input(4) && NumElements(c.input(4).shape) != 2 * rank) {
    return BadInputError(
        StrCat("'place' must have ", 2 * rank, " elements, but is ", ToString(c.input(4).shape)));
  }
  c.set_output(0, c.input(0));
  c.set_output(1, {DType::kBool, c.input(0).shape});
  return absl::OkStatus();
}

struct Draw {
  bool training = false;
  double ratio = kRatio;
  uint64_t seed = 0, step = 0;
};

absl::StatusOr<Draw> DrawOf(const ReferenceContext& c) {
  const auto has = [&](size_t i) { return i < c.inputs.size() && c.inputs[i].has_data(); };
  Draw draw;
  draw.training = has(2) && c.inputs[2].AsInt64(0) != 0;
  if (has(1)) draw.ratio = c.inputs[1].AsDouble(0);
  draw.seed = static_cast<uint64_t>(c.attrs.Int("seed", 0));
  if (has(3)) draw.step = static_cast<uint64_t>(c.inputs[3].AsInt64(0));
  if (draw.training && !(draw.ratio >= 0 && draw.ratio < 1)) {
    return BadInputError(StrCat("Dropout: 'ratio' is ", draw.ratio, ", allowed is [0,1)"));
  }
  return draw;
}

std::array<uint32_t, 4> WordsOf(const Draw& draw, uint64_t block) {
  return Philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                     static_cast<uint32_t>(draw.step), static_cast<uint32_t>(draw.step >> 32)},
                    {static_cast<uint32_t>(draw.seed), static_cast<uint32_t>(draw.seed >> 32)});
}

// Numbers of the elements of a part among those of the whole, row by row.
class ElementNumbers {
 public:
  // `place` without data: the part is the whole.
  ElementNumbers(const Shape& part, const Tensor& place)
      : part_(part), begin_(part.rank(), 0), whole_(part) {
    for (int d = 0; d < part.rank() && place.has_data(); ++d) {
      begin_[d] = place.AsInt64(d);
      whole_[d] = place.AsInt64(part.rank() + d);
    }
  }

  int64_t row_size() const { return part_.rank() == 0 ? 1 : part_[part_.rank() - 1]; }

  uint64_t FirstOfRow(int64_t row) const {
    uint64_t number = 0, stride = 1;
    for (int d = part_.rank() - 1; d >= 0; --d) {
      int64_t at = begin_[d];
      if (d < part_.rank() - 1) {
        at += row % part_[d];
        row /= part_[d];
      }
      number += static_cast<uint64_t>(at) * stride;
      stride *= static_cast<uint64_t>(whole_[d]);
    }
    return number;
  }

 private:
  const Shape part_;
  std::vector<int64_t> begin_;
  Shape whole_;
};

absl::Status Reference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Draw draw, DrawOf(c));
  const ElementNumbers numbers(c.inputs[0].shape(), c.inputs.size() > 4 ? c.inputs[4] : Tensor());
  const size_t row_size = static_cast<size_t>(std::max<int64_t>(1, numbers.row_size()));
  const double scale = draw.training ? 1 / (1 - draw.ratio) : 1;
  const bool wants_mask = c.outputs.size() > 1 && c.outputs[1].has_data();
  bool* mask = wants_mask ? c.outputs[1].mutable_data<bool>().data() : nullptr;
  return VisitFloats(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> x = c.inputs[0].data<T>();
    T* y = c.outputs[0].has_data() ? c.outputs[0].mutable_data<T>().data() : nullptr;
    std::array<uint32_t, 4> words{};
    uint64_t number = 0;  // of element i in the whole
    for (size_t i = 0; i < x.size(); ++i, ++number) {
      const bool new_row = i % row_size == 0;
      if (new_row) number = numbers.FirstOfRow(static_cast<int64_t>(i / row_size));
      if (draw.training && (new_row || number % 4 == 0)) words = WordsOf(draw, number / 4);
      const double uniform = (words[number % 4] >> 8) * 0x1p-24;
      const bool stays = !draw.training || uniform >= draw.ratio;
      if (y != nullptr) y[i] = stays ? Narrow<T>(static_cast<double>(x[i]) * scale) : T(0);
      if (mask != nullptr) mask[i] = stays;
    }
    return absl::OkStatus();
  });
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0) || !f.has_output_grad(0)) return absl::OkStatus();
  std::vector<ValueId> operands = {f.output_grad(0).id};
  for (int i = 1; i < f.num_inputs(); ++i) {
    operands.push_back(f.has_input(i) ? f.input(i).id : ValueId());
  }
  const ValueId dx = c.builder.Op("Dropout", std::move(operands), f.attrs());
  f.set_grad(0, {&c.builder, dx, f.input_type(0).dtype});
  return absl::OkStatus();
}

// In training a part has to know which elements of the whole it has: by operand `place`. What knows
// that already is cut no further.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  if (query.inputs.size() > 4 && query.inputs[4].has_value()) return {};
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  const bool has_mask = query.outputs.size() > 1 && query.outputs[1].has_value();
  if (!has_mask) AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

}  // namespace

OpDef DropoutOp() {
  return {
      .name = "Dropout",
      .doc = "In training, elements dropped at random and the others scaled up",
      .inputs = {{.name = "data", .dtypes = FloatTypes(), .same_as = "T"},
                 {.name = "ratio",
                  .dtypes = FloatTypes(),
                  .optional = true,
                  .doc = "one element, the probability to drop one; absent: 0.5"},
                 {.name = "training_mode",
                  .dtypes = {DType::kBool},
                  .optional = true,
                  .doc = "one element; absent or false: the identity"},
                 {.name = "step",
                  .dtypes = {DType::kI64},
                  .optional = true,
                  .doc = "one element, changes what is drawn (not in ONNX); absent: 0"},
                 {.name = "place",
                  .dtypes = {DType::kI64},
                  .optional = true,
                  .doc = "where the data lie in a whole, and its dims (not in ONNX); absent: they "
                         "are the whole"}},
      .outputs = {{.name = "output", .same_as = "T"},
                  {.name = "mask", .optional = true, .doc = "which elements stayed"}},
      .attrs = {{.name = "seed",
                 .kind = AttrKind::kInt,
                 .default_value = int64_t{0},
                 .doc = "nodes of one seed draw alike"}},
      .traits = {.in_place = {{0, 0}}},
      .fusion = FusionClass::kElementwise,
      .infer = Infer,
      .reference = Reference,
      .gradient = Gradient,
      .sharding = Rules};
}

}  // namespace millrace
