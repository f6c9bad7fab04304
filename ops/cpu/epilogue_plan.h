// Epilogues (ops/fused_product.h) as a chain of simple steps, as kernels can take them.
#ifndef MILLRACE_OPS_CPU_EPILOGUE_PLAN_H_
#define MILLRACE_OPS_CPU_EPILOGUE_PLAN_H_

#include <optional>
#include <vector>

#include "ops/fused_product.h"

namespace millrace {

enum class EpilogueOp : uint8_t {
  // of alpha and beta
  kLinear,  // alpha x + beta
  kRelu,    // x below 0: alpha x
  kElu,     // x below 0: alpha (exp(x) - 1)
  kClip,    // between alpha and beta
  kSwish,   // x sigmoid(alpha x)
  kHardSwish,
  kTanh,
  kSigmoid,
  kGelu,
  kGeluTanh,
  kAbs,
  kSqrt,
  // of an operand
  kAdd,
  kSub,
  kMul,
  kDiv,
  kSum,  // adds the operand of the result's size
};

struct EpilogueStep {
  EpilogueOp op = EpilogueOp::kLinear;
  float alpha = 0, beta = 0;
  int operand = -1;  // which further operand of the epilogue, from 0; -1: none
};

struct EpiloguePlan {
  std::vector<EpilogueStep> steps;
  // Of the further operands, with as many dims as the result has: one element for each channel (dim
  // 1), one alone, or, of the one that is summed, all of the result's.
  std::vector<Shape> operand_shapes;
  int sum_operand = -1;  // of kSum: the result may lie over it
};

// The steps that compute exactly that program, up to the rounding of functions; a NaN that meets a
// bound (Relu, Clip) may become the bound. nullopt: there are none. One operand of the result's
// size is taken, if it is added; f32 only.
std::optional<EpiloguePlan> PlanEpilogue(const FusedProduct& product);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_EPILOGUE_PLAN_H_
