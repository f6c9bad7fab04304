// Models over data, tensor and two-dimensional meshes, inference and training, against one device.
#include <cstring>
#include <functional>

#include "absl/strings/ascii.h"
#include "bench/models/model.h"
#include "bench/models/small.h"
#include "gmock/gmock.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "passes/training.h"
#include "tests/ops/evaluate.h"
#include "tests/parallel/perceptron.h"
#include "tests/parallel/run_sharded.h"

namespace millrace {
namespace {

using testing::HasSubstr;

// Of f32 values that many sums, taken in another order, stand behind.
constexpr double kModelTolerance = 2e-4;
constexpr int kSteps = 4;

struct Spread {
  std::string mesh;
  std::vector<std::string> shards = {};
  int zero = 0;
};

void PrintTo(const Spread& spread, std::ostream* out) {
  *out << spread.mesh;
  for (const std::string& shard : spread.shards) *out << " " << shard;
  if (spread.zero > 0) *out << " zero " << spread.zero;
}

std::string NameOf(const Spread& spread) {
  std::string name = StrCat(spread.mesh, spread.shards.empty() ? "" : "_hinted",
                            spread.zero > 0 ? StrCat("_zero", spread.zero) : "");
  for (char& c : name) {
    if (!absl::ascii_isalnum(c)) c = '_';
  }
  return name;
}

PlanningOptions OptionsOf(const Spread& spread) {
  PlanningOptions options;
  options.mesh = spread.mesh;
  options.shards = spread.shards;
  options.zero = spread.zero;
  options.threads = 1;
  return options;
}

void ExpectNear(const std::map<std::string, Tensor>& got, const std::map<std::string, Tensor>& want,
                double tolerance = kModelTolerance) {
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_LE(optest::MaxError(got.at(name), tensor), tolerance) << name;
  }
}

class SpreadPerceptronTest : public ::testing::TestWithParam<Spread> {};

TEST_P(SpreadPerceptronTest, GivesWhatOneDeviceGives) {
  if (GetParam().zero > 0) GTEST_SKIP() << "nothing is trained";
  const Graph graph = PerceptronGraph();
  const auto inputs = RandomInputs(graph, 7);
  const auto whole = RunSharded(graph, inputs, OptionsOf({}));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto spread = RunSharded(graph, inputs, OptionsOf(GetParam()));
  ASSERT_TRUE(spread.ok()) << spread.status();
  ExpectNear(spread->outputs, whole->outputs);
}

TEST_P(SpreadPerceptronTest, TrainsAsOneDeviceDoesAndTheSameEachTime) {
  const TrainingGraph trained = TrainedPerceptron();
  const auto inputs = RandomInputs(trained.graph, 7);
  const auto whole = RunSharded(trained.graph, inputs, OptionsOf({}), kSteps);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto spread = RunSharded(trained.graph, inputs, OptionsOf(GetParam()), kSteps);
  ASSERT_TRUE(spread.ok()) << spread.status();
  const auto &losses = spread->by_step.at(trained.loss),
             &expected = whole->by_step.at(trained.loss);
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_LE(optest::MaxError(losses[step], expected[step]), kModelTolerance) << step;
  }
  EXPECT_LT(losses.back().AsDouble(0), losses.front().AsDouble(0));
  ExpectNear(spread->params, whole->params, 2e-3);  // Adam divides by what is small
  const auto again = RunSharded(trained.graph, inputs, OptionsOf(GetParam()), kSteps);
  ASSERT_TRUE(again.ok()) << again.status();
  for (const auto& [name, tensor] : spread->params) {
    const Tensor& other = again->params.at(name);
    EXPECT_EQ(std::memcmp(tensor.bytes(), other.bytes(), tensor.size_bytes()), 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, SpreadPerceptronTest,
    ::testing::Values(Spread{"data=2"}, Spread{"data=3"}, Spread{"data=4"},
                      Spread{"tensor=2", {"w1=tensor:1"}}, Spread{"tensor=4", {"w1=tensor:1"}},
                      Spread{"tensor=2", {"w2=tensor:0"}}, Spread{"tensor=2", {"x=tensor:1"}},
                      Spread{"data=2,tensor=2", {"w1=tensor:1"}},
                      Spread{"tensor=2,data=2", {"w2=tensor:0"}}, Spread{"data=2", {}, 1},
                      Spread{"data=2", {}, 2}, Spread{"data=4", {}, 2},
                      Spread{"data=2,tensor=2", {"w1=tensor:1"}, 2}),
    [](const auto& info) { return StrCat(NameOf(info.param), "_", info.index); });

// --- What plans say ---
absl::StatusOr<PlanBundle> PlanOf(const Graph& graph, const Spread& spread) {
  MILLRACE_ASSIGN_OR_RETURN(PlanForMachine planned, CompileGraph(graph, OptionsOf(spread)));
  return std::move(planned.plan);
}

std::map<std::string, int> CommOps(const PlanBundle& plan) {
  std::map<std::string, int> count;
  for (const Node& node : plan.graph.nodes) {
    if (node.op.starts_with("comm.")) ++count[node.op];
  }
  return count;
}

TEST(SpreadPlans, DataParallelTrainingSumsAllGradientsAtOnce) {
  const auto plan = PlanOf(TrainedPerceptron().graph, {"data=2"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  // One of the gradients, one of the mean loss.
  EXPECT_THAT(CommOps(*plan), testing::ElementsAre(testing::Pair("comm.AllReduce", 2)));
  EXPECT_TRUE(plan->graph.local_types);
}

TEST(SpreadPlans, TensorParallelLayersMeetOnce) {
  const auto plan = PlanOf(PerceptronGraph(), {"tensor=2", {"w1=tensor:1"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(CommOps(*plan), testing::ElementsAre(testing::Pair("comm.AllReduce", 1)));
  std::map<std::string, Shape> shapes;
  for (const ValueId id : plan->graph.params) {
    shapes[plan->graph.value(id).name] = plan->graph.value(id).type.shape;
  }
  EXPECT_EQ(shapes["w1"], Shape({12, 8}));
  EXPECT_EQ(shapes["b1"], Shape({8}));
  EXPECT_EQ(shapes["w2"], Shape({8, 4}));
  EXPECT_EQ(shapes["b2"], Shape({4}));
}

TEST(SpreadPlans, ZeroCutsTheOptimizersState) {
  const auto whole = PlanOf(TrainedPerceptron().graph, {"data=4"});
  const auto zero = PlanOf(TrainedPerceptron().graph, {"data=4", {}, 2});
  ASSERT_TRUE(whole.ok() && zero.ok()) << zero.status();
  int64_t cut = 0;
  for (const ValueId id : zero->graph.params) {
    cut += GlobalType(zero->graph, id) != zero->graph.value(id).type;
  }
  EXPECT_EQ(cut, 8);  // two moments of each of four params
  EXPECT_EQ(CommOps(*zero)["comm.ReduceScatter"], 4);
  EXPECT_EQ(CommOps(*zero)["comm.AllGather"], 4);
  const auto first = PlanOf(TrainedPerceptron().graph, {"data=4", {}, 1});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(CommOps(*first)["comm.ReduceScatter"], 0);
}

TEST(SpreadPlans, SurviveBeingWrittenAndRead) {
  const auto plan = PlanOf(TrainedPerceptron().graph, {"data=2,tensor=2", {"w1=tensor:1"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto graph = ParseGraphText(ToText(plan->graph));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(ToText(*graph), ToText(plan->graph));
  EXPECT_TRUE(graph->local_types);
}

TEST(SpreadPlans, RefuseWhatCannotBeCut) {
  EXPECT_THAT(PlanOf(PerceptronGraph(), {"data=5"}).status().message(),
              HasSubstr("cannot be cut in 5 equal parts"));
  EXPECT_THAT(PlanOf(PerceptronGraph(), {"tensor=3", {"w1=tensor:1"}}).status().message(),
              HasSubstr("cannot be cut in 3 equal parts"));
  EXPECT_THAT(PlanOf(PerceptronGraph(), {"tensor=2", {"w9=tensor:1"}}).status().message(),
              HasSubstr("no input or param is called 'w9'"));
  EXPECT_THAT(PlanOf(PerceptronGraph(), {"tensor=2", {"w1=model:1"}}).status().message(),
              HasSubstr("no axis 'model'"));
  EXPECT_THAT(PlanOf(PerceptronGraph(), {"tensor=2", {}, 1}).status().message(),
              HasSubstr("mesh axis 'data'"));
}

// Megatron's cut of a transformer layer: heads and hidden units, one sum after each half.
TEST(SpreadPlans, ATransformerLayerMeetsTwice) {
  const Model* bert = *FindModel("bert-base");
  const auto settings =
      ParseModelSettings(*bert, std::vector<std::string>{"batch=2", "tokens=8", "layers=1"});
  const auto plan = PlanOf(bert->build(*settings),
                           {"tensor=2",
                            {"*/query/weight=tensor:1", "*/key/weight=tensor:1",
                             "*/value/weight=tensor:1", "*/intermediate/weight=tensor:1"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(CommOps(*plan), testing::ElementsAre(testing::Pair("comm.AllReduce", 2)));
}

// --- The zoo, small ---
struct ZooCase {
  std::string name;
  std::function<Graph()> build;
  std::vector<Spread> spreads;
};

std::function<Graph()> ModelOf(std::string name, std::vector<std::string> sets) {
  return [name, sets] {
    const Model* model = *FindModel(name);
    return model->build(*ParseModelSettings(*model, sets));
  };
}

std::vector<ZooCase> ZooCases() {
  return {
      {"mlp", [] { return SmallMlpGraph(4); }, {{"data=2"}, {"data=4"}, {"tensor=2"}}},
      {"cnn", [] { return SmallCnnGraph(4); }, {{"data=2"}}},
      {"transformer", [] { return SmallTransformerGraph(1, 8, 16, 2); }, {{"data=2"}}},
      {"resnet18", ModelOf("resnet18", {"batch=4", "size=32"}), {{"data=2"}}},
      {"mixture",
       ModelOf("mixture-of-experts", {"batch=2", "tokens=8", "layers=1", "experts=4"}),
       {{"data=2"}, {"expert=2", {"*/experts/up=expert:0", "*/experts/down=expert:0"}}}},
      {"bert",
       ModelOf("bert-base", {"batch=2", "tokens=8", "layers=1"}),
       {{"data=2"},
        {"data=2,tensor=2",
         {"*/query/weight=tensor:1", "*/key/weight=tensor:1", "*/value/weight=tensor:1",
          "*/intermediate/weight=tensor:1"}}}},
  };
}

class SpreadZooTest : public ::testing::TestWithParam<ZooCase> {};

TEST_P(SpreadZooTest, GivesWhatOneDeviceGives) {
  const Graph graph = GetParam().build();
  const auto inputs = RandomInputs(graph, 11);
  const auto whole = RunSharded(graph, inputs, OptionsOf({}));
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const Spread& spread : GetParam().spreads) {
    SCOPED_TRACE(spread.mesh);
    const auto run = RunSharded(graph, inputs, OptionsOf(spread));
    ASSERT_TRUE(run.ok()) << run.status();
    ExpectNear(run->outputs, whole->outputs);
  }
}

TEST_P(SpreadZooTest, TrainsAsOneDeviceDoes) {
  TrainingSpec spec;
  spec.loss.kind = *ParseLossKind("mse");
  spec.optimizer.kind = *ParseOptimizerKind("sgd");
  spec.rate.rate = 0.01;
  const auto trained = BuildTrainingGraph(GetParam().build(), spec);
  ASSERT_TRUE(trained.ok()) << trained.status();
  const auto inputs = RandomInputs(trained->graph, 11);
  const auto whole = RunSharded(trained->graph, inputs, OptionsOf({}), 2);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const Spread& spread : GetParam().spreads) {
    SCOPED_TRACE(spread.mesh);
    const auto run = RunSharded(trained->graph, inputs, OptionsOf(spread), 2);
    ASSERT_TRUE(run.ok()) << run.status();
    for (int step = 0; step < 2; ++step) {
      EXPECT_LE(optest::MaxError(run->by_step.at(trained->loss)[step],
                                 whole->by_step.at(trained->loss)[step]),
                kModelTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SpreadZooTest, ::testing::ValuesIn(ZooCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace millrace
