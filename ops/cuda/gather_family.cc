// Gather, its gradient, GatherElements, GatherND, ArgMax and ArgMin (device/gather.cuh).
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/cuda/cuda_families.h"
#include "ops/cuda/template_source.h"

namespace millrace {
namespace {

std::string GatherShapeSource(const AxisView& view, int64_t count) {
  return StrCat("  constexpr GatherShape kShape = {.outer = ", view.outer, ", .size = ", view.size,
                ", .inner = ", view.inner, ", .count = ", count, "};\n");
}

std::optional<TemplateCall> GatherCall(const NodeQuery& query) {
  const Shape& data = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), data.rank());
  if (!axis.ok()) return std::nullopt;
  const AxisView view = ViewAround(data, *axis);
  const int64_t count = NumElements(query.inputs[1]->shape);
  int64_t width = 16 / SizeOf(query.inputs[0]->dtype);
  while (width > 1 && view.inner % width != 0) width /= 2;
  TemplateCall call{.header = "gather.cuh", .name = "gather"};
  call.constants = GatherShapeSource(view, count);
  call.callee = width == 1   ? "Gather<kShape, 1>"
                : width == 2 ? "Gather<kShape, 2>"
                : width == 4 ? "Gather<kShape, 4>"
                : width == 8 ? "Gather<kShape, 8>"
                             : "Gather<kShape, 16>";
  call.blocks = BlocksFor(view.outer * count * (view.inner / width));
  return call;
}

std::optional<TemplateCall> GatherGradientCall(const NodeQuery& query) {
  const Shape& dx = query.outputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), dx.rank());
  if (!axis.ok() || !IsFloat(query.inputs[0]->dtype)) return std::nullopt;
  const AxisView view = ViewAround(dx, *axis);
  TemplateCall call{.header = "gather.cuh", .name = "grad_gather"};
  call.constants = GatherShapeSource(view, NumElements(query.inputs[1]->shape));
  call.callee = "GatherGradient<kShape>";
  call.blocks = view.outer * view.size * ((view.inner + 255) / 256);
  return call;
}

std::optional<TemplateCall> GatherElementsCall(const NodeQuery& query) {
  const Shape &data = query.inputs[0]->shape, &indices = query.inputs[1]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), data.rank());
  if (!axis.ok() || indices.rank() != data.rank()) return std::nullopt;
  TemplateCall call{.header = "gather.cuh", .name = "gather_elements"};
  call.constants =
      StrCat("  constexpr ElementsShape kShape = {.rank = ", data.rank(), ", .axis = ", *axis,
             ", .count = ", NumElements(indices), ", .size = ", data[*axis],
             ",\n      .dims = ", ListSource(indices.dims()),
             ", .strides = ", ListSource(DenseStrides(data).dims()), "};\n");
  call.callee = "GatherElements<kShape>";
  call.blocks = BlocksFor(NumElements(indices));
  return call;
}

std::optional<TemplateCall> GatherTuplesCall(const NodeQuery& query) {
  const Shape &data = query.inputs[0]->shape, &indices = query.inputs[1]->shape;
  const auto batch = static_cast<int>(query.attrs.Int("batch_dims", 0));
  if (indices.rank() == 0 || batch < 0 || batch >= indices.rank()) return std::nullopt;
  const auto length = static_cast<int>(indices[indices.rank() - 1]);
  if (batch + length > data.rank() || length == 0) return std::nullopt;
  const Shape strides = DenseStrides(data);
  const int64_t tuples = NumElements(indices) / length;
  const int64_t unit = NumElements(Shape(data.dims().subspan(static_cast<size_t>(batch + length))));
  const int64_t batches = NumElements(Shape(data.dims().first(static_cast<size_t>(batch))));
  const auto of_coordinates = [&](const Shape& all) {
    return ListSource(all.dims().subspan(static_cast<size_t>(batch), static_cast<size_t>(length)));
  };
  TemplateCall call{.header = "gather.cuh", .name = "gather_nd"};
  call.constants =
      StrCat("  constexpr TuplesShape kShape = {.tuples = ", tuples,
             ", .tuples_per_batch = ", tuples / batches,
             ", .batch_stride = ", batch == 0 ? 0 : strides[batch - 1], ", .unit = ", unit,
             ",\n      .length = ", length, ", .sizes = ", of_coordinates(data),
             ", .strides = ", of_coordinates(strides), "};\n");
  call.callee = "GatherTuples<kShape>";
  call.blocks = BlocksFor(tuples * unit);
  return call;
}

std::optional<TemplateCall> ExtremumCall(const NodeQuery& query) {
  const Shape& x = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), x.rank());
  if (!axis.ok()) return std::nullopt;
  const AxisView view = ViewAround(x, *axis);
  const bool largest = query.op == "ArgMax", last = query.attrs.Bool("select_last_index", false);
  TemplateCall call{.header = "gather.cuh", .name = largest ? "arg_max" : "arg_min"};
  call.constants = GatherShapeSource(view, 1);
  call.callee =
      largest
          ? (last ? "ExtremumIndex<kShape, true, true>" : "ExtremumIndex<kShape, true, false>")
          : (last ? "ExtremumIndex<kShape, false, true>" : "ExtremumIndex<kShape, false, false>");
  call.blocks = (view.outer * view.inner + 7) / 8;
  return call;
}

std::optional<TemplateCall> CallOf(const NodeQuery& query) {
  if (query.op == "Gather") return GatherCall(query);
  if (query.op == "grad.Gather") return GatherGradientCall(query);
  if (query.op == "GatherElements") return GatherElementsCall(query);
  if (query.op == "GatherND") return GatherTuplesCall(query);
  if (query.op == "ArgMax" || query.op == "ArgMin") return ExtremumCall(query);
  return std::nullopt;
}

std::optional<CudaWork> GatherWorkOf(const NodeQuery& query) {
  std::optional<TemplateCall> call = CallOf(query);
  if (!call.has_value() || call->blocks > kMaxBlocks) return std::nullopt;
  for (size_t i = 0; i < query.inputs.size(); ++i) call->params.push_back(InputOf(query, i));
  call->params.push_back(OutputOf(query, 0));
  CudaWork work;
  work.launches.push_back(LaunchOf(*call));
  return work;
}

}  // namespace

CudaFamily CudaGatherFamily() { return {"gather", GatherWorkOf}; }

}  // namespace millrace
