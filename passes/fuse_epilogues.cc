// Epilogues: what follows a product point by point (a bias, an activation, a residual) becomes part
// of the node that computes it (ops/fused_product.h), so that the result is written once, when it
// is done, while it is in registers. Whether the target has a kernel that can is asked for each
// step: a bias and the activation behind it may be fused where a second activation may not.
//
// A step takes the reader of the result, or two readers of which the first is read by the second
// alone (x * sigmoid(x)). Nobody else may read what then no longer exists. Products are looked at
// from the last one back: of the two that a residual joins, the later one takes the sum, when the
// other operand is there already. Its own rounding aside, nothing is computed in another order.
// O(nodes) questions to the target.
#include <algorithm>

#include "graph/cost_table.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/fused_product.h"
#include "ops/scalar_program.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"
#include "passes/scalar_constant.h"
#include "passes/variant_memo.h"

namespace millrace {
namespace {

constexpr std::string_view kRule = "fuse-epilogue";
constexpr size_t kMaxOperands = 8;

// The nodes of a step in order; empty: there is none, for the reason given, if any.
struct EpilogueStep {
  std::vector<NodeId> nodes;
  std::string why_not;
};

// A product that grows.
struct GrowingProduct {
  FusedProduct product;
  std::vector<ValueId> operands;  // of the epilogue, from @1 on
  ValueId result;
};

class EpilogueFuser {
 public:
  EpilogueFuser(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        memo_(*context.target),
        consumers_(ConsumersOf(graph)),
        kept_(OutputMask(graph)),
        awaited_(graph.nodes.size(), 0),
        keep_node_(graph.nodes.size(), 1) {
    for (const Node& node : graph.nodes) {
      for (NodeId before : node.after) awaited_[before.index] = 1;
    }
    for (const Update& update : graph.updates) kept_[update.value.index] = 1;
  }

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (size_t n = graph_.nodes.size(); n-- > 0;) changed |= Grow(NodeId(n));
    if (!changed) return false;
    RemoveNodes(graph_, keep_node_);
    if (!SortNodes(graph_).empty()) return InternalError("fused to a cycle");
    return true;
  }

 private:
  bool Grow(NodeId id) {
    const Node& node = graph_.node(id);
    if (FindOp(node.op)->fusion != FusionClass::kContraction || !node.outputs[0].valid() ||
        !IsPlain(id)) {
      return false;
    }
    const NodeQuery query = QueryFor(graph_, id);
    std::optional<FusedProduct> product = FusedProductOf(query);
    if (!product.has_value()) return false;
    GrowingProduct grown{*std::move(product), {}, node.outputs[0]};
    for (size_t i = grown.product.first_operand; i < node.inputs.size(); ++i) {
      grown.operands.push_back(node.inputs[i]);
    }
    std::vector<NodeId> taken;
    while (true) {
      const EpilogueStep step = NextStep(grown.result);
      std::string why_not = step.why_not;
      if (!step.nodes.empty()) why_not = TryStep(step, grown);
      if (!why_not.empty()) {
        std::vector<std::string> names = {node.name};
        for (NodeId refused : step.nodes) names.push_back(graph_.node(refused).name);
        context_.Refused(kRule, std::move(names), why_not);
      }
      if (step.nodes.empty() || !why_not.empty()) break;
      taken.insert(taken.end(), step.nodes.begin(), step.nodes.end());
    }
    if (!taken.empty()) Fuse(id, taken, grown);
    return !taken.empty();
  }

  // --- Steps ------------------------------------------------------------------------------------

  bool IsPointwise(NodeId id) const {
    const Node& node = graph_.node(id);
    return FindOp(node.op)->fusion == FusionClass::kElementwise && node.after.empty() &&
           node.outputs[0].valid() && IsPlain(id) && IsScalarNode(QueryFor(graph_, id));
  }

  // Sizes are what they say, and nobody else is to run after the node: it might be what the
  // result's other operands wait for.
  bool IsPlain(NodeId id) const {
    const auto is_bounded = [&](ValueId value) {
      return value.valid() && graph_.value(value).bounded;
    };
    const Node& node = graph_.node(id);
    return awaited_[id.index] == 0 && std::ranges::none_of(node.inputs, is_bounded) &&
           std::ranges::none_of(node.outputs, is_bounded);
  }

  // The readers of a value, each once.
  std::vector<NodeId> ReadersOf(ValueId value) const {
    std::vector<NodeId> readers = consumers_[value.index];
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
  }

  EpilogueStep NextStep(ValueId result) const {
    EpilogueStep step;
    const std::vector<NodeId> readers = ReadersOf(result);
    if (readers.empty() || !IsPointwise(readers[0])) return step;
    const std::string& name = graph_.value(result).name;
    if (graph_.shardings.contains(result)) {
      step.why_not = StrCat("'", name, "' asks for a sharding");
    } else if (kept_[result.index] != 0) {
      step.why_not = StrCat("'", name, "' is an output or an update itself");
    } else if (readers.size() == 1) {
      step.nodes = readers;
    } else if (readers.size() == 2 && IsPointwise(readers[1]) &&
               ReadsAlone(readers[1], readers[0])) {
      step.nodes = readers;
    } else {
      step.why_not = StrCat("'", name, "' has another reader");
    }
    return step;
  }

  // `reader` alone reads the result of `node`.
  bool ReadsAlone(NodeId reader, NodeId node) const {
    const ValueId out = graph_.node(node).outputs[0];
    return kept_[out.index] == 0 && ReadersOf(out) == std::vector<NodeId>{reader};
  }

  // Takes the step if the target can; else says why not.
  std::string TryStep(const EpilogueStep& step, GrowingProduct& grown) {
    GrowingProduct next = grown;
    FusedProgram& epilogue = next.product.epilogue;
    const TensorType type = graph_.value(grown.result).type;
    std::vector<std::pair<ValueId, ScalarTerm>> known = {
        {grown.result, {&epilogue, epilogue.outputs[0].value, epilogue.outputs[0].dtype}}};
    epilogue.outputs.clear();
    for (NodeId id : step.nodes) {
      const Node& node = graph_.node(id);
      const TensorType& out = graph_.value(node.outputs[0]).type;
      if (out.shape != type.shape) {
        return StrCat("'", graph_.value(grown.result).name, "' is broadcast to ", ToString(out));
      }
      if (graph_.shardings.contains(node.outputs[0])) return "its result asks for a sharding";
      std::vector<ScalarTerm> inputs;
      for (ValueId input : node.inputs) {
        inputs.push_back(input.valid() ? TermOf(input, type.shape, known, next) : ScalarTerm());
      }
      known.emplace_back(node.outputs[0], AppendNode(QueryFor(graph_, id), inputs));
    }
    if (next.operands.size() > kMaxOperands) return "the epilogue has too many operands";
    StoreOutput(epilogue, known.back().second);
    if (std::string why_not = WhyNoKernel(next.product); !why_not.empty()) return why_not;
    next.result = known.back().first;
    grown = std::move(next);
    return "";
  }

  ScalarTerm TermOf(ValueId value, const Shape& space,
                    std::vector<std::pair<ValueId, ScalarTerm>>& known, GrowingProduct& next) {
    for (const auto& [id, term] : known) {
      if (id == value) return term;
    }
    const TensorType& type = graph_.value(value).type;
    ScalarTerm term;
    const std::optional<double> constant = ScalarConstantOf(graph_, value);
    if (constant.has_value()) {
      term = AppendScalar(next.product.epilogue,
                          {.op = ScalarOp::kConstant, .dtype = type.dtype, .constant = *constant});
    } else {
      term = LoadOperand(next.product.epilogue, type, space);
      next.product.operands.push_back(type);
      next.operands.push_back(value);
    }
    known.emplace_back(value, term);
    return term;
  }

  // Empty: there is one, and it is the kernel that is best for the product alone: one that starts
  // faster or computes less is worth more than an epilogue.
  std::string WhyNoKernel(const FusedProduct& product) {
    const std::vector<KernelVariant>& fused = memo_.Variants(QueryOf(product));
    if (fused.empty() || fused[0].name == "reference") {
      return "the target has no kernel with that epilogue";
    }
    const std::vector<KernelVariant>& alone = memo_.Variants(product.plain);
    const auto is_best = [&](const KernelVariant& v) {
      return VariantFamily(v.name) == VariantFamily(alone[0].name);
    };
    if (alone.empty() || std::ranges::any_of(fused, is_best)) return "";
    return StrCat("'", alone[0].name, "', the kernel that is best for the product, takes none");
  }

  // --- Fusing -----------------------------------------------------------------------------------

  static void AppendOrigin(const Node& node, std::vector<std::string>& origin) {
    if (node.origin.empty()) origin.push_back(node.name);
    origin.insert(origin.end(), node.origin.begin(), node.origin.end());
  }

  // The product's node gives the last result, and the nodes in between are gone.
  void Fuse(NodeId id, const std::vector<NodeId>& taken, const GrowingProduct& grown) {
    Node& node = graph_.node(id);
    std::vector<std::string> names = {node.name}, origin;
    AppendOrigin(node, origin);
    for (NodeId gone : taken) {
      Node& other = graph_.node(gone);
      names.push_back(other.name);
      AppendOrigin(other, origin);
      keep_node_[gone.index] = 0;
      if (other.outputs[0] == grown.result) other.outputs = {node.outputs[0]};
    }
    // The nodes exchange their results: the one that is not read any more goes.
    const ValueId old = node.outputs[0];
    node.outputs = {grown.result};
    graph_.value(grown.result).producer = id;
    graph_.value(old).producer = taken.back();
    NodeQuery query = QueryOf(grown.product);
    node.op = query.op;
    node.attrs = std::move(query.attrs);
    node.inputs.resize(std::min(node.inputs.size(), grown.product.first_operand));
    if (!grown.operands.empty()) node.inputs.resize(grown.product.first_operand);
    node.inputs.insert(node.inputs.end(), grown.operands.begin(), grown.operands.end());
    node.origin = std::move(origin);
    context_.Applied(kRule, std::move(names),
                     StrCat("'", node.name, "' gives '", graph_.value(grown.result).name, "'"));
    consumers_[old.index].clear();
    for (ValueId operand : grown.operands) {  // read by the product now
      std::vector<NodeId>& readers = consumers_[operand.index];
      std::erase_if(readers, [&](NodeId r) { return std::ranges::count(taken, r) > 0; });
      const auto place = std::ranges::lower_bound(readers, id.index, {}, &NodeId::index);
      readers.insert(place, id);
    }
  }

  Graph& graph_;
  PassContext& context_;
  VariantMemo memo_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<uint8_t> kept_;     // by value: read by an output or an update
  std::vector<uint8_t> awaited_;  // by node: another runs `after` it
  std::vector<uint8_t> keep_node_;
};

}  // namespace

absl::StatusOr<bool> FuseEpilogues(Graph& graph, PassContext& context) {
  if (context.target == nullptr) return false;
  bool changed = false;
  for (Node& node : graph.nodes) {
    for (Subgraph& body : node.subgraphs) {
      MILLRACE_ASSIGN_OR_RETURN(const bool inner, FuseEpilogues(body.graph, context));
      changed |= inner;
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool fused, EpilogueFuser(graph, context).Run());
  return fused || changed;
}

}  // namespace millrace
