// CenterCropPad cuts or pads both ends of dims to given sizes; of an odd difference the smaller
// half is at the beginning. Its transpose is itself with the sizes exchanged.
#include <algorithm>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dim_maps.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// In the order of the operand.
absl::StatusOr<std::vector<int>> AxesOf(const Attrs& attrs, int rank) {
  std::vector<int> axes;
  if (attrs.Find("axes") == nullptr) {
    for (int d = 0; d < rank; ++d) axes.push_back(d);
    return axes;
  }
  for (int64_t axis : attrs.Ints("axes")) {
    MILLRACE_ASSIGN_OR_RETURN(axes.emplace_back(), NormalizeAxis(axis, rank));
    if (std::count(axes.begin(), axes.end(), axes.back()) > 1) {
      return BadInputError(StrCat("axis ", axis, " is given twice"));
    }
  }
  return axes;
}

absl::Status Infer(InferContext& c) {
  Shape shape = c.input(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> axes, AxesOf(c.attrs(), shape.rank()));
  MILLRACE_ASSIGN_OR_RETURN(const auto sizes, ConstantInts(c, 1, "shape", kMaxRank));
  if (sizes.size() != axes.size()) {
    return BadInputError(StrCat("'shape' has ", sizes.size(), " sizes for ", axes.size(), " axes"));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] < 0) return BadInputError(StrCat("'shape' has ", sizes[i]));
    shape[axes[i]] = sizes[i];
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

DimMap MapOf(int64_t in, int64_t out) {
  if (out <= in) return {.runs = {{(in - out) / 2, 1, out}}};
  const int64_t before = (out - in) / 2;
  return {.runs = {{kFill, 0, before}, {0, 1, in}, {kFill, 0, out - in - before}}};
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  const Tensor zero = Tensor::Zeros({x.dtype(), {}});
  std::vector<DimMap> maps;
  for (int d = 0; d < x.shape().rank(); ++d) {
    maps.push_back(MapOf(x.shape()[d], c.outputs[0].shape()[d]));
  }
  CopyByMaps(x, maps, zero.bytes(), c.outputs[0]);
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Shape& shape = f.input_type(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> axes, AxesOf(f.attrs(), shape.rank()));
  std::vector<int64_t> sizes;
  for (int axis : axes) sizes.push_back(shape[axis]);
  const Term dy = f.output_grad(0);
  f.set_grad(0, Apply("CenterCropPad", {dy, Ints(*dy.builder, sizes)}, f.attrs()));
  return absl::OkStatus();
}

// Dims that are not among the axes.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const int rank = query.inputs[0]->shape.rank();
  const absl::StatusOr<std::vector<int>> axes = AxesOf(query.attrs, rank);
  std::vector<bool> keeps(rank, axes.ok());
  for (size_t i = 0; axes.ok() && i < axes->size(); ++i) keeps[(*axes)[i]] = false;
  return KeptDimRules(query, keeps);
}

}  // namespace

OpDef CenterCropPadOp() {
  return {.name = "CenterCropPad",
          .doc = "The middle of the input, or the input amid zeros, in given sizes",
          .tier = 2,
          .inputs = {{.name = "input_data", .same_as = "T"},
                     {.name = "shape", .dtypes = IndexTypes(), .doc = "sizes of the axes"}},
          .outputs = {{.name = "output_data", .same_as = "T"}},
          .attrs = {{.name = "axes", .kind = AttrKind::kInts, .doc = "absent: all"}},
          .traits = {.host_inputs = {1}},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = MovingWork};
}

}  // namespace millrace
