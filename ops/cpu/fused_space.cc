#include "ops/cpu/fused_space.h"

#include <algorithm>

namespace millrace {

int64_t FusedSpace::Points() const {
  int64_t points = 1;
  for (int64_t size : sizes) points *= size;
  return points;
}

namespace {

// Dims of the program from the last to the first, merged into those of `space` where they can be.
class SpaceMaker {
 public:
  explicit SpaceMaker(const FusedProgram& program) : p_(program) {
    space_.operand_strides.resize(p_.operands.size());
    space_.output_strides.resize(p_.outputs.size());
  }

  std::optional<FusedSpace> Make() {
    if (std::ranges::any_of(p_.dims, [](const IndexDim& dim) { return dim.size == 0; })) {
      return std::nullopt;
    }
    for (size_t d = p_.dims.size(); d-- > 0;) {
      if (p_.dims[d].size > 1) Add(d);
    }
    if (space_.sizes.empty()) AddPoint();
    Reverse(space_.sizes);
    for (auto* all : {&space_.operand_strides, &space_.output_strides}) {
      for (std::vector<int64_t>& strides : *all) Reverse(strides);
    }
    Reverse(reduced_);
    if (!FindKind()) return std::nullopt;
    return std::move(space_);
  }

 private:
  template <typename T>
  static void Reverse(std::vector<T>& list) {
    std::reverse(list.begin(), list.end());
  }

  void Add(size_t d) {
    const bool reduced = p_.dims[d].role == DimRole::kReduce;
    const bool merges = !space_.sizes.empty() && reduced_.back() == reduced && Continues(d);
    if (merges) {
      space_.sizes.back() *= p_.dims[d].size;
      return;
    }
    space_.sizes.push_back(p_.dims[d].size);
    reduced_.push_back(reduced);
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      space_.operand_strides[i].push_back(p_.operands[i].strides[d]);
    }
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      space_.output_strides[i].push_back(p_.outputs[i].strides[d]);
    }
  }

  // A step along dim d is as many steps along the last dim added as that one has.
  bool Continues(size_t d) const {
    const int64_t size = space_.sizes.back();
    const auto continues = [&](const auto& operands, const auto& strides) {
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].strides[d] != strides[i].back() * size) return false;
      }
      return true;
    };
    return continues(p_.operands, space_.operand_strides) &&
           continues(p_.outputs, space_.output_strides);
  }

  void AddPoint() {
    space_.sizes.push_back(1);
    reduced_.push_back(false);
    for (auto& strides : space_.operand_strides) strides.push_back(0);
    for (auto& strides : space_.output_strides) strides.push_back(1);
  }

  // Reduced dims of size 1 are gone: then nothing is reduced, and reductions give their operand.
  bool FindKind() {
    const auto count = std::ranges::count(reduced_, true);
    const size_t rank = reduced_.size();
    if (count == 0) {
      space_.kind = FusedSpace::Kind::kMap;
      return std::ranges::none_of(p_.instructions, [](const auto& s) { return IsReduction(s.op); });
    }
    if (count > 1) return false;
    if (reduced_[rank - 1]) {
      space_.kind = FusedSpace::Kind::kRows;
      return true;
    }
    space_.kind = FusedSpace::Kind::kColumns;
    return rank >= 2 && reduced_[rank - 2];
  }

  const FusedProgram& p_;
  FusedSpace space_;
  std::vector<bool> reduced_;  // by dim of space_
};

}  // namespace

std::optional<FusedSpace> MakeFusedSpace(const FusedProgram& program) {
  return SpaceMaker(program).Make();
}

}  // namespace millrace
