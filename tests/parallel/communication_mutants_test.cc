// Plans over a mesh in which one thing about communication is wrong: the checker, which knows
// nothing of how they were made, refuses each of them before anything runs.
#include "gmock/gmock.h"
#include "graph/check/check.h"
#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/op_def.h"
#include "tests/parallel/perceptron.h"
#include "tests/parallel/run_sharded.h"

namespace millrace {
namespace {

PlanForMachine SpreadPlan() {
  PlanningOptions options;
  options.mesh = "data=2,tensor=2";
  options.shards = {"w1=tensor:1"};
  options.zero = 2;
  options.threads = 1;
  auto planned = CompileGraph(TrainedPerceptron().graph, options);
  MILLRACE_CHECK(planned.ok());
  return *std::move(planned);
}

bool IsSound(const PlanForMachine& planned, const PlanBundle& plan) {
  return CheckedPlan::Check(plan, AllOpTraits(), &planned.machine).ok();
}

std::vector<Instruction>& StepOf(PlanBundle& plan) {
  Program& program = plan.programs[0];
  return program.segments[program.step[0].segment.index].instructions;
}

template <typename Body>
std::vector<size_t> PlacesOf(PlanBundle& plan) {
  std::vector<size_t> places;
  for (size_t i = 0; i < StepOf(plan).size(); ++i) {
    if (std::holds_alternative<Body>(StepOf(plan)[i].body)) places.push_back(i);
  }
  return places;
}

class CommunicationMutants : public ::testing::Test {
 protected:
  PlanForMachine planned_ = SpreadPlan();
  PlanBundle plan_ = planned_.plan;

  Node& FirstNode(std::string_view op) {
    for (Node& node : plan_.graph.nodes) {
      if (node.op == op) return node;
    }
    ADD_FAILURE() << "no " << op;
    return plan_.graph.nodes[0];
  }
};

TEST_F(CommunicationMutants, AnotherMeshThanTheGraphIsSpreadOver) {
  plan_.mesh = Mesh();
  EXPECT_FALSE(IsSound(planned_, plan_));
  plan_.mesh = planned_.plan.mesh;
  std::swap(plan_.mesh.axes[0].name, plan_.mesh.axes[1].name);
  EXPECT_FALSE(IsSound(planned_, plan_));
}

// A device could not tell where its part of the whole begins.
TEST_F(CommunicationMutants, PartsOfASizeThatIsKnownOnlyAtRunTime) {
  for (const ValueId id : plan_.graph.inputs) plan_.graph.value(id).bounded = true;
  EXPECT_FALSE(IsSound(planned_, plan_));
}

TEST_F(CommunicationMutants, ThePlanItselfIsSound) {
  EXPECT_TRUE(IsSound(planned_, plan_));
  EXPECT_GT(PlacesOf<Collective>(plan_).size(), 4u);
}

// There are only as many events as are needed.
TEST_F(CommunicationMutants, ADroppedWaitIsARace) {
  const auto waits = PlacesOf<Wait>(plan_);
  ASSERT_GT(waits.size(), 4u);
  for (const size_t at : waits) {
    PlanBundle mutant = planned_.plan;
    StepOf(mutant).erase(StepOf(mutant).begin() + static_cast<int64_t>(at));
    EXPECT_FALSE(IsSound(planned_, mutant)) << "wait " << at;
  }
}

TEST_F(CommunicationMutants, ADroppedCollectiveLeavesItsReadersWithNothing) {
  for (const size_t at : PlacesOf<Collective>(plan_)) {
    PlanBundle mutant = planned_.plan;
    StepOf(mutant).erase(StepOf(mutant).begin() + static_cast<int64_t>(at));
    EXPECT_FALSE(IsSound(planned_, mutant)) << "collective " << at;
  }
}

TEST_F(CommunicationMutants, TwoCollectivesThatSwapOperandsAreFound) {
  const auto places = PlacesOf<Collective>(plan_);
  for (size_t i = 1; i < places.size(); ++i) {
    PlanBundle mutant = planned_.plan;
    auto& one = std::get<Collective>(StepOf(mutant)[places[i - 1]].body);
    auto& other = std::get<Collective>(StepOf(mutant)[places[i]].body);
    std::swap(one.node, other.node);
    EXPECT_FALSE(IsSound(planned_, mutant)) << i;
  }
}

TEST_F(CommunicationMutants, AnotherAxisOrNumberOfPartsIsFound) {
  FirstNode("comm.ReduceScatter").attrs.Set("axis", std::vector<std::string>{"model"});
  EXPECT_FALSE(IsSound(planned_, plan_));
  plan_ = planned_.plan;
  FirstNode("comm.ReduceScatter").attrs.Set("axis", std::vector<std::string>{"data", "tensor"});
  EXPECT_FALSE(IsSound(planned_, plan_));
  plan_ = planned_.plan;
  Node& gather = FirstNode("comm.AllGather");
  plan_.graph.value(gather.outputs[0]).type.dtype = DType::kI32;
  EXPECT_FALSE(IsSound(planned_, plan_));
}

// What is sharded is not the same on all devices; a gather of it cannot be left out by calling it
// so.
TEST_F(CommunicationMutants, ACopyInsteadOfACollectiveIsFound) {
  for (const size_t at : PlacesOf<Collective>(plan_)) {
    PlanBundle mutant = planned_.plan;
    const auto collective = std::get<Collective>(StepOf(mutant)[at].body);
    StepOf(mutant)[at].body = Copy{collective.inputs[0], collective.outputs[0]};
    EXPECT_FALSE(IsSound(planned_, mutant)) << at;
  }
}

}  // namespace
}  // namespace millrace
