// Merging of cuts and joins: what is cut out of a value that was itself cut out of another, or
// joined from others, is cut out of those, and may be all of one of them.
//
//   Slice of a Slice or of a Split's part   one Slice
//   Slice or Split's part of a Concat       what it was joined from, or a Slice of it
//   Concat of a Concat along one axis       one Concat
//   Concat of parts that make a whole       the whole
//
// A value that is a contiguous range along each dim of another is a box of it; boxes are followed
// through any number of cuts and joins. Slices with steps are none. The nodes between go once
// nobody reads them (eliminate-dead-nodes). O(nodes x how many cuts are in a row).
#include <algorithm>
#include <optional>

#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/dim_maps.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

constexpr int kMaxCutsFollowed = 64;  // cuts and joins in a row
constexpr size_t kMaxJoined = 1024;   // operands of one Concat

// The elements begin + [0, size) of a value, along each dim.
struct Box {
  ValueId of;
  Shape begin, size;
};

class CutMerger {
 public:
  CutMerger(Graph& graph, PassContext& context) : original_(graph), context_(context) {}

  bool Run() {
    replacement_ = EachItself(graph());
    const size_t count = graph().nodes.size();
    for (size_t n = 0; n < count; ++n) {
      for (Subgraph& body : graph().nodes[n].subgraphs) {
        changed_ |= CutMerger(body.graph, context_).Run();
      }
      const std::string& op = graph().nodes[n].op;
      if (op == "Slice") MergeSlice(NodeId(n));
      if (op == "Split") MergeSplit(NodeId(n));
      if (op == "Concat") MergeConcat(NodeId(n));
    }
    for (size_t v = replacement_.size(); v < graph().values.size(); ++v) {
      replacement_.push_back(ValueId(v));
    }
    if (replaces_) ReplaceReads(graph(), replacement_);
    if (builder_.has_value()) original_ = std::move(*builder_).Build();
    return changed_ || replaces_;
  }

 private:
  Graph& graph() { return builder_.has_value() ? builder_->graph() : original_; }
  const Value& value(ValueId id) { return graph().value(id); }

  // Made when there is a constant to add: it takes stock of all names.
  GraphBuilder& builder() {
    if (!builder_.has_value()) builder_.emplace(std::move(original_));
    return *builder_;
  }

  // --- Boxes ---
  bool IsWhole(const Box& box) { return value(box.of).type.shape == box.size; }

  Box All(ValueId id) {
    const Shape& shape = value(id).type.shape;
    Shape begin = shape;
    for (int d = 0; d < begin.rank(); ++d) begin[d] = 0;
    return {id, begin, shape};
  }

  // The node that gives the value, where it asks for nothing that stands in the way.
  const Node* Producer(ValueId id, const Node& reader) {
    const Value& v = value(id);
    if (v.kind != ValueKind::kResult || v.bounded) return nullptr;
    const Node& node = graph().node(v.producer);
    const bool together = node.device == reader.device && node.stream == reader.stream;
    return together && !node.inputs.empty() && node.inputs[0].valid() ? &node : nullptr;
  }

  int AxisOf(const Node& node, int rank) {
    const int64_t axis = node.attrs.Int("axis", 0);
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }

  // The same elements one node further up; false: there is no such node.
  bool FollowUp(Box& box, const Node& reader) {
    const Node* node = Producer(box.of, reader);
    if (node == nullptr) return false;
    if (node->op == "Slice") return FollowSlice(*node, box);
    if (node->op == "Split") return FollowSplit(*node, box);
    return node->op == "Concat" && FollowConcat(*node, box);
  }

  bool FollowSlice(const Node& node, Box& box) {
    if (value(node.inputs[0]).bounded) return false;
    const auto maps = SliceMaps(QueryFor(graph(), value(box.of).producer));
    if (!maps.has_value()) return false;
    for (size_t d = 0; d < maps->size(); ++d) {
      const DimMap& map = (*maps)[d];
      if (map.runs.size() != 1 || map.times != 1 || map.runs[0].step != 1) return false;
    }
    for (size_t d = 0; d < maps->size(); ++d) {
      box.begin[static_cast<int>(d)] += (*maps)[d].runs[0].start;
    }
    box.of = node.inputs[0];
    return true;
  }

  bool FollowSplit(const Node& node, Box& box) {
    if (value(node.inputs[0]).bounded) return false;
    const int axis = AxisOf(node, box.size.rank());
    int64_t at = 0;
    for (const ValueId part : node.outputs) {
      if (part == box.of) break;
      if (!part.valid()) return false;  // of a size that is not said
      at += value(part).type.shape[axis];
    }
    box.begin[axis] += at;
    box.of = node.inputs[0];
    return true;
  }

  // If it lies in one operand.
  bool FollowConcat(const Node& node, Box& box) {
    const int axis = AxisOf(node, box.size.rank());
    int64_t at = 0;
    for (const ValueId part : node.inputs) {
      if (!part.valid() || value(part).bounded) return false;
      const int64_t size = value(part).type.shape[axis];
      const int64_t begin = box.begin[axis] - at;
      if (begin >= 0 && begin + box.size[axis] <= size) {
        box.begin[axis] = begin;
        box.of = part;
        return true;
      }
      at += size;
    }
    return false;
  }

  // As far up as it goes; how many nodes that are.
  int FollowAllTheWay(Box& box, const Node& reader, std::vector<NodeId>* passed) {
    int followed = 0;
    for (; followed < kMaxCutsFollowed; ++followed) {
      const ValueId of = box.of;
      if (!FollowUp(box, reader)) break;
      if (passed != nullptr) passed->push_back(value(of).producer);
    }
    return followed;
  }

  // --- Rewriting ---
  bool IsPlain(ValueId id) { return id.valid() && !value(id).bounded && !IsEmpty(id); }
  bool IsEmpty(ValueId id) { return NumElements(value(id).type.shape) == 0; }

  void Record(std::string_view rule, std::vector<NodeId> passed, NodeId id,
              std::string_view result) {
    passed.push_back(id);
    std::ranges::sort(passed);
    passed.erase(std::unique(passed.begin(), passed.end()), passed.end());
    std::vector<std::string> names, origin;
    for (const NodeId each : passed) {
      names.push_back(graph().node(each).name);
      AppendOrigin(graph().node(each), origin);
    }
    graph().node(id).origin = std::move(origin);
    context_.Applied(rule, std::move(names), result);
    changed_ = true;
  }

  void BecomeIdentity(NodeId id, ValueId of) {
    Node& node = graph().node(id);
    node.op = "Identity";
    node.attrs = Attrs();
    node.inputs = {of};
  }

  void MergeSlice(NodeId id) {
    const Node& node = graph().node(id);
    if (!IsPlain(node.outputs[0])) return;
    Box box = All(node.outputs[0]);
    if (!FollowUp(box, node)) return;
    std::vector<NodeId> passed;
    if (FollowAllTheWay(box, node, &passed) == 0) return;
    const std::string result =
        StrCat("'", node.name, IsWhole(box) ? "' is '" : "' cuts '", value(box.of).name, "'");
    if (IsWhole(box)) {
      BecomeIdentity(id, box.of);
    } else {
      CutOut(id, box);
    }
    Record("merge-slices", std::move(passed), id, result);
  }

  ValueId AddInts(const std::string& name, const std::vector<int64_t>& ints) {
    return builder().Constant(name, Tensor::FromSpan<int64_t>({std::ssize(ints)}, ints));
  }

  void CutOut(NodeId id, const Box& box) {
    std::vector<int64_t> starts, ends, axes;
    for (int d = 0; d < box.size.rank(); ++d) {
      if (box.size[d] == value(box.of).type.shape[d]) continue;
      starts.push_back(box.begin[d]);
      ends.push_back(box.begin[d] + box.size[d]);
      axes.push_back(d);
    }
    const std::string name = graph().node(id).name;
    std::vector<ValueId> inputs = {box.of, AddInts(StrCat(name, ".starts"), starts),
                                   AddInts(StrCat(name, ".ends"), ends),
                                   AddInts(StrCat(name, ".axes"), axes)};
    graph().node(id).inputs = std::move(inputs);
  }

  // Parts that are all of something are read there. Graph outputs stay what they are.
  void MergeSplit(NodeId id) {
    const Node& node = graph().node(id);
    for (const ValueId part : node.outputs) {
      if (!part.valid() || !IsPlain(part) || replacement_[part.index] != part) continue;
      Box box = All(part);
      std::vector<NodeId> passed;
      if (FollowAllTheWay(box, node, &passed) < 2 || !IsWhole(box)) continue;
      if (!SameSharding(graph(), part, box.of) || !HasReader(part)) continue;
      replacement_[part.index] = box.of;
      replaces_ = true;
      context_.Applied(
          "merge-splits", {node.name},
          StrCat("readers of '", value(part).name, "' now read '", value(box.of).name, "'"));
    }
  }

  bool HasReader(ValueId id) {
    if (is_read_.empty()) {
      is_read_.resize(graph().values.size(), 0);
      for (const Node& node : graph().nodes) {
        for (const ValueId input : node.inputs) {
          if (input.valid()) is_read_[input.index] = 1;
        }
      }
      for (const Update& update : graph().updates) is_read_[update.value.index] = 1;
    }
    return is_read_[id.index] != 0;
  }

  void MergeConcat(NodeId id) {
    const Node& node = graph().node(id);
    if (!IsPlain(node.outputs[0])) return;
    const int axis = AxisOf(node, value(node.outputs[0]).type.shape.rank());
    std::vector<NodeId> passed;
    std::vector<ValueId> parts = FlattenedJoin(node, axis, passed);
    std::vector<ValueId> joined = parts;
    std::vector<NodeId> cuts;
    JoinBoxes(node, axis, joined, cuts);
    if (joined.size() == 1) {  // else the parts may lie in place as well as the whole
      parts = std::move(joined);
      passed.insert(passed.end(), cuts.begin(), cuts.end());
    }
    if (parts == node.inputs) return;
    std::string result = StrCat("'", node.name, "' joins ", parts.size(), " values");
    if (parts.size() == 1 && value(parts[0]).type == value(node.outputs[0]).type) {
      result = StrCat("'", node.name, "' is '", value(parts[0]).name, "'");
      BecomeIdentity(id, parts[0]);
    } else {
      graph().node(id).inputs = std::move(parts);
    }
    Record("merge-concats", std::move(passed), id, result);
  }

  std::vector<ValueId> FlattenedJoin(const Node& node, int axis, std::vector<NodeId>& passed) {
    std::vector<ValueId> parts;
    for (const ValueId input : node.inputs) {
      const Node* inner = IsPlain(input) ? Producer(input, node) : nullptr;
      const bool joins = inner != nullptr && inner->op == "Concat" &&
                         AxisOf(*inner, value(input).type.shape.rank()) == axis &&
                         node.inputs.size() + inner->inputs.size() <= kMaxJoined;
      if (!joins) {
        parts.push_back(input);
        continue;
      }
      parts.insert(parts.end(), inner->inputs.begin(), inner->inputs.end());
      passed.push_back(value(input).producer);
    }
    return parts;
  }

  // Neighbors that together are all of one value become that value.
  void JoinBoxes(const Node& node, int axis, std::vector<ValueId>& parts,
                 std::vector<NodeId>& passed) {
    for (size_t first = 0; first < parts.size(); ++first) {
      if (!IsPlain(parts[first])) continue;
      Box whole = All(parts[first]);
      std::vector<NodeId> cuts;
      if (FollowAllTheWay(whole, node, &cuts) == 0 || whole.begin[axis] != 0) continue;
      size_t last = first;
      while (!IsWhole(whole) && ++last < parts.size() && IsPlain(parts[last])) {
        Box next = All(parts[last]);
        FollowAllTheWay(next, node, &cuts);
        if (!Extend(whole, next, axis)) break;
      }
      if (last == parts.size() || !IsWhole(whole) || last == first) continue;
      parts[first] = whole.of;
      parts.erase(parts.begin() + first + 1, parts.begin() + last + 1);
      passed.insert(passed.end(), cuts.begin(), cuts.end());
    }
  }

  static bool Extend(Box& box, const Box& next, int axis) {
    if (next.of != box.of) return false;
    for (int d = 0; d < box.size.rank(); ++d) {
      const int64_t from = d == axis ? box.begin[d] + box.size[d] : box.begin[d];
      if (next.begin[d] != from || (d != axis && next.size[d] != box.size[d])) return false;
    }
    box.size[axis] += next.size[axis];
    return true;
  }

  Graph& original_;
  PassContext& context_;
  std::optional<GraphBuilder> builder_;
  std::vector<ValueId> replacement_;
  std::vector<uint8_t> is_read_;  // by value, when first asked
  bool changed_ = false, replaces_ = false;
};

}  // namespace

absl::StatusOr<bool> MergeCuts(Graph& graph, PassContext& context) {
  return CutMerger(graph, context).Run();
}

}  // namespace millrace
