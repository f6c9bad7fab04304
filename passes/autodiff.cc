// Reverse mode. A sweep forward marks the values that depend on a wanted one through floats; a
// sweep backward over the nodes, last one first, hands each op's builder the gradients of its
// results and collects those it gives for its operands. When a node's turn comes all readers of its
// results have had theirs, so what flows back to a value with several uses is complete, and is
// summed, in the order in which the readers came up: gradients repeat bit for bit.
//
// O(nodes + uses) and what the builders append.
#include "passes/autodiff.h"

#include "absl/strings/ascii.h"
#include "graph/strings.h"
#include "ops/infer.h"
#include "ops/known_values.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

// By value: depends on a wanted one, or is one.
std::vector<uint8_t> DependOn(const Graph& graph, std::span<const ValueId> wanted) {
  std::vector<uint8_t> depends(graph.values.size(), 0);
  for (const ValueId id : wanted) depends[id.index] = 1;
  for (const Node& node : graph.nodes) {
    const OpDef* op = FindOp(node.op);
    bool any = false;
    for (size_t i = 0; i < node.inputs.size() && !any; ++i) {
      any = node.inputs[i].valid() && depends[node.inputs[i].index] &&
            !(op != nullptr && IsTypeOnly(*op, static_cast<int>(i)));
    }
    if (!any) continue;
    for (const ValueId id : node.outputs) {
      if (id.valid() && IsFloat(graph.value(id).type.dtype)) depends[id.index] = 1;
    }
  }
  return depends;
}

absl::Status CheckDifferentiable(const Graph& graph, const Node& node, const Value& loss) {
  const auto refuse = [&](std::string_view why) {
    return BadInputError(StrCat("node '", node.name, "' (", node.op, ") lies between '", loss.name,
                                "' and what it is to be differentiated by, ", why));
  };
  if (!node.subgraphs.empty()) {
    return refuse(
        "but gradients do not go through nested graphs; RNN, GRU and LSTM are differentiable, "
        "and so is a loop written out");
  }
  const OpDef* op = FindOp(node.op);
  if (op == nullptr || op->gradient == nullptr) return refuse("but is not differentiable");
  for (const std::vector<ValueId>* ids : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *ids) {
      if (!id.valid() || !graph.value(id).bounded) continue;
      return refuse(
          StrCat("but the size of '", graph.value(id).name, "' is known only when the graph runs"));
    }
  }
  return absl::OkStatus();
}

class ReverseSweep {
 public:
  ReverseSweep(GraphBuilder& builder, ValueId loss, std::span<const ValueId> wanted)
      : builder_(builder),
        loss_(loss),
        first_new_node_(builder.graph().nodes.size()),
        depends_(DependOn(builder.graph(), wanted)),
        parts_(builder.graph().values.size()) {}

  absl::Status Run() {
    if (!depends_[loss_.index]) return absl::OkStatus();
    Tensor one = Tensor::Zeros(builder_.graph().value(loss_).type);
    one.Set(0, 1);
    const std::string name = StrCat("grad/", builder_.graph().value(loss_).name);
    parts_[loss_.index] = {builder_.Constant(name, std::move(one))};
    for (size_t n = first_new_node_; n-- > 0;) MILLRACE_RETURN_IF_ERROR(Differentiate(NodeId(n)));
    return absl::OkStatus();
  }

  // What flows back to a value; !valid(): nothing.
  ValueId Total(ValueId id) {
    std::vector<ValueId>& parts = parts_[id.index];
    if (parts.empty()) return ValueId();
    const std::string name = StrCat("grad/", builder_.graph().value(id).name);
    ValueId total = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      total = builder_.Op("Add", {total, parts[i]}, {}, StrCat(name, "/sum"));
    }
    parts = {total};
    NameGradient(total, name);
    return total;
  }

 private:
  absl::Status Differentiate(NodeId id) {
    const Node node = builder_.graph().node(id);  // a copy: appending moves the graph's own
    bool flows = false;
    for (const ValueId out : node.outputs) flows |= out.valid() && !parts_[out.index].empty();
    GradientContext context{builder_, id, {}, {}, {}};
    bool wanted = false;
    for (const ValueId in : node.inputs) {
      context.wanted.push_back(in.valid() && depends_[in.index]);
      wanted |= context.wanted.back();
    }
    if (!flows || !wanted) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(
        CheckDifferentiable(builder_.graph(), node, builder_.graph().value(loss_)));

    std::vector<ValueId> output_grads;
    for (const ValueId out : node.outputs) {
      output_grads.push_back(out.valid() ? Total(out) : ValueId());
    }
    context.output_grads = output_grads;
    const size_t first = builder_.graph().nodes.size();
    MILLRACE_RETURN_IF_ERROR(FindOp(node.op)->gradient(context));
    for (size_t n = first; n < builder_.graph().nodes.size(); ++n) Adopt(node, NodeId(n));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!context.wanted[i] || !context.input_grads[i].valid()) continue;
      parts_[node.inputs[i].index].push_back(context.input_grads[i]);
    }
    return absl::OkStatus();
  }

  // A node that `forward`'s builder appended.
  void Adopt(const Node& forward, NodeId id) {
    Node& node = builder_.graph().node(id);
    node.device = forward.device;
    node.scope = forward.scope;
    Rename(node, StrCat("grad/", forward.name, "/", absl::AsciiStrToLower(node.op)));
  }

  // A gradient may be that of several values, and is called after the first.
  void NameGradient(ValueId id, const std::string& name) {
    const Value& value = builder_.graph().value(id);
    if (value.kind != ValueKind::kResult) return;
    if (static_cast<size_t>(value.producer.index) < first_new_node_) return;
    if (named_.size() <= static_cast<size_t>(id.index)) named_.resize(id.index + 1, 0);
    if (std::exchange(named_[id.index], 1)) return;
    if (value.result_index == 0) {
      Rename(builder_.graph().node(value.producer), name);
    } else {
      builder_.graph().value(id).name = builder_.UniqueValueName(name);
    }
  }

  void Rename(Node& node, const std::string& name) {
    node.name = builder_.UniqueNodeName(name);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid() || IsNamed(node.outputs[i])) continue;
      builder_.graph().value(node.outputs[i]).name =
          builder_.UniqueValueName(i == 0 ? node.name : StrCat(node.name, ".", i));
    }
  }
  bool IsNamed(ValueId id) const {
    return static_cast<size_t>(id.index) < named_.size() && named_[id.index] &&
           builder_.graph().value(id).result_index != 0;
  }

  GraphBuilder& builder_;
  const ValueId loss_;
  const size_t first_new_node_;
  const std::vector<uint8_t> depends_;
  std::vector<std::vector<ValueId>> parts_;  // by value: what its readers send back
  std::vector<uint8_t> named_;               // by value: has a name as a gradient
};

}  // namespace

absl::StatusOr<std::vector<ValueId>> AppendGradients(GraphBuilder& builder, ValueId loss,
                                                     std::span<const ValueId> wanted) {
  const Value& value = builder.graph().value(loss);
  if (!IsFloat(value.type.dtype) || NumElements(value.type.shape) != 1) {
    return BadInputError(StrCat("'", value.name, "' is ", ToString(value.type),
                                "; what is differentiated must be a float of one element"));
  }
  ReverseSweep sweep(builder, loss, wanted);
  MILLRACE_RETURN_IF_ERROR(sweep.Run());
  std::vector<ValueId> gradients;
  for (const ValueId id : wanted) gradients.push_back(sweep.Total(id));
  MILLRACE_RETURN_IF_ERROR(InferTypes(builder.graph()));
  return gradients;
}

}  // namespace millrace
