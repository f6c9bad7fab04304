// Ops that move elements: a box of the operand, walked with some strides, becomes a box of the
// result, walked with others. Concat and Split are a box for each part; Slice, Tile and Pad a box
// for each run of positions of each dim (ops/dim_maps.h); Transpose one box.
#include <algorithm>

#include "ops/axes.h"
#include "ops/cuda/node_programs.h"
#include "ops/dim_maps.h"
#include "ops/scalar_program.h"

namespace millrace {
namespace {

constexpr size_t kMaxBoxes = 32;

struct BoxDim {
  int64_t size = 1, in_stride = 0, out_stride = 0;
};

// Appends the copy of a box; nothing for empty ones.
void AddBox(const NodeQuery& query, size_t input, size_t output, int64_t in_offset,
            int64_t out_offset, std::span<const BoxDim> dims, ProgramSteps& steps) {
  ProgramStep step;
  FusedProgram& p = step.program;
  const DType dtype = query.inputs[input]->dtype;
  FusedOperand operand{.dtype = dtype, .offset = in_offset, .strides = {}};
  FusedOutput result{.value = 0, .dtype = dtype, .offset = out_offset, .strides = {}};
  for (const BoxDim& dim : dims) {
    if (dim.size == 0) return;
    p.dims.push_back({.size = dim.size, .role = DimRole::kOuter});
    operand.strides.push_back(dim.in_stride);
    result.strides.push_back(dim.out_stride);
  }
  p.operands.push_back(std::move(operand));
  p.instructions.push_back({.op = ScalarOp::kLoad, .dtype = dtype, .a = 0});
  p.outputs.push_back(std::move(result));
  step.operands = {InputParam(query, input)};
  step.outputs = {OutputParam(query, output)};
  steps.steps.push_back(std::move(step));
}

void AddWholeCopy(const NodeQuery& query, size_t input, size_t output, ProgramSteps& steps) {
  const BoxDim all = {NumElements(query.outputs[output]->shape), 1, 1};
  AddBox(query, input, output, 0, 0, {&all, 1}, steps);
}

bool IsRenaming(std::string_view op) {
  return op == "Identity" || op == "Reshape" || op == "Flatten" || op == "Squeeze" ||
         op == "Unsqueeze";
}

// The operand seen as `view`, its dims in the order `perm`, is the result.
ProgramSteps Permuted(const NodeQuery& query, const Shape& view, std::span<const int64_t> perm) {
  const Shape strides = DenseStrides(view);
  std::vector<BoxDim> dims;
  for (const int64_t from : perm) {
    dims.push_back({view[static_cast<int>(from)], strides[static_cast<int>(from)], 0});
  }
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    dims[d].out_stride = step;
    step *= dims[d].size;
  }
  ProgramSteps steps;
  AddBox(query, 0, 0, 0, 0, dims, steps);
  return steps;
}

ProgramSteps TransposeSteps(const NodeQuery& query) {
  const Shape& shape = query.inputs[0]->shape;
  std::vector<int64_t> perm = query.attrs.Ints("perm");
  if (query.attrs.Find("perm") == nullptr) {
    for (int d = shape.rank(); d-- > 0;) perm.push_back(d);
  }
  return Permuted(query, shape, perm);
}

// ops/defs/depth_to_space.cc says why.
ProgramSteps RegroupingSteps(const NodeQuery& query) {
  const Shape& x = query.inputs[0]->shape;
  const int64_t b = query.attrs.Int("blocksize", 1);
  if (query.op == "SpaceToDepth") {
    const int64_t perm[] = {0, 3, 5, 1, 2, 4};
    return Permuted(query, {x[0], x[1], x[2] / b, b, x[3] / b, b}, perm);
  }
  const int64_t depth = x[1] / (b * b);
  if (query.attrs.String("mode", "DCR") == "DCR") {
    const int64_t perm[] = {0, 3, 4, 1, 5, 2};
    return Permuted(query, {x[0], b, b, depth, x[2], x[3]}, perm);
  }
  const int64_t perm[] = {0, 1, 4, 2, 5, 3};
  return Permuted(query, {x[0], depth, b, b, x[2], x[3]}, perm);
}

// Parts along an axis, the operands or the results.
std::optional<ProgramSteps> JoinSteps(const NodeQuery& query) {
  const bool concat = query.op == "Concat";
  const auto& whole = concat ? query.outputs[0] : query.inputs[0];
  const auto& parts = concat ? query.inputs : query.outputs;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), whole->shape.rank());
  if (!axis.ok()) return std::nullopt;
  const Shape strides = DenseStrides(whole->shape);
  ProgramSteps steps;
  int64_t offset = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    // Where the next one starts is not known without the type of this one.
    if (!parts[i].has_value() || parts[i]->shape.rank() != whole->shape.rank()) return std::nullopt;
    const Shape own = DenseStrides(parts[i]->shape);
    std::vector<BoxDim> dims;
    for (int d = 0; d < own.rank(); ++d) {
      const int64_t size = parts[i]->shape[d];
      if (d != *axis && size != whole->shape[d]) return std::nullopt;
      dims.push_back(concat ? BoxDim{size, own[d], strides[d]} : BoxDim{size, strides[d], own[d]});
    }
    AddBox(query, concat ? i : 0, concat ? 0 : i, concat ? 0 : offset, concat ? offset : 0, dims,
           steps);
    offset += parts[i]->shape[*axis] * strides[*axis];
  }
  if (offset != whole->shape[*axis] * strides[*axis]) return std::nullopt;
  return steps;
}

std::optional<ProgramSteps> ExpandSteps(const NodeQuery& query) {
  const TensorType &from = *query.inputs[0], &to = *query.outputs[0];
  if (from.shape.rank() > to.shape.rank()) return std::nullopt;
  ProgramSteps steps;
  ProgramStep& step = steps.steps.emplace_back();
  step.program = ProgramOver(to.shape);
  StoreOutput(step.program, LoadOperand(step.program, from, to.shape));
  step.operands = {InputParam(query, 0)};
  step.outputs = {OutputParam(query, 0)};
  return steps;
}

// All elements of the result are those of Pad's constant.
void AddFill(const NodeQuery& query, ProgramSteps& steps) {
  const TensorType& to = *query.outputs[0];
  ProgramStep step;
  step.program = ProgramOver(to.shape);
  ScalarTerm value = {&step.program, -1, to.dtype};
  if (query.inputs.size() > 2 && query.inputs[2].has_value()) {
    value = LoadOperand(step.program, *query.inputs[2], to.shape);
    step.operands = {InputParam(query, 2)};
  } else {
    value = ScalarConstant(value, 0);
  }
  StoreOutput(step.program, value);
  step.outputs = {OutputParam(query, 0)};
  steps.steps.push_back(std::move(step));
}

// A box for each choice of a run in each dim; the first positions that are filled make one of the
// whole result before.
class MapBoxes {
 public:
  MapBoxes(const NodeQuery& query, const std::vector<DimMap>& maps) : query_(query), maps_(maps) {
    const Shape& in = query.inputs[0]->shape;
    const int lacking = query.outputs[0]->shape.rank() - in.rank();
    const Shape in_strides = DenseStrides(in), out_strides = DenseStrides(query.outputs[0]->shape);
    for (int d = 0; d < out_strides.rank(); ++d) {
      in_strides_.push_back(d < lacking ? 0 : in_strides[d - lacking]);
      out_strides_.push_back(out_strides[d]);
    }
  }

  std::optional<ProgramSteps> Make() {
    size_t boxes = 1;
    for (const DimMap& map : maps_) {
      size_t copied = 0;
      for (const DimRun& run : map.runs) {
        if (run.count == 0) continue;
        run.start == kFill ? fills_ = true : ++copied;
      }
      boxes *= copied;
      if (boxes > kMaxBoxes) return std::nullopt;
    }
    if (fills_) AddFill(query_, steps_);
    AddFrom(0, 0, 0);
    return std::move(steps_);
  }

 private:
  void AddFrom(size_t d, int64_t in_offset, int64_t out_offset) {
    if (d == maps_.size()) {
      AddBox(query_, 0, 0, in_offset, out_offset, dims_, steps_);
      return;
    }
    const DimMap& map = maps_[d];
    const int64_t period = CountOf(map) / std::max<int64_t>(1, map.times);
    int64_t at = 0;
    for (const DimRun& run : map.runs) {
      if (run.count > 0 && run.start != kFill) {
        if (map.times != 1) dims_.push_back({map.times, 0, period * out_strides_[d]});
        dims_.push_back({run.count, run.step * in_strides_[d], out_strides_[d]});
        AddFrom(d + 1, in_offset + run.start * in_strides_[d], out_offset + at * out_strides_[d]);
        dims_.pop_back();
        if (map.times != 1) dims_.pop_back();
      }
      at += run.count;
    }
  }

  const NodeQuery& query_;
  const std::vector<DimMap>& maps_;
  std::vector<int64_t> in_strides_, out_strides_;
  std::vector<BoxDim> dims_;
  bool fills_ = false;
  ProgramSteps steps_;
};

std::optional<ProgramSteps> MapSteps(const NodeQuery& query,
                                     const std::optional<std::vector<DimMap>>& maps) {
  if (!maps.has_value()) return std::nullopt;
  const Shape& out = query.outputs[0]->shape;
  if (static_cast<int>(maps->size()) != out.rank()) return std::nullopt;
  if (query.inputs[0]->shape.rank() > out.rank()) return std::nullopt;
  for (int d = 0; d < out.rank(); ++d) {
    if (CountOf((*maps)[static_cast<size_t>(d)]) != out[d]) return std::nullopt;
  }
  return MapBoxes(query, *maps).Make();
}

}  // namespace

std::optional<ProgramSteps> MoveSteps(const NodeQuery& query) {
  if (query.inputs.empty() || !query.inputs[0].has_value()) return std::nullopt;
  const std::string& op = query.op;
  if (op == "Split" || op == "Concat") return JoinSteps(query);
  if (!query.outputs[0].has_value() || query.inputs[0]->dtype != query.outputs[0]->dtype) {
    return std::nullopt;
  }
  if (IsRenaming(op)) {
    if (ByteSize(*query.inputs[0]) != ByteSize(*query.outputs[0])) return std::nullopt;
    ProgramSteps steps;
    AddWholeCopy(query, 0, 0, steps);
    return steps;
  }
  if (op == "Transpose") return TransposeSteps(query);
  if (op == "DepthToSpace" || op == "SpaceToDepth") return RegroupingSteps(query);
  if (op == "Expand") return ExpandSteps(query);
  if (op == "Slice") return MapSteps(query, SliceMaps(query));
  if (op == "Tile") return MapSteps(query, TileMaps(query));
  if (op == "Pad") return MapSteps(query, PadMaps(query));
  return std::nullopt;
}

}  // namespace millrace
