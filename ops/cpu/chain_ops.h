// Which of the chain machine's operations a scalar operation is, by what its lanes hold.
#ifndef MILLRACE_OPS_CPU_CHAIN_OPS_H_
#define MILLRACE_OPS_CPU_CHAIN_OPS_H_

#include <optional>

#include "graph/fused_program.h"
#include "ops/cpu/chain.h"

namespace millrace {

// Types that a 32-bit lane can hold: f32, f16 and bf16 (as f32), i32, bool.
bool HasLane(DType dtype);
// The bits of a lane that holds `value`.
float LaneOf(DType dtype, double value);

// Not from an integer to a half: by way of f32 it would be rounded twice.
bool HasCast(DType from, DType to);
// Whether the machine can compute instruction `s` of the program.
bool IsChainOp(const FusedProgram& program, const ScalarInstruction& s);

// An operation of two operands, and the same with the operands the other way round.
struct PairOps {
  ChainOp op, reversed;
};

// nullopt: there is none for operands of this type.
std::optional<ChainOp> UnaryOf(ScalarOp op, DType operand);
std::optional<PairOps> BinaryOf(ScalarOp op, DType operands);
ChainOp ReduceOf(ScalarOp op);
// How many slots the operation names: 0 to 2.
int OperandCount(ChainOp op);
// From lane to lane; kLoad: they are the same. Rounding to a half comes on top.
ChainOp CastOf(DType from, DType to);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_CHAIN_OPS_H_
