#include "ops/op_def.h"

#include <algorithm>

namespace millrace {

std::string_view AttrKindName(AttrKind kind) {
  switch (kind) {
    case AttrKind::kBool:
      return "bool";
    case AttrKind::kInt:
      return "int";
    case AttrKind::kFloat:
      return "float";
    case AttrKind::kString:
      return "string";
    case AttrKind::kInts:
      return "list of ints";
    case AttrKind::kFloats:
      return "list of floats";
    case AttrKind::kStrings:
      return "list of strings";
  }
  return "?";
}

Work DefaultWork(const NodeQuery& query) {
  Work work;
  for (const auto* operands : {&query.inputs, &query.outputs}) {
    for (const std::optional<TensorType>& type : *operands) {
      if (type.has_value()) work.bytes += static_cast<double>(ByteSize(*type));
    }
  }
  const OpDef* op = FindOp(query.op);
  const bool counts = op != nullptr && (op->fusion == FusionClass::kElementwise ||
                                        op->fusion == FusionClass::kReduction);
  if (!counts) return work;
  for (const std::optional<TensorType>& type : query.outputs) {
    if (type.has_value()) work.flops += static_cast<double>(NumElements(type->shape));
  }
  return work;
}

namespace {

// Ops may take for granted that somebody wants a result.
bool HasResult(const NodeQuery& query) {
  return std::any_of(query.outputs.begin(), query.outputs.end(),
                     [](const auto& type) { return type.has_value(); });
}

}  // namespace

Work WorkOf(const NodeQuery& query) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr || !HasResult(query)) return {};
  return op->work != nullptr ? op->work(query) : DefaultWork(query);
}

std::vector<ShardingRule> ShardingRulesOf(const NodeQuery& query) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr || op->sharding == nullptr || !HasResult(query)) return {};
  return op->sharding(query);
}

}  // namespace millrace
