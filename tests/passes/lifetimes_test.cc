#include "passes/memory/lifetimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "graph/text.h"
#include "ops/infer.h"
#include "tests/plan/program_writer.h"

namespace millrace {
namespace {

// A program whose copies between slices say all there is to say; each slice is its own owner.
class Writer {
 public:
  explicit Writer(std::string_view text = "input x : f32[4]\ny = Relu(x)\noutput y")
      : graph_(Parse(text)), writer_(graph_, "main", "cuda", 0) {
    arena_ = writer_.AddBuffer("arena", MemorySpace::kDevice, 1 << 20);
    segment_ = writer_.BeginSegment("step");
  }

  SliceId Slice(std::string_view value = "x", int32_t graph = 0) {
    return writer_.AddSlice(value, arena_, 0, {}, graph);
  }
  StreamId Stream(std::string_view name) { return writer_.AddStream(name, StreamKind::kCompute); }
  ProgramWriter& operator*() { return writer_; }
  ProgramWriter* operator->() { return &writer_; }
  SegmentId segment() const { return segment_; }

  // Whether the owners (slices) may share bytes, either one first.
  std::vector<Lifetime> Lifetimes() && {
    writer_.Schedule(Section::kStep, {{segment_, 0}});
    const Program program = std::move(writer_).Build();
    const AccessLog log = LogAccesses(program, FlattenGraphs(graph_));
    last_ = log.num_moments();
    std::vector<int32_t> owners;
    for (size_t s = 0; s < program.slices.size(); ++s) owners.push_back(static_cast<int32_t>(s));
    return LifetimesOf(program, log, owners, static_cast<int32_t>(owners.size()));
  }
  int32_t last() const { return last_; }

 private:
  static Graph Parse(std::string_view text) {
    absl::StatusOr<Graph> graph = ParseGraphText(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(InferTypes(*graph).ok());
    return *std::move(graph);
  }

  Graph graph_;
  ProgramWriter writer_;
  BufferId arena_;
  SegmentId segment_;
  int32_t last_ = 0;
};

bool MayShare(const Lifetime& a, const Lifetime& b) {
  return a.upper <= b.lower || b.upper <= a.lower;
}

TEST(Lifetimes, EndAfterTheLastReader) {
  Writer w;
  const StreamId s = w.Stream("s");
  const SliceId a = w.Slice(), b = w.Slice(), c = w.Slice(), d = w.Slice();
  w->Copy(s, a, b);
  w->Copy(s, b, c);
  w->Copy(s, c, d);
  const auto lives = std::move(w).Lifetimes();
  EXPECT_TRUE(MayShare(lives[a.index], lives[c.index]));
  EXPECT_TRUE(MayShare(lives[b.index], lives[d.index]));
  EXPECT_FALSE(MayShare(lives[a.index], lives[b.index]));  // one reads while the other is written
  EXPECT_FALSE(MayShare(lives[b.index], lives[c.index]));
}

TEST(Lifetimes, LoadsLiveAlwaysInputsUntilReadOutputsUntilTheEnd) {
  Writer w;
  const StreamId s = w.Stream("s");
  const SliceId load = w.Slice(), input = w.Slice(), t = w.Slice(), output = w.Slice();
  w->Loads({load});
  w->Inputs({input});
  w->Outputs({output});
  w->Copy(s, input, t);
  w->Copy(s, t, output);
  const SliceId later = w.Slice();
  w->Copy(s, load, later);
  const auto lives = std::move(w).Lifetimes();
  EXPECT_EQ(lives[load.index], (Lifetime{0, w.last()}));
  EXPECT_TRUE(MayShare(lives[input.index], lives[output.index]));
  EXPECT_TRUE(MayShare(lives[t.index], lives[later.index]));
  EXPECT_FALSE(MayShare(lives[output.index], lives[later.index]));
}

TEST(Lifetimes, AnUnreadResultLivesWhileItIsWritten) {
  Writer w;
  const StreamId s = w.Stream("s");
  const SliceId a = w.Slice(), unread = w.Slice(), other = w.Slice(), never = w.Slice();
  w->Copy(s, a, unread);
  w->Copy(s, a, other);
  const auto lives = std::move(w).Lifetimes();
  EXPECT_FALSE(MayShare(lives[a.index], lives[unread.index]));
  EXPECT_TRUE(MayShare(lives[unread.index], lives[other.index]));
  EXPECT_EQ(lives[never.index].lower, lives[never.index].upper);
}

// s: a -> b, record; t: (wait), b -> c; s: d -> e. Is b free when e is written?
std::vector<Lifetime> TwoStreams(bool t_is_waited_for, SliceId& b, SliceId& e) {
  Writer w;
  const StreamId s = w.Stream("s"), t = w.Stream("t");
  const EventId made = w->AddEvent("made"), used = w->AddEvent("used");
  const SliceId a = w.Slice(), c = w.Slice(), d = w.Slice();
  b = w.Slice();
  e = w.Slice();
  w->Copy(s, a, b);
  w->Record(s, made);
  w->Wait(t, made);
  w->Copy(t, b, c);
  w->Record(t, used);
  if (t_is_waited_for) w->Wait(s, used);
  w->Copy(s, d, e);
  return std::move(w).Lifetimes();
}

TEST(Lifetimes, IssueOrderIsNoReasonToShareBetweenStreams) {
  SliceId b, e;
  std::vector<Lifetime> lives = TwoStreams(/*t_is_waited_for=*/false, b, e);
  EXPECT_FALSE(MayShare(lives[b.index], lives[e.index]));
  lives = TwoStreams(/*t_is_waited_for=*/true, b, e);
  EXPECT_TRUE(MayShare(lives[b.index], lives[e.index]));
}

TEST(Lifetimes, ScratchOfTwoStreamsLiesApart) {
  Writer w;
  const StreamId s = w.Stream("s"), t = w.Stream("t");
  const BufferId arena(0);
  const SliceId x = w.Slice(), y1 = w.Slice("y"), y2 = w.Slice("y"), y3 = w.Slice("y");
  const SliceId one = w->AddScratch(arena, 0, 64), two = w->AddScratch(arena, 0, 64),
                three = w->AddScratch(arena, 0, 64);
  w->Launch(s, "y", {x}, {y1}, one);
  w->Launch(t, "y", {x}, {y2}, two);
  w->Launch(s, "y", {x}, {y3}, three);
  const auto lives = std::move(w).Lifetimes();
  EXPECT_FALSE(MayShare(lives[one.index], lives[two.index]));
  EXPECT_FALSE(MayShare(lives[two.index], lives[three.index]));
}

constexpr char kLoop[] = R"(
  input x : f32[4]
  input w : f32[4]
  const m : i64[] = splat 3
  z = Loop(m, _, x, w) {num_captures = 1} graph body {
    input n : i64[]
    input c : bool[]
    input v : f32[4]
    input k : f32[4]
    p = Add(v, k)
    q = Relu(p)
    t = Add(q, q)
    output c
    output t
  }
  y = Relu(z)
  output y)";

TEST(Lifetimes, WhatATripReadsLivesThroughAllTrips) {
  Writer w(kLoop);
  const StreamId s = w.Stream("s");
  const SliceId x = w.Slice("x"), captured = w.Slice("w"), m = w.Slice("m"), z = w.Slice("z"),
                place = w.Slice("x"), y = w.Slice("y");
  const SliceId v = w.Slice("v", 1), k = w.Slice("k", 1), p = w.Slice("p", 1), q = w.Slice("q", 1),
                t = w.Slice("t", 1), place_t = w.Slice("t", 1);
  w->Inputs({x, captured});
  w->Copy(s, x, place);
  w->Call(s, "z", {m, SliceId(), place, captured}, {z},
          {{SegmentId(1), {SliceId(), SliceId(), v, k}, {SliceId(), place_t}}}, ControlFlow::kLoop);
  w->Launch(s, "y", {z}, {y});
  w->BeginSegment("body", 1);
  w->Launch(s, "p", {v, k}, {p});
  w->Launch(s, "q", {p}, {q});
  w->Launch(s, "t", {q, q}, {t});
  w->Copy(s, t, place_t);
  const auto lives = std::move(w).Lifetimes();
  // Read by the first instruction of each trip, and so still needed after the last of one.
  for (SliceId inside : {p, q, t}) {
    EXPECT_FALSE(MayShare(lives[captured.index], lives[inside.index])) << inside.index;
    EXPECT_FALSE(MayShare(lives[z.index], lives[inside.index])) << inside.index;
    EXPECT_FALSE(MayShare(lives[place.index], lives[inside.index])) << inside.index;
    EXPECT_TRUE(MayShare(lives[x.index], lives[inside.index])) << inside.index;
    EXPECT_TRUE(MayShare(lives[y.index], lives[inside.index])) << inside.index;
  }
  EXPECT_TRUE(MayShare(lives[p.index], lives[t.index]));  // within a trip
  EXPECT_FALSE(MayShare(lives[p.index], lives[q.index]));
}

// A step is a trip too: what init leaves for it is there for all.
TEST(Lifetimes, WhatInitLeavesLivesThroughAllSteps) {
  Writer w;
  const StreamId s = w.Stream("s");
  const SliceId load = w.Slice(), packed = w.Slice(), a = w.Slice(), b = w.Slice(), c = w.Slice();
  w->Loads({load});
  w->Copy(s, packed, a);
  w->Copy(s, a, b);
  w->Copy(s, b, c);
  w->Schedule(Section::kInit, {{w->BeginSegment("init"), 0}});
  w->Copy(s, load, packed);
  const auto lives = std::move(w).Lifetimes();
  EXPECT_FALSE(MayShare(lives[packed.index], lives[c.index]));
  EXPECT_TRUE(MayShare(lives[a.index], lives[c.index]));
}

}  // namespace
}  // namespace millrace
