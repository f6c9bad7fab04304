// The longest reduced dim, of size n = parts * rest, becomes two: `parts` as an outer dim, `rest`
// reduced. The first program gives each reduction's part of a row, in the type rows are reduced in,
// at [row, part]. The second one reduces over the parts and does all that came after the
// reductions.
#include "ops/cuda/split_program.h"

#include <algorithm>
#include <map>

#include "ops/scalar_program.h"

namespace millrace {
namespace {

constexpr int64_t kFewRows = 4096;    // more fill a GPU by themselves
constexpr int64_t kPartLength = 512;  // at least, of a part
constexpr int64_t kMaxParts = 512;

bool IsReduced(const IndexDim& dim) { return dim.role == DimRole::kReduce && dim.size > 1; }

struct RowFacts {
  int64_t rows = 1, length = 1;
  int longest = -1;  // reduced dim
};

RowFacts FactsOf(const FusedProgram& program) {
  RowFacts facts;
  for (size_t d = 0; d < program.dims.size(); ++d) {
    const IndexDim& dim = program.dims[d];
    if (dim.role != DimRole::kReduce) {
      facts.rows *= dim.size;
      continue;
    }
    facts.length *= dim.size;
    if (facts.longest < 0 || dim.size > program.dims[static_cast<size_t>(facts.longest)].size) {
      facts.longest = static_cast<int>(d);
    }
  }
  return facts;
}

// Every reduction is of values with none before them, no output varies along rows, no instruction
// asks for an index along them, and floats are reduced in a type that can be stored.
bool CanSplit(const FusedProgram& p) {
  std::vector<bool> reduced(p.instructions.size(), false);
  bool any = false;
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    const ScalarInstruction& s = p.instructions[i];
    if (s.op == ScalarOp::kIndex && IsReduced(p.dims[static_cast<size_t>(s.a)])) return false;
    if (s.op == ScalarOp::kLoad || s.op == ScalarOp::kIndex) continue;
    for (const int32_t v : {s.a, s.b, s.c}) {
      if (v >= 0 && reduced[static_cast<size_t>(v)]) reduced[i] = true;
    }
    if (!IsReduction(s.op)) continue;
    if (reduced[i] || !IsFloat(s.dtype)) return false;
    reduced[i] = any = true;
  }
  for (const FusedOutput& output : p.outputs) {
    for (size_t d = 0; d < p.dims.size(); ++d) {
      if (IsReduced(p.dims[d]) && output.strides[d] != 0) return false;
    }
  }
  return any;
}

// The largest number of parts that divides the dim and leaves each long enough; 1: none.
int64_t PartsOf(const FusedProgram& p, const RowFacts& facts) {
  const int64_t size = p.dims[static_cast<size_t>(facts.longest)].size;
  const int64_t most = std::min({kMaxParts, facts.length / kPartLength, kFewRows / facts.rows});
  for (int64_t parts = std::min(most, size); parts > 1; --parts) {
    if (size % parts == 0) return parts;
  }
  return 1;
}

// `strides` with that of dim d as two: of a part, of an element in it.
std::vector<int64_t> SplitStrides(std::vector<int64_t> strides, size_t d, int64_t rest) {
  strides.insert(strides.begin() + static_cast<int64_t>(d), strides[d] * rest);
  return strides;
}

DType PartType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

class Splitter {
 public:
  Splitter(ProgramStep step, int64_t parts, int64_t& scratch_bytes)
      : step_(std::move(step)),
        p_(step_.program),
        facts_(FactsOf(p_)),
        parts_(parts),
        scratch_bytes_(scratch_bytes) {}

  std::vector<ProgramStep> Split() {
    MakeFirst();
    MakeSecond();
    return {std::move(first_), std::move(second_)};
  }

 private:
  // Where the part of a row lies: [rows..., part].
  std::vector<int64_t> PartStrides(int64_t of_part) const {
    std::vector<int64_t> strides(p_.dims.size(), 0);
    int64_t step = parts_;
    for (size_t d = p_.dims.size(); d-- > 0;) {
      if (p_.dims[d].role == DimRole::kReduce) continue;
      strides[d] = step;
      step *= p_.dims[d].size;
    }
    strides.insert(strides.begin() + facts_.longest, of_part);
    return strides;
  }

  void MakeFirst() {
    const auto longest = static_cast<size_t>(facts_.longest);
    const int64_t rest = p_.dims[longest].size / parts_;
    FusedProgram& first = first_.program;
    first.dims = p_.dims;
    first.dims[longest].size = rest;
    first.dims.insert(first.dims.begin() + facts_.longest,
                      IndexDim{.size = parts_, .role = DimRole::kOuter});
    for (FusedOperand operand : p_.operands) {
      operand.strides = SplitStrides(std::move(operand.strides), longest, rest);
      first.operands.push_back(std::move(operand));
    }
    first_.operands = step_.operands;
    for (ScalarInstruction s : p_.instructions) {
      if (s.op == ScalarOp::kIndex && s.a >= facts_.longest) ++s.a;
      first.instructions.push_back(s);
    }
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      const ScalarInstruction& s = p_.instructions[i];
      if (!IsReduction(s.op)) continue;
      const DType dtype = PartType(s.dtype);
      // Reduced in the wider type: a part is not rounded.
      const auto cast = static_cast<int32_t>(first.instructions.size());
      first.instructions.push_back({.op = ScalarOp::kCast, .dtype = dtype, .a = s.a});
      first.instructions.push_back({.op = s.op, .dtype = dtype, .a = cast});
      first.outputs.push_back(
          {.value = cast + 1, .dtype = dtype, .offset = 0, .strides = PartStrides(1)});
      const int64_t bytes = facts_.rows * parts_ * SizeOf(dtype);
      first_.outputs.push_back(ScratchParam(scratch_bytes_, bytes, false, true));
      part_of_.emplace(static_cast<int32_t>(i), static_cast<int32_t>(first.outputs.size()) - 1);
      scratch_bytes_ += (bytes + 255) / 256 * 256;
    }
  }

  // The dims are those of the first program with the part reduced and the rest gone.
  void MakeSecond() {
    const auto longest = static_cast<size_t>(facts_.longest);
    FusedProgram& second = second_.program;
    second.dims = first_.program.dims;
    second.dims[longest].role = DimRole::kReduce;
    for (size_t d = 0; d < second.dims.size(); ++d) {
      if (d != longest && second.dims[d].role == DimRole::kReduce) second.dims[d].size = 1;
    }
    for (FusedOperand operand : p_.operands) {
      operand.strides = SplitStrides(std::move(operand.strides), longest, 0);
      second.operands.push_back(std::move(operand));
    }
    second_.operands = step_.operands;
    std::vector<int32_t> place;  // of each instruction
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      AppendSecond(static_cast<int32_t>(i), place);
    }
    for (FusedOutput output : p_.outputs) {
      output.value = place[static_cast<size_t>(output.value)];
      output.strides = SplitStrides(std::move(output.strides), longest, 0);
      second.outputs.push_back(std::move(output));
    }
    second_.outputs = step_.outputs;
  }

  void AppendSecond(int32_t i, std::vector<int32_t>& place) {
    FusedProgram& second = second_.program;
    ScalarInstruction s = p_.instructions[static_cast<size_t>(i)];
    const auto append = [&](const ScalarInstruction& each) {
      second.instructions.push_back(each);
      return static_cast<int32_t>(second.instructions.size()) - 1;
    };
    if (IsReduction(s.op)) {
      const CudaParam& part = first_.outputs[static_cast<size_t>(part_of_.at(i))];
      const auto operand = static_cast<int32_t>(second.operands.size());
      const DType dtype = PartType(s.dtype);
      second.operands.push_back({.dtype = dtype, .offset = 0, .strides = PartStrides(1)});
      second_.operands.push_back(ScratchParam(part.offset_bytes, part.size_bytes, true, false));
      const int32_t load = append({.op = ScalarOp::kLoad, .dtype = dtype, .a = operand});
      const int32_t sum = append({.op = s.op, .dtype = dtype, .a = load});
      place.push_back(append({.op = ScalarOp::kCast, .dtype = s.dtype, .a = sum}));
      return;
    }
    if (s.op == ScalarOp::kIndex) {
      if (s.a >= facts_.longest) ++s.a;
    } else if (s.op != ScalarOp::kLoad) {
      for (int32_t* v : {&s.a, &s.b, &s.c}) {
        if (*v >= 0) *v = place[static_cast<size_t>(*v)];
      }
    }
    place.push_back(append(s));
  }

  const ProgramStep step_;
  const FusedProgram& p_;
  const RowFacts facts_;
  const int64_t parts_;
  int64_t& scratch_bytes_;
  ProgramStep first_, second_;
  std::map<int32_t, int32_t> part_of_;  // output of the first program, by reduction
};

}  // namespace

std::vector<ProgramStep> SplitLongRows(ProgramStep step, int64_t& scratch_bytes) {
  std::vector<ProgramStep> steps;
  const RowFacts facts = FactsOf(step.program);
  const bool few = facts.longest >= 0 && facts.rows > 0 && facts.rows < kFewRows;
  const int64_t parts = few && CanSplit(step.program) ? PartsOf(step.program, facts) : 1;
  if (parts < 4) {
    steps.push_back(std::move(step));
    return steps;
  }
  return Splitter(std::move(step), parts, scratch_bytes).Split();
}

}  // namespace millrace
