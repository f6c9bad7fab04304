// Common subexpression elimination: of nodes that compute the same thing (op, attributes, operands,
// the results that are wanted, where it runs) the first stays, and readers of the others read its
// results. Constants of equal type and data count as one. Nodes that have effects, draw random
// numbers or hold graphs are left alone, and so are those that repeat another to save memory. A
// duplicate that gives a graph output goes only if the first can give it in its place.
// O(nodes + uses), by hashing.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/attr_bits.h"
#include "passes/budget/graph_problem.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

constexpr int64_t kMaxConstantBytes = 4096;  // larger ones are weights

void AppendBytes(const void* bytes, size_t size, std::string& key) {
  key.append(static_cast<const char*>(bytes), size);
}

// Equal for values with the same data; "" where that is not looked at.
std::string ConstantKey(const Graph& graph, ValueId id) {
  const DataSource& data = graph.data_of(id);
  const Tensor& tensor = data.tensor;
  if (!tensor.has_data() || tensor.size_bytes() > kMaxConstantBytes) return "";
  if (GlobalType(graph, id) != graph.value(id).type) return "";  // each device has another part
  std::string key = StrCat(ToString(graph.value(id).type), tensor.shape().rank() == 0 ? "s" : "v");
  AppendBytes(tensor.bytes(), static_cast<size_t>(tensor.size_bytes()), key);
  return key;
}

bool MayBeShared(const Node& node) {
  const OpDef* op = FindOp(node.op);
  return op != nullptr && node.subgraphs.empty() && !IsRepeat(node) && op->traits.deterministic &&
         !op->traits.has_effects && op->traits.comm == CommKind::kNone;
}

struct HashOfWork {
  const Graph& graph;
  size_t operator()(NodeId id) const {
    const Node& node = graph.node(id);
    size_t hash = absl::HashOf(node.op, HashOfBits(node.attrs));
    for (ValueId input : node.inputs) hash = absl::HashOf(hash, input);
    return hash;
  }
};

struct SameWork {
  const Graph& graph;
  bool operator()(NodeId one, NodeId other) const {
    const Node &a = graph.node(one), &b = graph.node(other);
    const auto both_or_none = [](ValueId x, ValueId y) { return x.valid() == y.valid(); };
    return a.op == b.op && a.inputs == b.inputs && SameBits(a.attrs, b.attrs) &&
           a.device == b.device && a.stream == b.stream &&
           std::ranges::equal(a.outputs, b.outputs, both_or_none);
  }
};

class Eliminator {
 public:
  Eliminator(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        replacement_(EachItself(graph)),
        is_output_(OutputMask(graph)),
        keep_(graph.nodes.size(), 1),
        keep_value_(graph.values.size(), 1),
        first_(0, HashOfWork{graph}, SameWork{graph}) {}

  bool Run() {
    ShareConstants();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      Node& node = graph_.nodes[n];
      for (ValueId& input : node.inputs) {
        if (input.valid()) input = replacement_[input.index];
      }
      for (Subgraph& body : node.subgraphs) changed_ |= Eliminator(body.graph, context_).Run();
      if (!MayBeShared(node)) continue;
      const auto [first, is_new] = first_.insert(NodeId(n));
      if (!is_new) Share(graph_.node(*first), node, n);
    }
    if (!changed_) return false;
    ReplaceReads(graph_, replacement_);
    RemoveConstants(graph_, keep_value_);
    RemoveNodes(graph_, keep_);
    return true;
  }

 private:
  void ShareConstants() {
    absl::flat_hash_map<std::string, ValueId> first_constant;
    for (ValueId id : graph_.constants) {
      const std::string key = ConstantKey(graph_, id);
      if (key.empty() || is_output_[id.index] != 0) continue;
      const auto [first, is_new] = first_constant.try_emplace(key, id);
      if (is_new) continue;
      context_.Applied("share-constant", {graph_.value(id).name},
                       StrCat("equals '", graph_.value(first->second).name, "'"));
      replacement_[id.index] = first->second;
      keep_value_[id.index] = 0;
      changed_ = true;
    }
  }

  // Every output of `node` that is a graph output needs a value of its own.
  bool OutputsCanMove(const Node& first, const Node& node) const {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (out.valid() && is_output_[out.index] != 0 && is_output_[first.outputs[i].index] != 0) {
        return false;
      }
    }
    return true;
  }

  bool ShardingsAgree(const Node& first, const Node& node) const {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (out.valid() && !SameSharding(graph_, out, first.outputs[i])) return false;
    }
    return true;
  }

  void Share(const Node& first, const Node& node, size_t n) {
    if (!ShardingsAgree(first, node)) {
      context_.Refused("share-result", {node.name},
                       StrCat("it and '", first.name, "' ask for different shardings"));
      return;
    }
    if (!OutputsCanMove(first, node)) {
      context_.Refused("share-result", {node.name},
                       StrCat("it and '", first.name, "' both give graph outputs"));
      return;
    }
    context_.Applied("share-result", {node.name}, StrCat("computed by '", first.name, "'"));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId from = node.outputs[i], to = first.outputs[i];
      if (!from.valid()) continue;
      if (is_output_[from.index] != 0) {
        TakeOverOutput(graph_, from, to);
        is_output_[to.index] = 1;
      }
      replacement_[from.index] = to;
    }
    keep_[n] = 0;
    changed_ = true;
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<ValueId> replacement_;
  std::vector<uint8_t> is_output_, keep_, keep_value_;
  absl::flat_hash_set<NodeId, HashOfWork, SameWork> first_;  // of those that do the same work
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> EliminateCommonSubexpressions(Graph& graph, PassContext& context) {
  return Eliminator(graph, context).Run();
}

}  // namespace millrace
