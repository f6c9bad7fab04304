// A variant costs the bytes of the operands and results that must be copied to another layout
// because of it. Starting from what each node would choose for its operands alone, in order, nodes
// are looked at again, backwards and forwards, until none has a better choice given those of its
// neighbours, or a few rounds are over: chains of convolutions, pools and elementwise ops settle in
// one. Of equal costs the target's order decides: it lists what it is best at first. O(rounds *
// uses * variants).
#include "passes/assign_layouts.h"

#include <algorithm>
#include <limits>

#include "graph/channels_last.h"
#include "ops/op_def.h"
#include "ops/prepack.h"

namespace millrace {
namespace {

constexpr int kMaxSweeps = 4;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

Layout Canonical(Layout layout, const Shape& shape) {
  return layout == Layout::kNHWC && !HasChannelsLast(shape) ? Layout::kStrided : layout;
}

bool IsLaunched(const Graph& graph, const Node& node) {
  const OpDef* op = FindOp(node.op);
  if (op == nullptr || op->traits.comm != CommKind::kNone || op->traits.host_call ||
      op->traits.control_flow != ControlFlow::kNone) {
    return false;
  }
  const auto is_sized = [&](ValueId id) { return !id.valid() || !graph.value(id).bounded; };
  return std::ranges::all_of(node.inputs, is_sized) && std::ranges::all_of(node.outputs, is_sized);
}

class LayoutAssigner {
 public:
  LayoutAssigner(const Graph& graph, VariantMemo& variants)
      : graph_(graph),
        consumers_(ConsumersOf(graph)),
        needed_row_major_(graph.values.size(), 0),
        offers_(graph.nodes.size(), nullptr),
        chosen_(graph.nodes.size(), nullptr) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (IsLaunched(graph, graph.nodes[n])) {
        offers_[n] = &variants.Variants(QueryFor(graph, NodeId(n)));
      }
    }
    for (ValueId output : graph.outputs) needed_row_major_[output.index] = 1;
    for (const Update& update : graph.updates) needed_row_major_[update.value.index] = 1;
    packs_.assign(graph.nodes.size(), 0);
    for (size_t n = 0; n < graph.nodes.size(); ++n) packs_[n] = MayPack(n);
  }

  std::vector<const KernelVariant*> Run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) Choose(n, /*see_readers=*/false);
    for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
      bool changed = false;
      for (size_t n = graph_.nodes.size(); n-- > 0;) changed |= Choose(n, /*see_readers=*/true);
      for (size_t n = 0; n < graph_.nodes.size(); ++n) changed |= Choose(n, /*see_readers=*/true);
      if (!changed) break;
    }
    return chosen_;
  }

 private:
  bool Choose(size_t n, bool see_readers) {
    if (offers_[n] == nullptr || GivesPacked(chosen_[n])) return false;
    const KernelVariant* best = nullptr;
    double least = kImpossible;
    for (const KernelVariant& variant : *offers_[n]) {
      if (GivesPacked(&variant) && packs_[n] == 0) continue;
      double copied = CopiedInputs(graph_.nodes[n], variant);
      if (see_readers) copied += CopiedOutputs(n, variant);
      if (copied < least) {
        least = copied;
        best = &variant;
      }
    }
    if (best == chosen_[n]) return false;
    chosen_[n] = best;
    if (best != nullptr) LetPackersFollow(graph_.nodes[n], *best);
    return true;
  }

  // Whether who reads the node's result can read what is packed for it: one node alone, because two
  // might choose kernels that pack differently.
  bool MayPack(size_t n) const {
    const Node& packer = graph_.nodes[n];
    if (packer.op != kPrepack || offers_[n] == nullptr) return false;
    const ValueId packed = packer.outputs[0];
    if (!packed.valid() || needed_row_major_[packed.index] != 0) return false;
    if (consumers_[packed.index].size() != 1) return false;
    return std::ranges::all_of(consumers_[packed.index], [&](NodeId reader) {
      const auto* offers = offers_[reader.index];
      const Node& node = graph_.node(reader);
      const auto at = std::ranges::find(node.inputs, packed);
      const int input = static_cast<int>(at - node.inputs.begin());
      return offers != nullptr && std::ranges::count(node.inputs, packed) == 1 &&
             PacksFor(packer, QueryFor(graph_, reader), input) &&
             std::ranges::any_of(*offers, [&](const KernelVariant& variant) {
               return variant.in_layouts[input] == Layout::kPacked;
             });
    });
  }

  static bool GivesPacked(const KernelVariant* variant) {
    return variant != nullptr &&
           std::ranges::find(variant->out_layouts, Layout::kPacked) != variant->out_layouts.end();
  }

  const Shape& ShapeOf(ValueId id) const { return graph_.value(id).type.shape; }
  double Bytes(ValueId id) const { return static_cast<double>(ByteSize(graph_.value(id).type)); }

  // Whoever gives a value, or null: it is loaded, or comes from no kernel.
  const KernelVariant* GiverOf(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    return producer.valid() ? chosen_[producer.index] : nullptr;
  }
  Layout LayoutOf(ValueId id) const {
    const KernelVariant* giver = GiverOf(id);
    return giver == nullptr ? Layout::kStrided
                            : GivenLayout(*giver, graph_.value(id).result_index, ShapeOf(id));
  }

  // Bytes of operands that have to be copied; infinite when no copy helps.
  double CopiedInputs(const Node& node, const KernelVariant& variant) const {
    double bytes = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (!id.valid()) continue;
      const Layout wanted = WantedLayout(variant, i, ShapeOf(id)), given = LayoutOf(id);
      if (wanted == Layout::kPacked || given == Layout::kPacked) {
        if (wanted != given || PackerFor(id, variant) == nullptr) return kImpossible;
      } else if (wanted != given) {
        bytes += Bytes(id);
      }
    }
    return bytes;
  }

  // Bytes of results that readers want elsewhere, each layout once.
  double CopiedOutputs(size_t n, const KernelVariant& variant) const {
    double bytes = 0;
    const Node& node = graph_.nodes[n];
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId id = node.outputs[k];
      if (!id.valid()) continue;
      const Layout given = GivenLayout(variant, k, ShapeOf(id));
      if (given == Layout::kPacked) continue;
      bool row_major = needed_row_major_[id.index] != 0, channels_last = false;
      for (NodeId reader : consumers_[id.index]) NoteWanted(reader, id, row_major, channels_last);
      if (row_major && given != Layout::kStrided) bytes += Bytes(id);
      if (channels_last && given != Layout::kNHWC) bytes += Bytes(id);
    }
    return bytes;
  }

  void NoteWanted(NodeId reader, ValueId id, bool& row_major, bool& channels_last) const {
    const KernelVariant* variant = chosen_[reader.index];
    const Node& node = graph_.node(reader);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != id) continue;
      const Layout wanted =
          variant == nullptr ? Layout::kStrided : WantedLayout(*variant, i, ShapeOf(id));
      (wanted == Layout::kNHWC ? channels_last : row_major) = true;
    }
  }

  // The way in which the producer of `id` packs for `reader`; null: none.
  const KernelVariant* PackerFor(ValueId id, const KernelVariant& reader) const {
    const NodeId producer = graph_.value(id).producer;
    if (!producer.valid() || !packs_[producer.index]) return nullptr;
    for (const KernelVariant& variant : *offers_[producer.index]) {
      const Layout given = GivenLayout(variant, graph_.value(id).result_index, ShapeOf(id));
      if (given == Layout::kPacked && variant.name == reader.name) return &variant;
    }
    return nullptr;
  }

  void LetPackersFollow(const Node& node, const KernelVariant& variant) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (!id.valid() || WantedLayout(variant, i, ShapeOf(id)) != Layout::kPacked) continue;
      chosen_[graph_.value(id).producer.index] = PackerFor(id, variant);
    }
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<uint8_t> needed_row_major_;                  // by value: by the session
  std::vector<uint8_t> packs_;                             // by node
  std::vector<const std::vector<KernelVariant>*> offers_;  // by node
  std::vector<const KernelVariant*> chosen_;
};

}  // namespace

Layout GivenLayout(const KernelVariant& variant, size_t i, const Shape& shape) {
  return Canonical(variant.out_layouts[i], shape);
}

Layout WantedLayout(const KernelVariant& variant, size_t i, const Shape& shape) {
  return Canonical(variant.in_layouts[i], shape);
}

std::vector<const KernelVariant*> AssignLayouts(const Graph& graph, VariantMemo& variants) {
  return LayoutAssigner(graph, variants).Run();
}

}  // namespace millrace
