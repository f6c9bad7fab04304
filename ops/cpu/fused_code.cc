#include "ops/cpu/fused_code.h"

#include <algorithm>

#include "graph/assert.h"
#include "ops/cpu/chain_ops.h"

namespace millrace {
namespace {

// --- Code ----------------------------------------------------------------------------------------

constexpr int64_t kMaxCarriedRow = 16384;  // elements: 64 KiB
constexpr int kWorthCarrying = 4;          // operations
constexpr int kMaxCost = 1000;             // more is as good

// What it takes to compute a value again: functions count ten.
int OperationCost(ScalarOp op) {
  if (Arity(op) == 0 || IsReduction(op)) return 0;
  const bool is_function = (op >= ScalarOp::kExp && op <= ScalarOp::kLog) ||
                           (op >= ScalarOp::kTanh && op <= ScalarOp::kGeluTanh);
  return is_function ? 10 : 1;
}

class FusedCompiler {
 public:
  FusedCompiler(const FusedProgram& program, const FusedSpace& space)
      : p_(program), space_(space) {}

  FusedCode Compile() {
    Analyze();
    for (int phase = 0; phase <= last_level_; ++phase) FindSweep(phase);
    for (int phase = 0; phase <= last_level_; ++phase) EmitPhase(phase);
    acc_ = -1;
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (!OutputVaries(i)) StoreResult(i, code_.finish);
    }
    End(code_.finish);
    return std::move(code_);
  }

 private:
  using Ids = std::vector<int32_t>;

  bool IsMap() const { return space_.kind == FusedSpace::Kind::kMap; }
  // Its places along the reduce dim differ, whether what they get does or not.
  bool OutputVaries(size_t i) const {
    return IsMap() || space_.output_strides[i][space_.ReduceDim()] != 0;
  }
  const ScalarInstruction& at(int32_t i) const { return p_.instructions[i]; }
  int32_t size() const { return static_cast<int32_t>(p_.instructions.size()); }

  template <typename F>
  void ForOperands(int32_t i, F&& f) const {
    const int32_t operands[] = {at(i).a, at(i).b, at(i).c};
    for (int k = BoundOf(at(i)) != nullptr ? 1 : 0; k < Arity(at(i).op); ++k) f(operands[k]);
  }

  // --- What is computed where

  void Analyze() {
    slot_.assign(size(), -1);
    carried_.assign(size(), 0);
    computed_in_.assign(size(), -1);
    for (int32_t i = 0; i < size(); ++i) {
      bool varies = IsMap();
      int level = 0, cost = OperationCost(at(i).op);
      if (at(i).op == ScalarOp::kLoad && !IsMap()) {
        varies = space_.operand_strides[at(i).a][space_.ReduceDim()] != 0;
      }
      ForOperands(i, [&](int32_t operand) {
        varies |= varies_[operand];
        level = std::max(level, level_[operand]);
        cost = std::min(cost + cost_[operand], kMaxCost);
      });
      if (IsReduction(at(i).op)) {
        varies = false;
        ++level;
        cost = 0;
      }
      varies_.push_back(varies);
      level_.push_back(level);
      cost_.push_back(cost);
      last_level_ = std::max(last_level_, level);
      slot_[i] = SlotOfGiven(i);
    }
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      outputs_.push_back(AddSlot({.kind = FusedSlot::Kind::kOutput,
                                  .index = static_cast<int32_t>(i),
                                  .constant = 0,
                                  .varies = OutputVaries(i)}));
    }
  }

  int32_t AddSlot(const FusedSlot& slot) {
    code_.slots.push_back(slot);
    return static_cast<int32_t>(code_.slots.size()) - 1;
  }

  // Values that no code computes.
  bool IsGiven(int32_t i) const { return Arity(at(i).op) == 0 || IsReduction(at(i).op); }

  bool IsOneElement(int32_t operand) const {
    return std::ranges::all_of(space_.operand_strides[operand],
                               [](int64_t stride) { return stride == 0; });
  }

  int32_t SlotOfGiven(int32_t i) {
    const ScalarInstruction& s = at(i);
    const bool rows = space_.kind == FusedSpace::Kind::kRows;
    FusedSlot slot;
    if (s.op == ScalarOp::kLoad) {
      slot.kind = FusedSlot::Kind::kOperand;
      slot.index = s.a;
      slot.varies = varies_[i];
      slot.splat = rows ? !varies_[i] : IsMap() && IsOneElement(s.a);
    } else if (s.op == ScalarOp::kConstant) {
      slot.kind = FusedSlot::Kind::kConstant;
      slot.constant = LaneOf(s.dtype, s.constant);
      slot.splat = true;
    } else if (IsReduction(s.op)) {
      slot.kind = FusedSlot::Kind::kReduced;
      slot.splat = rows;
    } else {
      return -1;
    }
    return AddSlot(slot);
  }

  // The values whose reduction the sweep of a phase computes, or that are stored in it.
  Ids ReductionsOf(int phase) const {
    Ids reductions;
    for (int32_t i = 0; i < size(); ++i) {
      if (IsReduction(at(i).op) && level_[i] == phase + 1) reductions.push_back(i);
    }
    return reductions;
  }
  Ids RootsOf(int phase) const {
    Ids roots;
    for (int32_t i : ReductionsOf(phase)) roots.push_back(at(i).a);
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (phase == last_level_ && OutputVaries(i)) roots.push_back(p_.outputs[i].value);
    }
    return roots;
  }

  void FindSweep(int phase) {
    std::vector<uint8_t>& needed = needed_.emplace_back(size(), 0);
    for (int32_t root : RootsOf(phase)) Need(root, phase, needed);
  }

  // What an earlier sweep computed is carried over where that costs less than computing it again.
  void Need(int32_t i, int phase, std::vector<uint8_t>& needed) {
    if (!varies_[i] || IsGiven(i) || needed[i] != 0) return;
    if (computed_in_[i] >= 0 && computed_in_[i] < phase) {
      if (carried_[i] != 0) return;
      if (cost_[i] >= kWorthCarrying && space_.kind == FusedSpace::Kind::kRows &&
          space_.sizes.back() <= kMaxCarriedRow) {
        carried_[i] = 1;
        slot_[i] = AddSlot({.kind = FusedSlot::Kind::kCarry, .index = code_.carries++});
        return;
      }
    }
    needed[i] = 1;
    if (computed_in_[i] < 0) computed_in_[i] = phase;
    ForOperands(i, [&](int32_t operand) { Need(operand, phase, needed); });
  }

  // --- Code

  void EmitPhase(int phase) {
    FusedPhase& made = code_.phases.emplace_back();
    acc_ = -1;
    for (int32_t i = 0; i < size(); ++i) {
      if (varies_[i] || IsGiven(i) || level_[i] != phase) continue;
      Emit(i, made.once);
      Keep(i, made.once);
    }
    End(made.once);
    EmitSweep(phase, made);
  }

  void EmitSweep(int phase, FusedPhase& made) {
    Ids order;
    for (int32_t i = 0; i < size(); ++i) {
      if (needed_[phase][i] != 0) order.push_back(i);
    }
    const Ids roots = RootsOf(phase);
    acc_ = -1;
    for (size_t k = 0; k < order.size(); ++k) {
      Emit(order[k], made.sweep);
      const bool carries = carried_[order[k]] != 0 && computed_in_[order[k]] == phase;
      if (carries || IsReadLater(order, k, roots)) Keep(order[k], made.sweep);
    }
    for (int32_t i : ReductionsOf(phase)) {
      if (mask_ < 0) mask_ = AddSlot({.kind = FusedSlot::Kind::kMask});
      const int32_t accumulator = AddSlot({.kind = FusedSlot::Kind::kTemp});
      FusedReduction& reduction = made.reductions.emplace_back();
      reduction = {ReduceOf(at(i).op), accumulator, slot_[i], -1};
      if (reduction.op == ChainOp::kReduceSum && space_.kind == FusedSpace::Kind::kColumns) {
        reduction.total = AddSlot({.kind = FusedSlot::Kind::kTemp});
      }
      Load(at(i).a, made.sweep);
      made.sweep.push_back({ReduceOf(at(i).op), accumulator, mask_});
    }
    for (size_t i = 0; i < p_.outputs.size() && phase == last_level_; ++i) {
      if (OutputVaries(i)) StoreResult(i, made.sweep);
    }
    End(made.sweep);
  }

  // Whether the value order[k] is read when it is no longer in the accumulator.
  bool IsReadLater(const Ids& order, size_t k, const Ids& roots) const {
    const int32_t i = order[k];
    const bool is_last = k + 1 == order.size();
    if (std::ranges::count(roots, i) > (is_last && roots.size() == 1 ? 1 : 0)) return true;
    for (size_t reader = k + 1; reader < order.size(); ++reader) {
      int uses = 0;
      ForOperands(order[reader], [&](int32_t operand) { uses += operand == i ? 1 : 0; });
      if (uses > (reader == k + 1 ? 1 : 0)) return true;
    }
    return false;
  }

  static void End(ChainCode& code) {
    if (!code.empty()) code.push_back({ChainOp::kEnd});
  }

  void Load(int32_t i, ChainCode& code) {
    if (acc_ != i) {
      MILLRACE_CHECK(slot_[i] >= 0);
      code.push_back({ChainOp::kLoad, slot_[i]});
    }
    acc_ = i;
  }

  // Stores the value, which is in the accumulator, for those that read it from memory.
  void Keep(int32_t i, ChainCode& code) {
    if (slot_[i] < 0) {
      FusedSlot slot;
      slot.splat = space_.kind == FusedSpace::Kind::kRows && !varies_[i];
      slot_[i] = AddSlot(slot);
    }
    code.push_back({ChainOp::kStore, slot_[i]});
  }

  void StoreResult(size_t output, ChainCode& code) {
    const FusedOutput& out = p_.outputs[output];
    const DType from = at(out.value).dtype;
    Load(out.value, code);
    if (from != out.dtype) {
      Convert(from, out.dtype, code);
      acc_ = -1;
    }
    code.push_back({ChainOp::kStore, outputs_[output]});
  }

  static void Convert(DType from, DType to, ChainCode& code) {
    if (const ChainOp cast = CastOf(from, to); cast != ChainOp::kLoad) code.push_back({cast});
    RoundTo(to, code);
  }

  static void RoundTo(DType dtype, ChainCode& code) {
    if (dtype == DType::kF16) code.push_back({ChainOp::kRoundF16});
    if (dtype == DType::kBF16) code.push_back({ChainOp::kRoundBF16});
  }

  // Leaves the value in the accumulator.
  void Emit(int32_t i, ChainCode& code) {
    const ScalarInstruction& s = at(i);
    if (s.op == ScalarOp::kSelect || s.op == ScalarOp::kFma) {
      EmitTernary(s, code);
    } else if (Arity(s.op) == 2) {
      EmitBinary(s, code);
    } else {
      Load(s.a, code);
      if (s.op == ScalarOp::kCast) {
        Convert(at(s.a).dtype, s.dtype, code);
      } else {
        code.push_back({*UnaryOf(s.op, at(s.a).dtype)});
        RoundTo(s.dtype, code);
      }
    }
    acc_ = i;
  }

  void EmitBinary(const ScalarInstruction& s, ChainCode& code) {
    const PairOps ops = *BinaryOf(s.op, at(s.a).dtype);
    if (acc_ == s.b && acc_ != s.a) {
      code.push_back({ops.reversed, slot_[s.a]});
    } else {
      Load(s.a, code);
      code.push_back({ops.op, slot_[s.b]});
    }
    RoundTo(s.dtype, code);
  }

  // select(v < s, s, v) is one operation, and so is select(s < v, s, v): Relu and Clip are made of
  // them. Their comparison is not computed.
  const ScalarInstruction* BoundOf(const ScalarInstruction& s) const {
    if (s.op != ScalarOp::kSelect) return nullptr;
    const ScalarInstruction& less = at(s.a);
    if (less.op != ScalarOp::kLess || at(less.a).dtype != DType::kF32) return nullptr;
    const bool is_bound = (less.a == s.c && less.b == s.b) || (less.a == s.b && less.b == s.c);
    return is_bound ? &less : nullptr;
  }

  void EmitTernary(const ScalarInstruction& s, ChainCode& code) {
    if (const ScalarInstruction* less = BoundOf(s); less != nullptr) {
      const bool raises = less->a == s.c;
      if (acc_ == s.b && acc_ != s.c) {
        code.push_back({raises ? ChainOp::kLeastFor : ChainOp::kMostFor, slot_[s.c]});
      } else {
        Load(s.c, code);
        code.push_back({raises ? ChainOp::kAtLeast : ChainOp::kAtMost, slot_[s.b]});
      }
      return;
    }
    const bool is_select = s.op == ScalarOp::kSelect;
    if (acc_ != s.a && acc_ == s.b) {
      code.push_back(
          {is_select ? ChainOp::kSelectAcc : ChainOp::kFmaFactor, slot_[s.a], slot_[s.c]});
    } else if (acc_ != s.a && acc_ == s.c) {
      code.push_back(
          {is_select ? ChainOp::kSelectAccElse : ChainOp::kFmaAddend, slot_[s.a], slot_[s.b]});
    } else {
      Load(s.a, code);
      code.push_back(
          {is_select ? ChainOp::kSelectByAcc : ChainOp::kFmaFactor, slot_[s.b], slot_[s.c]});
    }
  }

  const FusedProgram& p_;
  const FusedSpace& space_;
  FusedCode code_;
  // By instruction.
  std::vector<bool> varies_;   // along the reduce dim; kMap: all do
  std::vector<int> level_;     // how many reductions lie before it
  std::vector<int> cost_;      // of computing it from what is given
  std::vector<int32_t> slot_;  // -1: none yet
  std::vector<uint8_t> carried_;
  std::vector<int> computed_in_;              // the first sweep that computes it; -1: none
  std::vector<std::vector<uint8_t>> needed_;  // by phase: what its sweep computes
  std::vector<int32_t> outputs_;              // slots
  int32_t mask_ = -1;                         // slot
  int last_level_ = 0;
  int32_t acc_ = -1;  // the value in the accumulator; -1: none that has a name
};

}  // namespace

std::optional<FusedCode> CompileFused(const FusedProgram& program, const FusedSpace& space) {
  for (const ScalarInstruction& s : program.instructions) {
    if (!IsChainOp(program, s)) return std::nullopt;
  }
  for (const FusedOutput& output : program.outputs) {
    if (!HasLane(output.dtype)) return std::nullopt;
    if (!HasCast(program.instructions[output.value].dtype, output.dtype)) return std::nullopt;
  }
  return FusedCompiler(program, space).Compile();
}

}  // namespace millrace
