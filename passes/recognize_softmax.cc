// Softmax spelled out: e / sum(e) with e = exp(x - max(x)), both over one and the same dim. Without
// the maximum it is another function of large numbers. Sums are rounded otherwise than those of the
// nodes.
#include "passes/pass_list.h"
#include "passes/spelling.h"

namespace millrace {
namespace {

// The one dim that a reduction is over, and keeps.
std::optional<int64_t> KeptAxis(const Graph& graph, const Node& node) {
  const int64_t rank = graph.value(node.inputs[0]).type.shape.rank();
  std::vector<int64_t> axes = node.attrs.Ints("axes");
  if (node.inputs.size() > 1 && node.inputs[1].valid()) {
    const ValueId given = node.inputs[1];
    if (graph.value(given).kind != ValueKind::kConstant) return std::nullopt;
    const std::optional<Tensor> tensor = ConstantTensor(graph, given);
    if (!tensor.has_value() || tensor->num_elements() != 1) return std::nullopt;
    axes = {tensor->AsInt64(0)};
  }
  if (axes.size() != 1 || !node.attrs.Bool("keepdims", true)) return std::nullopt;
  return axes[0] < 0 ? axes[0] + rank : axes[0];
}

std::optional<RecognizedOp> RecognizeSoftmax(Spelling& spelling, const Node& sink) {
  if (sink.op != "Div") return std::nullopt;
  const Graph& graph = spelling.graph();
  const Node* sum = spelling.Take(sink.inputs[1], "ReduceSum");
  if (sum == nullptr || sum->inputs[0] != sink.inputs[0]) return std::nullopt;
  const Node* exponential = spelling.Take(sink.inputs[0], "Exp");
  if (exponential == nullptr) return std::nullopt;
  const Node* difference = spelling.Take(exponential->inputs[0], "Sub");
  if (difference == nullptr) return std::nullopt;
  const Node* largest = spelling.Take(difference->inputs[1], "ReduceMax");
  if (largest == nullptr || largest->inputs[0] != difference->inputs[0]) return std::nullopt;

  RecognizedOp op = {.rule = "softmax", .op = "Softmax", .inputs = {difference->inputs[0]}};
  const std::optional<int64_t> axis = KeptAxis(graph, *sum);
  if (!axis.has_value() || axis != KeptAxis(graph, *largest)) {
    op.why_not = "maximum and sum are not over one and the same dim";
    return op;
  }
  op.attrs.Set("axis", *axis);
  return op;
}

}  // namespace

absl::StatusOr<bool> RecognizeSoftmaxes(Graph& graph, PassContext& context) {
  static constexpr RecognizeFn kRecognizers[] = {RecognizeSoftmax};
  return RecognizeSpellings(graph, context, kRecognizers);
}

}  // namespace millrace
