// The walk over the index space: points the code's slots at the operands of each block and runs the
// code. Full blocks of dense f32 and i32 are read and written where they lie; others pass through a
// block of the worker's own, which is also where types are converted.
#include "ops/cpu/fused_worker.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "graph/half.h"

namespace millrace {
namespace {

// Sums of lanes are added up after so many blocks of a row (in f64), or rows of columns.
constexpr int64_t kFlushBlocks = 64, kFlushSteps = 256;

// --- Elements and lanes --------------------------------------------------------------------------

// `count` elements from `from` on, each `stride` elements further, as lanes.
void ReadLanes(DType dtype, const std::byte* base, int64_t from, int64_t stride, int64_t count,
               float* lanes) {
  if (LiesAsLanes(dtype) && stride == 1) {
    std::memcpy(lanes, base + from * 4, count * 4);
    return;
  }
  const auto each = [&](auto tag, auto convert) {
    using T = decltype(tag);
    const T* p = reinterpret_cast<const T*>(base) + from;
    for (int64_t i = 0; i < count; ++i) lanes[i] = convert(p[i * stride]);
  };
  switch (dtype) {
    case DType::kBool:
      return each(uint8_t(), [](uint8_t x) {
        const int32_t bits = -static_cast<int32_t>(x != 0);
        float lane;
        std::memcpy(&lane, &bits, sizeof(lane));
        return lane;
      });
    case DType::kF16:
      return each(Half(), [](Half x) { return static_cast<float>(x); });
    case DType::kBF16:
      return each(BFloat16(), [](BFloat16 x) { return static_cast<float>(x); });
    default:
      return each(float(), [](float x) { return x; });
  }
}

void WriteLanes(DType dtype, std::byte* base, int64_t from, int64_t stride, int64_t count,
                const float* lanes) {
  if (LiesAsLanes(dtype) && stride == 1) {
    std::memcpy(base + from * 4, lanes, count * 4);
    return;
  }
  const auto each = [&](auto tag, auto convert) {
    using T = decltype(tag);
    T* p = reinterpret_cast<T*>(base) + from;
    for (int64_t i = 0; i < count; ++i) p[i * stride] = convert(lanes[i]);
  };
  switch (dtype) {
    case DType::kBool:
      return each(uint8_t(), [](float lane) {
        uint32_t bits;
        std::memcpy(&bits, &lane, sizeof(bits));
        return static_cast<uint8_t>(bits & 1);
      });
    case DType::kF16:
      return each(Half(), [](float x) { return Half(x); });
    case DType::kBF16:
      return each(BFloat16(), [](float x) { return BFloat16(x); });
    default:
      return each(float(), [](float x) { return x; });
  }
}

// --- The walk ------------------------------------------------------------------------------------

// One worker's walk over its share of the space, in memory of its own.
class FusedWorker {
 public:
  FusedWorker(const PreparedFused& prepared, const KernelArgs& args, std::byte* memory)
      : p_(prepared),
        args_(args),
        block_(prepared.machine->block),
        lanes_(prepared.machine->lanes),
        slots_(reinterpret_cast<float**>(memory)) {
    const auto count = static_cast<int64_t>(p_.code.slots.size());
    blocks_ = reinterpret_cast<float*>(memory + p_.PointerBytes());
    rows_ = blocks_ + count * block_;
    const float* constant = p_.constants.data();
    ForSlots([&](int64_t s, const FusedSlot& slot) {
      slots_[s] = BlockOf(s);
      if (slot.kind == FusedSlot::Kind::kConstant) {
        slots_[s] = const_cast<float*>(constant);  // only outputs and temps are written
        constant += lanes_;
      }
      if (slot.kind == FusedSlot::Kind::kMask) MaskFirst(s, block_);
      const bool is_fixed = slot.kind == FusedSlot::Kind::kOperand && slot.splat &&
                            p_.space.kind == FusedSpace::Kind::kMap;
      if (is_fixed) BindOperand(s, slot.index, p_.program.operands[slot.index].offset, 0, 1);
    });
  }

  // Points [begin, end) of a map.
  void RunMap(int64_t begin, int64_t end) {
    const int64_t whole = begin + (end - begin) / block_ * block_;
    const bool all_direct =
        std::ranges::all_of(p_.phases[0].moving, [&](const auto& m) { return IsDirect(m); });
    int64_t at = begin;
    if (all_direct) {
      for (const PreparedFused::Moving& m : p_.phases[0].moving) Point(m, at);
      for (; at < whole; at += block_) {
        Run(p_.phases[0].sweep);
        for (const PreparedFused::Moving& m : p_.phases[0].moving) slots_[m.slot] += block_;
      }
    }
    for (; at < end; at += block_) RunMapBlock(at, std::min(block_, end - at));
  }

  // Rows [begin, end).
  void RunRows(int64_t begin, int64_t end) {
    const size_t dim = p_.space.ReduceDim();
    const int64_t length = p_.space.sizes[dim];
    for (int64_t row = begin; row < end; ++row) {
      BindFixed(row, dim, 0, 1);
      for (size_t phase = 0; phase < p_.phases.size(); ++phase) {
        Run(p_.phases[phase].once);
        if (p_.phases[phase].sweep < 0) continue;
        StartReductions(phase);
        for (const int32_t carry : p_.carries) {
          slots_[carry] = rows_ + p_.code.slots[carry].index * p_.row_floats;
        }
        int64_t unflushed = 0;
        for (int64_t at = 0; at < length; at += block_) {
          const int64_t count = std::min(block_, length - at);
          if (p_.mask >= 0) MaskFirst(p_.mask, count);
          SweepBlock(phase, row, dim, at, 1, count, at == 0);
          for (const int32_t carry : p_.carries) slots_[carry] += block_;
          if (++unflushed == kFlushBlocks) {
            FlushSums(phase);
            unflushed = 0;
          }
        }
        FinishRowReductions(phase);
      }
      Finish(row, dim, 0, 1);
    }
  }

  // Blocks [begin, end) of columns: those of the first outer point, those of the second, ...
  void RunColumns(int64_t begin, int64_t end) {
    const size_t dim = p_.space.ReduceDim(), inner = dim + 1;
    const int64_t length = p_.space.sizes[dim], width = p_.space.sizes[inner];
    const int64_t blocks = (width + block_ - 1) / block_;
    for (int64_t each = begin; each < end; ++each) {
      const int64_t outer = each / blocks, at = each % blocks * block_;
      const int64_t count = std::min(block_, width - at);
      BindFixed(outer, dim, at, count);
      for (size_t phase = 0; phase < p_.phases.size(); ++phase) {
        Run(p_.phases[phase].once);
        if (p_.phases[phase].sweep < 0) continue;
        StartReductions(phase);
        for (int64_t step = 0; step < length; ++step) {
          SweepBlock(phase, outer, dim, at, step, count, step == 0);
          if (step % kFlushSteps == kFlushSteps - 1) AddUpSums(phase);
        }
        if (length >= kFlushSteps) AddUpSums(phase);
        for (const FusedReduction& r : p_.code.phases[phase].reductions) {
          const bool has_total = r.total >= 0 && length >= kFlushSteps;
          slots_[r.result] = BlockOf(has_total ? r.total : r.accumulator);
        }
      }
      Finish(outer, dim, at, count);
    }
  }

 private:
  // A result that is not wanted goes to the worker's own block.
  bool IsDirect(const PreparedFused::Moving& m) const {
    return m.direct && (!m.is_output || args_.outputs[m.index] != nullptr);
  }

  // Points the slot at its operand or result, which lies as lanes do.
  void Point(const PreparedFused::Moving& m, int64_t at) {
    void* base = m.is_output ? args_.outputs[m.index] : args_.inputs[m.index];
    const int64_t offset = m.is_output ? 0 : p_.program.operands[m.index].offset;
    slots_[m.slot] = static_cast<float*>(base) + offset + at;
  }

  void RunMapBlock(int64_t at, int64_t count) {
    for (const PreparedFused::Moving& m : p_.phases[0].moving) {
      if (IsDirect(m) && count == block_) {
        Point(m, at);
      } else if (m.is_output) {
        BindOutput(m.slot, m.index, at, 1, count);
      } else {
        BindMapped(m.slot, m.index, at, count);
      }
    }
    Run(p_.phases[0].sweep);
    StoreOutputs(
        true, [&](int32_t) { return std::pair<int64_t, int64_t>(at, 1); }, count);
  }

  float* BlockOf(int64_t slot) const { return blocks_ + slot * block_; }
  const ChainStep* CodeAt(int64_t at) const { return p_.steps.data() + at; }

  void Run(int64_t code) {
    if (code >= 0) p_.machine->run(CodeAt(code), slots_);
  }

  template <typename F>
  void ForSlots(F&& f) {
    for (size_t s = 0; s < p_.code.slots.size(); ++s) f(static_cast<int64_t>(s), p_.code.slots[s]);
  }

  void Splat(int64_t slot, float value) {
    Fill(slot, value, p_.code.slots[slot].splat ? 1 : block_ / lanes_);
    slots_[slot] = BlockOf(slot);
  }

  void Fill(int64_t slot, float value, int64_t vectors) {
    p_.machine->fill(BlockOf(slot), value, static_cast<int>(vectors));
  }

  void MaskFirst(int64_t slot, int64_t count) {
    if (masked_ == count) return;
    masked_ = count;
    float all, none = 0;
    std::memset(&all, 0xff, sizeof(all));
    std::fill_n(BlockOf(slot), count, all);
    std::fill_n(BlockOf(slot) + count, block_ - count, none);
  }

  // --- Operands and results

  // `offset`: of the first lane's element; `stride`: from lane to lane.
  void BindOperand(int64_t slot, int32_t operand, int64_t offset, int64_t stride, int64_t count) {
    const DType dtype = p_.program.operands[operand].dtype;
    auto* base = static_cast<std::byte*>(args_.inputs[operand]);
    if (stride == 1 && count == block_ && LiesAsLanes(dtype)) {
      slots_[slot] = reinterpret_cast<float*>(base) + offset;
    } else if (stride == 0) {
      float value;
      ReadLanes(dtype, base, offset, 0, 1, &value);
      Splat(slot, value);
    } else {
      ReadLanes(dtype, base, offset, stride, count, BlockOf(slot));
      std::fill(BlockOf(slot) + count, BlockOf(slot) + block_, 0.0f);
      slots_[slot] = BlockOf(slot);
    }
  }

  void BindOutput(int64_t slot, int32_t output, int64_t offset, int64_t stride, int64_t count) {
    void* base = args_.outputs[output];
    const bool direct = stride == 1 && count == block_ && base != nullptr &&
                        LiesAsLanes(p_.program.outputs[output].dtype);
    slots_[slot] = direct ? static_cast<float*>(base) + offset : BlockOf(slot);
  }

  // Of outputs that (do not) vary along the reduce dim, what was not stored where it belongs.
  // place(output): the offset of lane 0 and the stride.
  template <typename Place>
  void StoreOutputs(bool varying, Place&& place, int64_t count) {
    ForSlots([&](int64_t s, const FusedSlot& slot) {
      if (slot.kind != FusedSlot::Kind::kOutput || slot.varies != varying) return;
      if (slots_[s] != BlockOf(s) || args_.outputs[slot.index] == nullptr) return;
      const auto [offset, stride] = place(slot.index);
      WriteLanes(p_.program.outputs[slot.index].dtype,
                 static_cast<std::byte*>(args_.outputs[slot.index]), offset, stride, count,
                 BlockOf(s));
    });
  }

  // Points [at, at + count) of a map, which may lie in several rows of the last dim.
  void BindMapped(int64_t slot, int32_t operand, int64_t at, int64_t count) {
    const std::vector<int64_t>& strides = p_.space.operand_strides[operand];
    const int64_t length = p_.space.sizes.back(), stride = strides.back();
    int64_t row = at / length, column = at % length;
    const int64_t offset = p_.program.operands[operand].offset;
    const auto row_offset = [&] { return offset + OuterOffset(strides, 1, row); };
    if (column + count <= length) {
      return BindOperand(slot, operand, row_offset() + column * stride, stride, count);
    }
    const DType dtype = p_.program.operands[operand].dtype;
    const auto* base = static_cast<const std::byte*>(args_.inputs[operand]);
    for (int64_t done = 0; done < count; ++row, column = 0) {
      const int64_t part = std::min(count - done, length - column);
      ReadLanes(dtype, base, row_offset() + column * stride, stride, part, BlockOf(slot) + done);
      done += part;
    }
    std::fill(BlockOf(slot) + count, BlockOf(slot) + block_, 0.0f);
    slots_[slot] = BlockOf(slot);
  }

  // Where point `index` of all dims but the last `inner` ones lies.
  int64_t OuterOffset(const std::vector<int64_t>& strides, size_t inner, int64_t index) const {
    const size_t rank = strides.size() - inner;
    if (rank == 1) return index * strides[0];
    int64_t offset = 0;
    for (size_t d = rank; d-- > 0; index /= p_.space.sizes[d]) {
      offset += index % p_.space.sizes[d] * strides[d];
    }
    return offset;
  }

  // --- Reductions

  // The lanes run along the last dim: kRows: the reduced one, kColumns: the inner one.
  int64_t GroupOffset(const std::vector<int64_t>& strides, int64_t outer, size_t dim) const {
    return OuterOffset(strides, strides.size() - dim, outer);
  }

  // Operands that do not vary along the reduce dim: one element for a row, a block for columns.
  void BindFixed(int64_t outer, size_t dim, int64_t at, int64_t count) {
    const bool rows = p_.space.kind == FusedSpace::Kind::kRows;
    ForSlots([&](int64_t s, const FusedSlot& slot) {
      if (slot.kind != FusedSlot::Kind::kOperand || slot.varies) return;
      const std::vector<int64_t>& strides = p_.space.operand_strides[slot.index];
      const int64_t stride = rows ? 0 : strides.back();
      const int64_t offset =
          p_.program.operands[slot.index].offset + GroupOffset(strides, outer, dim) + at * stride;
      BindOperand(s, slot.index, offset, stride, count);
    });
  }

  // One block of a sweep: kRows: elements [at, at + count) of the row; kColumns: of row `step` of
  // the group. From one full block to the next, what lies as lanes is a fixed distance on.
  void SweepBlock(size_t phase, int64_t outer, size_t dim, int64_t at, int64_t step, int64_t count,
                  bool first) {
    const bool rows = p_.space.kind == FusedSpace::Kind::kRows;
    const auto place = [&](const std::vector<int64_t>& strides, int64_t offset) {
      offset += GroupOffset(strides, outer, dim) + at * strides.back();
      return std::pair(rows ? offset : offset + step * strides[dim], strides.back());
    };
    bool staged = false;
    for (const PreparedFused::Moving& m : p_.phases[phase].moving) {
      const std::vector<int64_t>& strides =
          m.is_output ? p_.space.output_strides[m.index] : p_.space.operand_strides[m.index];
      if (IsDirect(m) && count == block_ && !first) {
        slots_[m.slot] += rows ? block_ : strides[dim];
      } else if (m.is_output) {
        const auto [offset, stride] = place(strides, 0);
        BindOutput(m.slot, m.index, offset, stride, count);
        staged |= slots_[m.slot] == BlockOf(m.slot);
      } else {
        const auto [offset, stride] = place(strides, p_.program.operands[m.index].offset);
        BindOperand(m.slot, m.index, offset, stride, count);
      }
    }
    Run(p_.phases[phase].sweep);
    if (!staged) return;
    StoreOutputs(
        true, [&](int32_t i) { return place(p_.space.output_strides[i], 0); }, count);
  }

  static float IdentityOf(ChainOp op) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return op == ChainOp::kReduceMax    ? -kInfinity
           : op == ChainOp::kReduceMin  ? kInfinity
           : op == ChainOp::kReduceProd ? 1.0f
                                        : 0.0f;
  }

  void StartReductions(size_t phase) {
    for (const FusedReduction& r : p_.code.phases[phase].reductions) {
      Fill(r.accumulator, IdentityOf(r.op), block_ / lanes_);
      if (r.total >= 0) Fill(r.total, 0, block_ / lanes_);
    }
    std::fill_n(sums_, std::size(sums_), 0.0);
  }

  // Sums of many blocks are kept in f64, so that the error does not grow with the row.
  void FlushSums(size_t phase) {
    const auto& reductions = p_.code.phases[phase].reductions;
    for (size_t i = 0; i < std::min(reductions.size(), std::size(sums_)); ++i) {
      if (reductions[i].op != ChainOp::kReduceSum) continue;
      sums_[i] += p_.machine->fold(ChainOp::kReduceSum, BlockOf(reductions[i].accumulator));
      Fill(reductions[i].accumulator, 0, block_ / lanes_);
    }
  }

  // kColumns: the accumulators go to the totals, and at the end the totals are the result.
  void AddUpSums(size_t phase) {
    for (const FusedReduction& r : p_.code.phases[phase].reductions) {
      if (r.total < 0) continue;
      float *total = BlockOf(r.total), *accumulator = BlockOf(r.accumulator);
      for (int64_t i = 0; i < block_; ++i) {
        total[i] += accumulator[i];
        accumulator[i] = 0;
      }
    }
  }

  void FinishRowReductions(size_t phase) {
    const auto& reductions = p_.code.phases[phase].reductions;
    for (size_t i = 0; i < reductions.size(); ++i) {
      const FusedReduction& r = reductions[i];
      float result = p_.machine->fold(r.op, BlockOf(r.accumulator));
      if (r.op == ChainOp::kReduceSum && i < std::size(sums_)) {
        result = static_cast<float>(sums_[i] + result);
      }
      Splat(r.result, result);
    }
  }

  // What does not vary along the reduce dim is stored when nobody reads operands any more: it may
  // lie on them.
  void Finish(int64_t outer, size_t dim, int64_t at, int64_t count) {
    if (p_.finish < 0) return;
    ForSlots([&](int64_t s, const FusedSlot& slot) {
      if (slot.kind == FusedSlot::Kind::kOutput && !slot.varies) slots_[s] = BlockOf(s);
    });
    Run(p_.finish);
    const bool rows = p_.space.kind == FusedSpace::Kind::kRows;
    StoreOutputs(
        false,
        [&](int32_t i) {
          const std::vector<int64_t>& strides = p_.space.output_strides[i];
          const int64_t stride = rows ? 0 : strides.back();
          return std::pair<int64_t, int64_t>(GroupOffset(strides, outer, dim) + at * stride,
                                             stride);
        },
        count);
  }

  const PreparedFused& p_;
  const KernelArgs& args_;
  const int64_t block_, lanes_;
  float** const slots_;  // where each lies
  float* blocks_;        // a block a slot
  float* rows_;          // carried rows
  int64_t masked_ = 0;   // lanes that the mask has on
  double sums_[8] = {};
};

int64_t BlocksOfColumns(const PreparedFused& p) {
  return (p.space.sizes.back() + p.machine->block - 1) / p.machine->block;
}

}  // namespace

FusedShares SharesOf(const PreparedFused& p) {
  const int64_t points = p.space.Points();
  switch (p.space.kind) {
    case FusedSpace::Kind::kMap:
      return {points, p.machine->block};
    case FusedSpace::Kind::kRows:
      return {points / p.space.sizes.back(), 1};
    case FusedSpace::Kind::kColumns:
      break;
  }
  const int64_t groups = points / p.space.sizes.back() / p.space.sizes[p.space.ReduceDim()];
  return {groups * BlocksOfColumns(p), 1};
}

void RunFusedShares(const PreparedFused& prepared, const KernelArgs& args, std::byte* memory,
                    int64_t begin, int64_t end) {
  FusedWorker worker(prepared, args, memory);
  switch (prepared.space.kind) {
    case FusedSpace::Kind::kMap:
      return worker.RunMap(begin, end);
    case FusedSpace::Kind::kRows:
      return worker.RunRows(begin, end);
    case FusedSpace::Kind::kColumns:
      return worker.RunColumns(begin, end);
  }
}

void RunFusedRegion(const PreparedFused& prepared, const KernelArgs& args, std::byte* memory,
                    const FusedRegion& region) {
  FusedWorker worker(prepared, args, memory);
  for (int64_t row = region.row_begin; row < region.row_end; ++row) {
    const int64_t begin = row * region.columns + region.column_begin;
    worker.RunMap(begin, begin + region.width);
  }
}

}  // namespace millrace
