#include "runtime/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/executor.h"
#include "tests/plan/program_writer.h"
#include "tests/runtime/test_machine.h"

namespace millrace {
namespace {

using nlohmann::json;

// Stage 0 computes on "main" and sends on "comm"; stage 1 receives and computes.
PlanBundle PipelinePlan() {
  Graph graph = GraphOf(R"(graph "pipeline"
input x : f32[1]
first: y : f32[1] = Scale(x)
second: z : f32[1] = Scale(y)
output z
)");
  std::vector<Program> programs;
  for (int device = 0; device < 2; ++device) {
    ProgramWriter w(graph, device == 0 ? "stage0" : "stage1", "cpu", device);
    const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
    const SliceId x = w.AddSlice("x", arena, 0), y = w.AddSlice("y", arena, 64);
    const SliceId z = w.AddSlice("z", arena, 128);
    const StreamId main = w.AddStream("main", StreamKind::kCompute);
    const StreamId comm = w.AddStream("comm", StreamKind::kComm);
    const EventId ready = w.AddEvent("ready"), sent = w.AddEvent("sent");
    const SegmentId step = w.BeginSegment("step");
    if (device == 0) {
      w.Launch(main, "first", {x}, {y});
      w.Record(main, ready);
      w.Wait(comm, ready);
      w.Send(comm, y, ProgramId(1), 0);
      w.Record(comm, sent);
      w.Wait(main, sent);
    } else {
      w.Recv(main, y, ProgramId(0), 0);
      w.Launch(main, "second", {y}, {z});
    }
    w.Schedule(Section::kStep, {{step, 0}, {step, 1}});
    programs.push_back(std::move(w).Build());
  }
  return PlanOf(graph, std::move(programs), 2);
}

class TraceTest : public testing::Test {
 protected:
  void Run(int steps) {
    auto executor = Executor::Prepare(
        plan_, machine_.devices, {.communicator = machine_.communicator.get(), .tracer = &tracer_});
    ASSERT_TRUE(executor.ok()) << executor.status();
    for (int i = 0; i < steps; ++i) ASSERT_TRUE((*executor)->Run(Section::kStep).ok());
  }

  TestMachine machine_{2};
  Tracer tracer_;
  const PlanBundle plan_ = PipelinePlan();
};

TEST_F(TraceTest, EachLaneHasItsInstructionsInOrder) {
  Run(3);

  ASSERT_EQ(tracer_.lanes().size(), 3u);
  const TraceLane& main = *tracer_.lanes()[0];
  EXPECT_EQ(main.device, "cpu:0");
  EXPECT_EQ(main.stream, "main");
  ASSERT_EQ(main.spans.size(), 3u * 2 * 3);
  EXPECT_EQ(InstructionKindName(main.spans[0].instruction->body), "Launch");
  EXPECT_EQ(InstructionKindName(main.spans[1].instruction->body), "Record");
  EXPECT_EQ(InstructionKindName(main.spans[2].instruction->body), "Wait");
  EXPECT_EQ(main.spans[2].microbatch, 0);
  EXPECT_EQ(main.spans[3].microbatch, 1);
  for (const auto& lane : tracer_.lanes()) {
    for (size_t i = 0; i < lane->spans.size(); ++i) {
      EXPECT_LE(lane->spans[i].begin_ns, lane->spans[i].end_ns);
      if (i == 0) continue;
      EXPECT_LE(lane->spans[i - 1].end_ns, lane->spans[i].begin_ns);
    }
  }
  tracer_.Clear();
  EXPECT_TRUE(main.spans.empty());
}

TEST_F(TraceTest, TheJsonHasEveryInstructionAndEveryArrow) {
  Run(3);

  const json trace = json::parse(TraceToJson(tracer_, plan_));

  std::map<std::string, int> phases, names;
  std::map<int, json> starts, ends;
  std::vector<std::string> processes;
  for (const json& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    ++phases[phase];
    if (phase == "X") {
      ++names[event["name"]];
      EXPECT_GE(event["ts"].get<double>(), 0);
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
    if (phase == "M" && event["name"] == "process_name") processes.push_back(event["args"]["name"]);
    if (phase == "s") starts[event["id"]] = event;
    if (phase == "f") ends[event["id"]] = event;
  }
  EXPECT_THAT(processes, testing::ElementsAre("cpu:0", "cpu:1"));
  EXPECT_EQ(phases["X"], 3 * 2 * 8);
  EXPECT_EQ(names["first"], 6);
  EXPECT_EQ(names["second"], 6);
  EXPECT_EQ(names["Send"], 6);
  // Two events and one transfer for each microbatch of each step.
  ASSERT_EQ(starts.size(), 3u * 2 * 3);
  ASSERT_EQ(ends.size(), starts.size());
  int transfers = 0;
  for (const auto& [id, start] : starts) {
    const json& end = ends.at(id);
    EXPECT_LE(start["ts"].get<double>(), end["ts"].get<double>());
    EXPECT_NE(start["tid"], end["tid"]);
    EXPECT_EQ(end["bp"], "e");
    if (start["name"] != "transfer") continue;
    ++transfers;
    EXPECT_NE(start["pid"], end["pid"]);
  }
  EXPECT_EQ(transfers, 6);
}

TEST_F(TraceTest, TimesAddUpByNode) {
  TraceLane& lane = tracer_.AddLane("cpu:0", "main", 0);
  const std::vector<Instruction>& step = plan_.programs[0].segments[0].instructions;
  lane.spans = {{&step[0], 0, 1000, 3000}, {&step[1], 0, 3000, 9000}, {&step[0], 1, 9000, 9500}};
  const std::vector<Instruction>& other = plan_.programs[1].segments[0].instructions;
  tracer_.AddLane("cpu:1", "main", 1).spans = {{&other[1], 0, 0, 4000}};

  const std::vector<NodeTime> times = TimeByNode(tracer_);

  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(plan_.graph.node(times[0].node).name, "second");
  EXPECT_DOUBLE_EQ(times[0].total_us, 4);
  EXPECT_EQ(plan_.graph.node(times[1].node).name, "first");
  EXPECT_DOUBLE_EQ(times[1].total_us, 2.5);
  EXPECT_EQ(times[1].runs, 2);
}

}  // namespace
}  // namespace millrace
