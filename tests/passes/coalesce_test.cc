// What shares bytes and what must not: plans of small graphs, each accepted by the checker.
#include "passes/memory/coalesce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graph/check/check.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/emit_plan.h"
#include "tests/passes/typed_graph.h"
#include "tests/plan/program_writer.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A reference kernel for every op.
class PlainTarget : public Target {
 public:
  explicit PlainTarget(int64_t scratch_bytes) : scratch_bytes_(scratch_bytes) {}
  std::string_view device_kind() const override { return "cpu"; }
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override {
    KernelVariant variant;
    variant.name = "reference";
    variant.in_layouts.resize(query.inputs.size(), Layout::kStrided);
    variant.out_layouts.resize(query.outputs.size(), Layout::kStrided);
    variant.scratch_bytes = scratch_bytes_;
    return {variant};
  }

 private:
  int64_t scratch_bytes_;
};

struct Planned {
  PlanBundle plan;

  const Program& program() const { return plan.programs[0]; }
  int64_t bytes() const { return program().buffers[0].size_bytes; }
  // What runs at the top, in order: names of nodes, "copy" for copies.
  std::vector<std::string> Runs() const {
    std::vector<std::string> names;
    for (const Instruction& i : program().segments[0].instructions) {
      if (const auto* launch = std::get_if<Launch>(&i.body)) {
        names.push_back(plan.graph.node(launch->node).name);
      } else {
        names.push_back(std::holds_alternative<Copy>(i.body) ? "copy" : "other");
      }
    }
    return names;
  }
  // Where a value of the top graph first lies.
  int64_t OffsetOf(std::string_view name) const {
    for (const Slice& slice : program().slices) {
      if (slice.value.graph == 0 && slice.value.value.valid() &&
          plan.graph.value(slice.value.value).name == name) {
        return Evaluate(slice.offset_bytes, {});
      }
    }
    ADD_FAILURE() << "no slice of " << name;
    return -1;
  }
};

Planned PlanOf(std::string_view text, int64_t scratch_bytes = 0) {
  Planned planned;
  planned.plan.graph = TypedGraph(text);
  const absl::StatusOr<Program> program =
      EmitProgram(planned.plan.graph, PlainTarget(scratch_bytes), {});
  EXPECT_TRUE(program.ok()) << program.status();
  planned.plan.programs.push_back(*program);
  const CheckReport report = CheckPlan(planned.plan, AllOpTraits(), nullptr);
  EXPECT_TRUE(report.ok()) << FormatReport(report) << "\n" << ToText(planned.plan);
  return planned;
}

TEST(Coalesce, AChainOfInPlaceOpsNeedsOnePlace) {
  const Planned p = PlanOf(R"(
    input x : f32[64]
    a = Relu(x)
    b = Exp(a)
    c = Neg(b)
    output c)");
  EXPECT_EQ(p.bytes(), 256);
  EXPECT_EQ(p.OffsetOf("x"), p.OffsetOf("c"));
}

TEST(Coalesce, AnInputThatIsReadOnIsNotWrittenOver) {
  const Planned p = PlanOf(R"(
    input x : f32[64]
    a = Relu(x)
    b = Add(a, x)
    output b)");
  EXPECT_EQ(p.bytes(), 512);
  EXPECT_NE(p.OffsetOf("x"), p.OffsetOf("a"));
}

// Trap: in-place update read by a sibling.
TEST(Coalesce, ASiblingThatReadsLaterKeepsTheOperand) {
  const Planned p = PlanOf(R"(
    input x : f32[64]
    h = Exp(x)
    a = Relu(h)
    b = Neg(h)
    y = Add(a, b)
    output y)");
  EXPECT_NE(p.OffsetOf("h"), p.OffsetOf("a"));
  EXPECT_EQ(p.OffsetOf("h"), p.OffsetOf("b"));  // the last reader may
}

TEST(Coalesce, BothOperandsTheSame) {
  EXPECT_EQ(PlanOf("input x : f32[64]\ny = Add(x, x)\noutput y").bytes(), 256);
  // MatMul never works in place.
  EXPECT_EQ(PlanOf("input x : f32[8,8]\ny = MatMul(x, x)\noutput y").bytes(), 512);
}

TEST(Coalesce, ABroadcastOperandIsNoPlaceForTheResult) {
  const Planned p = PlanOf(R"(
    input x : f32[64]
    input w : f32[4,64]
    y = Add(x, w)
    output y)");
  EXPECT_EQ(p.OffsetOf("y"), p.OffsetOf("w"));
  EXPECT_EQ(p.bytes(), 1024 + 256);
}

TEST(Coalesce, ReshapesCostNothing) {
  const Planned p = PlanOf(R"(
    input x : f32[8,8]
    const shape : i64[1] = inline [64]
    a = Reshape(x, shape)
    b = Relu(a)
    c = Identity(b)
    output c)");
  EXPECT_THAT(p.Runs(), ElementsAre("b"));
  EXPECT_EQ(p.bytes(), 256);  // nor does the shape, which nobody reads
  EXPECT_THAT(p.program().loads, IsEmpty());
}

// Trap: aliasing through a reshape. x must stay as it is while its view is read.
TEST(Coalesce, AViewKeepsWhatItViews) {
  const Planned p = PlanOf(R"(
    input x : f32[8,8]
    const shape : i64[1] = inline [64]
    view = Reshape(x, shape)
    a = Relu(x)
    b = Exp(a)
    y = Reshape(b, shape)
    z = Add(y, view)
    output z)");
  EXPECT_NE(p.OffsetOf("x"), p.OffsetOf("a"));
  EXPECT_EQ(p.OffsetOf("x"), p.OffsetOf("view"));
  EXPECT_EQ(p.bytes(), 512);
}

// Trap: aliasing through slices.
TEST(Coalesce, PiecesLieInTheWhole) {
  const Planned p = PlanOf(R"(
    input x : f32[4,64]
    a, b = Split(x) {axis = 0}
    const starts : i64[1] = inline [1]
    const ends : i64[1] = inline [2]
    const axes : i64[1] = inline [0]
    c = Slice(b, starts, ends, axes)
    s = Exp(a)
    t = Exp(c)
    output s
    output t
    output x)");
  EXPECT_THAT(p.Runs(), ElementsAre("s", "t"));
  EXPECT_EQ(p.OffsetOf("a"), p.OffsetOf("x"));
  EXPECT_EQ(p.OffsetOf("c"), p.OffsetOf("x") + 768);
  EXPECT_EQ(p.bytes(), 1024 + 512 + 256);
}

TEST(Coalesce, PiecesAcrossRowsAreCopied) {
  const Planned p = PlanOf(R"(
    input x : f32[4,64]
    a, b = Split(x) {axis = 1}
    y = Concat(b, a) {axis = 1}
    output y)");
  EXPECT_THAT(p.Runs(), ElementsAre("a", "y"));
}

TEST(Coalesce, PartsAreMadeInTheWhole) {
  const Planned p = PlanOf(R"(
    input x : f32[1,2,32]
    input z : f32[1,2,32]
    input z_t : f32[1,32,32]
    a = Exp(x)
    b = MatMul(z, z_t)
    y = Concat(a, b) {axis = 1}
    r = Relu(y)
    output r)");
  EXPECT_THAT(p.Runs(), ElementsAre("a", "b", "r"));
  EXPECT_EQ(p.OffsetOf("b"), p.OffsetOf("y") + 256);
}

TEST(Coalesce, OneValueTwiceInAWholeIsCopied) {
  const Planned p = PlanOf(R"(
    input x : f32[64]
    a = Exp(x)
    y = Concat(a, a) {axis = 0}
    output y)");
  EXPECT_THAT(p.Runs(), ElementsAre("a", "y"));
}

// A small piece of something large that lives long would keep all of it.
TEST(Coalesce, AViewThatWouldCostMemoryIsCopied) {
  const Planned p = PlanOf(R"(
    input x : f32[16,64]
    const starts : i64[1] = inline [0]
    const ends : i64[1] = inline [1]
    h = Exp(x)
    row = Slice(h, starts, ends)
    w = Transpose(h)
    v = Transpose(w)
    u = Transpose(v)
    s = ReduceSum(u) {keepdims = 0}
    y = Add(row, s)
    output y)");
  EXPECT_THAT(p.Runs(), ::testing::Contains("row"));
}

// Trap: a value that is both an output and an input.
TEST(Coalesce, AnOutputThatIsAnInputStays) {
  const Planned p = PlanOf(R"(
    input x : f32[64]
    y = Relu(x)
    z = Identity(x)
    output x
    output y
    output z)");
  EXPECT_NE(p.OffsetOf("x"), p.OffsetOf("y"));
  EXPECT_EQ(p.OffsetOf("x"), p.OffsetOf("z"));
  EXPECT_EQ(p.bytes(), 512);
}

// Trap: an output without consumers.
TEST(Coalesce, AnUnreadResultHasBytesWhileItIsWritten) {
  const Planned p = PlanOf(R"(
    input x : f32[2,64]
    h = Exp(x)
    a, b = Split(h) {axis = 1}
    y = Neg(b)
    output y)");
  EXPECT_NE(p.OffsetOf("a"), p.OffsetOf("b"));
}

// Trap: zero-sized values.
TEST(Coalesce, NothingNeedsNoBytes) {
  const Planned p = PlanOf(R"(
    input x : f32[0,64]
    input z : f32[64]
    const sizes : i64[2] = inline [0, 64]
    a = Relu(x)
    b, c = Split(z, sizes) {axis = 0}
    d = Concat(b, c) {axis = 0}
    output a
    output b
    output d)");
  EXPECT_EQ(p.bytes(), 256);
}

// Trap: scratch is shared, and never with an operand.
TEST(Coalesce, ScratchLivesDuringItsInstruction) {
  const Planned p = PlanOf(R"(
    input x : f32[64]
    a = Exp(x)
    b = Neg(a)
    y = Exp(b)
    output y)",
                           /*scratch_bytes=*/1000);
  EXPECT_EQ(p.bytes(), 256 + 1024);
}

TEST(Coalesce, AnUpdateIsWrittenIntoItsParam) {
  const Planned p = PlanOf(R"(
    input g : f32[64]
    param w : f32[64] = init zeros
    h = Relu(w)
    y = Neg(h)
    u = Sub(w, g)
    update w <- u
    output y)");
  EXPECT_THAT(p.Runs(), ElementsAre("h", "y", "u"));
  EXPECT_EQ(p.OffsetOf("u"), p.OffsetOf("w"));
}

// Trap: the old version is read after the new one is made.
TEST(Coalesce, AnUpdateWaitsForReadersOfTheOldVersion) {
  const Planned p = PlanOf(R"(
    input g : f32[64]
    param w : f32[64] = init zeros
    u = Sub(w, g)
    y = Mul(w, w)
    update w <- u
    output y)");
  EXPECT_THAT(p.Runs(), ElementsAre("u", "y", "copy"));
}

TEST(Coalesce, AViewOfAParamThatChangesIsCopiedIfItIsReadAfterwards) {
  const Planned p = PlanOf(R"(
    input g : f32[8,8]
    param w : f32[8,8] = init zeros
    const shape : i64[1] = inline [64]
    old = Reshape(w, shape)
    u = Add(w, g)
    update w <- u
    output old)");
  EXPECT_NE(p.OffsetOf("old"), p.OffsetOf("w"));
}

TEST(Coalesce, ALoopNeedsNoCopies) {
  const Planned p = PlanOf(R"(
    input x : f32[64]
    const m : i64[] = splat 3
    z = Loop(m, _, x) graph body {
      input n : i64[]
      input c : bool[]
      input v : f32[64]
      a = Exp(v)
      t = Add(a, v)
      output c
      output t
    }
    output z)");
  for (const Segment& segment : p.program().segments) {
    for (const Instruction& i : segment.instructions) {
      EXPECT_FALSE(std::holds_alternative<Copy>(i.body)) << segment.name;
    }
  }
}

// s: h = exp(x), record; t: wait, a = relu(h); s: b = neg(h), which may run before a. The
// allocations they come to lie in.
std::map<std::string, int32_t> OnTwoStreams() {
  const Graph graph = TypedGraph(R"(
    input x : f32[64]
    h = Exp(x)
    a = Relu(h)
    b = Neg(h)
    output a
    output b)");
  ProgramWriter w(graph, "main", "cuda", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 4096);
  std::map<std::string, SliceId> slices;
  for (const char* name : {"x", "h", "a", "b"}) slices[name] = w.AddSlice(name, arena, 0);
  const StreamId s = w.AddStream("s", StreamKind::kCompute),
                 t = w.AddStream("t", StreamKind::kCompute);
  const EventId made = w.AddEvent("made");
  w.Inputs({slices["x"]});
  w.Outputs({slices["a"], slices["b"]});
  w.Schedule(Section::kStep, {{w.BeginSegment("step"), 0}});
  w.Launch(s, "h", {slices["x"]}, {slices["h"]});
  w.Record(s, made);
  w.Wait(t, made);
  w.Launch(t, "a", {slices["h"]}, {slices["a"]});
  w.Launch(s, "b", {slices["h"]}, {slices["b"]});
  Program program = std::move(w).Build();
  std::vector<Allocation> allocations(4, {arena, 256});
  std::vector<SlicePlace> places;
  for (int32_t i = 0; i < 4; ++i) places.push_back({i, 0});
  Coalesce(FlattenGraphs(graph), program, allocations, places);
  std::map<std::string, int32_t> result;
  for (const auto& [name, slice] : slices) result[name] = places[slice.index].allocation;
  return result;
}

// Trap: in-place update read by a sibling on another stream.
TEST(Coalesce, ASiblingOnAnotherStreamKeepsTheOperand) {
  std::map<std::string, int32_t> places = OnTwoStreams();
  EXPECT_EQ(places["h"], places["x"]);
  EXPECT_NE(places["a"], places["h"]);
  EXPECT_NE(places["b"], places["h"]);
}

}  // namespace
}  // namespace millrace
