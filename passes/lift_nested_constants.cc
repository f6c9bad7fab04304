// Lifting: a constant inside a nested graph becomes a constant of the graph around it, passed in as
// one more capture, from the innermost graphs outwards. Plans then load constants in one place.
#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

// Turns constant `id` of `body` into an input; its data go to the caller.
DataSource MakeInput(Graph& body, ValueId id) {
  Value& value = body.value(id);
  DataSource data = std::move(body.data[value.data]);
  value.kind = ValueKind::kInput;
  value.data = -1;
  body.inputs.push_back(id);
  return data;
}

// The key under which `graph` knows the weight file that `body` calls `key`; added when missing.
std::string WeightKey(Graph& graph, const Graph& body, const std::string& key) {
  for (const WeightFile& file : body.weight_files) {
    if (file.key != key) continue;
    std::string free_key = key;
    for (const WeightFile& known : graph.weight_files) {
      if (known.path == file.path && known.sha256 == file.sha256) return known.key;
      if (known.key == free_key) free_key += "_";
    }
    graph.weight_files.push_back({free_key, file.path, file.sha256});
    return free_key;
  }
  return key;
}

ValueId AddConstant(GraphBuilder& builder, const std::string& name, const TensorType& type,
                    DataSource data) {
  const ValueId id = builder.Constant(name, Tensor::Zeros({type.dtype, Shape{}}));
  Graph& graph = builder.graph();
  graph.value(id).type = type;
  graph.data[graph.value(id).data] = std::move(data);
  return id;
}

// Captures are the last inputs of a node and of each of its bodies, so every body gets an input for
// the constants of every other body too. Loops say how many captures they have, which come after a
// Loop's trip count and condition, be they there or not.
void LiftFromBodies(GraphBuilder& builder, NodeId id, ControlFlow kind) {
  const int num_bodies = static_cast<int>(builder.graph().node(id).subgraphs.size());
  for (int b = 0; b < num_bodies; ++b) {
    const std::vector<ValueId> constants = builder.graph().node(id).subgraphs[b].graph.constants;
    for (ValueId constant : constants) {
      Graph& body = builder.graph().node(id).subgraphs[b].graph;
      const Value value = body.value(constant);
      DataSource data = MakeInput(body, constant);
      if (data.kind == DataSource::Kind::kFile) {
        data.file = WeightKey(builder.graph(), body, data.file);
      }
      const ValueId outside = AddConstant(builder, value.name, value.type, std::move(data));
      Node& node = builder.graph().node(id);
      if (kind == ControlFlow::kLoop && node.inputs.size() < 2) node.inputs.resize(2);
      node.inputs.push_back(outside);
      if (kind != ControlFlow::kIf) {
        node.attrs.Set("num_captures", node.attrs.Int("num_captures", 0) + 1);
      }
      for (int other = 0; other < num_bodies; ++other) {
        if (other == b) continue;
        GraphBuilder other_body(std::move(node.subgraphs[other].graph));
        other_body.Input(value.name, value.type);
        node.subgraphs[other].graph = std::move(other_body).Build();
      }
    }
    builder.graph().node(id).subgraphs[b].graph.constants.clear();
  }
}

bool HasConstants(const Node& node) {
  for (const Subgraph& sub : node.subgraphs) {
    if (!sub.graph.constants.empty()) return true;
  }
  return false;
}

absl::StatusOr<bool> Lift(Graph& graph, PassContext& context) {
  bool changed = false;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (Subgraph& sub : graph.nodes[n].subgraphs) {
      MILLRACE_ASSIGN_OR_RETURN(const bool inner, Lift(sub.graph, context));
      changed |= inner;
    }
    if (!HasConstants(graph.nodes[n])) continue;
    const OpDef* op = FindOp(graph.nodes[n].op);
    if (op == nullptr || op->traits.control_flow == ControlFlow::kNone) {
      return InternalError(StrCat("node '", graph.nodes[n].name, "' of op ", graph.nodes[n].op,
                                  " has nested graphs, but how they take captures is unknown"));
    }
    context.Applied("lift-constants", {graph.nodes[n].name}, "its bodies' constants are captures");
    GraphBuilder builder(std::move(graph));
    LiftFromBodies(builder, NodeId(n), op->traits.control_flow);
    graph = std::move(builder).Build();
    changed = true;
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> LiftNestedConstants(Graph& graph, PassContext& context) {
  return Lift(graph, context);
}

}  // namespace millrace
