// Layer and root-mean-square normalization spelled out:
//
//   c = x - mean(x)                               (RMS: c = x)
//   y = c / sqrt(mean(c^2) + epsilon) * scale + bias     (RMS: without bias)
//
// with c^2 as Pow or Mul, the root as Sqrt or Pow 0.5, the quotient as Div or as Mul by a
// Reciprocal, operands of sums and products in either order. Means are over the last dims, which
// scale and bias span. Sums are rounded otherwise than those of the nodes.
#include <algorithm>

#include "passes/pass_list.h"
#include "passes/spelling.h"

namespace millrace {
namespace {

// The first of the dims that a mean is over, when they are the last ones and are kept.
std::optional<int64_t> FirstAxisOfMean(const Graph& graph, const Node& mean) {
  const int64_t rank = graph.value(mean.inputs[0]).type.shape.rank();
  std::vector<int64_t> axes = mean.attrs.Ints("axes");
  if (axes.empty() || !mean.attrs.Bool("keepdims", true)) return std::nullopt;
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::ranges::sort(axes);
  const int64_t first = rank - std::ssize(axes);
  for (int64_t i = 0; i < std::ssize(axes); ++i) {
    if (axes[static_cast<size_t>(i)] != first + i) return -1;  // others
  }
  return first;
}

struct Standardized {
  ValueId c;
  double epsilon = 0;
  int64_t axis = -1;  // of the mean of squares
};

// c^2.
bool TakeSquare(Spelling& spelling, ValueId value, ValueId* c) {
  if (const Node* power = spelling.Take(value, "Pow")) {
    *c = power->inputs[0];
    return spelling.IsScalar(power->inputs[1], 2);
  }
  const Node* product = spelling.Take(value, "Mul");
  if (product == nullptr || product->inputs[0] != product->inputs[1]) return false;
  *c = product->inputs[0];
  return true;
}

// sqrt(mean(c^2) + epsilon).
bool TakeRoot(Spelling& spelling, ValueId value, Standardized* result) {
  ValueId radicand;
  if (const Node* root = spelling.Take(value, "Sqrt")) {
    radicand = root->inputs[0];
  } else if (const Node* power = spelling.Take(value, "Pow")) {
    if (!spelling.IsScalar(power->inputs[1], 0.5)) return false;
    radicand = power->inputs[0];
  }
  const std::optional<ValueId> mean_of_squares =
      spelling.TakeOther(radicand, "Add", [&](ValueId left) {
        const std::optional<double> epsilon = spelling.Scalar(left);
        if (epsilon.has_value()) result->epsilon = *epsilon;
        return epsilon.has_value() && *epsilon >= 0;
      });
  if (!mean_of_squares) return false;
  const Node* mean = spelling.Take(*mean_of_squares, "ReduceMean");
  if (mean == nullptr) return false;
  const std::optional<int64_t> axis = FirstAxisOfMean(spelling.graph(), *mean);
  if (!axis.has_value()) return false;
  result->axis = *axis;
  return TakeSquare(spelling, mean->inputs[0], &result->c);
}

// c / root, or c * (1 / root).
bool TakeStandardized(Spelling& spelling, ValueId value, Standardized* result) {
  if (const Node* quotient = spelling.Take(value, "Div")) {
    return TakeRoot(spelling, quotient->inputs[1], result) && result->c == quotient->inputs[0];
  }
  const std::optional<ValueId> c = spelling.TakeOther(value, "Mul", [&](ValueId left) {
    const Node* inverse = spelling.Take(left, "Reciprocal");
    return inverse != nullptr && TakeRoot(spelling, inverse->inputs[0], result);
  });
  return c.has_value() && *c == result->c;
}

// x of x - mean(x) over the same dims.
std::optional<ValueId> TakeCentred(Spelling& spelling, const Standardized& from) {
  const size_t before = spelling.nodes().size();
  const Node* difference = spelling.Take(from.c, "Sub");
  if (difference == nullptr) return std::nullopt;
  const Node* mean = spelling.Take(difference->inputs[1], "ReduceMean");
  if (mean != nullptr && mean->inputs[0] == difference->inputs[0] &&
      FirstAxisOfMean(spelling.graph(), *mean) == from.axis) {
    return difference->inputs[0];
  }
  spelling.TakeBack(before);
  return std::nullopt;
}

bool Spans(const Graph& graph, ValueId value, ValueId x, int64_t axis) {
  const TensorType& type = graph.value(x).type;
  return graph.value(value).type ==
         TensorType{type.dtype, Shape(type.shape.dims().subspan(static_cast<size_t>(axis)))};
}

std::optional<RecognizedOp> RecognizeNormalization(Spelling& spelling, const Node& sink) {
  const Graph& graph = spelling.graph();
  Standardized normal;
  ValueId scale, bias;
  const auto is_scaled = [&](ValueId value) {
    const std::optional<ValueId> other = spelling.TakeOther(
        value, "Mul", [&](ValueId left) { return TakeStandardized(spelling, left, &normal); });
    if (other) scale = *other;
    return other.has_value();
  };
  if (sink.op == "Add") {
    const std::optional<ValueId> other = spelling.TakeOther(sink.outputs[0], "Add", is_scaled);
    if (!other) return std::nullopt;
    bias = *other;
  } else if (sink.op != "Mul" || !is_scaled(sink.outputs[0])) {
    return std::nullopt;
  }
  const std::optional<ValueId> x = TakeCentred(spelling, normal);
  if (!x && bias.valid()) return std::nullopt;  // the product alone may be an RMS normalization

  RecognizedOp op;
  op.rule = x ? "layer-normalization" : "rms-normalization";
  op.op = x ? "LayerNormalization" : "RMSNormalization";
  op.inputs = {x ? *x : normal.c, scale};
  if (bias.valid()) op.inputs.push_back(bias);
  op.attrs.Set("axis", normal.axis);
  op.attrs.Set("epsilon", normal.epsilon);
  if (normal.axis < 0) {
    op.why_not = "the means are not over the last dims";
  } else if (!Spans(graph, scale, op.inputs[0], normal.axis) ||
             (bias.valid() && !Spans(graph, bias, op.inputs[0], normal.axis))) {
    op.why_not = "scale and bias do not span exactly the dims of the means";
  }
  return op;
}

}  // namespace

absl::StatusOr<bool> RecognizeNormalizations(Graph& graph, PassContext& context) {
  static constexpr RecognizeFn kRecognizers[] = {RecognizeNormalization};
  return RecognizeSpellings(graph, context, kRecognizers);
}

}  // namespace millrace
