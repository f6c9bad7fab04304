#include "ops/cuda/program_space.h"

#include <algorithm>

namespace millrace {
namespace {

int64_t PointsOf(const std::vector<SpaceDim>& dims) {
  int64_t points = 1;
  for (const SpaceDim& dim : dims) points *= dim.size;
  return points;
}

// Nothing is combined, and every point stores at a place of its own.
bool IsMapProgram(const FusedProgram& p) {
  for (const ScalarInstruction& s : p.instructions) {
    if (IsReduction(s.op)) return false;
  }
  for (const FusedOutput& output : p.outputs) {
    for (size_t d = 0; d < p.dims.size(); ++d) {
      const bool gone = p.dims[d].role == DimRole::kReduce && p.dims[d].size != 1;
      if (gone && output.strides[d] == 0) return false;
    }
  }
  return true;
}

SpaceDim DimOf(const FusedProgram& p, size_t d) {
  SpaceDim dim{.size = p.dims[d].size, .in_strides = {}, .out_strides = {}};
  for (const FusedOperand& operand : p.operands) dim.in_strides.push_back(operand.strides[d]);
  for (const FusedOutput& output : p.outputs) dim.out_strides.push_back(output.strides[d]);
  return dim;
}

// A step along `outer` is as many steps along `inner` as that one has.
bool Continues(const SpaceDim& outer, const SpaceDim& inner) {
  const auto continues = [&](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i] * inner.size) return false;
    }
    return true;
  };
  return continues(outer.in_strides, inner.in_strides) &&
         continues(outer.out_strides, inner.out_strides);
}

std::vector<bool> IndexedDims(const FusedProgram& p) {
  std::vector<bool> indexed(p.dims.size(), false);
  for (const ScalarInstruction& s : p.instructions) {
    if (s.op == ScalarOp::kIndex) indexed[static_cast<size_t>(s.a)] = true;
  }
  return indexed;
}

}  // namespace

int64_t ProgramSpace::Rows() const { return PointsOf(outer); }
int64_t ProgramSpace::Length() const { return PointsOf(reduce); }

ProgramSpace MakeProgramSpace(const FusedProgram& program) {
  ProgramSpace space;
  space.is_map = IsMapProgram(program);
  space.places.resize(program.dims.size());
  const std::vector<bool> indexed = IndexedDims(program);
  bool may_merge[2] = {false, false};  // with the last dim of the part
  for (size_t d = 0; d < program.dims.size(); ++d) {
    if (program.dims[d].size == 1) continue;
    const bool reduced = !space.is_map && program.dims[d].role == DimRole::kReduce;
    std::vector<SpaceDim>& part = reduced ? space.reduce : space.outer;
    SpaceDim dim = DimOf(program, d);
    space.inner_is_outer = !reduced;
    if (may_merge[reduced] && !indexed[d] && Continues(part.back(), dim)) {
      dim.size *= part.back().size;
      part.back() = std::move(dim);
    } else {
      part.push_back(std::move(dim));
    }
    may_merge[reduced] = !indexed[d];
    space.places[d] = {reduced ? DimPlace::Part::kReduce : DimPlace::Part::kOuter,
                       static_cast<int>(part.size()) - 1};
  }
  return space;
}

}  // namespace millrace
