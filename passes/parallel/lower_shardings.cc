// The graph is written anew, node by node, with each operand in the form that the node's rules ask
// for. A value may be had in several forms; each is made once. To make one, the cheapest plan from
// any form there is already is carried out (passes/parallel/reshard.h), step by step.
//
// Collectives join and cut along dim 0 only. A part along another dim d is a matrix of rows: the
// dims before d number them. So gathering along d is: gather, which lays the devices' matrices one
// after another, then bring each row's parts together - [n, rows, k] to [rows, n, k]; scattering,
// the other way round. One row needs no Transpose.
//
// Taking one's part of a replicated value (ReshardStep without a collective) is a Gather whose
// indices are a sharded constant: device c holds those of its part. A constant that is wanted cut
// is simply another constant, sharded: the session gives each device its part.
#include "passes/parallel/lower_shardings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "graph/builder.h"
#include "graph/mesh_coordinates.h"
#include "graph/strings.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "ops/known_values.h"
#include "passes/parallel/local_node.h"

namespace millrace {
namespace {

using Kind = AxisSharding::Kind;

bool HasPartial(const Sharding& sharding) {
  return std::ranges::any_of(sharding.axes,
                             [](const AxisSharding& a) { return a.kind == Kind::kPartial; });
}

int64_t CountBefore(const Shape& shape, int dim) {
  int64_t count = 1;
  for (int d = 0; d < dim; ++d) count *= shape[d];
  return count;
}

// --- Steps as nodes
// ------------------------------------------------------------------------------- Of one value,
// whose parts have types known here; inference later agrees.
class StepWriter {
 public:
  StepWriter(const Mesh& mesh, GraphBuilder& builder) : mesh_(mesh), builder_(builder) {}

  // `name` is that of the value, `type` that of a part of it before the step.
  ValueId Write(const ReshardStep& step, ValueId value, const TensorType& type,
                std::string_view name) {
    value_ = value;
    shape_ = part_ = type.shape;
    dtype_ = type.dtype;
    name_ = name;
    step_ = &step;
    parts_ = 1;
    for (const int axis : step.axes) parts_ *= mesh_.axes[axis].size;
    switch (step.comm) {
      case CommKind::kAllReduce:
        Collect("comm.AllReduce", "sum");
        break;
      case CommKind::kAllGather:
        Collect("comm.AllGather", "whole");
        JoinRows(step.from_dim);
        break;
      case CommKind::kReduceScatter:
        CutRows(step.to_dim);
        Collect("comm.ReduceScatter", "sum");
        Reshape(Cut(step.to_dim, type.shape));
        break;
      case CommKind::kAllToAll:
        CutRows(step.to_dim);
        Collect("comm.AllToAll", "turned");
        part_ = Cut(step.to_dim, type.shape);
        JoinRows(step.from_dim);
        break;
      default:
        TakePart(step.to_dim, step.axes[0]);
    }
    return value_;
  }

 private:
  Shape Cut(int dim, Shape shape) const {
    shape[dim] /= parts_;
    return shape;
  }

  void Append(std::string_view op, std::vector<ValueId> more, Attrs attrs, std::string_view what) {
    std::vector<ValueId> inputs = {value_};
    inputs.insert(inputs.end(), more.begin(), more.end());
    value_ = builder_.Op(op, std::move(inputs), std::move(attrs), StrCat(name_, ".", what));
    builder_.graph().nodes.back().origin = {std::string(name_)};
  }

  void Collect(std::string_view op, std::string_view what) {
    Attrs attrs;
    std::vector<std::string> axes;
    for (const int axis : step_->axes) axes.push_back(mesh_.axes[axis].name);
    attrs.Set("axis", std::move(axes));
    const bool reduces =
        step_->comm == CommKind::kAllReduce || step_->comm == CommKind::kReduceScatter;
    if (reduces) attrs.Set("op", std::string(ReductionName(step_->reduction)));
    if (step_->comm != CommKind::kAllReduce) attrs.Set("parts", parts_);
    Append(op, {}, std::move(attrs), what);
    if (step_->comm == CommKind::kAllGather) shape_[0] *= parts_;
    if (step_->comm == CommKind::kReduceScatter) shape_[0] /= parts_;
  }

  void Reshape(const Shape& shape) {
    if (shape == shape_) return;
    const Tensor dims = DimsTensor({dtype_, shape});
    Append("Reshape", {builder_.Constant(StrCat(name_, ".dims"), dims)}, {}, "laid");
    shape_ = shape;
  }

  void SwapFirstTwo() {
    Attrs attrs;
    attrs.Set("perm", std::vector<int64_t>{1, 0, 2});
    Append("Transpose", {}, std::move(attrs), "rows");
    std::swap(shape_[0], shape_[1]);
  }

  // Parts like `part_` lie one after another; makes them parts along `dim`.
  void JoinRows(int dim) {
    const int64_t rows = CountBefore(part_, dim);
    if (rows > 1) {
      Reshape({parts_, rows, NumElements(part_) / rows});
      SwapFirstTwo();
    }
    Shape joined = part_;
    joined[dim] *= parts_;
    Reshape(joined);
  }

  // Lays the parts along `dim` one after another, as dim 0.
  void CutRows(int dim) {
    if (dim == 0) return;
    const int64_t rows = CountBefore(shape_, dim), count = NumElements(shape_);
    if (rows > 1) {
      Reshape({rows, parts_, count / rows / parts_});
      SwapFirstTwo();
    } else {
      Reshape({parts_, count / parts_});
    }
  }

  void TakePart(int dim, int axis) {
    Tensor places = Tensor::Zeros({DType::kI64, {shape_[dim]}});
    std::iota(places.mutable_data<int64_t>().begin(), places.mutable_data<int64_t>().end(), 0);
    const ValueId indices = builder_.Constant(StrCat(name_, ".places"), std::move(places));
    builder_.graph().value(indices).type.shape[0] = shape_[dim] / parts_;
    Sharding sharding = ReplicatedOn(mesh_);
    sharding.axes[axis] = {Kind::kShard, 0};
    builder_.graph().shardings[indices] = std::move(sharding);
    Attrs attrs;
    attrs.Set("axis", int64_t{dim});
    Append("Gather", {indices}, std::move(attrs), "part");
  }

  const Mesh& mesh_;
  GraphBuilder& builder_;
  ValueId value_;
  Shape shape_;  // of `value_`
  Shape part_;   // of one device's part of what is asked for, where parts are joined
  DType dtype_ = DType::kF32;
  std::string_view name_;
  const ReshardStep* step_ = nullptr;
  int64_t parts_ = 1;
};

// --- The graph
// ------------------------------------------------------------------------------------
class ShardingLowering {
 public:
  ShardingLowering(const Graph& graph, const ShardingChoice& choice, const ReshardLinks& links)
      : graph_(graph),
        choice_(choice),
        links_(links),
        known_(graph),
        builder_(graph.name),
        steps_(choice.mesh, builder_),
        forms_(graph.values.size()),
        wanted_(graph.values.size()),
        is_known_(graph.values.size(), 0),
        node_of_(graph.nodes.size()) {}

  absl::StatusOr<Graph> Run() {
    CopyHeader();
    MILLRACE_RETURN_IF_ERROR(CopyLeaves());
    FindKnown();
    FindWanted();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      MILLRACE_RETURN_IF_ERROR(CopyNode(NodeId(n)));
    }
    MILLRACE_RETURN_IF_ERROR(CopyEnds());
    Graph lowered = std::move(builder_).Build();
    MILLRACE_RETURN_IF_ERROR(InferTypes(lowered));
    MILLRACE_RETURN_IF_ERROR(VerifyGraphAfter(lowered, "lower-shardings"));
    return lowered;
  }

 private:
  struct Form {
    Sharding sharding;
    ValueId value;  // of the lowered graph
  };

  void CopyHeader() {
    Graph& g = builder_.graph();
    g.producer = graph_.producer;
    g.opset = graph_.opset;
    g.weight_files = graph_.weight_files;
    g.extensions = graph_.extensions;
    g.file = graph_.file;
    g.directory = graph_.directory;
    g.mesh = choice_.mesh;
    g.local_types = true;
  }

  // --- Leaves ---
  Sharding LeafSharding(ValueId id) const {
    const auto it = choice_.leaves.find(id);
    return it == choice_.leaves.end() ? ReplicatedOn(choice_.mesh) : it->second;
  }

  absl::Status CopyLeaves() {
    for (const auto* list : {&graph_.inputs, &graph_.params, &graph_.constants}) {
      for (ValueId id : *list) {
        MILLRACE_RETURN_IF_ERROR(AddLeaf(id, LeafSharding(id), graph_.value(id).name));
      }
    }
    return absl::OkStatus();
  }

  // A leaf whose devices hold the parts that `sharding` says.
  absl::Status AddLeaf(ValueId id, const Sharding& sharding, std::string_view name) {
    const Value& value = graph_.value(id);
    MILLRACE_ASSIGN_OR_RETURN(const TensorType type, PartType(id, sharding));
    if (HasPartial(sharding)) {
      return UsageError(StrCat("'", value.name, "' cannot be partial: nobody has computed it"));
    }
    Graph& g = builder_.graph();
    ValueId copy;
    if (value.kind == ValueKind::kInput) {
      copy = builder_.Input(name, type);
    } else if (value.kind == ValueKind::kParam) {
      copy = builder_.Param(name, type, graph_.data_of(id), value.trainable);
    } else {
      copy = builder_.Constant(name, Tensor::Zeros({value.type.dtype, {}}));
      g.value(copy).type = type;
      g.data[g.value(copy).data] = graph_.data_of(id);
    }
    g.value(copy).position = value.position;
    if (const auto doc = graph_.docs.find(id); doc != graph_.docs.end()) g.docs[copy] = doc->second;
    if (sharding != ReplicatedOn(choice_.mesh)) g.shardings[copy] = sharding;
    forms_[id.index].push_back({sharding, copy});
    return absl::OkStatus();
  }

  absl::StatusOr<TensorType> PartType(ValueId id, const Sharding& sharding) const {
    const Value& value = graph_.value(id);
    const auto type = LocalType(value.type, sharding, choice_.mesh);
    if (type.has_value()) return *type;
    return UsageError(StrCat("'", value.name, "' of type ", ToString(value.type),
                             " cannot be cut evenly as ", ToString(sharding, choice_.mesh),
                             " over the mesh ", ToString(choice_.mesh)));
  }

  // --- What follows from types alone ---
  // Nodes that read a type (Shape), and those that compute from their results: on a device they
  // would tell of its part.
  void FindKnown() {
    for (const Node& node : graph_.nodes) {
      const OpDef* op = FindOp(node.op);
      bool tells = false;
      for (size_t i = 0; i < node.inputs.size() && op != nullptr; ++i) {
        const ValueId in = node.inputs[i];
        if (!in.valid()) continue;
        tells |= is_known_[in.index] != 0;
        tells |= IsTypeOnly(*op, static_cast<int>(i)) && node.inputs.size() == 1;
      }
      if (!tells) continue;
      const bool all = std::ranges::all_of(
          node.outputs, [&](ValueId out) { return !out.valid() || known_.Of(out).has_value(); });
      for (ValueId out : node.outputs) {
        if (out.valid() && all) is_known_[out.index] = 1;
      }
    }
  }

  bool IsKnownNode(const Node& node) const {
    return std::ranges::any_of(
        node.outputs, [&](ValueId out) { return out.valid() && is_known_[out.index] != 0; });
  }

  // --- Forms of values ---
  // All forms in which somebody reads a value, so that partial sums are summed up early.
  void FindWanted() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (IsKnownNode(node)) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!node.inputs[i].valid() || IsRestated(NodeId(n), i)) continue;
        wanted_[node.inputs[i].index].push_back(InputSharding(choice_, NodeId(n), i));
      }
    }
    for (const Update& update : graph_.updates) {
      wanted_[update.value.index].push_back(LeafSharding(update.param));
    }
    for (ValueId id : graph_.outputs) wanted_[id.index].push_back(EndSharding(id));
  }

  Sharding EndSharding(ValueId id) const {
    const auto it = choice_.outputs.find(id);
    if (it != choice_.outputs.end()) return it->second;
    const Value& value = graph_.value(id);
    if (value.kind != ValueKind::kResult) return LeafSharding(id);
    Sharding sharding = OutputSharding(choice_, value.producer, value.result_index);
    for (AxisSharding& along : sharding.axes) {
      if (along.kind == Kind::kPartial) along = AxisSharding();
    }
    return sharding;
  }

  absl::StatusOr<ValueId> FormOf(ValueId id, const Sharding& wanted) {
    std::vector<Form>& forms = forms_[id.index];
    for (const Form& form : forms) {
      if (form.sharding == wanted) return form.value;
    }
    const Value& value = graph_.value(id);
    if (value.kind == ValueKind::kConstant) {
      MILLRACE_RETURN_IF_ERROR(AddLeaf(id, wanted, value.name));
      return forms.back().value;
    }
    std::optional<ReshardPlan> best;
    Form from;
    for (const Form& form : forms) {
      auto plan = PlanReshard(value.type, form.sharding, wanted, choice_.mesh, links_);
      if (!plan.has_value() || (best.has_value() && plan->seconds >= best->seconds)) continue;
      best = std::move(plan);
      from = form;
    }
    if (!best.has_value()) {
      return UsageError(StrCat("'", value.name, "' of type ", ToString(value.type),
                               ", sharded as \"", ToString(forms[0].sharding, choice_.mesh),
                               "\", cannot be made \"", ToString(wanted, choice_.mesh),
                               "\" over the mesh ", ToString(choice_.mesh)));
    }
    return CarryOut(id, *best, from, wanted);
  }

  absl::StatusOr<ValueId> CarryOut(ValueId id, const ReshardPlan& plan, Form from,
                                   const Sharding& wanted) {
    const std::string name = builder_.graph().value(forms_[id.index][0].value).name;
    Form at = std::move(from);
    for (const ReshardStep& step : plan.steps) {
      MILLRACE_ASSIGN_OR_RETURN(const TensorType type, PartType(id, at.sharding));
      at.value = steps_.Write(step, at.value, type, name);
      for (const int axis : step.axes) {
        at.sharding.axes[axis] =
            step.to_dim >= 0 ? AxisSharding{Kind::kShard, step.to_dim} : AxisSharding();
      }
      forms_[id.index].push_back(at);
    }
    // What is whole is its own mean.
    if (at.sharding != wanted) forms_[id.index].push_back({wanted, at.value});
    return at.value;
  }

  // --- Nodes ---
  bool IsRestated(NodeId id, size_t i) const {
    const Node& node = graph_.node(id);
    return StatesShape(graph_, node, i) &&
           OutputSharding(choice_, id, 0) != ReplicatedOn(choice_.mesh);
  }

  absl::Status CopyNode(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsKnownNode(node)) return CopyKnown(node);
    Node copy = node;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      if (IsRestated(id, i)) {
        MILLRACE_ASSIGN_OR_RETURN(const TensorType type,
                                  PartType(node.outputs[0], OutputSharding(choice_, id, 0)));
        copy.inputs[i] = builder_.Constant(StrCat(node.name, ".shape"), DimsTensor(type));
      } else {
        MILLRACE_ASSIGN_OR_RETURN(copy.inputs[i],
                                  FormOf(node.inputs[i], InputSharding(choice_, id, i)));
      }
    }
    MILLRACE_RETURN_IF_ERROR(TellPlace(id, copy));
    copy.after.clear();
    for (const NodeId before : node.after) {
      if (node_of_[before.index].valid()) copy.after.push_back(node_of_[before.index]);
    }
    copy.name = builder_.UniqueNodeName(node.name);
    copy.outputs.clear();
    Graph& g = builder_.graph();
    const NodeId new_id(g.nodes.size());
    node_of_[id.index] = new_id;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId out;
      if (node.outputs[i].valid()) {
        const Value& value = graph_.value(node.outputs[i]);
        out = builder_.NewResult(value.name);
        g.value(out).producer = new_id;
        g.value(out).result_index = static_cast<int32_t>(i);
        g.value(out).bounded = value.bounded;
        const Sharding sharding = OutputSharding(choice_, id, i);
        MILLRACE_ASSIGN_OR_RETURN(g.value(out).type, PartType(node.outputs[i], sharding));
        g.value(out).typed = true;  // inference has to agree
        forms_[node.outputs[i].index].push_back({sharding, out});
      }
      copy.outputs.push_back(out);
    }
    g.nodes.push_back(std::move(copy));
    for (const ValueId out : node.outputs) {
      if (out.valid()) MILLRACE_RETURN_IF_ERROR(FinishResult(out));
    }
    return absl::OkStatus();
  }

  // A constant with an entry for each device along the axes that cut the result: the session gives
  // each its own.
  absl::Status TellPlace(NodeId id, Node& copy) {
    const int operand = PlaceOperand(graph_.node(id));
    const Sharding sharding = OutputSharding(choice_, id, 0);
    if (operand < 0 || sharding == ReplicatedOn(choice_.mesh)) return absl::OkStatus();
    const Shape& whole = graph_.value(graph_.node(id).outputs[0]).type.shape;
    Mesh cutting;
    Sharding along = ReplicatedOn(choice_.mesh);
    std::vector<int> dims;
    Shape shape, local;
    for (size_t axis = 0; axis < sharding.axes.size(); ++axis) {
      if (sharding.axes[axis].kind != Kind::kShard) continue;
      along.axes[axis] = {Kind::kShard, static_cast<int>(dims.size())};
      cutting.axes.push_back(choice_.mesh.axes[axis]);
      dims.push_back(sharding.axes[axis].dim);
      shape.push_back(choice_.mesh.axes[axis].size);
      local.push_back(1);
    }
    if (shape.rank() + 1 > kMaxRank) return UsageError("too many mesh axes cut one value");
    const int64_t rank = whole.rank();
    shape.push_back(2 * rank);
    local.push_back(2 * rank);
    Tensor places = Tensor::Zeros({DType::kI64, shape});
    for (int64_t device = 0; device < cutting.num_devices(); ++device) {
      const std::vector<int64_t> at = CoordinatesOf(cutting, device);
      int64_t* const place = places.mutable_data<int64_t>().data() + device * 2 * rank;
      for (int d = 0; d < rank; ++d) {
        int64_t part = 0, parts = 1;
        for (size_t axis = 0; axis < dims.size(); ++axis) {
          if (dims[axis] != d) continue;
          part = part * cutting.axes[axis].size + at[axis];
          parts *= cutting.axes[axis].size;
        }
        place[d] = part * (whole[d] / parts);
        place[rank + d] = whole[d];
      }
    }
    const ValueId constant = builder_.Constant(StrCat(copy.name, ".place"), std::move(places));
    builder_.graph().value(constant).type.shape = local;
    builder_.graph().shardings[constant] = std::move(along);
    if (std::ssize(copy.inputs) <= operand) copy.inputs.resize(operand + 1);
    copy.inputs[operand] = constant;
    return absl::OkStatus();
  }

  absl::Status FinishResult(ValueId id) {
    if (const auto it = choice_.results.find(id); it != choice_.results.end()) {
      MILLRACE_ASSIGN_OR_RETURN(const ValueId value, FormOf(id, it->second));
      forms_[id.index] = {{it->second, value}};
    }
    if (!HasPartial(forms_[id.index][0].sharding)) return absl::OkStatus();
    for (const Sharding& wanted : wanted_[id.index]) {
      MILLRACE_RETURN_IF_ERROR(FormOf(id, wanted).status());
    }
    return absl::OkStatus();
  }

  absl::Status CopyKnown(const Node& node) {
    for (ValueId id : node.outputs) {
      if (!id.valid()) continue;
      const std::optional<Tensor> tensor = known_.Of(id);
      const ValueId copy = builder_.Constant(graph_.value(id).name, *tensor);
      forms_[id.index].push_back({ReplicatedOn(choice_.mesh), copy});
    }
    return absl::OkStatus();
  }

  // --- Ends ---
  absl::Status CopyEnds() {
    for (ValueId id : graph_.outputs) {
      const Sharding sharding = EndSharding(id);
      MILLRACE_ASSIGN_OR_RETURN(ValueId value, FormOf(id, sharding));
      Graph& g = builder_.graph();
      if (sharding != ReplicatedOn(choice_.mesh)) g.shardings[value] = sharding;
      TakeName(value, graph_.value(id).name);
      builder_.Output(value);
    }
    for (const Update& update : graph_.updates) {
      const Sharding sharding = LeafSharding(update.param);
      MILLRACE_ASSIGN_OR_RETURN(const ValueId param, FormOf(update.param, sharding));
      MILLRACE_ASSIGN_OR_RETURN(const ValueId value, FormOf(update.value, sharding));
      builder_.AddUpdate(param, value);
    }
    return absl::OkStatus();
  }

  // Outputs keep their names, whichever form of a value they are.
  void TakeName(ValueId id, const std::string& name) {
    Graph& g = builder_.graph();
    if (g.value(id).name == name) return;
    for (Value& value : g.values) {
      if (value.name != name) continue;
      std::swap(value.name, g.value(id).name);
      return;
    }
    g.value(id).name = name;
  }

  const Graph& graph_;
  const ShardingChoice& choice_;
  const ReshardLinks& links_;
  KnownValues known_;
  GraphBuilder builder_;
  StepWriter steps_;
  std::vector<std::vector<Form>> forms_;       // by value of the given graph; the first is home
  std::vector<std::vector<Sharding>> wanted_;  // by value
  std::vector<uint8_t> is_known_;              // by value: a constant here
  std::vector<NodeId> node_of_;                // by node: in the lowered graph
};

}  // namespace

absl::StatusOr<Graph> LowerShardings(const Graph& graph, const ShardingChoice& choice,
                                     const ReshardLinks& links) {
  MILLRACE_CHECK(choice.rules.size() == graph.nodes.size());
  return ShardingLowering(graph, choice, links).Run();
}

}  // namespace millrace
