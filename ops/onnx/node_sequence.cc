#include "ops/onnx/node_sequence.h"

#include <queue>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/strings.h"
#include "ops/onnx/proto.h"

namespace millrace {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Adds the names that `graph` and the graphs nested in it read from outside.
void AddFreeNames(const onnx::GraphProto& graph, std::vector<std::string>& names);

void AddNamesRead(const onnx::NodeProto& node, std::vector<std::string>& names) {
  names.insert(names.end(), node.input().begin(), node.input().end());
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) AddFreeNames(attribute.g(), names);
    for (const onnx::GraphProto& graph : attribute.graphs()) AddFreeNames(graph, names);
  }
}

void AddFreeNames(const onnx::GraphProto& graph, std::vector<std::string>& names) {
  absl::flat_hash_set<std::string> own;
  for (const auto& input : graph.input()) own.insert(input.name());
  for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const auto& sparse : graph.sparse_initializer()) own.insert(sparse.values().name());
  std::vector<std::string> read;
  for (const onnx::NodeProto& node : graph.node()) {
    own.insert(node.output().begin(), node.output().end());
    AddNamesRead(node, read);
  }
  for (const auto& output : graph.output()) read.push_back(output.name());
  for (std::string& name : read) {
    if (!own.contains(name)) names.push_back(std::move(name));
  }
}

// The producers of what each node reads, without repetitions.
std::vector<std::vector<int>> Dependencies(const Nodes& nodes) {
  absl::flat_hash_map<std::string, int> producers;
  for (int n = 0; n < nodes.size(); ++n) {
    for (const std::string& output : nodes[n].output()) {
      if (!output.empty()) producers.try_emplace(output, n);
    }
  }
  std::vector<std::vector<int>> dependencies(nodes.size());
  std::vector<std::string> names;
  for (int n = 0; n < nodes.size(); ++n) {
    names.clear();
    AddNamesRead(nodes[n], names);
    std::set<int> found;
    for (const std::string& name : names) {
      const auto producer = producers.find(name);
      if (producer != producers.end()) found.insert(producer->second);
    }
    dependencies[n].assign(found.begin(), found.end());
  }
  return dependencies;
}

std::string NameOf(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

// `blocked`: nodes that wait for each other, or for such nodes. Going back from any of them along
// what it waits for ends up in a cycle.
absl::Status CycleError(const Nodes& nodes, const std::vector<std::vector<int>>& dependencies,
                        const std::vector<int>& waits_for) {
  int at = 0;
  while (waits_for[at] == 0) ++at;
  std::vector<int> seen(nodes.size(), -1), way;
  while (seen[at] < 0) {
    seen[at] = static_cast<int>(way.size());
    way.push_back(at);
    for (const int dependency : dependencies[at]) {
      if (waits_for[dependency] == 0) continue;
      at = dependency;
      break;
    }
  }
  constexpr size_t kMaxShown = 8;
  std::string cycle;
  const std::vector<int> loop(way.begin() + seen[at], way.end());
  for (size_t i = 0; i < std::min(loop.size(), kMaxShown); ++i) {
    StrAppend(&cycle, "'", NameOf(nodes[loop[i]]), "' <- ");
  }
  if (loop.size() > kMaxShown) StrAppend(&cycle, "... <- ");
  return BadInputError(StrCat("nodes wait for each other: ", cycle, "'", NameOf(nodes[at]), "'"));
}

}  // namespace

absl::StatusOr<std::vector<int>> NodeSequence(const Nodes& nodes) {
  const std::vector<std::vector<int>> dependencies = Dependencies(nodes);
  std::vector<std::vector<int>> dependents(nodes.size());
  std::vector<int> waits_for(nodes.size(), 0);
  for (int n = 0; n < nodes.size(); ++n) {
    waits_for[n] = static_cast<int>(dependencies[n].size());
    for (const int dependency : dependencies[n]) dependents[dependency].push_back(n);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // the first in the file first
  for (int n = 0; n < nodes.size(); ++n) {
    if (waits_for[n] == 0) ready.push(n);
  }
  std::vector<int> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    const int n = ready.top();
    ready.pop();
    order.push_back(n);
    for (const int dependent : dependents[n]) {
      if (--waits_for[dependent] == 0) ready.push(dependent);
    }
  }
  if (static_cast<int>(order.size()) < nodes.size()) {
    return CycleError(nodes, dependencies, waits_for);
  }
  return order;
}

}  // namespace millrace
