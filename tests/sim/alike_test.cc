// Which copies are played for which, and that playing few of them gives the time of playing all
// (SimulateOrDie does both).
#include "runtime/sim/alike.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "tests/plan/program_writer.h"
#include "tests/sim/sim_plan.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 10,000 bytes a value.
constexpr char kReduce[] = R"(graph "g"
input x : f32[2500]
work: a : f32[2500] = Relu(x)
sum: b : f32[2500] = comm.AllReduce(a) {axis = ["AXIS"]}
output b
)";

LinearExpr Coordinate(int axis, int64_t scale = 1, int64_t add = 0, int64_t modulus = 0) {
  LinearExpr expr;
  expr.terms.push_back({.variable = axis, .scale = scale, .add = add, .modulus = modulus});
  return expr;
}

// work, then a sum over one mesh axis, on device data * tensor_size + tensor.
PlanBundle ReducePlan(const std::string& axis, int64_t data, int64_t tensor) {
  std::string text = kReduce;
  text.replace(text.find("AXIS"), 4, axis);
  Graph graph = GraphFromText(text);
  ProgramWriter w(graph, "p", "cuda", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 32768);
  const SliceId a = w.AddSlice("a", arena, 0), b = w.AddSlice("b", arena, 16384);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId step = w.BeginSegment("step");
  w.Launch(main, "work", {a}, {a});
  w.Schedule(Section::kStep, {{step, 0}});
  Program program = std::move(w).Build();
  program.segments[0].instructions.push_back(
      {main,
       Collective{.node = FindNode(graph, "sum"), .inputs = {a}, .outputs = {b}, .scratch = {}}});
  program.device_index = Coordinate(0, tensor);
  program.device_index.terms.push_back(Coordinate(1).terms[0]);
  return BundleOf(graph, {program}, 1, StrCat("data=", data, ",tensor=", tensor));
}

// Within a node of 4: a ring passes 2 * 3/4 * 10,000 bytes at 1e5 bytes/us: 0.15 us.
TEST(AlikeTest, ARingWithinANode) {
  const PlanBundle plan = ReducePlan("tensor", 2, 4);
  const SimResult result = SimulateOrDie(plan, Cluster(2, 4), {{"work", Takes(3)}});
  ASSERT_EQ(result.copies.size(), 1u);
  EXPECT_EQ(result.copies[0].count, 8);
  EXPECT_NEAR(result.time_us, 3 + 0.15, 1e-6);
}

// Between two nodes: each of 4 groups passes 2 * 1/2 * 10,000 bytes at 1e4 bytes/us, alone in 1 us.
// All leave their node at once and share its network: 4 us.
TEST(AlikeTest, GroupsOfOneNodeShareItsNetwork) {
  const PlanBundle plan = ReducePlan("data", 2, 4);
  const SimResult result = SimulateOrDie(plan, Cluster(2, 4), {{"work", Takes(3)}});
  ASSERT_EQ(result.copies.size(), 1u);
  EXPECT_NEAR(result.time_us, 3 + 4, 1e-4);
  EXPECT_EQ(result.resources[0].resource, Resource::kToNetwork);
  EXPECT_EQ(result.resources[0].owner, "node 0");
  EXPECT_EQ(result.resources[0].count, 2);
  EXPECT_NEAR(result.resources[0].busy, 4.0 / 7, 1e-4);
}

TEST(AlikeTest, AThousandDevicesCostNoMoreThanOne) {
  const PlanBundle plan = ReducePlan("data", 512, 8);
  const MachineSpec machine = Cluster(512, 8);
  const absl::StatusOr<SimResult> result =
      Simulate(plan, machine, CostsOf(plan, machine, {{"work", Takes(3)}}));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->copies.size(), 1u);
  EXPECT_EQ(result->copies[0].count, 4096);
  EXPECT_EQ(result->tasks, 2);
}

// Devices on a node that is only half used are not like those on a full one: they have the network
// for fewer.
TEST(AlikeTest, NodesWithOtherNeighboursAreAnotherKind) {
  const PlanBundle plan = ReducePlan("tensor", 3, 1);  // 3 devices on nodes of 2
  const absl::StatusOr<Alike> alike = FindAlike(plan, Cluster(2, 2));
  ASSERT_TRUE(alike.ok()) << alike.status();
  ASSERT_EQ(alike->kinds.size(), 2u);
  EXPECT_EQ(alike->kinds[0].count, 2);
  EXPECT_EQ(alike->kinds[0].per_node, 2);
  EXPECT_EQ(alike->kinds[1].count, 1);
  EXPECT_EQ(alike->kinds[1].per_node, 1);
  EXPECT_THAT(alike->nodes, ElementsAre(1, 1));
}

// Each device passes a value on along axis "ring": to +1 and from -1, around or up to the end.
PlanBundle PassPlan(int64_t devices, int hops) {
  Graph graph = GraphFromText(R"(graph "g"
input x : f32[2500]
work: a : f32[2500] = Relu(x)
output a
)");
  ProgramWriter w(graph, "p", "cuda", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 32768);
  const SliceId from = w.AddSlice("a", arena, 0), to = w.AddSlice("a", arena, 16384);
  const StreamId out = w.AddStream("out", StreamKind::kComm);
  const StreamId in = w.AddStream("in", StreamKind::kComm);
  const SegmentId step = w.BeginSegment("step");
  w.Launch(out, "work", {from}, {from});
  w.Schedule(Section::kStep, {{step, 0}});
  Program program = std::move(w).Build();
  for (int hop = 0; hop < hops; ++hop) {
    Peer next{ProgramId(0), {{0, Coordinate(0, 1, 1, devices)}}};
    Peer last{ProgramId(0), {{0, Coordinate(0, 1, devices - 1, devices)}}};
    program.segments[0].instructions.push_back({out, Send{from, next, 0}});
    program.segments[0].instructions.push_back({in, Recv{to, last, 0}});
  }
  program.device_index = Coordinate(0);
  return BundleOf(graph, {program}, 1, StrCat("ring=", devices));
}

// 0.1 us a hop on peer links in both directions at once.
TEST(AlikeTest, ARingOfAlikeDevicesIsOneKindThatMeetsItself) {
  const PlanBundle plan = PassPlan(6, 3);
  const SimResult result = SimulateOrDie(plan, Cluster(1, 6), {{"work", Takes(2)}});
  ASSERT_EQ(result.copies.size(), 1u);
  EXPECT_NEAR(result.time_us, 2.3, 1e-9);
}

// Two nodes of three: only the last of each sends over the network (1 us), only the first receives.
TEST(AlikeTest, ARingOverNodesHasAKindForEachPlaceOfANode) {
  const PlanBundle plan = PassPlan(6, 3);
  const SimResult result = SimulateOrDie(plan, Cluster(2, 3), {{"work", Takes(2)}});
  ASSERT_EQ(result.copies.size(), 3u);
  for (const SimCopies& copies : result.copies) EXPECT_EQ(copies.count, 2);
  EXPECT_NEAR(result.time_us, 2 + 3, 1e-6);
}

// Peers that are written as depending on the microbatch are looked at for each one.
TEST(AlikeTest, PeersThatDependOnTheMicrobatch) {
  PlanBundle plan = PassPlan(4, 1);
  Program& program = plan.programs[0];
  const auto vary = [](Peer& peer) {
    peer.coordinates[0].second.terms.push_back({.variable = kMicrobatchVar, .scale = 0});
  };
  vary(std::get<Send>(program.segments[0].instructions[1].body).to);
  vary(std::get<Recv>(program.segments[0].instructions[2].body).from);
  plan.microbatches = 3;
  program.step = {{SegmentId(0), 0}, {SegmentId(0), 1}, {SegmentId(0), 2}};
  const SimResult result = SimulateOrDie(plan, Cluster(1, 4), {{"work", Takes(2)}});
  EXPECT_EQ(result.copies.size(), 1u);
  EXPECT_NEAR(result.time_us, 3 * 2.1, 1e-9);
}

TEST(AlikeTest, APeerOutsideTheMeshIsAnError) {
  PlanBundle plan = PassPlan(4, 1);
  std::get<Send>(plan.programs[0].segments[0].instructions[1].body).to.coordinates[0].second =
      Coordinate(0, 1, 1);
  EXPECT_THAT(std::string(FindAlike(plan, Cluster(1, 4)).status().message()),
              HasSubstr("on axis 'ring' is 4 of 4"));
}

TEST(AlikeTest, AHugeMeshIsRefused) {
  PlanBundle plan = ReducePlan("data", 1 << 20, 1 << 10);
  EXPECT_EQ(ExitCode(FindAlike(plan, Cluster(1, 1)).status()), 2);
}

}  // namespace
}  // namespace millrace
