// Random tensors. Numbers are counter-based (graph/weights.h): element i is a function of (seed,
// step, i) alone, whoever computes it and in whatever order, and the elements of step 0 are those
// of initial data of the seed. `step`, one number in memory, makes each run draw anew; without it a
// node draws the same in every run, and nodes of one seed draw alike.
#include <cmath>
#include <limits>

#include "graph/strings.h"
#include "graph/weights.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

// Element i of the stream, with the node's step in operand `step_operand`.
class Stream {
 public:
  Stream(const ReferenceContext& c, size_t step_operand)
      : seed_(static_cast<uint64_t>(c.attrs.Int("seed", 0))) {
    if (step_operand < c.inputs.size() && c.inputs[step_operand].has_data()) {
      step_ = static_cast<uint64_t>(c.inputs[step_operand].AsInt64(0));
    }
  }
  double Uniform(int64_t i) const { return UniformAt(seed_, static_cast<uint64_t>(i), step_); }
  double Normal(int64_t i) const { return NormalAt(seed_, static_cast<uint64_t>(i), step_); }

 private:
  uint64_t seed_, step_ = 0;
};

absl::Status CheckStep(const InferContext& c, int operand) {
  if (!c.has_input(operand) || CheckedNumElements(c.input(operand).shape) == 1) {
    return absl::OkStatus();
  }
  return BadInputError(StrCat("'step' must have one element, but is ", ToString(c.input(operand))));
}

OperandSpec StepOperand() {
  return {.name = "step",
          .dtypes = {DType::kI64},
          .optional = true,
          .doc = "one element, changes what is drawn (not in ONNX); absent: 0"};
}

AttrSpec SeedAttr() {
  return {.name = "seed",
          .kind = AttrKind::kInt,
          .default_value = int64_t{0},
          .doc = "nodes of one seed draw alike"};
}

AttrSpec TypeAttr(std::vector<DType> dtypes, std::optional<AttrValue> otherwise, std::string doc) {
  AttrSpec spec{.name = "dtype",
                .kind = AttrKind::kString,
                .default_value = std::move(otherwise),
                .doc = std::move(doc)};
  for (DType dtype : dtypes) spec.choices.emplace_back(DTypeName(dtype));
  return spec;
}

// Attribute `dtype`, or the type of what the result is to be like.
absl::StatusOr<DType> ResultType(const Attrs& attrs, DType like) {
  if (attrs.Find("dtype") != nullptr) return *ParseDType(attrs.String("dtype", ""));
  if (IsFloat(like)) return like;
  return BadInputError(
      StrCat("'dtype' must say which floats to draw: the input is ", DTypeName(like)));
}

// --- Normal and uniform ------------------------------------------------------------------------

absl::Status InferFromShape(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckStep(c, 0));
  const std::vector<int64_t> dims = c.attrs().Ints("shape");
  if (dims.size() > kMaxRank) {
    return BadInputError(StrCat("'shape' has ", dims.size(), " dims, at most 8 are possible"));
  }
  const Shape shape(dims);
  if (!CheckedNumElements(shape).has_value()) {
    return BadInputError(StrCat("'shape' is ", ToString(shape)));
  }
  c.set_output(0, {*ParseDType(c.attrs().String("dtype", "f32")), shape});
  return absl::OkStatus();
}

absl::Status InferLikeOther(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckStep(c, 1));
  MILLRACE_ASSIGN_OR_RETURN(const DType dtype, ResultType(c.attrs(), c.input(0).dtype));
  c.set_output(0, {dtype, c.input(0).shape});
  return absl::OkStatus();
}

template <typename Draw>
absl::Status Fill(Tensor& tensor, Draw&& draw) {
  return VisitFloats(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> to = tensor.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(draw(static_cast<int64_t>(i)));
    return absl::OkStatus();
  });
}

absl::Status Normal(const ReferenceContext& c, size_t step_operand) {
  const Stream stream(c, step_operand);
  const double mean = c.attrs.Float("mean", 0), scale = c.attrs.Float("scale", 1);
  return Fill(c.outputs[0], [&](int64_t i) { return mean + scale * stream.Normal(i); });
}

absl::Status Uniform(const ReferenceContext& c, size_t step_operand) {
  const Stream stream(c, step_operand);
  const double low = c.attrs.Float("low", 0), high = c.attrs.Float("high", 1);
  return Fill(c.outputs[0], [&](int64_t i) { return low + (high - low) * stream.Uniform(i); });
}

std::vector<AttrSpec> WithParameters(std::vector<AttrSpec> attrs, std::string first, double a,
                                     std::string second, double b) {
  attrs.push_back({.name = std::move(first), .kind = AttrKind::kFloat, .default_value = a});
  attrs.push_back({.name = std::move(second), .kind = AttrKind::kFloat, .default_value = b});
  attrs.push_back(SeedAttr());
  return attrs;
}

OpDef FromShapeOp(std::string name, std::string doc, ReferenceFn reference) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .tier = 2,
          .inputs = {StepOperand()},
          .outputs = {{.name = "output"}},
          .attrs = {{.name = "shape", .kind = AttrKind::kInts, .required = true},
                    TypeAttr(FloatTypes(), "f32", "")},
          .infer = InferFromShape,
          .reference = reference};
}

OpDef LikeOp(std::string name, std::string doc, ReferenceFn reference) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .tier = 2,
          .inputs = {{.name = "input", .doc = "whose shape the result has"}, StepOperand()},
          .outputs = {{.name = "output"}},
          .attrs = {TypeAttr(FloatTypes(), std::nullopt, "absent: the input's")},
          .infer = InferLikeOther,
          .reference = reference};
}

// --- Bernoulli ---------------------------------------------------------------------------------

absl::Status InferBernoulli(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckStep(c, 1));
  const std::string dtype = c.attrs().String("dtype", DTypeName(c.input(0).dtype));
  c.set_output(0, {*ParseDType(dtype), c.input(0).shape});
  return absl::OkStatus();
}

absl::Status Bernoulli(const ReferenceContext& c) {
  const Stream stream(c, 1);
  Tensor& out = c.outputs[0];
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.Set(i, stream.Uniform(i) < c.inputs[0].AsDouble(i) ? 1 : 0);
  }
  return absl::OkStatus();
}

// --- Multinomial -------------------------------------------------------------------------------

absl::Status InferMultinomial(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckStep(c, 1));
  const Shape& x = c.input(0).shape;
  if (x.rank() != 2)
    return BadInputError(StrCat("the input must be [batch,classes], not ", ToString(x)));
  const int64_t samples = c.attrs().Int("sample_size", 1);
  if (samples < 0 || samples > kMaxBytes)
    return BadInputError(StrCat("'sample_size' is ", samples));
  if (x[1] == 0 && x[0] * samples != 0) return BadInputError("there are no classes to draw from");
  c.set_output(0, {*ParseDType(c.attrs().String("dtype", "i32")), {x[0], samples}});
  return absl::OkStatus();
}

// Class k of a row has probability exp(x[k]) over their sum: where a uniform number falls in the
// running sum decides.
absl::Status Multinomial(const ReferenceContext& c) {
  const Stream stream(c, 1);
  const Tensor& x = c.inputs[0];
  Tensor& out = c.outputs[0];
  const int64_t classes = x.shape()[1], samples = out.shape()[1];
  if (out.num_elements() == 0) return absl::OkStatus();  // of any number of classes
  std::vector<double> sums(classes);
  for (int64_t row = 0; row < out.shape()[0]; ++row) {
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < classes; ++k)
      largest = std::max(largest, x.AsDouble(row * classes + k));
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) {
      sum += std::exp(x.AsDouble(row * classes + k) - largest);
      sums[k] = sum;
    }
    if (!std::isfinite(sum)) {
      return BadInputError(StrCat("row ", row, " holds no log probabilities: not all are finite"));
    }
    for (int64_t i = row * samples; i < (row + 1) * samples; ++i) {
      const auto at = std::upper_bound(sums.begin(), sums.end(), stream.Uniform(i) * sum);
      out.Set(i, static_cast<double>(std::min<int64_t>(at - sums.begin(), classes - 1)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

OpDef RandomNormalOp() {
  OpDef op = FromShapeOp("RandomNormal", "Normally distributed elements",
                         [](const ReferenceContext& c) { return Normal(c, 0); });
  op.attrs = WithParameters(std::move(op.attrs), "mean", 0, "scale", 1);
  return op;
}

OpDef RandomNormalLikeOp() {
  OpDef op = LikeOp("RandomNormalLike", "Normally distributed elements, in the shape of the input",
                    [](const ReferenceContext& c) { return Normal(c, 1); });
  op.attrs = WithParameters(std::move(op.attrs), "mean", 0, "scale", 1);
  return op;
}

OpDef RandomUniformOp() {
  OpDef op = FromShapeOp("RandomUniform", "Elements uniform in [low, high)",
                         [](const ReferenceContext& c) { return Uniform(c, 0); });
  op.attrs = WithParameters(std::move(op.attrs), "low", 0, "high", 1);
  return op;
}

OpDef RandomUniformLikeOp() {
  OpDef op = LikeOp("RandomUniformLike", "Elements uniform in [low, high), in the input's shape",
                    [](const ReferenceContext& c) { return Uniform(c, 1); });
  op.attrs = WithParameters(std::move(op.attrs), "low", 0, "high", 1);
  return op;
}

OpDef BernoulliOp() {
  std::vector<DType> types = NumericTypes();
  types.insert(types.begin(), DType::kBool);
  return {
      .name = "Bernoulli",
      .doc = "1 with the probability that the input says, else 0",
      .tier = 2,
      .inputs = {{.name = "input", .dtypes = FloatTypes(), .doc = "probabilities"}, StepOperand()},
      .outputs = {{.name = "output"}},
      .attrs = {TypeAttr(types, std::nullopt, "absent: the input's"), SeedAttr()},
      .infer = InferBernoulli,
      .reference = Bernoulli};
}

OpDef MultinomialOp() {
  return {.name = "Multinomial",
          .doc = "Classes drawn by their log probabilities, for each row",
          .tier = 2,
          .inputs = {{.name = "input", .dtypes = FloatTypes(), .doc = "[batch,classes]"},
                     StepOperand()},
          .outputs = {{.name = "output", .doc = "[batch,sample_size]"}},
          .attrs = {{.name = "sample_size", .kind = AttrKind::kInt, .default_value = int64_t{1}},
                    TypeAttr(IndexTypes(), "i32", ""),
                    SeedAttr()},
          .infer = InferMultinomial,
          .reference = Multinomial};
}

}  // namespace millrace
