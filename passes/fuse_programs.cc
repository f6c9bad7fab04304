// Fusion of elementwise nodes and reductions: a group of nodes over one index space becomes one
// fused.Program, so that what lies between them never reaches memory. All reductions of a group
// reduce the same dims; values that are reduced, and what is computed of them alone, have size 1
// there, and are broadcast again by those that read them beside full ones.
//
// Groups grow from their last node (the sink) backwards. A node joins the group of the nodes that
// read it when it has their space and the target has a kernel for the result. Where others read it
// too, it becomes a further result of the group, unless they lead back into the group: the fused
// node would wait for itself. Paths are looked for in the graph as it will be, each group being one
// node, and given up on after kMaxVisited nodes.
//
// Near O(nodes): each node is looked at once, and paths are bounded.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/scalar_program.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"
#include "passes/scalar_constant.h"
#include "passes/variant_memo.h"

namespace millrace {
namespace {

constexpr size_t kMaxVisited = 64, kMaxTried = 8;
constexpr int64_t kMinSweep = 64;
constexpr int kMaxReducedChain = 8;  // nodes between a reduction and what broadcasts its result
constexpr size_t kMaxGroupNodes = 48, kMaxGroupInputs = 24, kMaxGroupOutputs = 4;

// One group; nodes in the order in which they joined, the sink first.
struct FusionGroup {
  std::vector<NodeId> nodes;
  Shape space;
  std::vector<int> axes;                // reduced; none: a map
  absl::flat_hash_set<ValueId> inputs;  // from outside, scalar constants apart
  int outputs = 1;                      // results read outside
};

class ProgramFuser {
 public:
  ProgramFuser(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), memo_(*context.target) {}

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (Node& node : graph_.nodes) {
      for (Subgraph& body : node.subgraphs) {
        MILLRACE_ASSIGN_OR_RETURN(const bool body_changed,
                                  ProgramFuser(body.graph, context_).Run());
        changed |= body_changed;
      }
    }
    consumers_ = ConsumersOf(graph_);
    kept_ = OutputMask(graph_);
    for (const Update& update : graph_.updates) kept_[update.value.index] = 1;
    awaited_.assign(graph_.nodes.size(), 0);
    followers_.resize(graph_.nodes.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (NodeId before : graph_.nodes[n].after) {
        awaited_[before.index] = 1;
        followers_[before.index].push_back(NodeId(n));
      }
    }
    group_of_.assign(graph_.nodes.size(), -1);
    form_of_.assign(graph_.nodes.size(), nullptr);
    for (size_t n = graph_.nodes.size(); n-- > 0;) Place(NodeId(n));
    MILLRACE_ASSIGN_OR_RETURN(const bool fused, Fuse());
    return fused || changed;
  }

 private:
  // --- Groups -----------------------------------------------------------------------------------

  void Place(NodeId id) {
    const Node& node = graph_.node(id);
    if (!IsFusible(id)) return;
    const ValueId out = node.outputs[0];
    std::vector<int32_t> tried;
    for (NodeId reader : consumers_[out.index]) {
      const int32_t group = group_of_[reader.index];
      if (group < 0 || std::ranges::find(tried, group) != tried.end()) continue;
      if (tried.size() == kMaxTried) break;
      tried.push_back(group);
      if (Join(id, group)) return;
    }
    group_of_[id.index] = static_cast<int32_t>(groups_.size());
    FusionGroup& group = groups_.emplace_back();
    group.nodes.push_back(id);
    const std::vector<int>* axes = AxesOf(id);
    group.space = graph_.value(axes != nullptr ? node.inputs[0] : out).type.shape;
    if (axes != nullptr) group.axes = *axes;
    AddInputs(node, group);
  }

  // The space and the axes of the group with the node in it; nullopt: they do not go together.
  struct Frame {
    Shape space;
    std::vector<int> axes;
  };
  std::optional<Frame> FrameWith(NodeId id, const FusionGroup& group) {
    const Node& node = graph_.node(id);
    const Shape& out = graph_.value(node.outputs[0]).type.shape;
    const std::vector<int>* axes = AxesOf(id);
    if (axes == nullptr) {
      if (out == group.space) return Frame{group.space, group.axes};
      if (!group.axes.empty()) {
        if (out == Reduced(group.space, group.axes)) return Frame{group.space, group.axes};
        return std::nullopt;
      }
      // Reduced, if a reduction is behind it that can join too.
      const std::vector<int> gone = AxesBetween(group.space, out);
      if (gone.empty() || !ComesOfReduction(id, group.space, gone)) return std::nullopt;
      return Frame{group.space, gone};
    }
    const Shape& in = graph_.value(node.inputs[0]).type.shape;
    const Shape reduced = Reduced(in, *axes);
    if (in == group.space && (group.axes.empty() || group.axes == *axes) &&
        (out == in || out == reduced)) {
      return Frame{in, *axes};
    }
    // All there is so far is computed of reduced values.
    if (group.axes.empty() && group.space == reduced && out == reduced) return Frame{in, *axes};
    return std::nullopt;
  }

  static Shape Reduced(Shape space, std::span<const int> axes) {
    for (int axis : axes) space[axis] = 1;
    return space;
  }

  // The dims in which `reduced` has size 1 and `space` has not; none when they differ otherwise.
  static std::vector<int> AxesBetween(const Shape& space, const Shape& reduced) {
    std::vector<int> axes;
    if (space.rank() != reduced.rank()) return axes;
    for (int d = 0; d < space.rank(); ++d) {
      if (space[d] == reduced[d]) continue;
      if (reduced[d] != 1) return {};
      axes.push_back(d);
    }
    return axes;
  }

  bool ComesOfReduction(NodeId id, const Shape& space, const std::vector<int>& axes) {
    for (int step = 0; step < kMaxReducedChain; ++step) {
      const Node& node = graph_.node(id);
      if (const std::vector<int>* own = AxesOf(id); own != nullptr) {
        return *own == axes && graph_.value(node.inputs[0]).type.shape == space;
      }
      NodeId before;
      for (ValueId input : node.inputs) {
        if (!input.valid() || graph_.value(input).kind != ValueKind::kResult) continue;
        const NodeId producer = graph_.value(input).producer;
        const bool is_reduced = graph_.value(input).type.shape == Reduced(space, axes);
        if (is_reduced && IsFusible(producer)) before = producer;
      }
      if (!before.valid()) return false;
      id = before;
    }
    return false;
  }

  bool Join(NodeId id, int32_t index) {
    FusionGroup& group = groups_[index];
    const Node &node = graph_.node(id), &sink = graph_.node(group.nodes[0]);
    const ValueId out = node.outputs[0];
    if (node.device != sink.device || node.stream != sink.stream) return false;
    std::optional<Frame> frame = FrameWith(id, group);
    if (!frame.has_value()) return false;
    const bool read_outside = IsReadOutside(out, index);
    const bool is_full = group.nodes.size() == kMaxGroupNodes ||
                         group.inputs.size() + node.inputs.size() > kMaxGroupInputs ||
                         group.outputs + read_outside > static_cast<int>(kMaxGroupOutputs);
    if (is_full) return false;
    if (read_outside && LeadsBack(out, index)) {
      context_.Refused("fuse", {node.name, sink.name},
                       StrCat("what else reads '", graph_.value(out).name, "' leads to '",
                              sink.name, "', which would have to wait for itself"));
      return false;
    }
    group.nodes.push_back(id);
    group.space = frame->space;
    group.axes = std::move(frame->axes);
    group.inputs.erase(out);
    group.outputs += read_outside ? 1 : 0;
    group_of_[id.index] = index;
    AddInputs(node, group);
    return true;
  }

  bool IsReadOutside(ValueId value, int32_t group) const {
    return kept_[value.index] != 0 ||
           std::ranges::any_of(consumers_[value.index],
                               [&](NodeId reader) { return group_of_[reader.index] != group; });
  }

  void AddInputs(const Node& node, FusionGroup& group) {
    for (ValueId input : node.inputs) {
      if (input.valid() && !ScalarConstantOf(graph_, input).has_value()) group.inputs.insert(input);
    }
  }

  // From the readers of `value` outside of the group, is there a way into it? Yes if in doubt.
  bool LeadsBack(ValueId value, int32_t group) const {
    absl::flat_hash_set<NodeId> seen;
    std::vector<NodeId> to_visit;
    // False once there are too many.
    const auto add = [&](std::span<const NodeId> ids) {
      for (NodeId id : ids) {
        if (seen.insert(id).second) to_visit.push_back(id);
        if (seen.size() > kMaxVisited) return false;
      }
      return true;
    };
    for (NodeId reader : consumers_[value.index]) {
      if (group_of_[reader.index] != group && !add({&reader, 1})) return true;
    }
    while (!to_visit.empty()) {
      const NodeId id = to_visit.back();
      to_visit.pop_back();
      const int32_t other = group_of_[id.index];
      if (other == group) return true;
      if (other >= 0 && !add(groups_[other].nodes)) return true;
      if (!add(followers_[id.index])) return true;
      for (ValueId result : graph_.node(id).outputs) {
        if (result.valid() && !add(consumers_[result.index])) return true;
      }
    }
    return false;
  }

  // --- What can be fused ------------------------------------------------------------------------

  bool IsFusible(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef* op = FindOp(node.op);
    const bool has_form =
        op != nullptr && (op->fusion == FusionClass::kElementwise || op->row != nullptr);
    if (!has_form || !node.after.empty() || awaited_[id.index] != 0 || !node.subgraphs.empty() ||
        node.inputs.empty() || !node.outputs[0].valid()) {
      return false;
    }
    const ValueId out = node.outputs[0];
    if (consumers_[out.index].empty() && kept_[out.index] == 0) return false;  // dead
    const auto is_open = [&](ValueId value) {  // sizes or shardings of its own
      return value.valid() && (graph_.value(value).bounded || graph_.shardings.contains(value));
    };
    if (std::ranges::any_of(node.inputs, is_open) || std::ranges::any_of(node.outputs, is_open)) {
      return false;
    }
    return FormOf(id).fusible;
  }

  // What is known of nodes with the same query.
  struct NodeForm {
    bool fusible = false;
    std::optional<std::vector<int>> axes;  // of a reduction
  };

  const NodeForm& FormOf(NodeId id) {
    if (form_of_[id.index] != nullptr) return *form_of_[id.index];
    const auto [it, is_new] = forms_.try_emplace(QueryFor(graph_, id));
    if (is_new) {
      it->second.axes = RowAxesOf(it->first);
      const bool has_program = it->second.axes.has_value() || IsScalarNode(it->first);
      it->second.fusible = has_program && HasFastKernel(it->first) &&
                           (!it->second.axes.has_value() || IsWorthSweeping(it->first));
    }
    form_of_[id.index] = &it->second;
    return it->second;
  }

  // Sweeps cost something to begin: short rows and narrow columns are better off with kernels of
  // their own, and so is what has several sweeps: the kernels of Softmax and LayerNormalization
  // take half the time of programs.
  static bool IsWorthSweeping(const NodeQuery& query) {
    const FusedProgram program = NodeProgram(query);
    int64_t run = 1;  // points in a row that are all reduced, or all not
    for (size_t d = program.dims.size(); d-- > 0;) {
      if (program.dims[d].role != program.dims.back().role) break;
      run *= program.dims[d].size;
    }
    const auto reductions = std::ranges::count_if(program.instructions,
                                                  [](const auto& s) { return IsReduction(s.op); });
    return run >= kMinSweep && reductions == 1;
  }

  // Of a reduction; nullptr for others.
  const std::vector<int>* AxesOf(NodeId id) {
    const NodeForm& form = FormOf(id);
    return form.axes.has_value() ? &*form.axes : nullptr;
  }

  // The target has something better than the reference for the node as a program.
  bool HasFastKernel(const NodeQuery& node) {
    const FusedProgram program = NodeProgram(node);
    NodeQuery query;
    query.op = "fused.Program";
    query.outputs = {node.outputs[0]};
    const std::vector<int>& host = FindOp(node.op)->traits.host_inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool on_host = std::ranges::find(host, static_cast<int>(i)) != host.end();
      if (node.inputs[i].has_value() && !on_host) query.inputs.push_back(node.inputs[i]);
    }
    query.attrs = ProgramAttrs(program, {node.outputs[0]->shape});
    return IsFast(query);
  }

  static Attrs ProgramAttrs(const FusedProgram& program, const std::vector<Shape>& shapes) {
    std::vector<std::string> texts;
    for (const Shape& shape : shapes) texts.push_back(ToString(shape));
    Attrs attrs;
    attrs.Set("program", ToText(program));
    attrs.Set("shapes", std::move(texts));
    return attrs;
  }

  bool IsFast(const NodeQuery& query) {
    const std::vector<KernelVariant>& variants = memo_.Variants(query);
    return !variants.empty() && variants[0].name != "reference";
  }

  // --- Fusing -----------------------------------------------------------------------------------

  struct Fused {
    FusedProgram program;
    std::vector<ValueId> inputs, outputs;
  };

  Fused ProgramOf(const FusionGroup& group) const {
    const Shape& space = group.space;
    Fused fused{ProgramOver(space), {}, {}};
    for (int axis : group.axes) fused.program.dims[axis].role = DimRole::kReduce;
    absl::flat_hash_map<ValueId, ScalarTerm> terms;
    std::vector<NodeId> in_order = group.nodes;
    std::ranges::sort(in_order, {}, [](NodeId id) { return id.index; });
    const int32_t index = group_of_[group.nodes[0].index];
    for (NodeId id : in_order) {
      const Node& node = graph_.node(id);
      std::vector<ScalarTerm> inputs;
      const std::vector<int>& host = FindOp(node.op)->traits.host_inputs;
      for (int i = 0; i < std::ssize(node.inputs); ++i) {
        const ValueId input = node.inputs[i];
        const bool is_read = input.valid() && std::ranges::find(host, i) == host.end();
        inputs.push_back(is_read ? TermOf(input, space, fused, terms) : ScalarTerm());
      }
      terms[node.outputs[0]] = AppendNode(QueryFor(graph_, id), inputs);
    }
    for (NodeId id : in_order) {
      const ValueId out = graph_.node(id).outputs[0];
      if (!IsReadOutside(out, index)) continue;
      const bool is_full = graph_.value(out).type.shape == space;
      StoreOutput(fused.program, terms[out], !is_full);
      fused.outputs.push_back(out);
    }
    return fused;
  }

  ScalarTerm TermOf(ValueId value, const Shape& space, Fused& fused,
                    absl::flat_hash_map<ValueId, ScalarTerm>& terms) const {
    if (const auto it = terms.find(value); it != terms.end()) return it->second;
    const TensorType& type = graph_.value(value).type;
    ScalarTerm term;
    if (const std::optional<double> constant = ScalarConstantOf(graph_, value);
        constant.has_value()) {
      term = AppendScalar(fused.program,
                          {.op = ScalarOp::kConstant, .dtype = type.dtype, .constant = *constant});
    } else {
      term = LoadOperand(fused.program, type, space);
      fused.inputs.push_back(value);
    }
    return terms[value] = term;
  }

  absl::StatusOr<bool> Fuse() {
    std::vector<uint8_t> keep(graph_.nodes.size(), 1);
    bool changed = false;
    for (const FusionGroup& group : groups_) {
      if (group.nodes.size() > 1) changed |= FuseGroup(group, keep);
    }
    if (!changed) return false;
    RemoveNodes(graph_, keep);
    if (!SortNodes(graph_).empty()) return InternalError("fused to a cycle");
    return true;
  }

  // The sink becomes the fused node and takes over the results that are read outside.
  bool FuseGroup(const FusionGroup& group, std::vector<uint8_t>& keep) {
    const Fused fused = ProgramOf(group);
    NodeQuery query;
    query.op = "fused.Program";
    std::vector<Shape> shapes;
    double moved = 0, moved_before = 0;
    const auto bytes_of = [&](ValueId value) {
      return static_cast<double>(ByteSize(graph_.value(value).type));
    };
    for (ValueId input : fused.inputs) {
      query.inputs.push_back(graph_.value(input).type);
      moved += bytes_of(input);
    }
    for (ValueId output : fused.outputs) {
      query.outputs.push_back(graph_.value(output).type);
      shapes.push_back(graph_.value(output).type.shape);
      moved += bytes_of(output);
    }
    query.attrs = ProgramAttrs(fused.program, shapes);
    std::vector<std::string> names, origin;
    for (auto it = group.nodes.rbegin(); it != group.nodes.rend(); ++it) {
      const Node& node = graph_.node(*it);
      names.push_back(node.name);
      if (node.origin.empty()) origin.push_back(node.name);
      origin.insert(origin.end(), node.origin.begin(), node.origin.end());
      moved_before += WorkOf(QueryFor(graph_, *it)).bytes;
    }
    if (!IsFast(query)) {
      context_.Refused("fuse", std::move(names), "the target has no fast kernel for all of them");
      return false;
    }
    Node& sink = graph_.node(group.nodes[0]);
    context_.Applied("fuse", std::move(names),
                     StrCat("'", sink.name, "' computes all ", group.nodes.size(),
                            " in one program, which moves ", static_cast<int64_t>(moved),
                            " bytes instead of ", static_cast<int64_t>(moved_before)));
    for (NodeId id : group.nodes) {
      if (id == group.nodes[0]) continue;
      keep[id.index] = 0;
      Node& node = graph_.node(id);
      if (IsReadOutside(node.outputs[0], group_of_[id.index])) node.outputs.clear();  // the sink's
    }
    sink.op = "fused.Program";
    sink.attrs = std::move(query.attrs);
    sink.inputs = fused.inputs;
    sink.outputs = fused.outputs;
    sink.origin = std::move(origin);
    for (size_t i = 0; i < sink.outputs.size(); ++i) {
      Value& value = graph_.value(sink.outputs[i]);
      value.producer = group.nodes[0];
      value.result_index = static_cast<int32_t>(i);
    }
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  VariantMemo memo_;
  std::unordered_map<NodeQuery, NodeForm, QueryHash, SameQuery> forms_;
  std::vector<const NodeForm*> form_of_;  // by node; null: not asked yet
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<uint8_t> kept_;                   // by value: read by an output or an update
  std::vector<uint8_t> awaited_;                // by node: another runs `after` it
  std::vector<std::vector<NodeId>> followers_;  // those that do
  std::vector<int32_t> group_of_;               // by node; -1: none
  std::vector<FusionGroup> groups_;
};

}  // namespace

absl::StatusOr<bool> FusePrograms(Graph& graph, PassContext& context) {
  if (context.target == nullptr) return false;
  return ProgramFuser(graph, context).Run();
}

}  // namespace millrace
