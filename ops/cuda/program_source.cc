// A map (nothing is reduced) is one thread for a few points that are neighbours along the last dim,
// as many as 16 bytes of the widest element hold: what is contiguous along it is read and written
// in one access, 16 bytes wide for the widest type, where base address, offset and strides allow.
//
// Anything else is rows: a row is one point of the outer dims, and its lanes (a group of a warp, a
// whole block, or the rows of a block for which the reduced dims are not the innermost ones) share
// the points to reduce over. A reduction needs a sweep over the row; what depends on it, another.
// So each instruction has a depth: how many reductions lie before it. Values that do not vary along
// the row are computed once, between sweeps; those that do are computed again in each sweep that
// needs them, from elements that stay in registers where they are few. No thread leaves early: all
// take part in every reduction, those without a row of their own redo row 0 and store nothing.
#include "ops/cuda/program_source.h"

#include <algorithm>

#include "graph/assert.h"
#include "graph/strings.h"
#include "ops/cuda/program_form.h"
#include "ops/cuda/scalar_source.h"

namespace millrace {
namespace {

constexpr int64_t kCachedBytes = 128;  // of a row, in registers of a lane

class ProgramWriter {
 public:
  ProgramWriter(const FusedProgram& program, std::span<const CudaParam> operands,
                std::span<const CudaParam> outputs)
      : p_(program),
        operands_(operands),
        outputs_(outputs),
        f_(MakeProgramForm(program, LargestOf(operands, outputs))) {}

  std::optional<CudaLaunch> Write(std::string_view name) {
    Line("#include \"reduce.cuh\"");
    Line("using namespace millrace;");
    Line(StrCat("extern \"C\" __global__ void __launch_bounds__(", f_.threads, ") ", kFunctionName,
                "(", Parameters(), ") {"));
    if (f_.space.is_map) {
      WriteMap();
    } else {
      WriteRows();
    }
    Line("}");
    if (f_.blocks > kMaxBlocks) return std::nullopt;
    CudaLaunch launch = NamedLaunch(name, text_);
    launch.blocks = static_cast<uint32_t>(f_.blocks);
    launch.threads = static_cast<uint32_t>(f_.threads);
    launch.params.assign(operands_.begin(), operands_.end());
    launch.params.insert(launch.params.end(), outputs_.begin(), outputs_.end());
    return launch;
  }

 private:
  static int64_t LargestOf(std::span<const CudaParam> operands,
                           std::span<const CudaParam> outputs) {
    int64_t largest = 0;
    for (const CudaParam& param : operands) largest = std::max(largest, param.size_bytes);
    for (const CudaParam& param : outputs) largest = std::max(largest, param.size_bytes);
    return largest;
  }
  const ScalarInstruction& At(int32_t i) const { return p_.instructions[static_cast<size_t>(i)]; }
  int32_t NumInstructions() const { return static_cast<int32_t>(p_.instructions.size()); }

  bool OutputVaries(size_t o) const {
    return f_.space.is_map || std::ranges::any_of(f_.space.reduce, [&](const SpaceDim& dim) {
             return dim.out_strides[o] != 0;
           });
  }

  // --- Text ---

  void Line(std::string_view line) { StrAppend(&text_, std::string(indent_, ' '), line, "\n"); }
  void Open(std::string_view line) {
    Line(line);
    indent_ += 2;
  }
  void Close() {
    indent_ -= 2;
    Line("}");
  }
  std::string_view IndexType() const { return f_.wide ? "i64" : "i32"; }
  std::string_view CountType() const { return f_.wide ? "u64" : "u32"; }

  std::string Parameters() const {
    std::string list;
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      StrAppend(&list, list.empty() ? "" : ", ", "const ", DeviceType(p_.operands[i].dtype), "* in",
                i);
    }
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      StrAppend(&list, list.empty() ? "" : ", ", DeviceType(p_.outputs[i].dtype), "* out", i);
    }
    return list;
  }

  // "const i32 <prefix>0 = ..." for the index along each dim, of the number of a point.
  void DeclareIndices(const std::vector<SpaceDim>& dims, std::string_view prefix,
                      std::string_view point) {
    int64_t below = 1;
    for (size_t d = dims.size(); d-- > 0;) {
      std::string index = std::string(point);
      if (below > 1) index = StrCat(index, " / ", below);
      if (d > 0) index = StrCat(index, " % ", dims[d].size);
      Line(StrCat("[[maybe_unused]] const ", IndexType(), " ", prefix, d, " = static_cast<",
                  IndexType(), ">(", index, ");"));
      below *= dims[d].size;
    }
  }

  // " + o0 * 12 + o1", of the terms that are there.
  static std::string Offset(const std::vector<SpaceDim>& dims, std::string_view prefix,
                            const auto& stride_of) {
    std::string sum;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t stride = stride_of(dims[d]);
      if (stride == 0) continue;
      StrAppend(&sum, " + ", prefix, d);
      if (stride != 1) StrAppend(&sum, " * ", stride);
    }
    return sum;
  }
  static std::string InOffset(const std::vector<SpaceDim>& dims, std::string_view prefix,
                              size_t operand) {
    return Offset(dims, prefix, [&](const SpaceDim& dim) { return dim.in_strides[operand]; });
  }
  static std::string OutOffset(const std::vector<SpaceDim>& dims, std::string_view prefix,
                               size_t output) {
    return Offset(dims, prefix, [&](const SpaceDim& dim) { return dim.out_strides[output]; });
  }
  static std::string Start(int64_t offset) { return offset == 0 ? "" : StrCat(" + ", offset); }

  int64_t InnerIn(size_t o) const { return f_.inner == nullptr ? 0 : f_.inner->in_strides[o]; }
  int64_t InnerOut(size_t o) const { return f_.inner == nullptr ? 0 : f_.inner->out_strides[o]; }

  // Whether accesses may be wide, which base addresses decide.
  void DeclareAlignment() {
    if (f_.width == 1) return;
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      if (InnerIn(i) != 1) continue;
      Line(StrCat("[[maybe_unused]] const bool in", i, "_aligned = IsAligned(in", i, ", ",
                  f_.width * SizeOf(p_.operands[i].dtype), ");"));
    }
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (InnerOut(i) != 1) continue;
      Line(StrCat("[[maybe_unused]] const bool out", i, "_aligned = IsAligned(out", i, ", ",
                  f_.width * SizeOf(p_.outputs[i].dtype), ");"));
    }
  }

  std::string PackType(DType dtype) const {
    return StrCat("Pack<", DeviceType(dtype), ", ", f_.width, ">");
  }

  // The pack `pack`, declared before, of the elements of operand o at `address`.
  void LoadPack(size_t o, const std::string& pack, const std::string& address) {
    const int64_t stride = InnerIn(o);
    if (stride == 1) {
      Line(StrCat(pack, " = Load<", f_.width, ">(", address, ", ",
                  f_.width > 1 ? StrCat("in", o, "_aligned") : "true", ");"));
      return;
    }
    for (int64_t k = 0; k < f_.width; ++k) {
      Line(StrCat(pack, ".at[", k, "] = (", address, ")[", k * stride, "];"));
    }
  }

  void StorePack(size_t o, const std::string& pack, const std::string& address) {
    const int64_t stride = InnerOut(o);
    if (stride == 1) {
      Line(StrCat("Store(", address, ", ", pack, ", ",
                  f_.width > 1 ? StrCat("out", o, "_aligned") : "true", ");"));
      return;
    }
    for (int64_t k = 0; k < f_.width; ++k) {
      Line(StrCat("(", address, ")[", k * stride, "] = ", pack, ".at[", k, "];"));
    }
  }

  // The value of instruction i; loads come from "p<operand>.at[k]" where they vary along the inner
  // dim, from "e<operand>" where not.
  std::string ValueSource(int32_t i) const {
    const ScalarInstruction& s = At(i);
    if (s.op == ScalarOp::kLoad) {
      const auto operand = static_cast<size_t>(s.a);
      const bool element = InnerIn(operand) == 0 || (!f_.space.is_map && !f_.varies[Index(i)]);
      return element ? StrCat("e", s.a) : StrCat("p", s.a, ".at[k]");
    }
    if (s.op == ScalarOp::kIndex) return IndexSource(s);
    return ExpressionSource(p_, i);
  }

  std::string IndexSource(const ScalarInstruction& s) const {
    const DimPlace& place = f_.space.places[static_cast<size_t>(s.a)];
    std::string index = "0";
    if (place.part != DimPlace::Part::kNone) {
      const bool reduced = place.part == DimPlace::Part::kReduce;
      const std::vector<SpaceDim>& part = reduced ? f_.space.reduce : f_.space.outer;
      index = StrCat(reduced ? "r" : "o", place.dim);
      if (&part[static_cast<size_t>(place.dim)] == f_.inner) index = StrCat(index, " + k");
    }
    return StrCat("Convert<", DeviceType(s.dtype), ">(static_cast<i64>(", index, "))");
  }

  static size_t Index(int32_t i) { return static_cast<size_t>(i); }

  void DeclareValue(int32_t i) {
    Line(StrCat("const ", DeviceType(At(i).dtype), " ", ValueName(i), " = ", ValueSource(i), ";"));
  }

  std::vector<bool> LoadedBy(const std::vector<bool>& needed) const {
    std::vector<bool> loaded(p_.operands.size(), false);
    for (int32_t i = 0; i < NumInstructions(); ++i) {
      if (needed[Index(i)] && At(i).op == ScalarOp::kLoad) loaded[Index(At(i).a)] = true;
    }
    return loaded;
  }

  // Opens the loop over the elements of a pack, in which `k` is one.
  void OpenElements() {
    Line("#pragma unroll");
    Open(StrCat("for (int k = 0; k < ", f_.width, "; ++k) {"));
  }

  std::string StoredValue(size_t o) const {
    const FusedOutput& output = p_.outputs[o];
    const std::string value = ValueName(output.value);
    if (At(output.value).dtype == output.dtype) return value;
    return StrCat("Convert<", DeviceType(output.dtype), ">(", value, ")");
  }

  // --- Maps ---

  void WriteMap() {
    indent_ = 2;
    const int64_t points = f_.space.Rows(), items = points / f_.width;
    Line(StrCat("const ", CountType(), " item = static_cast<", CountType(), ">(blockIdx.x) * ",
                kBlockThreads, " + threadIdx.x;"));
    Line(StrCat("if (item >= ", items, ") return;"));
    if (f_.width > 1) Line(StrCat("const ", CountType(), " point = item * ", f_.width, ";"));
    DeclareIndices(f_.space.outer, "o", f_.width > 1 ? "point" : "item");
    DeclareAlignment();

    const std::vector<bool> loaded = LoadedBy(f_.live);
    for (size_t i = 0; i < loaded.size(); ++i) {
      if (!loaded[i]) continue;
      const std::string address =
          StrCat("in", i, Start(p_.operands[i].offset), InOffset(f_.space.outer, "o", i));
      LoadElementOrPack(i, address);
    }
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      Line(StrCat(PackType(p_.outputs[i].dtype), " q", i, ";"));
    }
    OpenElements();
    DeclareVarying(f_.live);
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      Line(StrCat("q", i, ".at[k] = ", StoredValue(i), ";"));
    }
    Close();
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      StorePack(i, StrCat("q", i),
                StrCat("out", i, Start(p_.outputs[i].offset), OutOffset(f_.space.outer, "o", i)));
    }
    indent_ = 0;
  }

  void LoadElementOrPack(size_t o, const std::string& address) {
    const DType dtype = p_.operands[o].dtype;
    if (InnerIn(o) == 0) {
      Line(StrCat("const ", DeviceType(dtype), " e", o, " = *(", address, ");"));
      return;
    }
    Line(StrCat(PackType(dtype), " p", o, ";"));
    LoadPack(o, StrCat("p", o), address);
  }

  // --- Rows ---

  void WriteRows() {
    indent_ = 2;
    DeclareRow();
    DeclareIndices(f_.space.outer, "o", "row");
    DeclareAlignment();
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      Line(StrCat("[[maybe_unused]] const ", DeviceType(p_.operands[i].dtype), "* const row_in", i,
                  " = in", i, Start(p_.operands[i].offset), InOffset(f_.space.outer, "o", i), ";"));
    }
    FindCached();
    WriteUniform(0);
    for (int sweep = 0; sweep < f_.sweeps; ++sweep) {
      WriteReductions(sweep);
      WriteUniform(sweep + 1);
    }
    WriteVaryingOutputs();
    WriteUniformOutputs();
    indent_ = 0;
  }

  void DeclareRow() {
    const std::string count(CountType());
    switch (f_.form) {
      case RowTeam::kGroup:
        Line(StrCat("const u32 lane = threadIdx.x % ", f_.lanes, ";"));
        Line(StrCat("const ", count, " place = static_cast<", count, ">(blockIdx.x) * ",
                    kBlockThreads / f_.lanes, " + threadIdx.x / ", f_.lanes, ";"));
        Line(StrCat("const bool active = place < ", f_.space.Rows(), ";"));
        Line(StrCat("[[maybe_unused]] const ", count, " row = active ? place : 0;"));
        break;
      case RowTeam::kBlock:
        Line("const u32 lane = threadIdx.x;");
        Line("[[maybe_unused]] constexpr bool active = true;");
        Line(StrCat("[[maybe_unused]] const ", count, " row = blockIdx.x;"));
        break;
      case RowTeam::kColumns:
        Line(StrCat("const u32 lane = threadIdx.x / ", f_.columns, ";"));
        Line(StrCat("const ", count, " column = static_cast<", count, ">(blockIdx.x % ",
                    f_.column_blocks, ") * ", f_.columns, " + threadIdx.x % ", f_.columns, ";"));
        Line(StrCat("const bool active = column < ", f_.space.outer.back().size, ";"));
        Line(StrCat("[[maybe_unused]] const ", count, " row = static_cast<", count,
                    ">(blockIdx.x / ", f_.column_blocks, ") * ", f_.space.outer.back().size,
                    " + (active ? column : 0);"));
        break;
    }
  }

  bool IsReductionOf(int32_t i, int sweep) const {
    return f_.live[Index(i)] && IsReduction(At(i).op) && f_.depth[Index(i)] == sweep + 1;
  }

  bool SweepNeeds(int sweep, size_t operand) const {
    return LoadedBy(NeededInSweep(RootsOfSweep(sweep)))[operand];
  }

  // What a sweep computes anew: what varies along the row.
  std::vector<bool> NeededInSweep(const std::vector<int32_t>& roots) const {
    return NeededFor(p_, roots, [&](int32_t v) { return !f_.varies[Index(v)]; });
  }

  // Operands of the reductions of a sweep; after the last of them, what is stored along the row.
  std::vector<int32_t> RootsOfSweep(int sweep) const {
    std::vector<int32_t> roots;
    if (sweep == f_.sweeps) {
      for (size_t i = 0; i < p_.outputs.size(); ++i) {
        if (OutputVaries(i)) roots.push_back(p_.outputs[i].value);
      }
      return roots;
    }
    for (int32_t i = 0; i < NumInstructions(); ++i) {
      if (IsReductionOf(i, sweep)) roots.push_back(At(i).a);
    }
    return roots;
  }

  // Which operands of a row stay in registers from one sweep to the next.
  void FindCached() {
    cached_.assign(p_.operands.size(), false);
    cached_loaded_ = cached_;
    if (f_.rounds == 0) return;
    int64_t room = kCachedBytes;
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      int uses = 0;
      for (int sweep = 0; sweep <= f_.sweeps; ++sweep) uses += SweepNeeds(sweep, i) ? 1 : 0;
      const int64_t bytes =
          f_.rounds * f_.width * std::max<int64_t>(4, SizeOf(p_.operands[i].dtype));
      if (uses < 2 || InnerIn(i) == 0 || bytes > room) continue;
      room -= bytes;
      cached_[i] = true;
      Line(StrCat(PackType(p_.operands[i].dtype), " row_p", i, "[", f_.rounds, "];"));
    }
    unrolls_ = std::ranges::find(cached_, true) != cached_.end();
  }

  // Values of that depth that are the same along the row.
  void WriteUniform(int depth) {
    for (int32_t i = 0; i < NumInstructions(); ++i) {
      const ScalarInstruction& s = At(i);
      const bool due = f_.live[Index(i)] && !f_.varies[Index(i)] && f_.depth[Index(i)] == depth;
      if (!due || IsReduction(s.op)) continue;
      if (s.op == ScalarOp::kLoad) {
        Line(StrCat("const ", DeviceType(s.dtype), " ", ValueName(i), " = *row_in", s.a, ";"));
      } else {
        DeclareValue(i);
      }
    }
  }

  // Opens the loop over the lane's packs; `r0`, ... are the indices of its first element.
  void OpenSweep() {
    if (unrolls_) Line("#pragma unroll");
    Open(StrCat("for (int round = 0; round < ", f_.rounds, "; ++round) {"));
    Line(StrCat("const ", CountType(), " at = (static_cast<", CountType(), ">(round) * ", f_.lanes,
                " + lane) * ", f_.width, ";"));
    Open(StrCat("if (at < ", f_.space.Length(), ") {"));
    DeclareIndices(f_.space.reduce, "r", "at");
  }
  void CloseSweep() {
    Close();
    Close();
  }

  void LoadRowOperands(const std::vector<bool>& needed) {
    const std::vector<bool> loaded = LoadedBy(needed);
    for (size_t i = 0; i < loaded.size(); ++i) {
      if (!loaded[i]) continue;
      const std::string address = StrCat("row_in", i, InOffset(f_.space.reduce, "r", i));
      if (!cached_[i]) {
        LoadElementOrPack(i, address);
        continue;
      }
      if (!cached_loaded_[i]) LoadPack(i, StrCat("row_p", i, "[round]"), address);
      cached_loaded_[i] = true;
      Line(StrCat("const ", PackType(p_.operands[i].dtype), "& p", i, " = row_p", i, "[round];"));
    }
  }

  void DeclareVarying(const std::vector<bool>& needed) {
    for (int32_t i = 0; i < NumInstructions(); ++i) {
      if (needed[Index(i)]) DeclareValue(i);
    }
  }

  void WriteReductions(int sweep) {
    std::vector<int32_t> reductions;
    for (int32_t i = 0; i < NumInstructions(); ++i) {
      if (IsReductionOf(i, sweep)) reductions.push_back(i);
    }
    for (const int32_t i : reductions) {
      const std::string type(DeviceType(At(i).dtype));
      Line(StrCat("Wide<", type, "> a", i, " = ", ReductionName(At(i).op), "::Start<", type,
                  ">();"));
    }
    if (f_.space.Length() > 0) {
      const std::vector<bool> needed = NeededInSweep(RootsOfSweep(sweep));
      OpenSweep();
      LoadRowOperands(needed);
      OpenElements();
      DeclareVarying(needed);
      for (const int32_t i : reductions) {
        Line(StrCat("a", i, " = ", ReductionName(At(i).op), "::Combine(a", i, ", Convert<Wide<",
                    DeviceType(At(i).dtype), ">>(", ValueName(At(i).a), "));"));
      }
      Close();
      CloseSweep();
    }
    for (const int32_t i : reductions) {
      Line(StrCat("const ", DeviceType(At(i).dtype), " ", ValueName(i), " = Convert<",
                  DeviceType(At(i).dtype), ">(", Combined(At(i).op, StrCat("a", i)), ");"));
    }
  }

  std::string Combined(ScalarOp op, const std::string& part) const {
    const std::string_view name = ReductionName(op);
    switch (f_.form) {
      case RowTeam::kGroup:
        return StrCat("ReduceLanes<", name, ", ", f_.lanes, ">(", part, ")");
      case RowTeam::kBlock:
        return StrCat("ReduceBlock<", name, ", ", f_.lanes, ">(", part, ")");
      default:
        return StrCat("ReduceColumns<", name, ", ", f_.lanes, ", ", f_.columns, ">(", part, ")");
    }
  }

  std::string RowOut(size_t o) const {
    return StrCat("out", o, Start(p_.outputs[o].offset), OutOffset(f_.space.outer, "o", o));
  }

  void WriteVaryingOutputs() {
    const std::vector<int32_t> roots = RootsOfSweep(f_.sweeps);
    if (roots.empty() || f_.space.Length() == 0) return;
    Open("if (active) {");
    OpenSweep();
    const std::vector<bool> needed = NeededInSweep(roots);
    LoadRowOperands(needed);
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (OutputVaries(i)) Line(StrCat(PackType(p_.outputs[i].dtype), " q", i, ";"));
    }
    OpenElements();
    DeclareVarying(needed);
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (OutputVaries(i)) Line(StrCat("q", i, ".at[k] = ", StoredValue(i), ";"));
    }
    Close();
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (!OutputVaries(i)) continue;
      StorePack(i, StrCat("q", i), StrCat(RowOut(i), OutOffset(f_.space.reduce, "r", i)));
    }
    CloseSweep();
    Close();
  }

  void WriteUniformOutputs() {
    std::string stores;
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (!OutputVaries(i)) {
        StrAppend(&stores, "    *(", RowOut(i), ") = ", StoredValue(i), ";\n");
      }
    }
    if (stores.empty()) return;
    StrAppend(&text_, "  if (active && lane == 0) {\n", stores, "  }\n");
  }

  const FusedProgram& p_;
  const std::span<const CudaParam> operands_, outputs_;
  const ProgramForm f_;
  bool unrolls_ = false;
  std::vector<bool> cached_, cached_loaded_;  // by operand
  std::string text_;
  int indent_ = 0;
};

}  // namespace

std::optional<CudaLaunch> ProgramLaunch(const FusedProgram& program, std::string_view name,
                                        std::span<const CudaParam> operands,
                                        std::span<const CudaParam> outputs) {
  MILLRACE_CHECK(operands.size() == program.operands.size());
  MILLRACE_CHECK(outputs.size() == program.outputs.size() && !outputs.empty());
  return ProgramWriter(program, operands, outputs).Write(name);
}

bool MayLieInPlace(const FusedProgram& program, std::span<const CudaParam> operands,
                   std::span<const CudaParam> outputs) {
  const ProgramSpace space = MakeProgramSpace(program);
  const auto is_along_rows = [&](size_t o) {
    return std::ranges::any_of(space.reduce,
                               [&](const SpaceDim& dim) { return dim.out_strides[o] != 0; });
  };
  bool any_along_rows = false;
  for (size_t o = 0; o < outputs.size(); ++o) any_along_rows = any_along_rows || is_along_rows(o);
  for (size_t o = 0; o < outputs.size(); ++o) {
    const FusedOutput& output = program.outputs[o];
    for (size_t i = 0; i < operands.size(); ++i) {
      const FusedOperand& operand = program.operands[i];
      if (operand.dtype != output.dtype || operands[i].size_bytes != outputs[o].size_bytes) {
        continue;
      }
      // One lane would store what the others of its row still read.
      if (any_along_rows && !is_along_rows(o)) return false;
      if (operand.offset != output.offset) return false;
      for (size_t d = 0; d < program.dims.size(); ++d) {
        if (program.dims[d].size > 1 && operand.strides[d] != output.strides[d]) return false;
      }
    }
  }
  return true;
}

}  // namespace millrace
