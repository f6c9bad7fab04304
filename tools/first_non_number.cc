#include "tools/first_non_number.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/evaluate_graph.h"

namespace millrace {
namespace {

bool HasNan(const Tensor& tensor) {
  if (!tensor.has_data() || !IsFloat(tensor.dtype())) return false;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (std::isnan(tensor.AsDouble(i))) return true;
  }
  return false;
}

bool HasInfinity(const Tensor& tensor) {
  if (!tensor.has_data() || !IsFloat(tensor.dtype())) return false;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (std::isinf(tensor.AsDouble(i))) return true;
  }
  return false;
}

// "from -3 to 0.5"
std::string RangeOf(const Tensor& tensor) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    least = std::min(least, tensor.AsDouble(i));
    most = std::max(most, tensor.AsDouble(i));
  }
  return StrCat("from ", least, " to ", most);
}

// Looks at the operands of each node in turn: those of a later node are results of an earlier one.
class Search {
 public:
  Search(bool (*is_bad)(const Tensor&), std::string_view what) : is_bad_(is_bad), what_(what) {}

  void Visit(const Graph& graph, const Node& node, const std::vector<Tensor>& operands) {
    if (!found_.empty()) return;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (is_bad_(operands[i])) return Name(graph, node.inputs[i]);
    }
    if (node.outputs.empty()) return;
    std::string ranges;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].has_data() || operands[i].num_elements() == 0) continue;
      StrAppend(&ranges, ranges.empty() ? "" : ", ", "'", graph.value(node.inputs[i]).name, "' ",
                RangeOf(operands[i]));
    }
    ranges_[{&graph, node.name}] = ranges;
  }
  void VisitOutputs(const Graph& graph, const std::vector<Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size() && found_.empty(); ++i) {
      if (is_bad_(outputs[i])) Name(graph, graph.outputs[i]);
    }
  }
  const std::string& found() const { return found_; }

 private:
  void Name(const Graph& graph, ValueId id) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::kResult) {
      found_ = StrCat("'", value.name, "', which is given, has a ", what_);
      return;
    }
    const Node& node = graph.node(value.producer);
    found_ = StrCat("node '", node.name, "' (", node.op, ") is the first to make a ", what_,
                    ", of ", ranges_[{&graph, node.name}]);
  }

  bool (*is_bad_)(const Tensor&);
  const std::string_view what_;
  std::map<std::pair<const Graph*, std::string>, std::string> ranges_;  // of operands, by node
  std::string found_;
};

}  // namespace

absl::StatusOr<std::string> FirstNonNumber(Graph graph, const std::map<std::string, Tensor>& inputs,
                                           const std::map<std::string, Tensor>& params) {
  for (const ValueId id : graph.params) {
    const auto given = params.find(graph.value(id).name);
    if (given != params.end()) graph.data[graph.value(id).data] = InlineData(given->second);
  }
  for (const Update& update : graph.updates) graph.outputs.push_back(update.value);
  std::vector<Tensor> operands;
  for (const ValueId id : graph.inputs) operands.push_back(inputs.at(graph.value(id).name));
  Search nan(HasNan, "nan"), infinity(HasInfinity, "number that is infinite");
  MILLRACE_ASSIGN_OR_RETURN(
      const std::vector<Tensor> outputs,
      EvaluateGraph(graph, operands, [&](const Graph& g, const Node& node, std::vector<Tensor>& t) {
        nan.Visit(g, node, t);
        infinity.Visit(g, node, t);
      }));
  nan.VisitOutputs(graph, outputs);
  infinity.VisitOutputs(graph, outputs);
  if (!nan.found().empty()) return nan.found();
  if (!infinity.found().empty()) return infinity.found();
  return std::string(
      "the step made something that is no number, but the reference kernels do not: it is "
      "rounding");
}

}  // namespace millrace
