#include "passes/parallel/local_node.h"

#include <algorithm>
#include <vector>

#include "ops/infer.h"
#include "ops/signature.h"

namespace millrace {
namespace {

// One operand's type, cut; false where it is not cut evenly.
bool CutType(const AxisSharding& along, int64_t parts, std::optional<TensorType>& type) {
  if (along.kind != AxisSharding::Kind::kShard || !type.has_value()) return true;
  if (along.dim < 0 || along.dim >= type->shape.rank()) return false;
  int64_t& dim = type->shape[along.dim];
  if (dim == 0 || dim % parts != 0) return false;
  dim /= parts;
  return true;
}

}  // namespace

bool StatesShape(const Graph& graph, const Node& node, size_t i) {
  const OpDef* op = FindOp(node.op);
  if (op == nullptr || !node.inputs[i].valid() || node.outputs.empty()) return false;
  const OperandSpec* operand = OperandAt(op->inputs, static_cast<int>(i));
  if (operand == nullptr || operand->name != "shape" || !node.outputs[0].valid()) return false;
  const TensorType& type = graph.value(node.inputs[i]).type;
  return type.dtype == DType::kI64 && type.shape.rank() == 1 &&
         type.shape[0] == graph.value(node.outputs[0]).type.shape.rank();
}

int PlaceOperand(const Node& node) {
  const OpDef* op = FindOp(node.op);
  if (op == nullptr) return -1;
  const auto place = std::ranges::find(op->inputs, "place", &OperandSpec::name);
  return place == op->inputs.end() ? -1 : static_cast<int>(place - op->inputs.begin());
}

Tensor DimsTensor(const TensorType& type) {
  return Tensor::FromSpan<int64_t>({type.shape.rank()}, type.shape.dims());
}

std::optional<NodeQuery> CutQuery(const NodeQuery& query, const ShardingRule& rule, int64_t parts) {
  NodeQuery cut = query;
  for (size_t i = 0; i < rule.inputs.size() && i < cut.inputs.size(); ++i) {
    if (!CutType(rule.inputs[i], parts, cut.inputs[i])) return std::nullopt;
  }
  for (size_t i = 0; i < rule.outputs.size() && i < cut.outputs.size(); ++i) {
    if (!CutType(rule.outputs[i], parts, cut.outputs[i])) return std::nullopt;
  }
  return cut;
}

bool GivesItsParts(const Graph& graph, const Node& node, const NodeQuery& cut, KnownValues& known) {
  if (!node.subgraphs.empty()) return false;
  std::vector<Tensor> constants(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    if (StatesShape(graph, node, i) && cut.outputs[0].has_value()) {
      constants[i] = DimsTensor(*cut.outputs[0]);
    } else if (cut.inputs[i] == graph.value(node.inputs[i]).type) {
      constants[i] = known.Of(node.inputs[i]).value_or(Tensor());
    }
  }
  const absl::StatusOr<std::vector<TensorType>> types = InferOutputs(cut, constants);
  if (!types.ok()) return false;
  for (size_t i = 0; i < cut.outputs.size(); ++i) {
    if (cut.outputs[i].has_value() && (*types)[i] != *cut.outputs[i]) return false;
  }
  return true;
}

}  // namespace millrace
