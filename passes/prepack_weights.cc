// Weights that are the same in every step are laid out once, in init, as the kernel that reads them
// wants them: a fused.Prepack between the two. Which kernels want that, and of which operands, the
// target says (a variant with kPacked among its layouts). A node whose query other passes have
// changed since gets what is packed for the one it is now.
#include <algorithm>

#include "graph/builder.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/prepack.h"
#include "passes/frozen_values.h"
#include "passes/pass_list.h"
#include "passes/variant_memo.h"

namespace millrace {
namespace {

struct PackedInput {
  NodeId reader;
  int input = 0;
  ValueId from;  // what to pack
};

class PackFinder {
 public:
  PackFinder(const Graph& graph, const Target& target)
      : graph_(graph), variants_(target), frozen_(FrozenValues(graph)) {}

  std::vector<PackedInput> Run() {
    std::vector<PackedInput> found;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!ReadsFrozen(node)) continue;
      const NodeQuery query = QueryFor(graph_, NodeId(n));
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!node.inputs[i].valid() || frozen_[node.inputs[i].index] == 0) continue;
        if (!WantsPacked(query, i)) continue;
        const ValueId from = Unpacked(node.inputs[i], query, static_cast<int>(i));
        if (from.valid()) found.push_back({NodeId(n), static_cast<int>(i), from});
      }
    }
    return found;
  }

 private:
  bool ReadsFrozen(const Node& node) const {
    return std::ranges::any_of(node.inputs,
                               [&](ValueId id) { return id.valid() && frozen_[id.index] != 0; });
  }
  bool WantsPacked(const NodeQuery& query, size_t input) {
    return std::ranges::any_of(variants_.Variants(query), [&](const KernelVariant& variant) {
      return input < variant.in_layouts.size() && variant.in_layouts[input] == Layout::kPacked;
    });
  }
  // What is to be packed for the reader; !valid(): it is.
  ValueId Unpacked(ValueId id, const NodeQuery& reader, int input) const {
    const NodeId producer = graph_.value(id).producer;
    if (!producer.valid() || graph_.node(producer).op != kPrepack) return id;
    const Node& packer = graph_.node(producer);
    return PacksFor(packer, reader, input) ? ValueId() : packer.inputs[0];
  }

  const Graph& graph_;
  VariantMemo variants_;
  const std::vector<uint8_t> frozen_;
};

}  // namespace

absl::StatusOr<bool> PrepackWeights(Graph& graph, PassContext& context) {
  if (context.target == nullptr) return false;
  const std::vector<PackedInput> inputs = PackFinder(graph, *context.target).Run();
  if (inputs.empty()) return false;
  GraphBuilder builder(std::move(graph));
  for (const auto& [reader, input, from] : inputs) {
    Attrs attrs = PrepackAttrs(QueryFor(builder.graph(), reader), input);
    const std::string name = builder.graph().node(reader).name;
    Node& packer = builder.AddNode(kPrepack, {from}, std::move(attrs), StrCat(name, ".packed"));
    packer.origin = {name};
    const ValueId packed = packer.outputs[0];
    builder.graph().node(reader).inputs[input] = packed;
    context.Applied("prepack", {name},
                    StrCat("'", builder.graph().value(from).name, "' is packed for it in init"));
  }
  graph = std::move(builder).Build();
  if (!SortNodes(graph).empty()) return InternalError("packed to a cycle");
  return true;
}

}  // namespace millrace
