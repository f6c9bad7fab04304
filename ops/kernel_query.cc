#include "ops/kernel_query.h"

#include <algorithm>

#include "graph/strings.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "ops/signature.h"

namespace millrace {

absl::StatusOr<NodeQuery> NormalizeQuery(const NodeQuery& query) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr) return BadInputError(StrCat("unknown op '", query.op, "'"));
  if (op->reference == nullptr) return BadInputError(StrCat(op->name, " is no kernel's work"));
  NodeQuery normal = query;
  std::vector<SignatureFault> faults;
  CheckAttrs(*op, normal.attrs, faults);
  std::vector<const TensorType*> inputs;
  for (const auto& type : query.inputs) inputs.push_back(type ? &*type : nullptr);
  CheckOperandCounts(*op, inputs, static_cast<int>(query.outputs.size()), faults);
  if (faults.empty()) CheckOperandTypes(*op, inputs, faults);
  if (!faults.empty()) return BadInputError(StrCat(op->name, ": ", faults[0].message));

  Attrs storage;
  if (const Attrs& filled = WithDefaults(*op, normal.attrs, storage); &filled != &normal.attrs) {
    normal.attrs = Attrs(filled);
  }
  if (!op->traits.host_inputs.empty()) return normal;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferOutputs(query, {}));
  for (size_t i = 0; i < query.outputs.size(); ++i) {
    if (!query.outputs[i].has_value() || *query.outputs[i] == types[i]) continue;
    return BadInputError(StrCat(op->name, ": output ", i, " is ", ToString(types[i]), ", not ",
                                ToString(*query.outputs[i])));
  }
  return normal;
}

KernelVariant DenseVariant(const NodeQuery& query, std::string name) {
  KernelVariant variant;
  variant.name = std::move(name);
  variant.in_layouts.assign(query.inputs.size(), Layout::kStrided);
  variant.out_layouts.assign(query.outputs.size(), Layout::kStrided);
  const Work work = WorkOf(query);
  variant.flops = work.flops;
  variant.bytes = work.bytes;
  return variant;
}

bool AllOf(const NodeQuery& query, DType dtype) {
  const auto fits = [&](const std::optional<TensorType>& type) {
    return !type.has_value() || type->dtype == dtype;
  };
  return std::all_of(query.inputs.begin(), query.inputs.end(), fits) &&
         std::all_of(query.outputs.begin(), query.outputs.end(), fits);
}

bool GivesNothing(const NodeQuery& query) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr || op->traits.has_effects || op->traits.host_call) return false;
  return std::all_of(query.outputs.begin(), query.outputs.end(), [](const auto& type) {
    return !type.has_value() || NumElements(type->shape) == 0;
  });
}

}  // namespace millrace
