// Products in half precision, bf16 or f16: MatMul, Gemm, Conv and other contractions on f32 read
// copies of their operands in it and give it, which is cast back; sums inside a kernel are f32.
// Everything else stays f32. A value is cast once for all who read it; casts of weights are frozen,
// so a plan makes them once. Where one product follows another the casts between them cancel
// (merge-moves, eliminate-identity).
//
// Results differ from those of f32 by about 2^-8 (f16: 2^-11) of the size of the terms; so it is
// done only where asked for. Nodes for which the target has no fast kernel are left alone, and
// said. O(nodes + uses).
#include <map>
#include <optional>

#include "graph/builder.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/pass_list.h"
#include "passes/variant_memo.h"

namespace millrace {
namespace {

bool IsF32(const std::optional<TensorType>& type) {
  return !type.has_value() || type->dtype == DType::kF32;
}

NodeQuery InPrecision(DType half, NodeQuery query) {
  for (auto* types : {&query.inputs, &query.outputs}) {
    for (std::optional<TensorType>& type : *types) {
      if (type.has_value()) type->dtype = half;
    }
  }
  return query;
}

Attrs CastTo(DType dtype) {
  Attrs attrs;
  attrs.Set("to", std::string(DTypeName(dtype)));
  return attrs;
}

class PrecisionLowering {
 public:
  PrecisionLowering(DType half, Graph& graph, PassContext& context)
      : half_(half),
        name_(DTypeName(half)),
        rule_(StrCat("lower-to-", name_)),
        graph_(graph),
        context_(context) {
    if (context.target != nullptr) memo_.emplace(*context.target);
  }

  absl::StatusOr<bool> Run() {
    bool changed = false;
    std::vector<NodeId> products;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (Subgraph& body : graph_.nodes[n].subgraphs) {
        MILLRACE_ASSIGN_OR_RETURN(const bool inner,
                                  PrecisionLowering(half_, body.graph, context_).Run());
        changed |= inner;
      }
      if (IsProductInF32(NodeId(n)) && HasKernel(NodeId(n))) products.push_back(NodeId(n));
    }
    if (products.empty()) return changed;
    GraphBuilder builder(std::move(graph_));
    for (NodeId id : products) Lower(builder, id);
    graph_ = std::move(builder).Build();
    if (!SortNodes(graph_).empty()) return InternalError("lowered to a cycle");
    return true;
  }

 private:
  bool IsProductInF32(NodeId id) const {
    const Node& node = graph_.node(id);
    const OpDef* op = FindOp(node.op);
    if (op == nullptr || op->fusion != FusionClass::kContraction) return false;
    const NodeQuery query = QueryFor(graph_, id);
    return std::ranges::all_of(query.inputs, IsF32) && std::ranges::all_of(query.outputs, IsF32) &&
           node.outputs.size() == 1 && node.outputs[0].valid() &&
           graph_.value(node.outputs[0]).typed;
  }

  bool HasKernel(NodeId id) {
    if (!memo_.has_value() || memo_->HasFastKernel(InPrecision(half_, QueryFor(graph_, id))))
      return true;
    context_.Refused(
        rule_, {graph_.node(id).name},
        StrCat("the device has no fast kernel of ", graph_.node(id).op, " in ", name_));
    return false;
  }

  ValueId Rounded(GraphBuilder& builder, ValueId value, const Node& reader) {
    const auto [it, is_new] = rounded_.try_emplace(value, ValueId());
    if (!is_new) return it->second;
    const std::string name = StrCat(builder.graph().value(value).name, ".", name_);
    Node& cast = builder.AddNode("Cast", {value}, CastTo(half_), name);
    cast.device = reader.device;
    cast.stream = reader.stream;
    cast.scope = reader.scope;
    return it->second = cast.outputs[0];
  }

  // The node gives a bf16 value, and a Cast gives what it gave.
  void Lower(GraphBuilder& builder, NodeId id) {
    const Node original = builder.graph().node(id);
    std::vector<ValueId> inputs = original.inputs;
    for (ValueId& input : inputs) {
      if (input.valid()) input = Rounded(builder, input, original);
    }
    const ValueId result = original.outputs[0];
    const ValueId inner = builder.NewResult(StrCat(original.name, ".", name_));
    Node& cast = builder.AddNode("Cast", {inner}, CastTo(DType::kF32), original.name + ".f32",
                                 /*num_outputs=*/0);
    cast.outputs = {result};  // readers go on reading what they read
    cast.device = original.device;
    cast.stream = original.stream;
    cast.scope = original.scope;
    cast.origin = {original.name};
    const std::string cast_name = cast.name;
    Graph& graph = builder.graph();
    graph.node(id).inputs = std::move(inputs);
    graph.node(id).outputs = {inner};
    graph.value(result).producer = NodeId(graph.nodes.size() - 1);
    graph.value(inner).producer = id;
    graph.value(inner).result_index = 0;
    context_.Applied(rule_, {original.name},
                     StrCat("computed in ", name_, "; '", cast_name, "' casts it back"));
  }

  const DType half_;
  const std::string_view name_;
  const std::string rule_;
  Graph& graph_;
  PassContext& context_;
  std::optional<VariantMemo> memo_;     // of the target, if there is one
  std::map<ValueId, ValueId> rounded_;  // f32 value -> its copy in half precision
};

}  // namespace

absl::StatusOr<bool> LowerToBf16(Graph& graph, PassContext& context) {
  return PrecisionLowering(DType::kBF16, graph, context).Run();
}

absl::StatusOr<bool> LowerToF16(Graph& graph, PassContext& context) {
  return PrecisionLowering(DType::kF16, graph, context).Run();
}

}  // namespace millrace
