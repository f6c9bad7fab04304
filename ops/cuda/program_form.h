// How a fused program runs on a GPU: which thread computes what, and when each value is known.
#ifndef MILLRACE_OPS_CUDA_PROGRAM_FORM_H_
#define MILLRACE_OPS_CUDA_PROGRAM_FORM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/fused_program.h"
#include "ops/cuda/program_space.h"

namespace millrace {

inline constexpr int64_t kBlockThreads = 256;  // of all but long rows

// How lanes share a row, and rows a block.
enum class RowTeam : uint8_t {
  kGroup,    // `lanes` neighbours of a warp each
  kBlock,    // a block each
  kColumns,  // threads x, x + columns, ...: neighbours of a warp have neighbouring rows
};

struct ProgramForm {
  ProgramSpace space;
  // By instruction:
  std::vector<bool> live;    // outputs are made of it
  std::vector<bool> varies;  // along the row
  std::vector<int> depth;    // reductions before it, one after another
  int sweeps = 0;            // over a row that reduce: the depth of what depends on most

  const SpaceDim* inner = nullptr;  // of `space`: along which a lane's elements are neighbours
  int64_t width = 1;                // of them
  RowTeam form = RowTeam::kGroup;
  int64_t threads = kBlockThreads, blocks = 1;
  int64_t lanes = 1, rounds = 1;           // of a row
  int64_t columns = 1, column_blocks = 1;  // kColumns
  bool wide = false;                       // indices need 64 bits

  ProgramForm() = default;
  ProgramForm(ProgramForm&&) = default;  // a copy would point into the original
};

// `largest_bytes`: of an operand or output.
ProgramForm MakeProgramForm(const FusedProgram& program, int64_t largest_bytes);

// Instructions: `roots` and what they are made of, down to values for which stop(value) holds,
// which are left out.
template <typename Stop>
std::vector<bool> NeededFor(const FusedProgram& program, std::span<const int32_t> roots,
                            Stop&& stop);

// f(value) for each operand of the instruction that is a value.
template <typename F>
void ForEachValueOperand(const ScalarInstruction& s, F&& f) {
  if (s.op == ScalarOp::kLoad || s.op == ScalarOp::kIndex) return;
  for (const int32_t v : {s.a, s.b, s.c}) {
    if (v >= 0) f(v);
  }
}

template <typename Stop>
std::vector<bool> NeededFor(const FusedProgram& program, std::span<const int32_t> roots,
                            Stop&& stop) {
  std::vector<bool> needed(program.instructions.size(), false);
  for (const int32_t root : roots) needed[static_cast<size_t>(root)] = !stop(root);
  for (size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    ForEachValueOperand(program.instructions[i], [&](int32_t v) {
      if (!stop(v)) needed[static_cast<size_t>(v)] = true;
    });
  }
  return needed;
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_PROGRAM_FORM_H_
