// Steps of training within memory budgets: bit for bit what they are without, and never above.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "bench/models/model.h"
#include "bench/models/small.h"
#include "graph/builder.h"
#include "graph/check/check.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/budget/fit_graph.h"
#include "passes/budget/graph_problem.h"
#include "passes/pipeline.h"
#include "passes/training.h"
#include "runtime/cpu/host_machine.h"
#include "runtime/session.h"
#include "tests/passes/typed_graph.h"
#include "tools/binding.h"
#include "tools/differential.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using NamedTensors = std::map<std::string, Tensor>;

constexpr int kSteps = 2;

MachineSpec MachineWith(int64_t memory_bytes) {
  MachineSpec machine = DetectHostMachine(/*cpu_devices=*/1, /*threads_per_device=*/1);
  machine.devices[0].memory_bytes = memory_bytes;
  return machine;
}

absl::StatusOr<PlanBundle> PlanWithin(const Graph& graph, int64_t memory_bytes) {
  const MachineSpec machine = MachineWith(memory_bytes);
  MILLRACE_ASSIGN_OR_RETURN(const auto target, MakeTarget("cpu", 1));
  CompileOptions options;
  options.threads = 1;
  MILLRACE_ASSIGN_OR_RETURN(CompileResult compiled, Compile(graph, machine, *target, options));
  return std::move(compiled.plan);
}

// Outputs and params after some steps, in memory full of NaN, on a device that has no more.
absl::StatusOr<NamedTensors> RunSteps(const PlanBundle& plan, int64_t memory_bytes,
                                      const NamedTensors& inputs) {
  const MachineSpec machine = MachineWith(memory_bytes);
  MILLRACE_ASSIGN_OR_RETURN(CheckedPlan checked, CheckedPlan::Check(plan, AllOpTraits(), &machine));
  MILLRACE_ASSIGN_OR_RETURN(const BoundDevices devices, BoundDevices::Bind(plan, machine, ""));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto session,
      Session::Create(std::move(checked), devices.table(),
                      {.communicator = devices.communicator(), .poison = true}));
  EXPECT_LE(session->DeviceBytes().at("cpu:0"), memory_bytes);
  NamedTensors results;
  for (int step = 0; step < kSteps; ++step) {
    for (const auto& [name, tensor] : inputs) {
      MILLRACE_RETURN_IF_ERROR(session->SetInput(name, tensor));
    }
    MILLRACE_RETURN_IF_ERROR(session->Run());
    for (const ValueId id : plan.graph.outputs) {
      const std::string& name = plan.graph.value(id).name;
      MILLRACE_ASSIGN_OR_RETURN(results[StrCat(name, " of step ", step)], session->Output(name));
    }
  }
  for (const ValueId id : plan.graph.params) {
    const std::string& name = plan.graph.value(id).name;
    MILLRACE_ASSIGN_OR_RETURN(results[name], session->Param(name));
  }
  return results;
}

void ExpectSameBits(const NamedTensors& actual, const NamedTensors& expected) {
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    ASSERT_NE(found, actual.end()) << name;
    ASSERT_EQ(found->second.size_bytes(), tensor.size_bytes()) << name;
    EXPECT_EQ(std::memcmp(found->second.bytes(), tensor.bytes(),
                          static_cast<size_t>(tensor.size_bytes())),
              0)
        << name;
  }
}

// The number that follows `before` in a message.
int64_t NumberAfter(std::string_view message, std::string_view before) {
  const size_t at = message.find(before);
  EXPECT_NE(at, std::string_view::npos) << message;
  return at == std::string_view::npos ? 0
                                      : std::stoll(std::string(message.substr(at + before.size())));
}

// Twenty budgets from what it takes without one down to half of the least there can be.
int ExpectSameWithinBudgets(const Graph& graph, int num_budgets = 20) {
  const absl::StatusOr<PlanBundle> without = PlanWithin(graph, kMaxBytes);
  EXPECT_TRUE(without.ok()) << without.status();
  if (!without.ok()) return 0;
  const int64_t most = BudgetedBytes(without->programs[0]);
  const NamedTensors inputs = InputsFor(graph, {}, 1);
  const absl::StatusOr<NamedTensors> expected = RunSteps(*without, most, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status();
  if (!expected.ok()) return 0;
  int num_repeating = 0;
  for (int i = 1; i <= num_budgets; ++i) {
    const int64_t budget = most - most * i / (num_budgets + 5);
    const absl::StatusOr<PlanBundle> plan = PlanWithin(graph, budget);
    if (!plan.ok()) {
      EXPECT_EQ(ExitCode(plan.status()), ExitCode(InfeasibleError(""))) << plan.status();
      const std::string message(plan.status().message());
      EXPECT_LE(NumberAfter(message, "needs less than "),
                NumberAfter(message, "the smallest budget that works is "));
      break;
    }
    EXPECT_LE(BudgetedBytes(plan->programs[0]), budget);
    num_repeating += std::ranges::any_of(plan->graph.nodes, IsRepeat);
    const absl::StatusOr<NamedTensors> actual = RunSteps(*plan, budget, inputs);
    EXPECT_TRUE(actual.ok()) << actual.status();
    if (actual.ok()) ExpectSameBits(*actual, *expected);
  }
  return num_repeating;
}

Graph TrainingOf(Graph graph, OptimizerKind optimizer, LossKind loss) {
  TrainingSpec spec;
  spec.optimizer.kind = optimizer;
  spec.loss.kind = loss;
  absl::StatusOr<TrainingGraph> training = BuildTrainingGraph(std::move(graph), spec);
  EXPECT_TRUE(training.ok()) << training.status();
  return std::move(training->graph);
}

Graph SmallModel(const std::string& name, const std::vector<std::string>& sets) {
  const absl::StatusOr<const Model*> model = FindModel(name);
  EXPECT_TRUE(model.ok()) << model.status();
  const absl::StatusOr<ModelSettings> settings = ParseModelSettings(**model, sets);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return (*model)->build(*settings);
}

constexpr LossKind kClasses = LossKind::kSoftmaxCrossEntropy,
                   kSquares = LossKind::kMeanSquaredError;

TEST(BudgetTest, Mlp) {
  EXPECT_GT(ExpectSameWithinBudgets(TrainingOf(SmallMlpGraph(2048), OptimizerKind::kSgd, kClasses)),
            0);
}
TEST(BudgetTest, Cnn) {
  EXPECT_GT(ExpectSameWithinBudgets(TrainingOf(SmallCnnGraph(8), OptimizerKind::kAdam, kClasses)),
            0);
}
TEST(BudgetTest, Transformer) {
  EXPECT_GT(ExpectSameWithinBudgets(
                TrainingOf(SmallTransformerGraph(4, 64, 64, 4), OptimizerKind::kAdamW, kSquares)),
            0);
}
TEST(BudgetTest, LeNet) {
  ExpectSameWithinBudgets(
      TrainingOf(SmallModel("lenet", {"batch=16"}), OptimizerKind::kMomentum, kClasses));
}
// Scratch memory of one kernel is most of it, so that another order is all that helps.
TEST(BudgetTest, MobileNet) {
  ExpectSameWithinBudgets(TrainingOf(SmallModel("mobilenet-v2", {"batch=4", "size=64"}),
                                     OptimizerKind::kSgd, kClasses));
}
TEST(BudgetTest, ResNet) {
  EXPECT_GT(ExpectSameWithinBudgets(TrainingOf(SmallModel("resnet18", {"batch=8", "size=64"}),
                                               OptimizerKind::kSgd, kClasses)),
            0);
}

// Layers at random, with what is hard to run again: masks, statistics that move, views, skips.
Graph RandomTrainingGraph(uint64_t seed) {
  std::minstd_rand random(static_cast<uint32_t>(seed) + 1);
  std::string text = StrCat(
      "graph random\n  input x : f32[64,32]\n  const on : bool[] = inline [true]\n"
      "  const ratio : f32[] = inline [0.25]\n",
      "  param step : i64[] = splat 0\n  const one : i64[] = inline [1]\n");
  std::string nodes;
  std::vector<std::string> wide = {"x"};  // f32[64,32]
  for (int i = 0; i < 14; ++i) {
    const std::string x = wide[wide.size() - 1 - random() % std::min<size_t>(3, wide.size())];
    const std::string y = StrCat("y", i);
    switch (random() % 7) {
      case 0:
      case 1:
        StrAppend(&text, "  param w", i, " : f32[32,32] trainable = init normal seed ", i + 1,
                  " std 0.3\n");
        StrAppend(&nodes, "  ", y, " = MatMul(", x, ", w", i, ")\n");
        break;
      case 2:
        StrAppend(&nodes, "  ", y, " = Tanh(", x, ")\n");
        break;
      case 3:
        StrAppend(&nodes, "  ", y, " = Dropout(", x, ", ratio, on, step) {seed = ", i, "}\n");
        break;
      case 4:
        StrAppend(&nodes, "  ", y, " = Add(", x, ", ", wide[random() % wide.size()], ")\n");
        break;
      case 5:
        StrAppend(&text, "  const to", i, " : i64[2] = inline [32, 64]\n", "  const back", i,
                  " : i64[2] = inline [64, 32]\n");
        StrAppend(&nodes, "  r", i, " = Reshape(", x, ", to", i, ")\n  s", i, " = Sigmoid(r", i,
                  ")\n  ", y, " = Reshape(s", i, ", back", i, ")\n");
        break;
      default:
        StrAppend(&text, "  param g", i, " : f32[32] trainable = splat 1.0\n", "  param b", i,
                  " : f32[32] trainable = splat 0.0\n");
        StrAppend(&nodes, "  ", y, " = LayerNormalization(", x, ", g", i, ", b", i, ")\n");
    }
    wide.push_back(y);
  }
  StrAppend(&text, "  param w : f32[32,32] trainable = init normal seed 99 std 0.3\n", nodes,
            "  out = MatMul(", wide.back(), ", w)\n  next = Add(step, one)\n  output out\n",
            "  update step <- next\n");
  return TrainingOf(TypedGraph(text), OptimizerKind::kAdam, kSquares);
}

class RandomBudgets : public testing::TestWithParam<int> {};

TEST_P(RandomBudgets, AreKept) { ExpectSameWithinBudgets(RandomTrainingGraph(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Seeds, RandomBudgets, testing::Range(0, 24));

// --- Named cases --------------------------------------------------------------------------------
// Layers whose activations are what a step needs memory for.
Graph Deep(std::string_view layer) {
  std::string text =
      "graph deep\n  input x : f32[256,16]\n  const on : bool[] = inline [true]\n"
      "  const ratio : f32[] = inline [0.5]\n  param step : i64[] = splat 0\n"
      "  const one : i64[] = inline [1]\n";
  std::string nodes, last = "x";
  for (int i = 0; i < 8; ++i) {
    StrAppend(&text, "  param w", i, " : f32[16,16] trainable = init normal seed ", i + 1,
              " std 0.3\n");
    StrAppend(&nodes, "  m", i, " = MatMul(", last, ", w", i, ")\n  a", i, " = ");
    if (layer == "Dropout") {
      StrAppend(&nodes, "Dropout(m", i, ", ratio, on, step) {seed = ", i, "}\n");
    } else {
      StrAppend(&nodes, layer, "(m", i, ")\n");
    }
    StrAppend(&nodes, "  e", i, " = Exp(a", i, ")\n");
    last = StrCat("e", i);
    StrAppend(&nodes, "  t", i, " = Tanh(", last, ")\n");
    last = StrCat("t", i);
  }
  StrAppend(&text, nodes, "  next = Add(step, one)\n  output ", last, "\n  update step <- next\n");
  return TrainingOf(TypedGraph(text), OptimizerKind::kMomentum, kSquares);
}

TEST(BudgetTest, DropoutThatRunsAgainDropsTheSame) {
  EXPECT_GT(ExpectSameWithinBudgets(Deep("Dropout"), 8), 0);
}

// Updates come early to free gradients; whoever runs again must not see the new version.
TEST(BudgetTest, WhatRunsAgainReadsParamsFromBeforeTheirUpdate) {
  EXPECT_GT(ExpectSameWithinBudgets(Deep("Sigmoid"), 8), 0);
}

TEST(BudgetTest, CommonSubexpressionEliminationLeavesRepeatsAlone) {
  const Graph graph = Deep("Sigmoid");
  const absl::StatusOr<PlanBundle> without = PlanWithin(graph, kMaxBytes);
  ASSERT_TRUE(without.ok());
  const absl::StatusOr<PlanBundle> plan =
      PlanWithin(graph, BudgetedBytes(without->programs[0]) * 6 / 10);
  ASSERT_TRUE(plan.ok()) << plan.status();
  Graph again = plan->graph;
  const auto repeats = [](const Graph& g) { return std::ranges::count_if(g.nodes, IsRepeat); };
  const auto before = repeats(again);
  ASSERT_GT(before, 0);
  PassContext context;
  ASSERT_TRUE(EliminateCommonSubexpressions(again, context).ok());
  EXPECT_EQ(repeats(again), before);
}

// Streams were assigned to the nodes there were before some ran again.
TEST(BudgetTest, StreamsGiveWayToABudget) {
  const Graph graph = Deep("Sigmoid");
  const absl::StatusOr<PlanBundle> without = PlanWithin(graph, kMaxBytes);
  ASSERT_TRUE(without.ok());
  const int64_t budget = BudgetedBytes(without->programs[0]) * 6 / 10;
  const absl::StatusOr<std::unique_ptr<Target>> target = MakeTarget("cpu", 2);
  ASSERT_TRUE(target.ok());
  CompileOptions options;
  options.threads = 2;
  options.streams = 2;
  const absl::StatusOr<CompileResult> compiled =
      Compile(graph, MachineWith(budget), **target, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_LE(BudgetedBytes(compiled->plan.programs[0]), budget);
  EXPECT_TRUE(CheckedPlan::Check(compiled->plan, AllOpTraits(), nullptr).ok());
}

TEST(BudgetTest, TheSmallestBudgetThatIsNamedWorks) {
  const Graph graph = Deep("Sigmoid");
  const absl::Status refused = PlanWithin(graph, 1000).status();
  EXPECT_EQ(ExitCode(refused), ExitCode(InfeasibleError("")));
  const std::string message(refused.message());
  const int64_t smallest = NumberAfter(message, "the smallest budget that works is ");
  const absl::StatusOr<PlanBundle> plan = PlanWithin(graph, smallest);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(BudgetedBytes(plan->programs[0]), smallest);
  EXPECT_THAT(message, HasSubstr("Live at its peak:\n"));
  EXPECT_THAT(message, HasSubstr("needs less than"));
}

}  // namespace
}  // namespace millrace
