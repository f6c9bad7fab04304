// Loops follow the words of graph/control_flow.h, on whole tensors: elements are cut out and stacks
// put together by index arithmetic of their own.
#include "ops/evaluate_graph.h"

#include <cstring>
#include <map>
#include <span>

#include "graph/control_flow.h"
#include "graph/weights.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "ops/signature.h"

namespace millrace {
namespace {

// `tensor` seen as [outer, size, inner] around `axis`: calls f(outer index, size, inner bytes).
struct Around {
  Around(const Shape& shape, int axis, DType dtype) : size(shape[axis]), inner(SizeOf(dtype)) {
    for (int d = 0; d < axis; ++d) outer *= shape[d];
    for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  }
  int64_t outer = 1, size, inner;
};

Tensor CutElement(const Tensor& whole, int axis, int64_t index) {
  const Around around(whole.shape(), axis, whole.dtype());
  Tensor element = Tensor::Zeros({whole.dtype(), ElementShape(whole.shape(), axis)});
  for (int64_t o = 0; o < around.outer; ++o) {
    std::memcpy(element.mutable_bytes() + o * around.inner,
                whole.bytes() + (o * around.size + index) * around.inner,
                static_cast<size_t>(around.inner));
  }
  return element;
}

// `type` is the stack's, with the true number of elements.
Tensor StackElements(const std::vector<Tensor>& elements, const TensorType& type, int axis,
                     bool backwards) {
  const Around around(type.shape, axis, type.dtype);
  Tensor stack = Tensor::Zeros(type);
  for (size_t i = 0; i < elements.size(); ++i) {
    const size_t at = backwards ? elements.size() - 1 - i : i;
    for (int64_t o = 0; o < around.outer; ++o) {
      std::memcpy(
          stack.mutable_bytes() + (o * around.size + static_cast<int64_t>(at)) * around.inner,
          elements[i].bytes() + o * around.inner, static_cast<size_t>(around.inner));
    }
  }
  return stack;
}

bool IsTrue(const Tensor& condition) { return condition.AsInt64(0) != 0; }

class LoopEvaluator {
 public:
  LoopEvaluator(const Graph& graph, const Node& node, const CallForm& form,
                const std::vector<Tensor>& inputs, const OperandEdit& edit)
      : graph_(graph),
        node_(node),
        body_(node.subgraphs[0].graph),
        form_(form),
        inputs_(inputs),
        edit_(edit),
        stacks_(node.outputs.size()) {}

  absl::StatusOr<std::vector<Tensor>> Run() {
    for (int i = 0; i < form_.num_carried; ++i) {
      carried_.push_back(inputs_[form_.inputs[form_.first_carried_in + i].operand]);
    }
    bool goes_on = form_.condition < 0 || IsTrue(inputs_[form_.condition]);
    const int64_t limit = Limit();
    int64_t trips = 0;
    for (; goes_on && (limit < 0 || trips < limit); ++trips) {
      MILLRACE_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                                EvaluateGraph(body_, BodyInputs(trips), edit_));
      for (size_t k = 0; k < form_.outputs.size(); ++k) {
        const BodyPort& port = form_.outputs[k];
        if (port.kind == PortKind::kCondition && form_.condition >= 0) goes_on = IsTrue(results[k]);
        if (port.kind == PortKind::kCarried) carried_[port.operand] = results[k];
        if (port.kind == PortKind::kElement) stacks_[port.operand].push_back(results[k]);
      }
    }
    return Outputs(trips);
  }

 private:
  int64_t Limit() const {
    if (form_.trip_count >= 0) return std::max<int64_t>(0, inputs_[form_.trip_count].AsInt64(0));
    for (const BodyPort& port : form_.inputs) {
      if (port.kind != PortKind::kElement) continue;
      const Shape& whole = inputs_[port.operand].shape();
      return whole[ElementAxis(port, whole)];
    }
    return -1;
  }

  std::vector<Tensor> BodyInputs(int64_t trip) const {
    std::vector<Tensor> values;
    for (size_t k = 0; k < form_.inputs.size(); ++k) {
      const BodyPort& port = form_.inputs[k];
      const TensorType& type = body_.value(body_.inputs[k]).type;
      switch (port.kind) {
        case PortKind::kSame:
          values.push_back(inputs_[port.operand]);
          break;
        case PortKind::kCarried:
          values.push_back(carried_[k - form_.first_carried_in]);
          break;
        case PortKind::kTrip:
        case PortKind::kCondition:
          values.push_back(Tensor::Zeros(type));
          values.back().Set(0, port.kind == PortKind::kTrip ? static_cast<double>(trip) : 1);
          break;
        case PortKind::kElement: {
          const Tensor& whole = inputs_[port.operand];
          const int axis = ElementAxis(port, whole.shape());
          values.push_back(
              CutElement(whole, axis, port.backwards ? whole.shape()[axis] - 1 - trip : trip));
          break;
        }
      }
    }
    return values;
  }

  std::vector<Tensor> Outputs(int64_t trips) const {
    std::vector<Tensor> outputs = carried_;
    for (const BodyPort& port : form_.outputs) {
      if (port.kind != PortKind::kElement) continue;
      if (!node_.outputs[port.operand].valid()) {
        outputs.emplace_back();
        continue;
      }
      TensorType type = graph_.value(node_.outputs[port.operand]).type;
      const int axis = ElementAxis(port, type.shape);
      type.shape[axis] = trips;
      outputs.push_back(StackElements(stacks_[port.operand], type, axis, port.backwards));
    }
    return outputs;
  }

  const Graph& graph_;
  const Node& node_;
  const Graph& body_;
  const CallForm& form_;
  const std::vector<Tensor>& inputs_;
  const OperandEdit& edit_;
  std::vector<Tensor> carried_;
  std::vector<std::vector<Tensor>> stacks_;
};

absl::StatusOr<std::vector<Tensor>> EvaluateCall(const Graph& graph, const Node& node,
                                                 ControlFlow flow,
                                                 const std::vector<Tensor>& inputs,
                                                 const OperandEdit& edit) {
  MILLRACE_ASSIGN_OR_RETURN(const CallForm form, FormOf(flow, node));
  if (form.IsLoop()) return LoopEvaluator(graph, node, form, inputs, edit).Run();
  const size_t taken = IsTrue(inputs[0]) ? 0 : 1;
  return EvaluateGraph(node.subgraphs[taken].graph, {inputs.begin() + 1, inputs.end()}, edit);
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Graph& graph, const Node& node,
                                                 const std::vector<Tensor>& inputs,
                                                 const OperandEdit& edit) {
  const OpDef* op = FindOp(node.op);
  if (op == nullptr) return InternalError(node.op);
  if (op->traits.control_flow != ControlFlow::kNone) {
    return EvaluateCall(graph, node, op->traits.control_flow, inputs, edit);
  }
  NodeQuery query{node.op, node.attrs, {}, {}};
  for (const Tensor& input : inputs) {
    query.inputs.push_back(input.has_data() ? std::optional(input.type()) : std::nullopt);
  }
  for (const ValueId id : node.outputs) {
    query.outputs.push_back(id.valid() ? std::optional(TensorType()) : std::nullopt);
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferOutputs(query, inputs));
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    // Results of unknown size are made by the op.
    outputs.push_back(!node.outputs[i].valid() ? Tensor()
                      : op->traits.host_call   ? Tensor::Wrap(types[i], nullptr)
                                               : Tensor::Zeros(types[i]));
  }
  Attrs storage;
  MILLRACE_RETURN_IF_ERROR(
      Annotate(op->reference({WithDefaults(*op, node.attrs, storage), inputs, outputs}), node.op));
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> EvaluateGraph(const Graph& graph,
                                                  const std::vector<Tensor>& inputs,
                                                  const OperandEdit& edit) {
  std::map<ValueId, Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
  WeightStore weights(graph);
  for (const auto* ids : {&graph.params, &graph.constants}) {
    for (const ValueId id : *ids) {
      MILLRACE_ASSIGN_OR_RETURN(values[id], weights.Get(id));
    }
  }
  for (const Node& node : graph.nodes) {
    std::vector<Tensor> operands;
    for (const ValueId id : node.inputs) operands.push_back(id.valid() ? values[id] : Tensor());
    if (edit) edit(graph, node, operands);
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                              EvaluateNode(graph, node, operands, edit));
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i].valid()) values[node.outputs[i]] = results[i];
    }
  }
  std::vector<Tensor> outputs;
  for (const ValueId id : graph.outputs) outputs.push_back(values[id]);
  return outputs;
}

}  // namespace millrace
