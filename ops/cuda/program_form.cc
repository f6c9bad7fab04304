#include "ops/cuda/program_form.h"

#include <algorithm>
#include <bit>

namespace millrace {
namespace {

constexpr int64_t kVectorBytes = 16;

const SpaceDim* LastOf(const std::vector<SpaceDim>& dims) {
  return dims.empty() ? nullptr : &dims.back();
}

class FormMaker {
 public:
  explicit FormMaker(const FusedProgram& program) : p_(program) {
    f_.space = MakeProgramSpace(program);
  }

  ProgramForm Make(int64_t largest_bytes) {
    FindLive();
    FindVarying();
    f_.inner = LastOf(f_.space.is_map ? f_.space.outer : f_.space.reduce);
    if (!f_.space.is_map) ChooseForm();
    f_.width = f_.form == RowTeam::kColumns ? 1 : VectorWidth();
    if (f_.space.is_map) {
      const int64_t items = f_.space.Rows() / f_.width;
      f_.blocks = (items + kBlockThreads - 1) / kBlockThreads;
    } else {
      ChooseLanes();
    }
    const int64_t points = f_.space.Rows() * f_.space.Length();
    f_.wide = std::max(points, largest_bytes) >= int64_t{1} << 31;
    return std::move(f_);
  }

 private:
  static size_t Index(int32_t i) { return static_cast<size_t>(i); }

  // Strides of all zero along the reduced dims: one element a row.
  bool OperandVaries(size_t o) const {
    return std::ranges::any_of(f_.space.reduce,
                               [&](const SpaceDim& dim) { return dim.in_strides[o] != 0; });
  }
  // What outputs are made of.
  void FindLive() {
    std::vector<int32_t> roots;
    for (const FusedOutput& output : p_.outputs) roots.push_back(output.value);
    f_.live = NeededFor(p_, roots, [](int32_t) { return false; });
  }

  void FindVarying() {
    for (int32_t i = 0; i < std::ssize(p_.instructions); ++i) {
      const ScalarInstruction& s = p_.instructions[Index(i)];
      bool varies = false;
      int depth = 0;
      ForEachValueOperand(s, [&](int32_t v) {
        varies = varies || f_.varies[static_cast<size_t>(v)];
        depth = std::max(depth, f_.depth[static_cast<size_t>(v)]);
      });
      if (s.op == ScalarOp::kLoad) varies = OperandVaries(static_cast<size_t>(s.a));
      if (s.op == ScalarOp::kIndex) {
        varies = f_.space.places[static_cast<size_t>(s.a)].part == DimPlace::Part::kReduce;
      }
      if (IsReduction(s.op)) {
        varies = false;
        ++depth;
        if (f_.live[Index(i)]) f_.sweeps = std::max(f_.sweeps, depth);
      }
      f_.varies.push_back(varies);
      f_.depth.push_back(depth);
    }
  }

  // Elements that every access along the inner dim takes at once.
  int64_t VectorWidth() const {
    if (f_.inner == nullptr) return 1;
    int64_t widest = 0;
    const auto widen = [&](const std::vector<int64_t>& strides, size_t i, DType dtype) {
      if (strides[i] == 1) widest = std::max(widest, SizeOf(dtype));
    };
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      widen(f_.inner->in_strides, i, p_.operands[i].dtype);
    }
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      widen(f_.inner->out_strides, i, p_.outputs[i].dtype);
    }
    if (widest == 0) return 1;
    int64_t width = kVectorBytes / widest;
    while (width > 1 && !Divides(width)) width /= 2;
    return width;
  }

  bool Divides(int64_t width) const {
    if (f_.inner->size % width != 0) return false;
    for (const auto* part : {&f_.space.outer, &f_.space.reduce}) {
      for (const SpaceDim& dim : *part) {
        if (&dim != f_.inner && !KeepsAlignment(dim, width)) return false;
      }
    }
    const auto starts = [&](const auto& list, const std::vector<int64_t>& strides) {
      for (size_t i = 0; i < list.size(); ++i) {
        if (strides[i] == 1 && list[i].offset % width != 0) return false;
      }
      return true;
    };
    return starts(p_.operands, f_.inner->in_strides) && starts(p_.outputs, f_.inner->out_strides);
  }

  // A step along the dim moves what is contiguous by whole vectors.
  bool KeepsAlignment(const SpaceDim& dim, int64_t width) const {
    const auto keeps = [&](const std::vector<int64_t>& inner, const std::vector<int64_t>& steps) {
      for (size_t i = 0; i < inner.size(); ++i) {
        if (inner[i] == 1 && steps[i] % width != 0) return false;
      }
      return true;
    };
    return keeps(f_.inner->in_strides, dim.in_strides) &&
           keeps(f_.inner->out_strides, dim.out_strides);
  }

  void ChooseForm() {
    const int64_t inner_rows = f_.space.outer.empty() ? 1 : f_.space.outer.back().size;
    if (f_.space.inner_is_outer && !f_.space.reduce.empty() && inner_rows >= 4) {
      f_.form = RowTeam::kColumns;
    }
  }

  void ChooseLanes() {
    const int64_t length = f_.space.Length(), packs = (length + f_.width - 1) / f_.width;
    if (f_.form == RowTeam::kColumns) {
      const int64_t inner_rows = f_.space.outer.back().size;
      f_.columns = std::min<int64_t>(32, std::bit_ceil(static_cast<uint64_t>(inner_rows)));
      f_.lanes = kBlockThreads / f_.columns;
      f_.column_blocks = (inner_rows + f_.columns - 1) / f_.columns;
      f_.blocks = f_.space.Rows() / inner_rows * f_.column_blocks;
    } else if (packs <= 32 * 8) {
      f_.form = RowTeam::kGroup;
      f_.lanes =
          std::min<int64_t>(32, std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(packs, 1))));
      const int64_t rows = kBlockThreads / f_.lanes;
      f_.blocks = (f_.space.Rows() + rows - 1) / rows;
    } else {
      f_.form = RowTeam::kBlock;
      f_.threads = packs >= 512 * 4 ? 512 : kBlockThreads;
      f_.lanes = f_.threads;
      f_.blocks = f_.space.Rows();
    }
    f_.rounds = (packs + f_.lanes - 1) / f_.lanes;
  }

  const FusedProgram& p_;
  ProgramForm f_;
};

}  // namespace

ProgramForm MakeProgramForm(const FusedProgram& program, int64_t largest_bytes) {
  return FormMaker(program).Make(largest_bytes);
}

}  // namespace millrace
