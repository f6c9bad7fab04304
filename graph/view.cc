#include "graph/view.h"

#include <algorithm>
#include <optional>

namespace millrace {
namespace {

const Value* ValueAt(const Graph& graph, const std::vector<ValueId>& ids, size_t i) {
  if (i >= ids.size() || !ids[i].valid()) return nullptr;
  const Value& value = graph.value(ids[i]);
  return value.bounded ? nullptr : &value;
}

// The axis that pieces of `shape` lie along, if they are contiguous: no dims before it count.
std::optional<int> ContiguousAxis(const Node& node, const Shape& shape) {
  const AttrValue* attr = node.attrs.Find("axis");
  int64_t axis = 0;
  if (attr != nullptr) {
    if (!std::holds_alternative<int64_t>(*attr)) return std::nullopt;
    axis = std::get<int64_t>(*attr);
  }
  if (axis < 0) axis += shape.rank();
  if (axis < 0 || axis >= shape.rank()) return std::nullopt;
  for (int d = 0; d < axis; ++d) {
    if (shape[d] != 1) return std::nullopt;
  }
  return static_cast<int>(axis);
}

std::vector<ViewPart> JoinParts(const Graph& graph, const Node& node, const Value& whole) {
  if (!ContiguousAxis(node, whole.type.shape).has_value()) return {};
  std::vector<ViewPart> parts;
  int64_t at = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value* part = ValueAt(graph, node.inputs, i);
    if (part == nullptr || part->type.dtype != whole.type.dtype) return {};
    const int64_t size = ByteSize(part->type);
    if (size > 0) parts.push_back({static_cast<int32_t>(i), 0, at, size});
    at += size;
  }
  if (at != ByteSize(whole.type)) return {};
  return parts;
}

std::vector<ViewPart> SplitParts(const Graph& graph, const Node& node, const Value& whole,
                                 int output) {
  if (!ContiguousAxis(node, whole.type.shape).has_value()) return {};
  int64_t at = 0;
  for (int i = 0; i <= output; ++i) {
    const Value* part = ValueAt(graph, node.outputs, i);
    if (part == nullptr) return {};  // of a size that is not said
    const int64_t size = ByteSize(part->type);
    if (i == output && size > 0 && at + size <= ByteSize(whole.type)) return {{0, at, 0, size}};
    at += size;
  }
  return {};
}

// Elements of a constant of integers; nullopt when it is none.
std::optional<std::vector<int64_t>> ConstantInts(const Graph& graph, const Node& node, size_t i) {
  const Value* value = ValueAt(graph, node.inputs, i);
  if (value == nullptr || value->kind != ValueKind::kConstant) return std::nullopt;
  if (value->type.dtype != DType::kI64 && value->type.dtype != DType::kI32) return std::nullopt;
  const std::optional<Tensor> tensor = ConstantTensor(graph, node.inputs[i]);
  if (!tensor.has_value()) return std::nullopt;
  std::vector<int64_t> ints;
  for (int64_t e = 0; e < tensor->num_elements(); ++e) {
    ints.push_back(value->type.dtype == DType::kI64 ? tensor->data<int64_t>()[e]
                                                    : tensor->data<int32_t>()[e]);
  }
  return ints;
}

// Only the first dim that counts may be cut, and all steps are 1.
std::vector<ViewPart> SliceParts(const Graph& graph, const Node& node, const Value& whole,
                                 const Value& part) {
  const Shape &from = whole.type.shape, &to = part.type.shape;
  if (from.rank() != to.rank()) return {};
  int cut = 0;
  while (cut < from.rank() && from[cut] == 1) ++cut;
  for (int d = cut + 1; d < from.rank(); ++d) {
    if (to[d] != from[d]) return {};
  }
  const auto starts = ConstantInts(graph, node, 1);
  const bool has_axes = node.inputs.size() > 3 && node.inputs[3].valid();
  const bool has_steps = node.inputs.size() > 4 && node.inputs[4].valid();
  const auto axes = has_axes ? ConstantInts(graph, node, 3) : std::nullopt;
  const auto steps = has_steps ? ConstantInts(graph, node, 4) : std::nullopt;
  if (!starts.has_value() || has_axes != axes.has_value() || has_steps != steps.has_value()) {
    return {};
  }
  if (has_steps && std::ranges::any_of(*steps, [](int64_t step) { return step != 1; })) return {};
  if (has_axes && axes->size() != starts->size()) return {};
  int64_t start = 0;
  for (size_t i = 0; i < starts->size(); ++i) {
    int64_t axis = has_axes ? (*axes)[i] : static_cast<int64_t>(i);
    if (axis < 0) axis += from.rank();
    if (axis != cut) continue;
    start = (*starts)[i] < 0 ? (*starts)[i] + from[cut] : (*starts)[i];
    start = std::clamp<int64_t>(start, 0, from[cut]);
  }
  const int64_t size = ByteSize(part.type);
  if (cut == from.rank()) return {{0, 0, 0, size}};
  if (start + to[cut] > from[cut]) return {};
  return {{0, start * (size / to[cut]), 0, size}};
}

}  // namespace

std::vector<ViewPart> ViewPartsOf(ViewKind kind, const Graph& graph, const Node& node, int output) {
  if (kind == ViewKind::kNone) return {};
  const Value* out = ValueAt(graph, node.outputs, output);
  const Value* in = ValueAt(graph, node.inputs, 0);
  if (out == nullptr || in == nullptr || in->type.dtype != out->type.dtype) return {};
  const int64_t size = ByteSize(out->type);
  if (size == 0) return {};
  switch (kind) {
    case ViewKind::kNone:
      return {};
    case ViewKind::kWhole:
      if (output != 0 || ByteSize(in->type) != size) return {};
      return {{0, 0, 0, size}};
    case ViewKind::kJoin:
      return output == 0 ? JoinParts(graph, node, *out) : std::vector<ViewPart>();
    case ViewKind::kSplit:
      return SplitParts(graph, node, *in, output);
    case ViewKind::kSlice:
      return output == 0 ? SliceParts(graph, node, *in, *out) : std::vector<ViewPart>();
  }
  return {};
}

}  // namespace millrace
