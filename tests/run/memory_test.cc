// Plans that reuse memory, run: random graphs on every backend, and by the adversary, whose memory
// and kernels' scratch are full of NaNs.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "graph/check/check.h"
#include "graph/strings.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/evaluate_graph.h"
#include "ops/op_def.h"
#include "passes/pipeline.h"
#include "tests/adversary/adversary.h"
#include "tests/run/memory_graph.h"
#include "tests/run/run_graph.h"

namespace millrace {
namespace {

constexpr int kSteps = 3, kNodes = 30;

// A reference kernel with scratch for every op, on any kind of device.
class ScratchTarget : public Target {
 public:
  explicit ScratchTarget(std::string kind) : kind_(std::move(kind)) {}
  std::string_view device_kind() const override { return kind_; }
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override {
    const OpDef* op = FindOp(query.op);
    if (op == nullptr || op->reference == nullptr) return {};
    KernelVariant variant;
    variant.name = "reference";
    variant.in_layouts.resize(query.inputs.size(), Layout::kStrided);
    variant.out_layouts.resize(query.outputs.size(), Layout::kStrided);
    variant.scratch_bytes = 72;
    variant.time_us = 10;  // so that streams pay
    return {variant};
  }

 private:
  std::string kind_;
};

struct Case {
  Graph graph;                               // with params
  std::vector<NamedTensors> steps;           // its inputs
  std::vector<std::vector<Tensor>> outputs;  // what it means
};

absl::StatusOr<Case> MakeCase(uint64_t seed) {
  Case result{RandomMemoryGraph(seed, kNodes, /*params_as_inputs=*/false), {}, {}};
  const Graph stateless = RandomMemoryGraph(seed, kNodes, /*params_as_inputs=*/true);
  std::mt19937_64 random(seed);
  const auto tensor = [&](const TensorType& type) {
    Tensor t = Tensor::Zeros(type);
    for (float& x : t.mutable_data<float>()) x = static_cast<float>(random() % 17) - 8;
    return t;
  };
  NamedTensors state;
  for (const ValueId id : result.graph.params) {
    const Value& param = result.graph.value(id);
    Tensor ones = Tensor::Zeros(param.type);
    for (float& x : ones.mutable_data<float>()) x = 1;
    state[param.name] = ones;
  }
  for (int step = 0; step < kSteps; ++step) {
    NamedTensors inputs = {{"c", Tensor::Scalar<bool>(random() % 2 == 0)}};
    for (const ValueId id : result.graph.inputs) {
      const Value& input = result.graph.value(id);
      if (input.type.dtype == DType::kF32) inputs[input.name] = tensor(input.type);
    }
    std::vector<Tensor> all;
    for (const ValueId id : stateless.inputs) {
      const std::string& name = stateless.value(id).name;
      all.push_back(inputs.contains(name) ? inputs.at(name) : state.at(name));
    }
    MILLRACE_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, EvaluateGraph(stateless, all));
    for (int i = kMemoryGraphParams - 1; i >= 0; --i) {
      state[StrCat("p", i)] = outputs.back();
      outputs.pop_back();
    }
    result.steps.push_back(std::move(inputs));
    result.outputs.push_back(std::move(outputs));
  }
  return result;
}

void ExpectEqual(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(BitEqual(actual[i], expected[i])) << "output " << i;
  }
}

TEST(Memory, RandomGraphsRunAsTheyMean) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const absl::StatusOr<Case> c = MakeCase(seed);
    ASSERT_TRUE(c.ok()) << c.status();
    for (const std::string& kind : RunnableKinds()) {
      SCOPED_TRACE(StrCat("seed ", seed, " on ", kind));
      const auto results = RunGraph(c->graph, c->steps, {.device_kind = kind, .seed = seed});
      ASSERT_TRUE(results.ok()) << results.status();
      for (int step = 0; step < kSteps; ++step) ExpectEqual((*results)[step], c->outputs[step]);
    }
  }
}

absl::StatusOr<PlanBundle> PlanFor(const Graph& graph, const std::string& kind, int streams) {
  MachineSpec machine;
  machine.name = "test";
  DeviceSpec device;
  device.name = device.kind = kind;
  device.memory_bytes = 1 << 24;
  device.memory_bandwidth = 1e12;
  device.peak_flops = {{DType::kF32, 1e12}};
  device.threads = 4;
  machine.devices.push_back(device);
  NodeSpec node;
  node.devices = {{kind, 1}};
  machine.nodes.push_back(node);
  CompileOptions options;
  options.device = StrCat(kind, ":0");
  options.streams = streams;
  MILLRACE_ASSIGN_OR_RETURN(CompileResult result,
                            Compile(graph, machine, ScratchTarget(kind), options));
  MILLRACE_ASSIGN_OR_RETURN(const CheckedPlan checked,
                            CheckedPlan::Check(result.plan, AllOpTraits(), &machine));
  return std::move(result.plan);
}

// No byte that the second chain touches says that it waits for the first.
TEST(Memory, ControlDependenciesHoldAcrossStreams) {
  const absl::StatusOr<Graph> graph = TypedGraph(R"(
    input x : f32[8]
    input z : f32[8]
    a = Exp(x)
    b = Neg(a)
    c = Exp(b)
    d = Neg(c)
    e = Exp(z)
    f = Neg(e)
    g = Exp(f) after [a]
    h = Neg(g)
    output d
    output h)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<PlanBundle> plan = PlanFor(*graph, "cuda", 2);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->programs[0].streams.size(), 2u);
  EXPECT_FALSE(plan->programs[0].events.empty());
}

// The next step finds the param in bytes that were written as what it is a view of.
TEST(Memory, ParamsMayBeUpdatedThroughViews) {
  for (const char* outputs : {"", "output m", "output n"}) {
    const absl::StatusOr<Graph> graph = TypedGraph(StrCat(R"(
      input x : f32[2,2]
      param p : f32[4] = init ones
      const s : i64[1] = inline [4]
      n = Exp(x)
      m = Reshape(n, s)
      y = Neg(p)
      update p <- m
      output y
)",
                                                          outputs));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const Tensor x = Tensor::Of<float>({2, 2}, {0, 0, 0, 0});
    const auto results = RunGraph(*graph, {{{"x", x}}, {{"x", x}}});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_TRUE(BitEqual((*results)[1][0], Tensor::Of<float>({4}, {-1, -1, -1, -1})));
  }
}

// Every order of the plan's streams that is tried gives what the case means.
void ExpectAdversaryFindsNothing(const PlanBundle& plan, const Case& c, uint64_t seed) {
  const std::unique_ptr<KernelLibrary> kernels = CreateReferenceKernelLibrary();
  const auto adversary = Adversary::Create(
      plan, {.seed = seed, .kernels = kernels.get(), .host_kernels = kernels.get()});
  ASSERT_TRUE(adversary.ok()) << adversary.status();
  for (int step = 0; step < kSteps; ++step) {
    const absl::Status status = (*adversary)->Step(c.steps[step]);
    ASSERT_TRUE(status.ok()) << status;
    std::vector<Tensor> outputs;
    for (const ValueId id : plan.graph.outputs) {
      const auto output = (*adversary)->Output(plan.graph.value(id).name);
      ASSERT_TRUE(output.ok()) << output.status();
      outputs.push_back(*output);
    }
    ExpectEqual(outputs, c.outputs[step]);
  }
}

TEST(Memory, TheAdversaryFindsNothing) {
  int with_events = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const absl::StatusOr<Case> c = MakeCase(seed);
    ASSERT_TRUE(c.ok()) << c.status();
    for (const char* kind : {"cpu", "cuda"}) {
      for (const int streams : {1, 3}) {
        SCOPED_TRACE(StrCat("seed ", seed, " on ", kind, ", ", streams, " streams"));
        const absl::StatusOr<PlanBundle> plan = PlanFor(c->graph, kind, streams);
        ASSERT_TRUE(plan.ok()) << plan.status();
        if (!plan->programs[0].events.empty()) ++with_events;
        for (int order = 0; order < (streams == 1 ? 1 : 4); ++order) {
          ExpectAdversaryFindsNothing(*plan, *c, seed + 100 * order);
        }
      }
    }
  }
  EXPECT_GE(with_events, 100);  // of 120 on up to three streams
}

}  // namespace
}  // namespace millrace
