// A FusedProgram as code for the chain machine (chain.h), for one of the three shapes of index
// space that it runs over.
#ifndef MILLRACE_OPS_CPU_FUSED_CODE_H_
#define MILLRACE_OPS_CPU_FUSED_CODE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/fused_program.h"
#include "ops/cpu/chain.h"
#include "ops/cpu/fused_space.h"

namespace millrace {

// What a slot holds.
struct FusedSlot {
  enum class Kind : uint8_t {
    kOperand,   // index: operand; its elements at the points of the block
    kOutput,    // index: output
    kConstant,  // `constant`
    kTemp,      // a value of the code's own
    kCarry,     // index: row buffer; values of one sweep that a later one reads
    kReduced,   // what a reduction came to
    kMask,      // the lanes of the block that are points
  };
  Kind kind = Kind::kTemp;
  int32_t index = 0;
  float constant = 0;  // a lane
  bool varies = true;  // kOperand, kOutput: along the reduce dim
  bool splat = false;  // one number, not a block
};

struct ChainInstruction {
  ChainOp op = ChainOp::kEnd;
  int32_t x = 0, y = 0;
};
using ChainCode = std::vector<ChainInstruction>;  // ends with kEnd; empty: nothing to do

struct FusedReduction {
  ChainOp op = ChainOp::kReduceSum;
  int32_t accumulator = 0;  // slot, kTemp
  int32_t result = 0;       // slot, kReduced
  int32_t total = -1;       // slot, kTemp: kColumns, of sums: what many rows came to
};

// For each point (group of points) that is not reduced: in each phase what does not vary along the
// reduce dim, then a sweep along it that computes `reductions`; `finish` at the end. kRows: what
// does not vary is one number, and its code may be narrow. kMap has one phase with a sweep over all
// points.
struct FusedPhase {
  ChainCode once, sweep;
  std::vector<FusedReduction> reductions;
};

struct FusedCode {
  std::vector<FusedSlot> slots;
  std::vector<FusedPhase> phases;
  ChainCode finish;
  int carries = 0;
};

// Nothing where the machine lacks an operation or a type.
std::optional<FusedCode> CompileFused(const FusedProgram& program, const FusedSpace& space);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_FUSED_CODE_H_
