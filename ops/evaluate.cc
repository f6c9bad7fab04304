#include "ops/evaluate.h"

#include "graph/strings.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "ops/signature.h"

namespace millrace {

absl::StatusOr<NodeQuery> ResolveQuery(const NodeQuery& query, std::span<const Tensor> inputs) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferOutputs(query, inputs));
  NodeQuery resolved = query;
  const OpDef& op = *FindOp(query.op);
  std::vector<SignatureFault> none;  // inference has found the attributes right
  CheckAttrs(op, resolved.attrs, none);
  Attrs storage;
  if (const Attrs& filled = WithDefaults(op, resolved.attrs, storage); &filled != &resolved.attrs) {
    resolved.attrs = Attrs(filled);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (resolved.outputs[i].has_value()) resolved.outputs[i] = types[i];
  }
  return resolved;
}

absl::StatusOr<std::vector<Tensor>> RunReference(const NodeQuery& resolved,
                                                 std::span<const Tensor> inputs) {
  const OpDef* op = FindOp(resolved.op);
  if (op == nullptr || op->reference == nullptr) {
    return BadInputError(StrCat(resolved.op, " is no kernel's work"));
  }
  std::vector<Tensor> outputs(resolved.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::optional<TensorType>& type = resolved.outputs[i];
    if (!type.has_value()) continue;
    if (op->traits.host_call) {  // comes empty, with its bound as the type
      outputs[i] = Tensor::Wrap(*type, nullptr);
    } else {
      MILLRACE_ASSIGN_OR_RETURN(outputs[i], Tensor::Allocate(*type));
    }
  }
  MILLRACE_RETURN_IF_ERROR(op->reference({resolved.attrs, inputs, outputs}));
  return outputs;
}

}  // namespace millrace
