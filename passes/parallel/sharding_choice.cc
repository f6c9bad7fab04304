#include "passes/parallel/sharding_choice.h"

namespace millrace {
namespace {

Sharding OperandSharding(const ShardingChoice& choice, NodeId node, size_t operand,
                         std::vector<AxisSharding> ShardingRule::*operands) {
  Sharding sharding = ReplicatedOn(choice.mesh);
  const std::vector<ShardingRule>& rules = choice.rules[node.index];
  for (size_t axis = 0; axis < rules.size(); ++axis) {
    const std::vector<AxisSharding>& along = rules[axis].*operands;
    if (operand < along.size()) sharding.axes[axis] = along[operand];
  }
  return sharding;
}

}  // namespace

Sharding InputSharding(const ShardingChoice& choice, NodeId node, size_t input) {
  return OperandSharding(choice, node, input, &ShardingRule::inputs);
}

Sharding OutputSharding(const ShardingChoice& choice, NodeId node, size_t output) {
  return OperandSharding(choice, node, output, &ShardingRule::outputs);
}

std::optional<TensorType> LocalType(const TensorType& whole, const Sharding& sharding,
                                    const Mesh& mesh) {
  TensorType local = whole;
  for (size_t axis = 0; axis < sharding.axes.size(); ++axis) {
    const AxisSharding& along = sharding.axes[axis];
    if (along.kind != AxisSharding::Kind::kShard) continue;
    if (along.dim < 0 || along.dim >= local.shape.rank()) return std::nullopt;
    int64_t& dim = local.shape[along.dim];
    if (dim % mesh.axes[axis].size != 0) return std::nullopt;
    dim /= mesh.axes[axis].size;
  }
  return local;
}

}  // namespace millrace
