#include "ops/cpu/fused_prepared.h"

#include <algorithm>
#include <utility>

#include "graph/assert.h"
#include "ops/cpu/chain_ops.h"

namespace millrace {

// The strides of an operand that has the points in order.
std::vector<int64_t> DenseSpaceStrides(const FusedSpace& space) {
  std::vector<int64_t> strides(space.sizes.size(), 1);
  for (size_t d = space.sizes.size() - 1; d-- > 0;) {
    strides[d] = strides[d + 1] * space.sizes[d + 1];
  }
  return strides;
}

namespace {

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// `narrow`: all that the code touches is one number a slot.
int64_t AppendCode(const ChainCode& code, bool narrow, PreparedFused& prepared) {
  if (code.empty()) return -1;
  const auto begin = static_cast<int64_t>(prepared.steps.size());
  const auto is_splat = [&](int32_t slot) { return prepared.code.slots[slot].splat ? 1 : 0; };
  for (const ChainInstruction& i : code) {
    const int operands = OperandCount(i.op);
    const int splats = (operands > 0 ? is_splat(i.x) : 0) | (operands > 1 ? is_splat(i.y) * 2 : 0);
    const int form = narrow ? ChainMachine::kNarrow : splats;
    const ChainMachine::StepFn step = prepared.machine->step[static_cast<int>(i.op)][form];
    MILLRACE_CHECK(step != nullptr);
    prepared.steps.push_back({step, i.x, i.y});
  }
  return begin;
}

bool Touches(const ChainCode& code, int32_t slot) {
  return std::ranges::any_of(code, [&](const ChainInstruction& i) {
    const int operands = OperandCount(i.op);
    return (operands > 0 && i.x == slot) || (operands > 1 && i.y == slot);
  });
}

std::vector<PreparedFused::Moving> MovingOf(const PreparedFused& p, const ChainCode& sweep) {
  const bool is_map = p.space.kind == FusedSpace::Kind::kMap;
  const std::vector<int64_t> dense = DenseSpaceStrides(p.space);
  const auto is_direct = [&](DType dtype, const std::vector<int64_t>& strides) {
    return LiesAsLanes(dtype) && (is_map ? strides == dense : strides.back() == 1);
  };
  std::vector<PreparedFused::Moving> moving;
  for (int32_t s = 0; s < std::ssize(p.code.slots); ++s) {
    const FusedSlot& slot = p.code.slots[s];
    const int32_t i = slot.index;
    if (slot.splat || !slot.varies || !Touches(sweep, s)) continue;
    if (slot.kind == FusedSlot::Kind::kOutput) {
      moving.push_back(
          {s, i, true, is_direct(p.program.outputs[i].dtype, p.space.output_strides[i])});
    } else if (slot.kind == FusedSlot::Kind::kOperand) {
      moving.push_back(
          {s, i, false, is_direct(p.program.operands[i].dtype, p.space.operand_strides[i])});
    }
  }
  return moving;
}

}  // namespace

int64_t PreparedFused::PointerBytes() const {
  return RoundUp(std::ssize(code.slots) * static_cast<int64_t>(sizeof(float*)), 64);
}

int64_t PreparedFused::WorkerBytes() const {
  const int64_t floats = std::ssize(code.slots) * machine->block + code.carries * row_floats;
  return PointerBytes() + floats * static_cast<int64_t>(sizeof(float));
}

std::optional<PreparedFused> PrepareFused(FusedProgram program) {
  std::optional<FusedSpace> space = MakeFusedSpace(program);
  if (!space.has_value()) return std::nullopt;
  std::optional<FusedCode> code = CompileFused(program, *space);
  if (!code.has_value()) return std::nullopt;
  PreparedFused p;
  p.program = std::move(program);
  p.space = *std::move(space);
  p.code = *std::move(code);
  p.machine = &GetChainMachine();
  const bool rows = p.space.kind == FusedSpace::Kind::kRows;
  for (const FusedPhase& phase : p.code.phases) {
    const int64_t once = AppendCode(phase.once, rows, p);
    p.phases.push_back({once, AppendCode(phase.sweep, false, p), MovingOf(p, phase.sweep)});
  }
  p.finish = AppendCode(p.code.finish, rows, p);
  for (const FusedSlot& slot : p.code.slots) {
    if (slot.kind != FusedSlot::Kind::kConstant) continue;
    p.constants.insert(p.constants.end(), p.machine->lanes, slot.constant);
  }
  for (int32_t s = 0; s < std::ssize(p.code.slots); ++s) {
    if (p.code.slots[s].kind == FusedSlot::Kind::kCarry) p.carries.push_back(s);
    if (p.code.slots[s].kind == FusedSlot::Kind::kMask) p.mask = s;
  }
  if (p.code.carries > 0) p.row_floats = RoundUp(p.space.sizes.back(), p.machine->block);
  return p;
}

}  // namespace millrace
