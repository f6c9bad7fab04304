#include "ops/fused_product.h"

#include <algorithm>

#include "ops/scalar_program.h"

namespace millrace {
namespace {

FusedProgram IdentityOver(const TensorType& type) {
  FusedProgram program = ProgramOver(type.shape);
  StoreOutput(program, LoadOperand(program, type, type.shape));
  return program;
}

bool IsPlain(const NodeQuery& query) {
  return query.op == "Conv" || query.op == "MatMul" ||
         (query.op == "Gemm" && query.attrs.Float("alpha", 1) == 1);
}

// beta C is what a Gemm's product goes through.
void SplitGemm(const NodeQuery& query, FusedProduct& product) {
  if (query.inputs.size() < 3 || !query.inputs[2].has_value()) return;
  const Shape& space = query.outputs[0]->shape;
  FusedProgram epilogue = ProgramOver(space);
  const ScalarTerm y = LoadOperand(epilogue, *query.outputs[0], space);
  const ScalarTerm c = LoadOperand(epilogue, *query.inputs[2], space);
  const double beta = query.attrs.Float("beta", 1);
  StoreOutput(epilogue, y + (beta == 1 ? c : beta * c));
  product.epilogue = std::move(epilogue);
  product.operands = {*query.inputs[2]};
}

}  // namespace

bool IsIdentity(const FusedProgram& epilogue) {
  return epilogue.outputs.size() == 1 && epilogue.operands.size() == 1 &&
         epilogue.instructions[epilogue.outputs[0].value].op == ScalarOp::kLoad;
}

std::optional<FusedProduct> FusedProductOf(const NodeQuery& query) {
  if (query.outputs.empty() || !query.outputs[0].has_value()) return std::nullopt;
  FusedProduct product;
  product.plain = query;
  if (IsPlain(query)) {
    product.epilogue = IdentityOver(*query.outputs[0]);
    product.first_operand = query.op == "Conv" ? 3 : 2;
    product.plain.inputs.resize(std::min(query.inputs.size(), product.first_operand));
    if (query.op == "Gemm") SplitGemm(query, product);
    return product;
  }
  if (query.op != "fused.Conv" && query.op != "fused.MatMul") return std::nullopt;
  const absl::StatusOr<FusedProgram> epilogue =
      ParseFusedProgram(query.attrs.String(kEpilogue, ""));
  if (!epilogue.ok() || epilogue->operands.empty()) return std::nullopt;
  product.epilogue = *epilogue;
  product.first_operand = query.op == "fused.Conv" ? 3 : 2;
  for (size_t i = product.first_operand; i < query.inputs.size(); ++i) {
    if (!query.inputs[i].has_value()) return std::nullopt;
    product.operands.push_back(*query.inputs[i]);
  }
  product.plain.attrs.Erase(kEpilogue);
  product.plain.inputs.resize(std::min(query.inputs.size(), product.first_operand));
  product.plain.outputs[0]->dtype = epilogue->operands[0].dtype;
  const bool turned = query.attrs.Bool("transA", false) || query.attrs.Bool("transB", false);
  product.plain.op = query.op == "fused.Conv" ? "Conv" : turned ? "Gemm" : "MatMul";
  if (product.plain.op == "MatMul") {
    product.plain.attrs.Erase("transA");
    product.plain.attrs.Erase("transB");
  }
  return product;
}

NodeQuery QueryOf(const FusedProduct& product) {
  NodeQuery query = product.plain;
  query.op = query.op == "Conv" ? "fused.Conv" : "fused.MatMul";
  query.attrs.Erase("alpha");
  query.attrs.Erase("beta");
  query.attrs.Set(kEpilogue, ToText(product.epilogue));
  if (!product.operands.empty()) query.inputs.resize(product.first_operand);
  query.inputs.insert(query.inputs.end(), product.operands.begin(), product.operands.end());
  query.outputs[0]->dtype = product.epilogue.outputs[0].dtype;
  return query;
}

}  // namespace millrace
