// How much a value may be off without anything being wrong depends on what was computed before it:
// a difference of nearly equal numbers, or exp of a large one, makes much of little. So the graph
// is evaluated again with noise at the operands of all nodes that round, in three ways, and an
// output may be off by a few times what the noise did to it. The noise is some 64 units in the last
// place of f32, one or two of the half types: more than any kernel loses, far less than what a
// wrong one does.
#include "tools/differential.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "graph/strings.h"
#include "ops/evaluate_graph.h"
#include "ops/op_def.h"
#include "tools/compare.h"
#include "tools/run_graph.h"

namespace millrace {
namespace {

constexpr int kNoisyRuns = 3;
constexpr double kNoiseFactor = 4;
constexpr double kSmall = 1;  // below it, units are absolute: LogSoftmax cancels within

// One unit in the last place, relative; 0 for what is not rounded.
double UnitOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF32:
      return 0x1p-23;
    case DType::kF64:
      return 0x1p-52;
    default:
      return 0;
  }
}

double NoiseOf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? 2 * UnitOf(dtype) : 64 * UnitOf(dtype);
}

// Scalar ops that IEEE 754 says are rounded right, or that round nothing.
bool IsRoundedOnce(std::string_view scalar_op) {
  constexpr std::array<std::string_view, 20> kOps = {
      "neg", "abs", "sign", "sqrt", "floor", "ceil", "round",   "not",   "cast",   "add",
      "sub", "mul", "div",  "min",  "max",   "less", "greater", "equal", "select", "or"};
  return std::find(kOps.begin(), kOps.end(), scalar_op) != kOps.end();
}

// The coarsest float among the node's operands and results.
double NodeNoise(const Graph& graph, const Node& node) {
  double noise = 0;
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *ids) {
      if (id.valid()) noise = std::max(noise, NoiseOf(graph.value(id).type.dtype));
    }
  }
  return noise;
}

class NoiseMaker {
 public:
  explicit NoiseMaker(uint64_t seed) : random_(seed) {}

  void operator()(const Graph& graph, const Node& node, std::vector<Tensor>& operands) {
    const OpDef* op = FindOp(node.op);
    if (op->traits.control_flow != ControlFlow::kNone || IsExactButForHalves(graph, node)) return;
    const double noise = NodeNoise(graph, node);
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::vector<int>& host = op->traits.host_inputs;
      const bool is_host = std::find(host.begin(), host.end(), static_cast<int>(i)) != host.end();
      if (is_host || !operands[i].has_data() || !IsFloat(operands[i].dtype())) continue;
      operands[i] = Noisy(operands[i], noise);
    }
  }

 private:
  // A half result of operands that differ may be rounded to its neighbour.
  static bool IsExactButForHalves(const Graph& graph, const Node& node) {
    if (!IsExact(graph, node)) return false;
    if (FindOp(node.op)->fusion == FusionClass::kShape) return true;
    return std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      const DType dtype = id.valid() ? graph.value(id).type.dtype : DType::kBool;
      return dtype == DType::kF16 || dtype == DType::kBF16;
    });
  }

  Tensor Noisy(const Tensor& tensor, double noise) {
    std::uniform_real_distribution<double> uniform(-noise, noise);
    Tensor result = Tensor::Zeros(tensor.type());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      result.Set(i, tensor.AsDouble(i) * (1 + uniform(random_)));
    }
    return result;
  }

  std::mt19937_64 random_;
};

struct Expected {
  std::vector<Tensor> outputs;
  std::vector<std::vector<Tensor>> noisy;  // [run][output]; empty when nothing may differ
};

absl::StatusOr<Expected> EvaluateWithNoise(const Graph& graph, const std::vector<Tensor>& inputs) {
  Expected expected;
  MILLRACE_ASSIGN_OR_RETURN(expected.outputs, EvaluateGraph(graph, inputs));
  const std::vector<bool> differs = MayDiffer(graph);
  const bool any = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                               [&](ValueId id) { return differs[id.index]; });
  for (uint64_t run = 0; any && run < kNoisyRuns; ++run) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<Tensor> noisy,
                              EvaluateGraph(graph, inputs, NoiseMaker(run + 1)));
    expected.noisy.push_back(std::move(noisy));
  }
  return expected;
}

bool Agrees(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// What element `i` of output `o` may be off by.
double Tolerance(const Expected& expected, size_t o, int64_t i) {
  const Tensor& tensor = expected.outputs[o];
  const double value = tensor.AsDouble(i);
  double moved = 0;
  for (const std::vector<Tensor>& run : expected.noisy) {
    if (run[o].type() != tensor.type()) return std::numeric_limits<double>::infinity();
    const double noisy = run[o].AsDouble(i);
    if (Agrees(noisy, value)) continue;
    if (!std::isfinite(noisy) || !std::isfinite(value)) {
      return std::numeric_limits<double>::infinity();
    }
    moved = std::max(moved, std::abs(noisy - value));
  }
  return kNoiseFactor * (moved + UnitOf(tensor.dtype()) * std::max(std::abs(value), kSmall));
}

// "" when the output agrees.
std::string CompareOutput(const Tensor& actual, const Expected& expected, size_t o,
                          bool may_differ) {
  const Tensor& wanted = expected.outputs[o];
  if (actual.type() != wanted.type()) {
    return StrCat("is ", ToString(actual.type()), ", not ", ToString(wanted.type()));
  }
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    const double a = actual.AsDouble(i), e = wanted.AsDouble(i);
    if (Agrees(a, e) && (IsFloat(wanted.dtype()) || actual.AsInt64(i) == wanted.AsInt64(i))) {
      continue;
    }
    const double tolerance = may_differ ? Tolerance(expected, o, i) : 0;
    if (std::abs(a - e) <= tolerance || std::isinf(tolerance)) continue;
    return StrCat("at ", IndexText(wanted.shape(), i), ": ", a, ", not ", e, " +- ", tolerance);
  }
  return "";
}

}  // namespace

bool IsExact(const Graph& graph, const Node& node) {
  const bool floats = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    return id.valid() && IsFloat(graph.value(id).type.dtype);
  });
  const OpDef* op = FindOp(node.op);
  if (op == nullptr) return false;
  if (op->traits.control_flow != ControlFlow::kNone) {
    for (const Subgraph& sub : node.subgraphs) {
      for (const Node& inner : sub.graph.nodes) {
        if (!IsExact(sub.graph, inner)) return false;
      }
    }
    return true;
  }
  return !floats || op->fusion == FusionClass::kShape || IsRoundedOnce(op->scalar_op);
}

std::vector<bool> MayDiffer(const Graph& graph) {
  std::vector<bool> differs(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    bool any = !IsExact(graph, node);
    for (const ValueId id : node.inputs) any = any || (id.valid() && differs[id.index]);
    for (const ValueId id : node.outputs) {
      if (id.valid()) differs[id.index] = any;
    }
  }
  return differs;
}

namespace {

Tensor DrawInput(const Value& value, uint64_t seed) {
  uint64_t hash = seed;
  for (const char c : value.name) hash = hash * 1099511628211u + static_cast<uint8_t>(c);
  std::mt19937_64 random(hash);
  std::uniform_real_distribution<double> uniform(-2, 2);
  Tensor tensor = Tensor::Zeros(value.type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, IsFloat(value.type.dtype)          ? uniform(random)
                  : value.type.dtype == DType::kBool ? static_cast<double>(random() % 2)
                                                     : static_cast<double>(random() % 3));
  }
  return tensor;
}

}  // namespace

std::map<std::string, Tensor> InputsFor(const Graph& graph,
                                        const std::map<std::string, Tensor>& given, uint64_t seed) {
  std::map<std::string, Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    const auto found = given.find(value.name);
    const bool fits = found != given.end() && found->second.type() == value.type;
    inputs[value.name] = fits ? found->second : DrawInput(value, seed);
  }
  return inputs;
}

std::string CompareWithMeaning(const Graph& graph, const std::map<std::string, Tensor>& inputs,
                               const absl::StatusOr<std::vector<Tensor>>& actual) {
  std::vector<Tensor> in_order;
  for (const ValueId id : graph.inputs) in_order.push_back(inputs.at(graph.value(id).name));
  const absl::StatusOr<Expected> expected = EvaluateWithNoise(graph, in_order);
  if (!expected.ok() && !actual.ok()) return "";
  if (!actual.ok()) return StrCat("the plan fails: ", StdView(actual.status().message()));
  if (!expected.ok())
    return StrCat("only the reference fails: ", StdView(expected.status().message()));
  const std::vector<bool> differs = MayDiffer(graph);
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    const ValueId id = graph.outputs[o];
    const std::string text = CompareOutput((*actual)[o], *expected, o, differs[id.index]);
    if (!text.empty()) return StrCat("output '", graph.value(id).name, "' ", text);
  }
  return "";
}

std::string FindMismatch(const Graph& graph, const std::map<std::string, Tensor>& inputs,
                         uint64_t seed) {
  const std::map<std::string, Tensor> all = InputsFor(graph, inputs, seed);
  return CompareWithMeaning(graph, all, RunGraph(graph, all));
}

}  // namespace millrace
