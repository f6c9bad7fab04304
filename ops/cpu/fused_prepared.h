// A fused program as its kernel keeps it between runs.
#ifndef MILLRACE_OPS_CPU_FUSED_PREPARED_H_
#define MILLRACE_OPS_CPU_FUSED_PREPARED_H_

#include <optional>
#include <vector>

#include "ops/cpu/fused_code.h"

namespace millrace {

// Elements of this type lie in memory as lanes hold them.
inline bool LiesAsLanes(DType dtype) { return dtype == DType::kF32 || dtype == DType::kI32; }

// The strides of an operand that has the points in order.
std::vector<int64_t> DenseSpaceStrides(const FusedSpace& space);

// Everything that does not change between runs.
struct PreparedFused {
  FusedProgram program;
  FusedSpace space;
  FusedCode code;
  const ChainMachine* machine = nullptr;
  std::vector<ChainStep> steps;  // all code, one piece after another
  // Slots of operands and results that change from block to block. `direct`: f32 or i32, in the
  // order of the lanes.
  struct Moving {
    int32_t slot = 0, index = 0;
    bool is_output = false, direct = false;
  };
  struct Phase {
    int64_t once = -1, sweep = -1;  // into steps; -1: nothing to do
    std::vector<Moving> moving;     // what its sweep touches
  };
  std::vector<Phase> phases;
  int64_t finish = -1;
  std::vector<int32_t> carries;  // slots
  int32_t mask = -1;             // slot
  std::vector<float> constants;  // one vector each, in the order of their slots
  int64_t row_floats = 0;        // of a carried row

  // The memory of a worker: where slots lie, a block for each, carried rows.
  int64_t PointerBytes() const;
  int64_t WorkerBytes() const;
};

// nullopt: the chain machine cannot run the program.
std::optional<PreparedFused> PrepareFused(FusedProgram program);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_FUSED_PREPARED_H_
