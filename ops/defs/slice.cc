// Slice: along each axis given, positions start, start + step, ... up to and without end. Starts
// and ends count from the end when negative, and are clamped to what there is.
#include <algorithm>
#include <limits>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dim_maps.h"
#include "ops/dtypes.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// How the operands say it: one entry each per axis.
struct Operands {
  std::vector<int64_t> starts, ends, axes, steps;
};

DimRun SliceOf(int64_t size, int64_t start, int64_t end, int64_t step) {
  const bool forward = step > 0;
  const int64_t lowest = forward ? 0 : -1, highest = forward ? size : size - 1;
  const auto clamp = [&](int64_t at) {
    return std::clamp(at < 0 ? at + size : at, std::min(lowest, highest), highest);
  };
  DimRun slice{clamp(start), step, 0};
  const int64_t distance = forward ? clamp(end) - slice.start : slice.start - clamp(end);
  const uint64_t stride = forward ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  if (distance > 0) {
    slice.count = static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / stride) + 1;
  }
  if (slice.count <= 1) slice.step = 1;  // no step is taken, however long
  return slice;
}

// Per dim of `shape`.
absl::StatusOr<std::vector<DimRun>> Resolve(const Shape& shape, const Operands& o) {
  std::vector<DimRun> slices;
  for (int64_t size : shape) slices.push_back({0, 1, size});
  std::vector<bool> seen(shape.rank(), false);
  const auto size_fault = [&](std::string_view name, size_t size) {
    return BadInputError(
        StrCat("'", name, "' has ", size, " entries, 'starts' has ", o.starts.size()));
  };
  if (o.ends.size() != o.starts.size()) return size_fault("ends", o.ends.size());
  if (!o.axes.empty() && o.axes.size() != o.starts.size()) {
    return size_fault("axes", o.axes.size());
  }
  if (!o.steps.empty() && o.steps.size() != o.starts.size()) {
    return size_fault("steps", o.steps.size());
  }
  for (size_t i = 0; i < o.starts.size(); ++i) {
    const int64_t axis = o.axes.empty() ? static_cast<int64_t>(i) : o.axes[i];
    MILLRACE_ASSIGN_OR_RETURN(const int d, NormalizeAxis(axis, shape.rank()));
    if (seen[d]) return BadInputError(StrCat("axis ", axis, " is given twice"));
    seen[d] = true;
    const int64_t step = o.steps.empty() ? 1 : o.steps[i];
    if (step == 0) return BadInputError(StrCat("the step along axis ", axis, " is 0"));
    slices[d] = SliceOf(shape[d], o.starts[i], o.ends[i], step);
  }
  return slices;
}

absl::Status Infer(InferContext& c) {
  Operands o;
  MILLRACE_ASSIGN_OR_RETURN(o.starts, ConstantInts(c, 1, "starts", kMaxRank));
  MILLRACE_ASSIGN_OR_RETURN(o.ends, ConstantInts(c, 2, "ends", kMaxRank));
  if (c.has_input(3)) {
    MILLRACE_ASSIGN_OR_RETURN(o.axes, ConstantInts(c, 3, "axes", kMaxRank));
  }
  if (c.has_input(4)) {
    MILLRACE_ASSIGN_OR_RETURN(o.steps, ConstantInts(c, 4, "steps", kMaxRank));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<DimRun> slices, Resolve(c.input(0).shape, o));
  TensorType type = c.input(0);
  for (int d = 0; d < type.shape.rank(); ++d) type.shape[d] = slices[d].count;
  c.set_output(0, type);
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  const auto ints = [&](size_t i) {
    const bool given = i < c.inputs.size() && c.inputs[i].has_data();
    return given ? IntsOf(c.inputs[i]) : std::vector<int64_t>();
  };
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<DimRun> slices,
                            Resolve(c.inputs[0].shape(), {ints(1), ints(2), ints(3), ints(4)}));
  std::vector<DimMap> maps;
  for (const DimRun& slice : slices) maps.push_back({.runs = {slice}});
  CopyByMaps(c.inputs[0], maps, nullptr, c.outputs[0]);
  return absl::OkStatus();
}

// Back to where the elements were: by padding with zeros along axes without steps, else position by
// position.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  Operands o;
  MILLRACE_ASSIGN_OR_RETURN(o.starts, f.KnownInts(1));
  MILLRACE_ASSIGN_OR_RETURN(o.ends, f.KnownInts(2));
  if (f.has_input(3)) {
    MILLRACE_ASSIGN_OR_RETURN(o.axes, f.KnownInts(3));
  }
  if (f.has_input(4)) {
    MILLRACE_ASSIGN_OR_RETURN(o.steps, f.KnownInts(4));
  }
  const Shape& shape = f.input_type(0).shape;
  if (NumElements(f.output_type(0).shape) == 0) {
    f.set_grad(0, Zeros(c.builder, f.input_type(0)));
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<DimRun> slices, Resolve(shape, o));
  const int rank = shape.rank();
  Term dx = f.output_grad(0);
  std::vector<int64_t> pads(2 * rank, 0);
  bool padded = false;
  for (int d = 0; d < rank; ++d) {
    const DimRun& slice = slices[d];
    if (slice.step != 1) {
      dx = SumAtPositions(dx, {.runs = {slice}}, d, shape[d]);
    } else if (slice.count != shape[d]) {
      pads[d] = slice.start;
      pads[rank + d] = shape[d] - slice.start - slice.count;
      padded = true;
    }
  }
  f.set_grad(0, padded ? Apply("Pad", {dx, Ints(c.builder, pads)}) : dx);
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const Shape& shape = query.inputs[0]->shape;
  const std::optional<std::vector<DimMap>> maps = SliceMaps(query);
  std::vector<bool> whole(shape.rank(), false);
  for (int d = 0; maps.has_value() && d < shape.rank(); ++d) {
    whole[d] = IsWhole((*maps)[d], shape[d]);
  }
  return KeptDimRules(query, whole);
}

}  // namespace

std::optional<std::vector<DimMap>> SliceMaps(const NodeQuery& query) {
  Operands o;
  std::vector<int64_t>* const lists[] = {&o.starts, &o.ends, &o.axes, &o.steps};
  for (size_t i = 0; i < 4 && i + 1 < query.inputs.size(); ++i) {
    if (!query.inputs[i + 1].has_value()) continue;
    const auto found = query.known.find(static_cast<int>(i + 1));
    if (found == query.known.end()) return std::nullopt;
    *lists[i] = found->second;
  }
  const auto slices = Resolve(query.inputs[0]->shape, o);
  if (!slices.ok()) return std::nullopt;
  std::vector<DimMap> maps;
  for (const DimRun& slice : *slices) maps.push_back({.runs = {slice}});
  return maps;
}

OpDef SliceOp() {
  const auto per_axis = [](std::string name, bool optional, std::string doc) {
    return OperandSpec{.name = std::move(name),
                       .dtypes = IndexTypes(),
                       .optional = optional,
                       .same_as = "Tind",
                       .doc = std::move(doc)};
  };
  return {.name = "Slice",
          .doc = "Positions start, start + step, ... of data along some axes",
          .inputs = {{.name = "data", .same_as = "T"},
                     per_axis("starts", false, "per axis; negative: from the end"),
                     per_axis("ends", false, "per axis, without it; negative: from the end"),
                     per_axis("axes", true, "absent: the first ones"),
                     per_axis("steps", true, "negative: backwards; absent: 1")},
          .outputs = {{.name = "output", .same_as = "T"}},
          .traits = {.host_inputs = {1, 2, 3, 4}, .view = ViewKind::kSlice},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = MovingWork};
}

}  // namespace millrace
