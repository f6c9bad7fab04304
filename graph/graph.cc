#include "graph/graph.h"

#include <algorithm>
#include <cstring>

namespace millrace {

namespace {

auto LowerBound(auto& items, std::string_view name) {
  return std::lower_bound(items.begin(), items.end(), name,
                          [](const auto& item, std::string_view n) { return item.first < n; });
}

}  // namespace

const AttrValue* Attrs::Find(std::string_view name) const {
  const auto it = LowerBound(items_, name);
  return it != items_.end() && it->first == name ? &it->second : nullptr;
}

void Attrs::Set(std::string_view name, AttrValue value) {
  const auto it = LowerBound(items_, name);
  if (it != items_.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    items_.emplace(it, std::string(name), std::move(value));
  }
}

void Attrs::Erase(std::string_view name) {
  const auto it = LowerBound(items_, name);
  if (it != items_.end() && it->first == name) items_.erase(it);
}

int64_t Attrs::Int(std::string_view name, int64_t otherwise) const {
  const AttrValue* v = Find(name);
  if (v == nullptr) return otherwise;
  if (const bool* b = std::get_if<bool>(v)) return *b;
  MILLRACE_CHECK(std::holds_alternative<int64_t>(*v));
  return std::get<int64_t>(*v);
}

double Attrs::Float(std::string_view name, double otherwise) const {
  const AttrValue* v = Find(name);
  if (v == nullptr) return otherwise;
  if (const int64_t* i = std::get_if<int64_t>(v)) return static_cast<double>(*i);
  MILLRACE_CHECK(std::holds_alternative<double>(*v));
  return std::get<double>(*v);
}

bool Attrs::Bool(std::string_view name, bool otherwise) const {
  return Int(name, otherwise ? 1 : 0) != 0;
}

std::string Attrs::String(std::string_view name, std::string_view otherwise) const {
  const AttrValue* v = Find(name);
  if (v == nullptr) return std::string(otherwise);
  MILLRACE_CHECK(std::holds_alternative<std::string>(*v));
  return std::get<std::string>(*v);
}

std::vector<int64_t> Attrs::Ints(std::string_view name) const {
  const AttrValue* v = Find(name);
  if (v == nullptr) return {};
  MILLRACE_CHECK(std::holds_alternative<std::vector<int64_t>>(*v));
  return std::get<std::vector<int64_t>>(*v);
}

TensorType GlobalType(const Graph& graph, ValueId id) {
  TensorType type = graph.value(id).type;
  if (!graph.local_types) return type;
  const auto sharding = graph.shardings.find(id);
  if (sharding == graph.shardings.end()) return type;
  // What does not fit the mesh or the type is the verifier's to report.
  const size_t axes = std::min(sharding->second.axes.size(), graph.mesh.axes.size());
  for (size_t axis = 0; axis < axes; ++axis) {
    const AxisSharding& along = sharding->second.axes[axis];
    if (along.kind != AxisSharding::Kind::kShard) continue;
    if (along.dim < 0 || along.dim >= type.shape.rank()) continue;
    int64_t& dim = type.shape[along.dim];
    if (__builtin_mul_overflow(dim, graph.mesh.axes[axis].size, &dim)) dim = kMaxBytes + 1;
  }
  return type;
}

std::optional<Tensor> ConstantTensor(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.kind != ValueKind::kConstant || value.data < 0) return std::nullopt;
  const DataSource& source = graph.data[value.data];
  switch (source.kind) {
    case DataSource::Kind::kInline:
    case DataSource::Kind::kBase64:
      if (source.tensor.type() != value.type) return std::nullopt;
      return source.tensor;
    case DataSource::Kind::kSplat: {
      absl::StatusOr<Tensor> full = Tensor::Allocate(value.type);
      if (!full.ok()) return std::nullopt;
      const int64_t size = SizeOf(value.type.dtype), total = full->size_bytes();
      for (int64_t at = 0; at < total; at += size) {
        std::memcpy(full->mutable_bytes() + at, source.tensor.bytes(), size);
      }
      return *std::move(full);
    }
    default:
      return std::nullopt;
  }
}

std::vector<std::vector<NodeId>> ConsumersOf(const Graph& graph) {
  std::vector<std::vector<NodeId>> consumers(graph.values.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId v : graph.nodes[n].inputs) {
      if (v.valid()) consumers[v.index].push_back(NodeId(n));
    }
  }
  return consumers;
}

namespace {

void AppendGraphs(const Graph& graph, std::vector<const Graph*>& all) {
  all.push_back(&graph);
  for (const Node& node : graph.nodes) {
    for (const Subgraph& sub : node.subgraphs) AppendGraphs(sub.graph, all);
  }
}

}  // namespace

std::vector<const Graph*> FlattenGraphs(const Graph& root) {
  std::vector<const Graph*> all;
  AppendGraphs(root, all);
  return all;
}

}  // namespace millrace
