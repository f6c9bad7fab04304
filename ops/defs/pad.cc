// Pad: more positions before and after each axis, or fewer where a pad is negative. What is put
// there: a constant (0 unless given), the nearest edge, the mirror image without the edge
// (reflect), or the other end (wrap). A position far outside is mirrored or wrapped again and
// again.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dim_maps.h"
#include "ops/dtypes.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

struct DimPad {
  int64_t before = 0, after = 0;
};

// Per dim, from the flat list: all befores, then all afters. No axes: all dims.
absl::StatusOr<std::vector<DimPad>> Resolve(const Shape& shape, std::span<const int64_t> pads,
                                            const std::optional<std::vector<int64_t>>& axes) {
  const size_t count = axes.has_value() ? axes->size() : static_cast<size_t>(shape.rank());
  if (pads.size() != 2 * count) {
    return BadInputError(StrCat("'pads' has ", pads.size(), " entries, expected are ", 2 * count,
                                ", two for each axis"));
  }
  std::vector<DimPad> result(shape.rank());
  std::vector<bool> seen(shape.rank(), false);
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = axes.has_value() ? (*axes)[i] : static_cast<int64_t>(i);
    MILLRACE_ASSIGN_OR_RETURN(const int d, NormalizeAxis(axis, shape.rank()));
    if (seen[d]) return BadInputError(StrCat("axis ", axis, " is given twice"));
    seen[d] = true;
    result[d] = {pads[i], pads[count + i]};
    for (int64_t pad : {pads[i], pads[count + i]}) {
      if (pad < -kMaxBytes || pad > kMaxBytes) {
        return BadInputError(StrCat("a pad of ", pad, " along axis ", axis, " is out of range"));
      }
    }
  }
  return result;
}

absl::StatusOr<Shape> PaddedShape(const Shape& shape, std::span<const DimPad> pads,
                                  std::string_view mode) {
  Shape result = shape;
  for (int d = 0; d < shape.rank(); ++d) {
    result[d] += pads[d].before + pads[d].after;
    if (result[d] < 0) {
      return BadInputError(StrCat("dim ", d, " of ", shape[d], " cannot be cut by ",
                                  -(pads[d].before + pads[d].after)));
    }
    if (result[d] > kMaxBytes) return BadInputError("the result is too large");
    if (mode != "constant" && shape[d] == 0 && result[d] > 0) {
      return BadInputError(StrCat("dim ", d, " is empty: '", mode, "' has nothing to pad with"));
    }
  }
  return result;
}

absl::Status Infer(InferContext& c) {
  const TensorType& data = c.input(0);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> pads,
                            ConstantInts(c, 1, "pads", 2 * kMaxRank));
  if (c.has_input(2) && NumElements(c.input(2).shape) != 1) {
    return BadInputError(
        StrCat("'constant_value' must have one element, but is ", ToString(c.input(2).shape)));
  }
  std::optional<std::vector<int64_t>> axes;
  if (c.has_input(3)) {
    MILLRACE_ASSIGN_OR_RETURN(axes, ConstantInts(c, 3, "axes", kMaxRank));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<DimPad> resolved, Resolve(data.shape, pads, axes));
  MILLRACE_ASSIGN_OR_RETURN(
      const Shape shape, PaddedShape(data.shape, resolved, c.attrs().String("mode", "constant")));
  c.set_output(0, {data.dtype, shape});
  return absl::OkStatus();
}

// The position of a dim of `size` that position `at`, which may lie outside, has its element from.
int64_t Source(int64_t at, int64_t size, std::string_view mode) {
  if (at >= 0 && at < size) return at;
  if (mode == "constant") return kFill;
  if (mode == "edge") return at < 0 ? 0 : size - 1;
  const int64_t period = mode == "wrap" ? size : std::max<int64_t>(1, 2 * (size - 1));
  const int64_t phase = ((at % period) + period) % period;
  return phase < size ? phase : period - phase;
}

DimMap MapOf(int64_t size, const DimPad& pad, std::string_view mode) {
  DimMap map;
  for (int64_t at = -pad.before; at < size + pad.after; ++at) {
    AppendPosition(map, Source(at, size, mode));
  }
  return map;
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  const auto given = [&](size_t i) { return i < c.inputs.size() && c.inputs[i].has_data(); };
  std::optional<std::vector<int64_t>> axes;
  if (given(3)) axes = IntsOf(c.inputs[3]);
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<DimPad> pads,
                            Resolve(shape, IntsOf(c.inputs[1]), axes));
  const std::string mode = c.attrs.String("mode", "constant");
  std::vector<DimMap> maps;
  for (int d = 0; d < shape.rank(); ++d) maps.push_back(MapOf(shape[d], pads[d], mode));
  static constexpr std::byte kZero[8] = {};  // of any type
  CopyByMaps(c.inputs[0], maps, given(2) ? c.inputs[2].bytes() : kZero, c.outputs[0]);
  return absl::OkStatus();
}

// Of a constant, padding undone; its own gradient is what that leaves over. Of the other modes,
// every position goes back to where it came from.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  std::optional<std::vector<int64_t>> axes;
  if (f.has_input(3)) {
    MILLRACE_ASSIGN_OR_RETURN(axes, f.KnownInts(3));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> flat, f.KnownInts(1));
  const Shape &from = f.input_type(0).shape, &to = f.output_type(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<DimPad> pads, Resolve(from, flat, axes));
  const std::string mode = f.attrs().String("mode", "constant");
  const Term dy = f.output_grad(0);
  if (mode != "constant" && NumElements(to) > 0) {
    Term dx = dy;
    for (int d = 0; d < from.rank(); ++d) {
      if (pads[d].before == 0 && pads[d].after == 0) continue;
      dx = SumAtPositions(dx, MapOf(from[d], pads[d], mode), d, from[d]);
    }
    if (f.wants(0)) f.set_grad(0, dx);
    return absl::OkStatus();
  }
  std::vector<int64_t> undo(2 * from.rank());
  for (int d = 0; d < from.rank(); ++d) {
    undo[d] = -pads[d].before;
    undo[from.rank() + d] = -pads[d].after;
  }
  const Term dx = Apply("Pad", {dy, Ints(c.builder, undo)});
  if (f.wants(0)) f.set_grad(0, dx);
  if (f.wants(2)) {
    const Term sum = SumTo(dy, to, {}) - SumTo(dx, from, {});
    f.set_grad(2, Reshape(sum, f.input_type(2).shape));
  }
  return absl::OkStatus();
}

// Per dim; nullopt where the query leaves them open.
std::optional<std::vector<DimPad>> PadsOf(const NodeQuery& query) {
  const auto pads = query.known.find(1), axes = query.known.find(3);
  const bool has_axes = query.inputs.size() > 3 && query.inputs[3].has_value();
  if (pads == query.known.end() || (has_axes && axes == query.known.end())) return std::nullopt;
  const auto resolved = Resolve(query.inputs[0]->shape, pads->second,
                                has_axes ? std::optional(axes->second) : std::nullopt);
  return resolved.ok() ? std::optional(*resolved) : std::nullopt;
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<bool> kept(query.inputs[0]->shape.rank(), false);
  const std::optional<std::vector<DimPad>> pads = PadsOf(query);
  for (size_t d = 0; pads.has_value() && d < kept.size(); ++d) {
    kept[d] = (*pads)[d].before == 0 && (*pads)[d].after == 0;
  }
  std::vector<ShardingRule> rules = KeptDimRules(query, kept);
  if (query.inputs.size() > 2 && query.inputs[2].has_value()) {
    std::erase_if(rules, [](const ShardingRule& rule) {  // every device pads with the constant
      return rule.inputs[0] == Partial(Reduction::kSum) ||
             rule.inputs[0] == Partial(Reduction::kProd);
    });
  }
  return rules;
}

}  // namespace

std::optional<std::vector<DimMap>> PadMaps(const NodeQuery& query) {
  constexpr int64_t kMaxPositions = 1 << 20;  // each might be a run
  const Shape& shape = query.inputs[0]->shape;
  const std::string mode = query.attrs.String("mode", "constant");
  const std::optional<std::vector<DimPad>> pads = PadsOf(query);
  if (!pads.has_value()) return std::nullopt;
  const absl::StatusOr<Shape> padded = PaddedShape(shape, *pads, mode);
  if (!padded.ok()) return std::nullopt;
  std::vector<DimMap> maps;
  for (int d = 0; d < shape.rank(); ++d) {
    if ((*padded)[d] > kMaxPositions) return std::nullopt;
    maps.push_back(MapOf(shape[d], (*pads)[d], mode));
  }
  return maps;
}

OpDef PadOp() {
  return {
      .name = "Pad",
      .doc = "Data with more positions before and after each axis (fewer: negative pads)",
      .inputs = {{.name = "data", .same_as = "T"},
                 {.name = "pads",
                  .dtypes = {DType::kI64},
                  .doc = "before each axis, then after each axis"},
                 {.name = "constant_value",
                  .optional = true,
                  .same_as = "T",
                  .doc = "one element; absent: 0"},
                 {.name = "axes", .dtypes = IndexTypes(), .optional = true, .doc = "absent: all"}},
      .outputs = {{.name = "output", .same_as = "T"}},
      .attrs = {{.name = "mode",
                 .kind = AttrKind::kString,
                 .default_value = "constant",
                 .choices = {"constant", "reflect", "edge", "wrap"},
                 .doc = "what is put at the new positions"}},
      .traits = {.host_inputs = {1, 3}},
      .fusion = FusionClass::kShape,
      .infer = Infer,
      .reference = Reference,
      .gradient = Gradient,
      .sharding = Rules,
      .work = MovingWork};
}

}  // namespace millrace
