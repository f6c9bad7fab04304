// Algebra: expressions become what algebra_rules.h says they may. A rule is matched from the node
// of its root; that node takes over the new root's op and operands, inner ones are added before it,
// what is made of constants alone is computed at once, and what nobody reads any more goes with the
// dead (eliminate-dead-nodes). So a rule that finds others reading inner values is of use too, if
// it adds no more nodes than it leaves dead.
//
// Whether operands broadcast to the same result is what inference says of the new expression: its
// type must be the old one's. Rules are applied until none finds anything, O(nodes) each time.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "graph/builder.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/evaluate.h"
#include "passes/algebra_rules.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"
#include "passes/scalar_constant.h"

namespace millrace {
namespace {

constexpr int64_t kMaxConstantElements = int64_t{1} << 16;    // computed while rewriting
constexpr int kMaxPowerOfTwo = 100, kMaxHalfPowerOfTwo = 14;  // whose reciprocals are normal

// What the letters of a rule stand for, and the nodes that make up what was found.
struct AlgebraMatch {
  std::array<ValueId, 26> values;
  std::vector<NodeId> inner;

  ValueId& of(char letter) { return values[letter - 'a']; }
  ValueId of(char letter) const { return values[letter - 'a']; }
};

bool Commutes(std::string_view op) {
  constexpr std::string_view kOps[] = {"Add", "And", "Max", "Min", "Mul", "Or"};
  return std::ranges::binary_search(kOps, op);
}

bool HasTypes(DType dtype, AlgebraTypes types) {
  switch (types) {
    case AlgebraTypes::kAny:
      return true;
    case AlgebraTypes::kFloats:
      return IsFloat(dtype);
    case AlgebraTypes::kIntegers:
      return !IsFloat(dtype) && dtype != DType::kBool;
    case AlgebraTypes::kF32AndF64:
      return dtype == DType::kF32 || dtype == DType::kF64;
  }
  return false;
}

bool IsConstantTerm(const AlgebraTerm& term) {
  if (term.op.empty()) return term.is_constant();
  return std::ranges::all_of(term.operands, IsConstantTerm);
}

int CountComputedNodes(const AlgebraTerm& term) {
  if (term.op.empty() || IsConstantTerm(term)) return 0;
  int count = 1;
  for (const AlgebraTerm& operand : term.operands) count += CountComputedNodes(operand);
  return count;
}

// A value that may not be there yet: what a term of a rule stands for.
struct NewValue {
  TensorType type;
  ValueId id;     // one that is there
  Tensor tensor;  // with data: a constant
};

class AlgebraRewriter {
 public:
  AlgebraRewriter(Graph& graph, PassContext& context, std::span<const AlgebraRule> rules)
      : original_(graph), context_(context) {
    for (const AlgebraRule& rule : rules) rules_of_op_[rule.from.op].push_back(&rule);
  }

  absl::StatusOr<bool> Run() {
    bool changed = false;
    while (Scan()) changed = true;
    if (!builder_.has_value()) return changed;
    original_ = std::move(*builder_).Build();
    if (!SortNodes(original_).empty()) return InternalError("rewritten to a cycle");
    return changed;
  }

 private:
  Graph& graph() { return builder_.has_value() ? builder_->graph() : original_; }
  const Graph& graph() const { return builder_.has_value() ? builder_->graph() : original_; }

  // Made when there is something to add: it takes stock of all names.
  GraphBuilder& builder() {
    if (!builder_.has_value()) builder_.emplace(std::move(original_));
    return *builder_;
  }

  bool Scan() {
    uses_.clear();
    bool changed = false;
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      while (Rewrite(NodeId(n))) changed = true;
    }
    return changed;
  }

  bool Rewrite(NodeId id) {
    const auto rules = rules_of_op_.find(graph().node(id).op);
    if (rules == rules_of_op_.end()) return false;
    for (const AlgebraRule* rule : rules->second) {
      if (!MightMatch(*rule, graph().node(id))) continue;
      AlgebraMatch match;
      if (Matches(rule->from, graph().node(id), graph().node(id), match) && Holds(*rule, match) &&
          Pays(*rule, match) && Apply(*rule, match, id)) {
        return true;
      }
    }
    return false;
  }

  // --- Matching ---
  // What can be told at a glance: most nodes match nothing.
  bool MightMatch(const AlgebraRule& rule, const Node& node) const {
    if (node.inputs.empty() || !node.inputs[0].valid()) return false;
    const bool is_of_types = rule.from.op != "Not" && rule.from.op != "Where";
    if (is_of_types && !HasTypes(graph().value(node.inputs[0]).type.dtype, rule.types))
      return false;
    for (const AlgebraTerm& operand : rule.from.operands) {
      if (operand.op.empty() && !operand.is_constant()) continue;
      const bool there = std::ranges::any_of(node.inputs, [&](ValueId id) {
        if (!id.valid()) return false;
        const Value& value = graph().value(id);
        if (operand.op.empty()) return value.kind == ValueKind::kConstant;
        return value.kind == ValueKind::kResult && graph().node(value.producer).op == operand.op;
      });
      if (!there) return false;
    }
    return true;
  }

  bool Matches(const AlgebraTerm& term, const Node& node, const Node& root, AlgebraMatch& match) {
    if (node.op != term.op || node.inputs.size() != term.operands.size()) return false;
    if (node.outputs.size() != 1 || !node.outputs[0].valid() || !node.subgraphs.empty())
      return false;
    if (node.device != root.device || node.stream != root.stream) return false;
    if (graph().value(node.outputs[0]).bounded) return false;
    const AlgebraMatch before = match;
    if (OperandsMatch(term, node, /*swapped=*/false, root, match)) return true;
    match = before;
    if (!Commutes(term.op) || term.operands.size() != 2) return false;
    return OperandsMatch(term, node, /*swapped=*/true, root, match);
  }

  bool OperandsMatch(const AlgebraTerm& term, const Node& node, bool swapped, const Node& root,
                     AlgebraMatch& match) {
    for (size_t i = 0; i < term.operands.size(); ++i) {
      const ValueId value = node.inputs[swapped ? 1 - i : i];
      if (!value.valid() || !OperandMatches(term.operands[i], value, root, match)) return false;
    }
    return true;
  }

  bool OperandMatches(const AlgebraTerm& term, ValueId id, const Node& root, AlgebraMatch& match) {
    const Value& value = graph().value(id);
    if (!term.op.empty()) {
      if (value.kind != ValueKind::kResult) return false;
      if (!Matches(term, graph().node(value.producer), root, match)) return false;
      match.inner.push_back(value.producer);
      return true;
    }
    if (term.number.has_value()) {
      const std::optional<double> found = ScalarConstantOf(graph(), id);
      return found == *term.number && std::signbit(*found) == std::signbit(*term.number);
    }
    if (value.bounded || (term.is_constant() && !IsSmallConstant(id))) return false;
    ValueId& bound = match.of(term.letter);
    if (!bound.valid()) bound = id;
    return bound == id;
  }

  bool IsSmallConstant(ValueId id) const {
    const Value& value = graph().value(id);
    return value.kind == ValueKind::kConstant &&
           NumElements(value.type.shape) <= kMaxConstantElements &&
           ConstantTensor(graph(), id).has_value();
  }

  bool Holds(const AlgebraRule& rule, const AlgebraMatch& match) const {
    const DType dtype = graph().value(match.of('x')).type.dtype;
    if (!HasTypes(dtype, rule.types)) return false;
    if (!rule.c_is_power_of_two) return true;
    const int max_power = SizeOf(dtype) < 4 ? kMaxHalfPowerOfTwo : kMaxPowerOfTwo;
    const Tensor constant = *ConstantTensor(graph(), match.of('c'));
    for (int64_t i = 0; i < constant.num_elements(); ++i) {
      int exponent = 0;
      if (std::abs(std::frexp(constant.AsDouble(i), &exponent)) != 0.5) return false;
      if (std::abs(exponent - 1) > max_power) return false;
    }
    return true;
  }

  // Nodes that others keep alive count for nothing, and a Pow for two.
  bool Pays(const AlgebraRule& rule, const AlgebraMatch& match) {
    const int added = CountComputedNodes(rule.to) - 1;
    if (added <= 0) return true;
    if (uses_.empty()) CountUses();
    int dying = rule.from.op == "Pow" ? 1 : 0;
    for (const NodeId id : match.inner) dying += uses_[graph().node(id).outputs[0].index] == 1;
    return added <= dying;
  }

  // As the graph was when the scan began.
  void CountUses() {
    uses_.resize(graph().values.size(), 0);
    const auto count = [&](ValueId id) {
      if (id.valid()) ++uses_[id.index];
    };
    for (const Node& node : graph().nodes) std::ranges::for_each(node.inputs, count);
    std::ranges::for_each(graph().outputs, count);
    for (const Update& update : graph().updates) count(update.value);
  }

  // --- Rewriting ---
  bool Apply(const AlgebraRule& rule, const AlgebraMatch& match, NodeId id) {
    const ValueId result = graph().node(id).outputs[0];
    const TensorType type = graph().value(result).type;
    std::string op = "Identity";
    std::vector<ValueId> operands;
    if (rule.to.number.has_value()) {
      operands = {AddSplat(StrCat(graph().node(id).name, ".value"), type, *rule.to.number)};
    } else if (rule.to.op.empty()) {
      const ValueId value = match.of(rule.to.letter);
      if (graph().value(value).type != type) return false;
      operands = {value};
    } else {
      const std::optional<NewValue> root = TypeOf(rule.to, match);
      if (!root.has_value() || root->type != type) return false;
      op = rule.to.op;
      for (const AlgebraTerm& operand : rule.to.operands) {
        operands.push_back(Materialize(operand, match, id));
      }
    }
    Replace(rule, match, id, std::move(op), std::move(operands));
    return true;
  }

  void Replace(const AlgebraRule& rule, const AlgebraMatch& match, NodeId id, std::string op,
               std::vector<ValueId> operands) {
    std::vector<NodeId> found = match.inner;
    found.push_back(id);
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::vector<std::string> names, origin;
    for (const NodeId each : found) {
      names.push_back(graph().node(each).name);
      AppendOrigin(graph().node(each), origin);
    }
    Node& node = graph().node(id);
    context_.Applied(
        rule.name, std::move(names),
        StrCat("'", node.name, "' was ", ToString(rule.from), " and is ", ToString(rule.to)));
    node.op = std::move(op);
    node.inputs = std::move(operands);
    node.attrs = Attrs();
    node.origin = std::move(origin);
  }

  // The type of a term, and its value where it is made of constants; nullopt: the op does not take
  // such operands.
  std::optional<NewValue> TypeOf(const AlgebraTerm& term, const AlgebraMatch& match) const {
    if (term.op.empty()) {
      const ValueId id = match.of(term.letter);
      NewValue leaf{graph().value(id).type, id, Tensor()};
      if (term.is_constant()) leaf.tensor = *ConstantTensor(graph(), id);
      return leaf;
    }
    NodeQuery query{.op = term.op, .attrs = {}, .inputs = {}, .outputs = {TensorType()}};
    std::vector<Tensor> tensors;
    for (const AlgebraTerm& operand : term.operands) {
      std::optional<NewValue> value = TypeOf(operand, match);
      if (!value.has_value()) return std::nullopt;
      query.inputs.push_back(value->type);
      tensors.push_back(std::move(value->tensor));
    }
    const absl::StatusOr<NodeQuery> resolved = ResolveQuery(query, tensors);
    if (!resolved.ok() || !resolved->outputs[0].has_value()) return std::nullopt;
    NewValue made{*resolved->outputs[0], ValueId(), Tensor()};
    if (!IsConstantTerm(term)) return made;
    if (NumElements(made.type.shape) > kMaxConstantElements) return std::nullopt;
    absl::StatusOr<std::vector<Tensor>> computed = RunReference(*resolved, tensors);
    if (!computed.ok()) return std::nullopt;
    made.tensor = std::move((*computed)[0]);
    return made;
  }

  // The term as a value of the graph; it has a type.
  ValueId Materialize(const AlgebraTerm& term, const AlgebraMatch& match, NodeId root) {
    NewValue value = *TypeOf(term, match);
    if (value.id.valid()) return value.id;
    const std::string name = StrCat(graph().node(root).name, ".", term.op);
    if (value.tensor.has_data()) return builder().Constant(name, std::move(value.tensor));
    std::vector<ValueId> operands;
    for (const AlgebraTerm& operand : term.operands) {
      operands.push_back(Materialize(operand, match, root));
    }
    Node& node = builder().AddNode(term.op, std::move(operands), {}, name);
    const Node& of = graph().node(root);
    node.device = of.device;
    node.stream = of.stream;
    node.scope = of.scope;
    AppendOrigin(of, node.origin);
    const ValueId result = node.outputs[0];
    graph().value(result).type = value.type;
    graph().value(result).typed = true;
    return result;
  }

  ValueId AddSplat(std::string_view name, const TensorType& type, double number) {
    Tensor element = Tensor::Zeros({type.dtype, {}});
    element.Set(0, number);
    const ValueId id = builder().Constant(name, element);
    Value& value = graph().value(id);
    value.type = type;
    DataSource& data = graph().data[value.data];
    data.kind = DataSource::Kind::kSplat;
    return id;
  }

  Graph& original_;
  PassContext& context_;
  std::optional<GraphBuilder> builder_;  // of the graph, once there is something to add
  absl::flat_hash_map<std::string, std::vector<const AlgebraRule*>> rules_of_op_;
  std::vector<int32_t> uses_;  // by value
};

absl::StatusOr<bool> SimplifyBy(std::span<const AlgebraRule> rules, Graph& graph,
                                PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes) {
    for (Subgraph& body : node.subgraphs) {
      MILLRACE_ASSIGN_OR_RETURN(const bool inner, SimplifyBy(rules, body.graph, context));
      changed |= inner;
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool outer, AlgebraRewriter(graph, context, rules).Run());
  return changed || outer;
}

}  // namespace

absl::StatusOr<bool> SimplifyAlgebra(Graph& graph, PassContext& context) {
  return SimplifyBy(ExactAlgebraRules(), graph, context);
}

absl::StatusOr<bool> RelaxAlgebra(Graph& graph, PassContext& context) {
  return SimplifyBy(RealAlgebraRules(), graph, context);
}

}  // namespace millrace
