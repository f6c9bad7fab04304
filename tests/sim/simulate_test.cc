// The simulator against timelines worked out by hand.
#include "runtime/sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "tests/plan/program_writer.h"
#include "tests/sim/sim_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// 10,000 bytes: 1 us over the host link or network, 0.1 us over a peer link.
constexpr char kNodes[] = R"(graph "g"
input x : f32[2500]
a : f32[2500] = Relu(x)
b : f32[2500] = Relu(a)
c : f32[2500] = Relu(b)
output c
)";

// One program of streams "main" and "side", whose values all lie in one place: the simulator does
// not look at bytes.
class TwoStreams {
 public:
  explicit TwoStreams(const std::string& kind = "cuda")
      : graph(GraphFromText(kNodes)), w(graph, "p", kind, 0) {
    const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 16384);
    const BufferId host = w.AddBuffer("host", MemorySpace::kHost, 16384);
    value = w.AddSlice("x", arena, 0);
    on_host = w.AddSlice("x", host, 0);
    main = w.AddStream("main", StreamKind::kCompute);
    side = w.AddStream("side", StreamKind::kCompute);
    ready = w.AddEvent("ready");
    step = w.BeginSegment("step");
  }
  void Launch(StreamId stream, const char* node) { w.Launch(stream, node, {value}, {value}); }
  PlanBundle Build(int times = 1) {
    w.Schedule(Section::kStep, std::vector<ScheduleItem>(times, {step, 0}));
    return BundleOf(graph, {std::move(w).Build()});
  }

  Graph graph;
  ProgramWriter w;
  SliceId value, on_host;
  StreamId main, side;
  EventId ready;
  SegmentId step;
};

TEST(SimulateTest, AWaitHoldsItsStreamUntilTheRecord) {
  TwoStreams p;
  p.Launch(p.main, "a");
  p.w.Record(p.main, p.ready);
  p.Launch(p.main, "b");
  p.w.Wait(p.side, p.ready);
  p.Launch(p.side, "c");
  const PlanBundle plan = p.Build();
  const SimResult result =
      SimulateOrDie(plan, Cluster(1, 1), {{"a", Takes(10)}, {"b", Takes(20)}, {"c", Takes(5)}});
  EXPECT_EQ(Timeline(plan, result, 0, "main"), "a 0 10, b 10 30");
  EXPECT_EQ(Timeline(plan, result, 0, "side"), "Wait 10 10, c 10 15");
  EXPECT_EQ(result.time_us, 30);
}

// A Wait is for the last Record before it: in the second round that of the second round.
TEST(SimulateTest, EventsAreForTheirOwnRound) {
  TwoStreams p;
  p.Launch(p.main, "a");
  p.w.Record(p.main, p.ready);
  p.w.Wait(p.side, p.ready);
  p.Launch(p.side, "b");
  const PlanBundle plan = p.Build(/*times=*/2);
  const SimResult result = SimulateOrDie(plan, Cluster(1, 1), {{"a", Takes(10)}, {"b", Takes(3)}});
  EXPECT_EQ(Timeline(plan, result, 0, "side"), "Wait 10 10, b 10 13, Wait 20 20, b 20 23");
}

// Two kernels that each want 3/4 of the memory's bandwidth run at 1 / 1.5 side by side: the first
// 10 us become 15, and the other one has 10 of its 30 left then.
TEST(SimulateTest, StreamsShareMemoryBandwidth) {
  TwoStreams p;
  p.Launch(p.main, "a");
  p.Launch(p.side, "b");
  const PlanBundle plan = p.Build();
  const SimResult result = SimulateOrDie(
      plan, Cluster(1, 1),
      {{"a", Takes(10, Resource::kMemory, 0.75f)}, {"b", Takes(20, Resource::kMemory, 0.75f)}});
  EXPECT_EQ(Timeline(plan, result, 0, "main"), "a 0 15");
  EXPECT_EQ(Timeline(plan, result, 0, "side"), "b 0 25");
  ASSERT_EQ(result.resources.size(), 1u);
  EXPECT_EQ(result.resources[0].resource, Resource::kMemory);
  EXPECT_EQ(result.resources[0].owner, "cuda:0");
  EXPECT_NEAR(result.resources[0].busy, 0.75 * 30 / 25, 1e-9);
}

// 10,000 bytes take 1 us over the host link. One engine does both copies at half speed each.
TEST(SimulateTest, CopiesShareTheCopyEngineAndNotTheKernels) {
  for (const int engines : {1, 2}) {
    SCOPED_TRACE(engines);
    TwoStreams p;
    const StreamId copy = p.w.AddStream("copy", StreamKind::kCopy);
    p.Launch(p.main, "a");
    p.w.Copy(p.side, p.value, p.on_host);
    p.w.Copy(copy, p.on_host, p.value);
    const PlanBundle plan = p.Build();
    MachineSpec machine = Cluster(1, 1);
    machine.devices[0].copy_engines = engines;
    const SimResult result = SimulateOrDie(plan, machine, {{"a", Takes(10)}});
    EXPECT_EQ(Timeline(plan, result, 0, "main"), "a 0 10");
    EXPECT_EQ(Timeline(plan, result, 0, "side"), engines == 1 ? "Copy 0 2" : "Copy 0 1");
    EXPECT_EQ(Timeline(plan, result, 0, "copy"), engines == 1 ? "Copy 0 2" : "Copy 0 1");
  }
}

// Both directions of a half duplex link are one resource.
TEST(SimulateTest, AHalfDuplexLinkIsShared) {
  TwoStreams p;
  p.w.Copy(p.main, p.value, p.on_host);
  p.w.Copy(p.side, p.on_host, p.value);
  const PlanBundle plan = p.Build();
  MachineSpec machine = Cluster(1, 1);
  machine.devices[0].copy_engines = 2;
  machine.nodes[0].host_link.full_duplex = false;
  EXPECT_EQ(SimulateOrDie(plan, machine, {}).time_us, 2);
}

// --- Launching ----------------------------------------------------------------------------------

// The host issues one kernel every 5 us. Short kernels wait for it; long ones hide it but once.
TEST(SimulateTest, TheHostIssuesForAnAsynchronousDevice) {
  for (const double kernel_us : {2.0, 20.0}) {
    TwoStreams p;
    for (const char* node : {"a", "b", "c"}) p.Launch(p.main, node);
    const PlanBundle plan = p.Build();
    const SimResult result =
        SimulateOrDie(plan, Cluster(1, 1, "cuda", 5),
                      {{"a", Takes(kernel_us)}, {"b", Takes(kernel_us)}, {"c", Takes(kernel_us)}});
    EXPECT_EQ(Timeline(plan, result, 0, "main"),
              kernel_us == 2 ? "a 5 7, b 10 12, c 15 17" : "a 5 25, b 25 45, c 45 65");
    EXPECT_TRUE(result.critical_path.front().launching);
  }
}

// One host thread issues for both streams: a second stream does not make launches faster.
TEST(SimulateTest, StreamsOfOneDeviceShareTheHostThread) {
  TwoStreams p;
  p.Launch(p.main, "a");
  p.Launch(p.side, "b");
  const PlanBundle plan = p.Build();
  const SimResult result =
      SimulateOrDie(plan, Cluster(1, 1, "cuda", 5), {{"a", Takes(1)}, {"b", Takes(1)}});
  EXPECT_EQ(Timeline(plan, result, 0, "side"), "b 10 11");
}

TEST(SimulateTest, ACpuStreamIssuesForItself) {
  TwoStreams p("cpu");
  p.Launch(p.main, "a");
  p.Launch(p.main, "b");
  p.Launch(p.side, "c");
  const PlanBundle plan = p.Build();
  const SimResult result = SimulateOrDie(plan, Cluster(1, 1, "cpu", 5),
                                         {{"a", Takes(2)}, {"b", Takes(2)}, {"c", Takes(2)}});
  EXPECT_EQ(Timeline(plan, result, 0, "main"), "a 0 7, b 7 14");
  EXPECT_EQ(Timeline(plan, result, 0, "side"), "c 0 7");
}

// --- Transfers ----------------------------------------------------------------------------------

// A first device computes for `first_us` and sends; a second one for `second_us` and receives.
PlanBundle SendPlan(int64_t second_device) {
  Graph graph = GraphFromText(kNodes);
  std::vector<Program> programs;
  for (const int64_t device : {int64_t{0}, second_device}) {
    ProgramWriter w(graph, StrCat("on", device), "cuda", device);
    const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 16384);
    const SliceId value = w.AddSlice("x", arena, 0);
    const StreamId main = w.AddStream("main", StreamKind::kCompute);
    const SegmentId step = w.BeginSegment("step");
    w.Launch(main, device == 0 ? "a" : "b", {value}, {value});
    if (device == 0) {
      w.Send(main, value, ProgramId(1), 0);
    } else {
      w.Recv(main, value, ProgramId(0), 0);
    }
    w.Launch(main, "c", {value}, {value});
    w.Schedule(Section::kStep, {{step, 0}});
    programs.push_back(std::move(w).Build());
  }
  return BundleOf(graph, std::move(programs));
}

// 10,000 bytes: 0.1 us to a peer, 1 us over the network. Who comes first waits.
TEST(SimulateTest, BothEndsOfATransferMeet) {
  for (const bool network : {false, true}) {
    const PlanBundle plan = SendPlan(1);
    const SimResult result = SimulateOrDie(plan, network ? Cluster(2, 1) : Cluster(1, 2),
                                           {{"a", Takes(2)}, {"b", Takes(10)}, {"c", Takes(1)}});
    const std::string end = network ? "11, c 11 12" : "10.1, c 10.1 11.1";
    EXPECT_EQ(Timeline(plan, result, 0, "main"), "a 0 2, Send 10 " + end);
    EXPECT_EQ(Timeline(plan, result, 1, "main"), "b 0 10, Recv 10 " + end);
  }
}

// --- Pipelines ----------------------------------------------------------------------------------

// `stages` programs, one a device. Each has a stream for its kernels and one for each thing it
// sends or receives; `schedule(stage)` gives (forward?, microbatch) in order.
template <typename Schedule>
PlanBundle Pipeline(int stages, int microbatches, Schedule schedule) {
  const Graph graph = GraphFromText(kNodes);
  std::vector<Program> programs;
  for (int stage = 0; stage < stages; ++stage) {
    ProgramWriter w(graph, StrCat("stage", stage), "cuda", stage);
    const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 16384);
    const SliceId value = w.AddSlice("x", arena, 0);
    const StreamId main = w.AddStream("main", StreamKind::kCompute);
    const auto pass = [&](const char* name, const char* node, int from, int to, int channel) {
      const SegmentId segment = w.BeginSegment(name);
      if (from >= 0 && from < stages) {
        const StreamId in = w.AddStream(StrCat(name, "_in"), StreamKind::kComm);
        const EventId here = w.AddEvent(StrCat(name, "_here"));
        w.Recv(in, value, ProgramId(from), channel);
        w.Record(in, here);
        w.Wait(main, here);
      }
      w.Launch(main, node, {value}, {value});
      if (to >= 0 && to < stages) {
        const StreamId out = w.AddStream(StrCat(name, "_out"), StreamKind::kComm);
        const EventId done = w.AddEvent(StrCat(name, "_done"));
        w.Record(main, done);
        w.Wait(out, done);
        w.Send(out, value, ProgramId(to), channel);
      }
      return segment;
    };
    const SegmentId forward = pass("forward", "a", stage - 1, stage + 1, 0);
    const SegmentId backward = pass("backward", "b", stage + 1, stage - 1, 1);
    std::vector<ScheduleItem> items;
    for (const auto& [is_forward, microbatch] : schedule(stage)) {
      items.push_back({is_forward ? forward : backward, microbatch});
    }
    w.Schedule(Section::kStep, items);
    programs.push_back(std::move(w).Build());
  }
  return BundleOf(graph, std::move(programs), microbatches);
}

using Passes = std::vector<std::pair<bool, int>>;

Passes GPipe(int microbatches) {
  Passes passes;
  for (int i = 0; i < microbatches; ++i) passes.push_back({true, i});
  for (int i = 0; i < microbatches; ++i) passes.push_back({false, i});
  return passes;
}

// One forward, one backward, after as many forwards as there are stages behind.
Passes OneForwardOneBackward(int stages, int microbatches, int stage) {
  Passes passes;
  const int ahead = std::min(stages - 1 - stage, microbatches);
  for (int i = 0; i < ahead; ++i) passes.push_back({true, i});
  for (int i = ahead; i < microbatches; ++i) {
    passes.push_back({true, i});
    passes.push_back({false, i - ahead});
  }
  for (int i = microbatches - ahead; i < microbatches; ++i) passes.push_back({false, i});
  return passes;
}

// The bubble: idle time over busy time, (p - 1) / m for p stages and m microbatches (Huang et al.
// 2019, "GPipe"; Narayanan et al. 2021, "Efficient large-scale language model training").
TEST(SimulateTest, PipelinesHaveTheirBubbles) {
  MachineSpec machine = Cluster(1, 8);
  machine.nodes[0].peer_link.bandwidth = 1e18;
  const NodeCosts costs = {{"a", Takes(10)}, {"b", Takes(20)}};
  for (const int stages : {1, 2, 4, 8}) {
    for (const int microbatches : {8, 32}) {
      for (const bool one_by_one : {false, true}) {
        const PlanBundle plan = Pipeline(stages, microbatches, [&](int stage) {
          return one_by_one ? OneForwardOneBackward(stages, microbatches, stage)
                            : GPipe(microbatches);
        });
        const SimResult result = SimulateOrDie(plan, machine, costs);
        ASSERT_EQ(result.copies.size(), static_cast<size_t>(stages));
        for (const SimCopies& stage : result.copies) {
          EXPECT_NEAR(stage.kernel_us, 30 * microbatches, 1e-6);
          EXPECT_NEAR((result.time_us - stage.kernel_us) / stage.kernel_us,
                      (stages - 1.0) / microbatches, 1e-6);
        }
      }
    }
  }
}

// --- Critical path ------------------------------------------------------------------------------

TEST(SimulateTest, TheCriticalPathHasNoGapsAndNamesLimits) {
  TwoStreams p;
  p.Launch(p.side, "a");
  p.w.Record(p.side, p.ready);
  p.Launch(p.main, "b");
  p.w.Wait(p.main, p.ready);
  p.w.Copy(p.main, p.value, p.on_host);
  const PlanBundle plan = p.Build();
  const SimResult result = SimulateOrDie(
      plan, Cluster(1, 1), {{"a", Takes(10, Resource::kCompute, 1)}, {"b", Takes(4)}});
  ASSERT_EQ(result.critical_path.size(), 2u);
  EXPECT_EQ(result.critical_path[0].begin_us, 0);
  EXPECT_EQ(result.critical_path[0].end_us, 10);
  EXPECT_EQ(result.critical_path[0].limit, Resource::kCompute);
  EXPECT_EQ(result.critical_path[1].begin_us, 10);
  EXPECT_EQ(result.critical_path[1].end_us, 11);
  EXPECT_EQ(result.critical_path[1].limit, Resource::kToHost);
}

// A kernel that others on the memory slow down by half or more is limited by it.
TEST(SimulateTest, ContentionIsALimit) {
  TwoStreams p;
  p.Launch(p.main, "a");
  p.Launch(p.side, "b");
  TaskCost a = Takes(10, Resource::kMemory, 1);
  a.limit = Resource::kCompute;
  const SimResult result =
      SimulateOrDie(p.Build(), Cluster(1, 1), {{"a", a}, {"b", Takes(10, Resource::kMemory, 1)}});
  ASSERT_EQ(result.critical_path.size(), 1u);
  EXPECT_EQ(result.time_us, 20);
  EXPECT_EQ(result.critical_path[0].limit, Resource::kMemory);
}

// --- What is refused, and what comes out --------------------------------------------------------

absl::Status ErrorOf(const PlanBundle& plan, const MachineSpec& machine) {
  return Simulate(plan, machine, CostsOf(plan, machine, {})).status();
}

TEST(SimulateTest, AMissingDeviceIsNamed) {
  const absl::Status status = ErrorOf(SendPlan(7), Cluster(1, 2));
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no device cuda:7"));
}

TEST(SimulateTest, ADeadlockIsAnErrorThatNamesAnInstruction) {
  TwoStreams p;
  const EventId other = p.w.AddEvent("other");
  p.w.Wait(p.main, p.ready);
  p.w.Record(p.main, other);
  p.w.Wait(p.side, other);
  p.w.Record(p.side, p.ready);
  PlanBundle plan = p.Build();
  EXPECT_THAT(std::string(ErrorOf(plan, Cluster(1, 1)).message()),
              HasSubstr("a Wait before any Record"));
  PlanBundle unpaired = SendPlan(1);
  unpaired.programs[1].segments[0].instructions.pop_back();
  unpaired.programs[1].segments[0].instructions.pop_back();
  EXPECT_THAT(std::string(ErrorOf(unpaired, Cluster(1, 2)).message()), HasSubstr("no other end"));
}

TEST(SimulateTest, AnEmptySectionTakesNoTime) {
  TwoStreams p;
  const PlanBundle plan = p.Build();
  const MachineSpec machine = Cluster(1, 1);
  const absl::StatusOr<SimResult> result =
      Simulate(plan, machine, CostsOf(plan, machine, {}), {.section = Section::kInit});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->time_us, 0);
  EXPECT_TRUE(result->critical_path.empty());
}

TEST(SimulateTest, TheTraceHasEverySpanOfThePlayedCopies) {
  const PlanBundle plan = SendPlan(1);
  const SimResult result = SimulateOrDie(plan, Cluster(1, 2), {{"a", Takes(2)}, {"b", Takes(10)}});
  Tracer tracer;
  AddToTrace(result, plan, tracer);
  ASSERT_EQ(tracer.lanes().size(), 2u);
  EXPECT_EQ(tracer.lanes()[0]->device, "cuda:0");
  ASSERT_EQ(tracer.lanes()[0]->spans.size(), 3u);
  // The Send takes the stream's time while it waits.
  EXPECT_EQ(tracer.lanes()[0]->spans[1].begin_ns, 2000);
  EXPECT_EQ(tracer.lanes()[0]->spans[1].end_ns, 10100);
  const std::string json = TraceToJson(tracer, plan);
  EXPECT_THAT(json, HasSubstr("\"name\":\"a\""));
  EXPECT_THAT(json, HasSubstr("transfer"));
}

}  // namespace
}  // namespace millrace
