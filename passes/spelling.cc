#include "passes/spelling.h"

#include <algorithm>
#include <cmath>

#include "graph/strings.h"
#include "passes/graph_edit.h"
#include "passes/scalar_constant.h"
#include "passes/variant_memo.h"

namespace millrace {

const Node* Spelling::Take(ValueId value, std::string_view op) {
  if (!value.valid() || graph_.value(value).kind != ValueKind::kResult) return nullptr;
  const NodeId id = graph_.value(value).producer;
  const Node& node = graph_.node(id);
  if (kept_[id.index] == 0 || node.op != op || node.outputs.size() != 1) return nullptr;
  if (std::ranges::find(nodes_, id) == nodes_.end()) nodes_.push_back(id);
  return &node;
}

std::optional<double> Spelling::Scalar(ValueId value) const {
  return ScalarConstantOf(graph_, value);
}

bool Spelling::IsScalar(ValueId value, double expected) const {
  // Exporters write constants with seven digits or more; other constants are other functions.
  constexpr double kWrittenDigits = 5e-7;
  const std::optional<double> scalar = Scalar(value);
  return scalar.has_value() && std::abs(*scalar - expected) <= kWrittenDigits * std::abs(expected);
}

namespace {

class SpellingRewriter {
 public:
  SpellingRewriter(Graph& graph, PassContext& context, std::span<const RecognizeFn> recognizers)
      : graph_(graph),
        context_(context),
        recognizers_(recognizers),
        consumers_(ConsumersOf(graph)),
        kept_(graph.nodes.size(), 1),
        wanted_(OutputMask(graph)),
        awaited_(AwaitedMask(graph)) {
    for (const Update& update : graph.updates) wanted_[update.value.index] = 1;
    if (context.target != nullptr) memo_.emplace(*context.target);
  }

  bool Run() {
    bool changed = false;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (kept_[n] != 0 && graph_.nodes[n].outputs.size() == 1) changed |= Recognize(NodeId(n));
    }
    if (changed) RemoveNodes(graph_, kept_);
    return changed;
  }

 private:
  bool Recognize(NodeId sink) {
    const Node& node = graph_.node(sink);
    if (!node.outputs[0].valid()) return false;
    for (const RecognizeFn recognizer : recognizers_) {
      Spelling spelling(graph_, kept_);
      spelling.Take(node.outputs[0], node.op);
      std::optional<RecognizedOp> op = recognizer(spelling, node);
      if (!op.has_value()) continue;
      const std::string why = op->why_not.empty() ? WhyNot(spelling, *op) : op->why_not;
      if (why.empty()) {
        Apply(spelling, *std::move(op));
        return true;
      }
      context_.Refused(op->rule, Names(spelling), why);
    }
    return false;
  }

  std::vector<std::string> Names(const Spelling& spelling) const {
    std::vector<NodeId> nodes = spelling.nodes();
    std::ranges::sort(nodes);
    std::vector<std::string> names;
    for (const NodeId id : nodes) names.push_back(graph_.node(id).name);
    return names;
  }

  std::string WhyNot(const Spelling& spelling, const RecognizedOp& op) {
    const Node& sink = graph_.node(spelling.nodes()[0]);
    for (const NodeId id : spelling.nodes()) {
      const Node& node = graph_.node(id);
      if (const std::string why = WhyNotTyped(node); !why.empty()) return why;
      if (node.device != sink.device || node.stream != sink.stream) {
        return StrCat("'", node.name, "' and '", sink.name, "' ask for different places");
      }
      if (&node == &sink) continue;
      if (const std::string why = WhyNotInner(spelling, node); !why.empty()) return why;
    }
    // Constants of more dims would give the result more dims, which the op does not.
    if (graph_.value(sink.outputs[0]).type != graph_.value(op.inputs[0]).type) {
      return StrCat("the result is ", ToString(graph_.value(sink.outputs[0]).type), ", but '",
                    graph_.value(op.inputs[0]).name, "' is ",
                    ToString(graph_.value(op.inputs[0]).type));
    }
    if (!memo_.has_value()) return "";
    NodeQuery query = QueryFor(graph_, spelling.nodes()[0]);
    query.op = op.op;
    query.attrs = op.attrs;
    query.inputs.clear();
    for (const ValueId input : op.inputs) query.inputs.push_back(graph_.value(input).type);
    if (memo_->HasFastKernel(query)) return "";
    return StrCat("the target has no fast kernel for ", op.op);
  }

  std::string WhyNotTyped(const Node& node) const {
    const Value& value = graph_.value(node.outputs[0]);
    if (value.bounded) return StrCat("the size of '", value.name, "' is known at run time only");
    if (value.type.dtype == DType::kF32) return "";
    return StrCat("'", value.name, "' is ", DTypeName(value.type.dtype),
                  "; one kernel would round otherwise than its nodes do");
  }

  // Of a node that is to go.
  std::string WhyNotInner(const Spelling& spelling, const Node& node) const {
    const ValueId result = node.outputs[0];
    const std::string& name = graph_.value(result).name;
    if (wanted_[result.index] != 0) return StrCat("'", name, "' is a result of the graph");
    if (graph_.shardings.contains(result)) return StrCat("'", name, "' asks for a sharding");
    const NodeId id = graph_.value(result).producer;
    if (!node.after.empty() || awaited_[id.index] != 0) {
      return StrCat("'", node.name, "' has an order to keep");
    }
    for (const NodeId reader : consumers_[result.index]) {
      const bool inside = std::ranges::find(spelling.nodes(), reader) != spelling.nodes().end();
      if (kept_[reader.index] != 0 && !inside) {
        return StrCat("'", graph_.node(reader).name, "' reads '", name, "' too");
      }
    }
    return "";
  }

  void Apply(const Spelling& spelling, RecognizedOp op) {
    const NodeId sink = spelling.nodes()[0];
    std::vector<std::string> names = Names(spelling), origin;
    std::vector<NodeId> nodes = spelling.nodes();
    std::ranges::sort(nodes);
    for (const NodeId id : nodes) {
      const Node& node = graph_.node(id);
      AppendOrigin(node, origin);
      if (id != sink) kept_[id.index] = 0;
    }
    Node& node = graph_.node(sink);
    context_.Applied(op.rule, std::move(names), StrCat("'", node.name, "' is ", op.op));
    node.op = std::move(op.op);
    node.inputs = std::move(op.inputs);
    node.attrs = std::move(op.attrs);
    node.origin = std::move(origin);
    for (const ValueId input : node.inputs) consumers_[input.index].push_back(sink);
  }

  Graph& graph_;
  PassContext& context_;
  std::span<const RecognizeFn> recognizers_;
  std::vector<std::vector<NodeId>> consumers_;  // by value; of what is gone too
  std::vector<uint8_t> kept_;                   // by node
  std::vector<uint8_t> wanted_;                 // by value: an output, or what an update takes
  std::vector<uint8_t> awaited_;                // by node: another runs `after` it
  std::optional<VariantMemo> memo_;             // of the target, if there is one
};

}  // namespace

absl::StatusOr<bool> RecognizeSpellings(Graph& graph, PassContext& context,
                                        std::span<const RecognizeFn> recognizers) {
  bool changed = false;
  for (Node& node : graph.nodes) {
    for (Subgraph& body : node.subgraphs) {
      MILLRACE_ASSIGN_OR_RETURN(const bool inner,
                                RecognizeSpellings(body.graph, context, recognizers));
      changed |= inner;
    }
  }
  return SpellingRewriter(graph, context, recognizers).Run() || changed;
}

}  // namespace millrace
