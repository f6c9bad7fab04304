// fused.Conv and fused.MatMul: a product whose result goes through an epilogue, a FusedProgram over
// the result's elements. Inputs are those of the plain op, then the epilogue's further operands;
// attributes those of the plain op, and `epilogue`, whose operand @0 is the plain result.
#ifndef MILLRACE_OPS_FUSED_PRODUCT_H_
#define MILLRACE_OPS_FUSED_PRODUCT_H_

#include <optional>
#include <string_view>
#include <vector>

#include "graph/fused_program.h"
#include "graph/status.h"
#include "graph/target.h"

namespace millrace {

inline constexpr std::string_view kEpilogue = "epilogue";

struct FusedProduct {
  NodeQuery plain;                   // without the epilogue
  FusedProgram epilogue;             // over the plain result's dims; one dense output
  std::vector<TensorType> operands;  // of the epilogue, from @1 on
  size_t first_operand = 0;          // which input of the fused op @1 is
};

// A fused product taken apart; a plain product (Conv, MatMul) with an epilogue that does nothing,
// or, a Gemm with alpha 1, adds beta C. nullopt: another op. Types are taken to be what inference
// gives. Attributes need not have their defaults.
std::optional<FusedProduct> FusedProductOf(const NodeQuery& query);

// The fused op's query: the other way round.
NodeQuery QueryOf(const FusedProduct& product);

// Whether an epilogue leaves its operand @0 as it is.
bool IsIdentity(const FusedProgram& epilogue);

}  // namespace millrace

#endif  // MILLRACE_OPS_FUSED_PRODUCT_H_
