// Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
// 2002), with edits that fit graphs. In each round, in this order, big ones first:
//
//   outputs   and updates are dropped, half of them at a time, then quarters, ..., then one by one;
//   nodes     are cut loose in the same way: their results become inputs;
//   bypasses  the reader of a result reads an operand of the same type instead;
//   bodies    of nested graphs lose nodes: results become zeros, or operands of the same type;
//   details   attributes and optional operands are left out;
//   sizes     a dim that several inputs and params have becomes 1, or half of what it was, wherever
//             it stands: in constants that state it, too;
//   data      of params and constants become zeros.
//
// A candidate that does not infer is none. Rounds go on until one changes nothing. Each success
// makes the graph smaller by nodes, operands, elements or attributes, so they end.
#include "tools/reduce_graph.h"

#include <algorithm>
#include <set>

#include "graph/builder.h"
#include "graph/verify.h"
#include "graph/weights.h"
#include "ops/infer.h"
#include "tools/cut_graph.h"

namespace millrace {
namespace {

void ForgetResultTypes(Graph& graph) {
  for (Value& value : graph.values) {
    if (value.kind == ValueKind::kResult) value.typed = false;
  }
  for (Node& node : graph.nodes) {
    for (Subgraph& sub : node.subgraphs) {
      for (const ValueId id : sub.graph.inputs) sub.graph.value(id).typed = false;
      ForgetResultTypes(sub.graph);
    }
  }
}

bool IsWhole(Graph& graph) {
  if (graph.outputs.empty() && graph.updates.empty()) return false;
  ForgetResultTypes(graph);
  Diagnostics diagnostics;
  VerifyGraph(graph, diagnostics);
  if (diagnostics.ok()) InferTypes(graph, diagnostics);
  return diagnostics.ok();
}

// The first elements of `tensor` along each dim.
Tensor Corner(const Tensor& tensor, const Shape& shape) {
  Tensor corner = Tensor::Zeros({tensor.dtype(), shape});
  const Shape strides = DenseStrides(tensor.shape());
  for (int64_t i = 0; i < corner.num_elements(); ++i) {
    int64_t rest = i, at = 0;
    for (int d = shape.rank(); d-- > 0; rest /= shape[d]) at += rest % shape[d] * strides[d];
    corner.Set(i, tensor.AsDouble(at));
  }
  return corner;
}

class Reducer {
 public:
  Reducer(Graph graph, const Interesting& interesting, ReduceCounts& counts)
      : graph_(std::move(graph)), interesting_(interesting), counts_(counts) {}

  absl::StatusOr<Graph> Run() {
    Graph start = CutGraph(graph_, WholeOf(graph_));
    MILLRACE_ASSIGN_OR_RETURN(const bool fails, Try(std::move(start)));
    if (!fails) return UsageError("the graph does not show the fault: there is nothing to reduce");
    for (int64_t before = -1; before != counts_.successes;) {
      before = counts_.successes;
      MILLRACE_RETURN_IF_ERROR(DropOutputs());
      MILLRACE_RETURN_IF_ERROR(CutNodes());
      MILLRACE_RETURN_IF_ERROR(Bypass());
      MILLRACE_RETURN_IF_ERROR(ReduceBodies());
      MILLRACE_RETURN_IF_ERROR(DropDetails());
      MILLRACE_RETURN_IF_ERROR(ShrinkSizes());
      MILLRACE_RETURN_IF_ERROR(ZeroData());
    }
    return std::move(graph_);
  }

 private:
  // Takes the candidate if it is whole and interesting.
  absl::StatusOr<bool> Try(Graph candidate) {
    if (!IsWhole(candidate)) return false;
    ++counts_.tried;
    MILLRACE_ASSIGN_OR_RETURN(const bool interesting, interesting_(candidate));
    if (!interesting) return false;
    ++counts_.successes;
    graph_ = std::move(candidate);
    return true;
  }

  // Tries to take out runs of `count()` items: attempt(begin, end) says whether that succeeded,
  // after which there are fewer.
  template <typename Count, typename Attempt>
  absl::Status TakeOutRuns(const Count& count, const Attempt& attempt) {
    for (size_t length = count(); length > 0; length /= 2) {
      for (size_t end = count(); end > 0;) {
        const size_t begin = end > length ? end - length : 0;
        MILLRACE_RETURN_IF_ERROR(attempt(begin, end).status());
        end = std::min(begin, count());
      }
    }
    return absl::OkStatus();
  }

  absl::Status DropOutputs() {
    MILLRACE_RETURN_IF_ERROR(TakeOutRuns([&] { return graph_.outputs.size(); },
                                         [&](size_t begin, size_t end) {
                                           GraphCut cut = WholeOf(graph_);
                                           cut.outputs.erase(cut.outputs.begin() + begin,
                                                             cut.outputs.begin() + end);
                                           return Try(CutGraph(graph_, cut));
                                         }));
    return TakeOutRuns([&] { return graph_.updates.size(); },
                       [&](size_t begin, size_t end) {
                         GraphCut cut = WholeOf(graph_);
                         cut.updates.erase(cut.updates.begin() + begin, cut.updates.begin() + end);
                         return Try(CutGraph(graph_, cut));
                       });
  }

  absl::Status CutNodes() {
    return TakeOutRuns([&] { return graph_.nodes.size(); },
                       [&](size_t begin, size_t end) {
                         GraphCut cut = WholeOf(graph_);
                         for (size_t n = begin; n < end; ++n) {
                           for (const ValueId id : graph_.nodes[n].outputs) {
                             if (id.valid()) cut.loose.push_back(id);
                           }
                         }
                         DropLooseOutputs(cut);
                         return Try(CutGraph(graph_, cut));
                       });
  }

  // A graph's output may not be its input: it is given up with what made it.
  static void DropLooseOutputs(GraphCut& cut) {
    const std::set<ValueId> loose(cut.loose.begin(), cut.loose.end());
    std::erase_if(cut.outputs, [&](ValueId id) { return loose.contains(id); });
    std::erase_if(cut.updates, [&](const Update& u) { return loose.contains(u.value); });
  }

  absl::Status Bypass() {
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (n >= graph_.nodes.size()) continue;
      const Node node = graph_.nodes[n];
      if (node.outputs.empty() || !node.outputs[0].valid()) continue;
      for (const ValueId input : node.inputs) {
        if (!input.valid() || graph_.value(input).type != graph_.value(node.outputs[0]).type) {
          continue;
        }
        GraphCut cut = WholeOf(graph_);
        cut.instead[node.outputs[0]] = input;
        MILLRACE_ASSIGN_OR_RETURN(const bool taken, Try(CutGraph(graph_, cut)));
        if (taken) break;
      }
    }
    return absl::OkStatus();
  }

  // Where a body lies: nodes and bodies from the outermost graph inwards.
  using BodyPath = std::vector<std::pair<size_t, size_t>>;
  static Graph& BodyAt(Graph& graph, const BodyPath& path) {
    Graph* at = &graph;
    for (const auto& [node, body] : path) at = &at->nodes[node].subgraphs[body].graph;
    return *at;
  }

  absl::Status ReduceBodies() { return ReduceBodiesBelow({}); }

  absl::Status ReduceBodiesBelow(const BodyPath& path) {
    for (size_t n = 0; n < BodyAt(graph_, path).nodes.size(); ++n) {
      for (size_t b = 0; b < BodyAt(graph_, path).nodes[n].subgraphs.size(); ++b) {
        BodyPath inner = path;
        inner.emplace_back(n, b);
        MILLRACE_RETURN_IF_ERROR(ReduceBody(inner));
        MILLRACE_RETURN_IF_ERROR(ReduceBodiesBelow(inner));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> TryBody(const BodyPath& path, const GraphCut& cut) {
    Graph candidate = graph_;
    Graph& body = BodyAt(candidate, path);
    body = CutGraph(body, cut);
    return Try(std::move(candidate));
  }

  absl::Status ReduceBody(const BodyPath& path) {
    for (size_t n = BodyAt(graph_, path).nodes.size(); n-- > 0;) {
      const Graph& body = BodyAt(graph_, path);
      if (n >= body.nodes.size()) continue;
      GraphCut zeros = WholeOf(body);
      zeros.keep_inputs = zeros.zeros = true;
      for (const ValueId id : body.nodes[n].outputs) {
        if (id.valid()) zeros.loose.push_back(id);
      }
      MILLRACE_ASSIGN_OR_RETURN(const bool taken, TryBody(path, zeros));
      if (taken) continue;
      const Node node = body.nodes[n];
      for (const ValueId input : node.inputs) {
        if (!input.valid() || !node.outputs[0].valid()) continue;
        GraphCut cut = WholeOf(BodyAt(graph_, path));
        cut.keep_inputs = true;
        cut.instead[node.outputs[0]] = input;
        MILLRACE_ASSIGN_OR_RETURN(const bool bypassed, TryBody(path, cut));
        if (bypassed) break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status DropDetails() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      std::vector<std::string> names;
      for (const auto& [name, value] : graph_.nodes[n].attrs) names.push_back(name);
      for (const std::string& name : names) {
        Graph candidate = graph_;
        candidate.nodes[n].attrs.Erase(name);
        MILLRACE_RETURN_IF_ERROR(Try(std::move(candidate)).status());
      }
      for (size_t i = graph_.nodes[n].inputs.size(); i-- > 0;) {
        Graph candidate = graph_;
        std::vector<ValueId>& inputs = candidate.nodes[n].inputs;
        if (!inputs[i].valid()) continue;
        inputs[i] = ValueId();
        while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
        const GraphCut whole = WholeOf(candidate);
        MILLRACE_RETURN_IF_ERROR(Try(CutGraph(candidate, whole)).status());
        if (i > graph_.nodes[n].inputs.size()) i = graph_.nodes[n].inputs.size();
      }
    }
    return absl::OkStatus();
  }

  absl::Status ShrinkSizes() {
    std::set<int64_t> sizes;
    for (const auto* ids : {&graph_.inputs, &graph_.params}) {
      for (const ValueId id : *ids) {
        for (const int64_t dim : graph_.value(id).type.shape) sizes.insert(dim);
      }
    }
    for (const int64_t size : sizes) {
      for (const int64_t smaller : {int64_t{1}, size / 2}) {
        if (smaller < 1 || smaller >= size) continue;
        MILLRACE_ASSIGN_OR_RETURN(Graph candidate, Resized(size, smaller));
        MILLRACE_ASSIGN_OR_RETURN(const bool taken, Try(std::move(candidate)));
        if (taken) break;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Graph> Resized(int64_t size, int64_t smaller) const {
    Graph candidate = graph_;
    WeightStore store(graph_);
    for (const ValueId id : candidate.inputs) {
      Shape& shape = candidate.value(id).type.shape;
      for (int d = 0; d < shape.rank(); ++d) shape[d] = shape[d] == size ? smaller : shape[d];
    }
    for (const auto* ids : {&candidate.params, &candidate.constants}) {
      for (const ValueId id : *ids) {
        MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, store.Get(id));
        Value& value = candidate.value(id);
        const bool states_sizes = value.type.dtype == DType::kI64 && value.type.shape.rank() == 1;
        Shape& shape = value.type.shape;
        for (int d = 0; d < shape.rank(); ++d) {
          if (!states_sizes && shape[d] == size) shape[d] = smaller;
        }
        tensor = Corner(tensor, shape);
        for (int64_t i = 0; states_sizes && i < tensor.num_elements(); ++i) {
          if (tensor.AsInt64(i) == size) tensor.Set(i, static_cast<double>(smaller));
        }
        candidate.data[value.data] = InlineData(std::move(tensor));
      }
    }
    return candidate;
  }

  absl::Status ZeroData() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (v >= graph_.values.size() || graph_.values[v].data < 0) continue;
      const DataSource& data = graph_.data[graph_.values[v].data];
      if (data.kind == DataSource::Kind::kSplat && data.tensor.AsDouble(0) == 0) continue;
      Graph candidate = graph_;
      DataSource& zeros = candidate.data[graph_.values[v].data];
      zeros = DataSource();
      zeros.kind = DataSource::Kind::kSplat;
      zeros.tensor = Tensor::Zeros({graph_.values[v].type.dtype, {}});
      MILLRACE_RETURN_IF_ERROR(Try(std::move(candidate)).status());
    }
    return absl::OkStatus();
  }

  Graph graph_;
  const Interesting& interesting_;
  ReduceCounts& counts_;
};

}  // namespace

absl::StatusOr<Graph> ReduceGraph(const Graph& graph, const Interesting& interesting,
                                  ReduceCounts* counts) {
  ReduceCounts own;
  return Reducer(graph, interesting, counts != nullptr ? *counts : own).Run();
}

}  // namespace millrace
