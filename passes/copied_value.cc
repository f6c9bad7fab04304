// The rules by op. That the types of result and operand are equal is looked at once, for all of
// them, and says much: a Reshape between equal types, or an Expand, moves nothing.
//
// IEEE decides what is exact: x * 1, x / 1 and x - 0 are x for all x, but x + 0 is not where x is
// -0; x + (-0) is.
#include "passes/copied_value.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace millrace {
namespace {

// The one element of a constant of one element, or one all alike.
std::optional<Tensor> Splat(const Graph& graph, ValueId id) {
  if (!id.valid() || graph.value(id).kind != ValueKind::kConstant) return std::nullopt;
  const DataSource& data = graph.data_of(id);
  if (data.kind == DataSource::Kind::kSplat || data.tensor.num_elements() == 1) return data.tensor;
  return std::nullopt;
}

bool IsAll(const Graph& graph, ValueId id, double number) {
  const std::optional<Tensor> element = Splat(graph, id);
  if (!element.has_value() || element->dtype() != graph.value(id).type.dtype) return false;
  const double found = element->AsDouble(0);
  return found == number && std::signbit(found) == std::signbit(number);
}

// Absent, or a constant all of whose elements are `number`.
bool IsAllIfThere(const Graph& graph, const Node& node, size_t input, int64_t number) {
  if (input >= node.inputs.size() || !node.inputs[input].valid()) return true;
  const std::optional<Tensor> tensor = ConstantTensor(graph, node.inputs[input]);
  if (!tensor.has_value()) return false;
  for (int64_t i = 0; i < tensor->num_elements(); ++i) {
    if (tensor->AsInt64(i) != number) return false;
  }
  return true;
}

bool SameType(const Graph& graph, ValueId a, ValueId b) {
  return a.valid() && b.valid() && graph.value(a).type == graph.value(b).type;
}

// --- The rules: whose value the result is, should the types be equal -----------------------------
using Rule = ValueId (*)(const Graph& graph, const Node& node);

ValueId First(const Graph&, const Node& node) { return node.inputs[0]; }

// Dims of size 1 may go anywhere.
ValueId TransposeRule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.inputs[0]).type.shape;
  const std::vector<int64_t> perm = node.attrs.Ints("perm");
  int64_t last = -1;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t from = perm.empty() ? shape.rank() - 1 - d : perm[d];
    if (shape[static_cast<int>(from)] == 1) continue;
    if (from < last) return ValueId();
    last = from;
  }
  return node.inputs[0];
}

// All operands but one are empty.
ValueId ConcatRule(const Graph& graph, const Node& node) {
  for (ValueId input : node.inputs) {
    if (SameType(graph, input, node.outputs[0])) return input;
  }
  return ValueId();
}

// Steps backward would turn things round.
ValueId SliceRule(const Graph& graph, const Node& node) {
  if (node.inputs.size() > 4 && node.inputs[4].valid()) {
    const std::optional<Tensor> steps = ConstantTensor(graph, node.inputs[4]);
    if (!steps.has_value()) return ValueId();
    for (int64_t i = 0; i < steps->num_elements(); ++i) {
      if (steps->AsInt64(i) < 0) return ValueId();
    }
  }
  return node.inputs[0];
}

// What is added at one end may be cut at the other.
ValueId PadRule(const Graph& graph, const Node& node) {
  return IsAllIfThere(graph, node, 1, 0) ? node.inputs[0] : ValueId();
}

ValueId DropoutRule(const Graph& graph, const Node& node) {
  return IsAllIfThere(graph, node, 2, 0) ? node.inputs[0] : ValueId();
}

ValueId OneOperand(const Graph&, const Node& node) {
  return node.inputs.size() == 1 ? node.inputs[0] : ValueId();
}

ValueId ClipRule(const Graph&, const Node& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i].valid()) return ValueId();
  }
  return node.inputs[0];
}

ValueId WhereRule(const Graph& graph, const Node& node) {
  if (IsAll(graph, node.inputs[0], 1)) return node.inputs[1];
  return IsAll(graph, node.inputs[0], 0) ? node.inputs[2] : ValueId();
}

// x op neutral.
ValueId RightNeutral(const Graph& graph, const Node& node, double number) {
  return IsAll(graph, node.inputs[1], number) ? node.inputs[0] : ValueId();
}
ValueId Neutral(const Graph& graph, const Node& node, double number) {
  if (IsAll(graph, node.inputs[0], number)) return node.inputs[1];
  return RightNeutral(graph, node, number);
}

ValueId OneIsNeutral(const Graph& graph, const Node& node) { return Neutral(graph, node, 1); }
ValueId ZeroIsNeutral(const Graph& graph, const Node& node) { return Neutral(graph, node, 0); }
ValueId ByOne(const Graph& graph, const Node& node) { return RightNeutral(graph, node, 1); }
ValueId ByZero(const Graph& graph, const Node& node) { return RightNeutral(graph, node, 0); }
ValueId AddRule(const Graph& graph, const Node& node) {
  return Neutral(graph, node, IsFloat(graph.value(node.outputs[0]).type.dtype) ? -0.0 : 0);
}

// Integers to the power of floats are computed in floats.
ValueId PowRule(const Graph& graph, const Node& node) {
  const bool in_floats = IsFloat(graph.value(node.inputs[1]).type.dtype);
  if (in_floats && !IsFloat(graph.value(node.inputs[0]).type.dtype)) return ValueId();
  return ByOne(graph, node);
}

const Node* ProducerOf(const Graph& graph, ValueId value) {
  const Value& v = graph.value(value);
  return v.kind == ValueKind::kResult ? &graph.node(v.producer) : nullptr;
}

// f(f(x)) is f(x), ...
ValueId Idempotent(const Graph& graph, const Node& node) {
  const Node* before = ProducerOf(graph, node.inputs[0]);
  return before != nullptr && before->op == node.op ? node.inputs[0] : ValueId();
}

// ... or x.
ValueId Involution(const Graph& graph, const Node& node) {
  const Node* before = ProducerOf(graph, node.inputs[0]);
  return before != nullptr && before->op == node.op ? before->inputs[0] : ValueId();
}

struct OpRule {
  std::string_view op;
  Rule rule;
};
constexpr OpRule kCopyRules[] = {
    {"Abs", Idempotent},
    {"Add", AddRule},
    {"And", OneIsNeutral},
    {"BitShift", ByZero},
    {"BitwiseNot", Involution},
    {"BitwiseOr", ZeroIsNeutral},
    {"BitwiseXor", ZeroIsNeutral},
    {"Cast", First},
    {"CastLike", First},
    {"Ceil", Idempotent},
    {"Clip", ClipRule},
    {"Concat", ConcatRule},
    {"Div", ByOne},
    {"Dropout", DropoutRule},
    {"Expand", First},
    {"Flatten", First},
    {"Floor", Idempotent},
    {"Identity", First},
    {"Max", OneOperand},
    {"Mean", OneOperand},
    {"Min", OneOperand},
    {"Mul", OneIsNeutral},
    {"Neg", Involution},
    {"Not", Involution},
    {"Or", ZeroIsNeutral},
    {"Pad", PadRule},
    {"Pow", PowRule},
    {"Relu", Idempotent},
    {"Reshape", First},
    {"Round", Idempotent},
    {"Slice", SliceRule},
    {"Split", First},
    {"Squeeze", First},
    {"Sub", ByZero},
    {"Sum", OneOperand},
    {"Tile", First},
    {"Transpose", TransposeRule},
    {"Unsqueeze", First},
    {"Where", WhereRule},
    {"Xor", ZeroIsNeutral},
};
static_assert(std::ranges::is_sorted(kCopyRules, {}, &OpRule::op));

}  // namespace

ValueId CopiedValue(const Graph& graph, const Node& node) {
  if (node.outputs.empty() || !node.outputs[0].valid()) return ValueId();
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) return ValueId();
  }
  // Types say what sizes can be at most; equal bounds need not be equal sizes.
  if (graph.value(node.outputs[0]).bounded && node.op != "Identity") return ValueId();
  const OpRule* const rule = std::ranges::lower_bound(kCopyRules, node.op, {}, &OpRule::op);
  if (rule == std::end(kCopyRules) || rule->op != node.op) return ValueId();
  const ValueId value = rule->rule(graph, node);
  return SameType(graph, value, node.outputs[0]) ? value : ValueId();
}

}  // namespace millrace
