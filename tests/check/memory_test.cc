// What may lie where and be touched when: races, stale reads, aliasing, bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/test_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CheckMemory, ChainOnOneStreamIsRight) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Launch("a", "y", {"h@2"}, {"y@4"});
  const CheckReport report = t.Check();
  EXPECT_EQ(FormatReport(report),
            "ok: 2 instructions and 4 accesses: each read finds its value, nothing races, nothing "
            "deadlocks");
}

TEST(CheckMemory, OtherStreamMustWait) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Launch("b", "y", {"h@2"}, {"y@4"});
  EXPECT_EQ(Verdict(t),
            "race in program 'p' step buffer 'arena' bytes [2,4): stream 'a' #0 launch h (ref) "
            "h@arena[2,4) <- x@arena[0,2) (segment 'step' microbatch 0) writes while stream 'b' #1 "
            "launch y (ref) y@arena[4,6) <- h@arena[2,4) (segment 'step' microbatch 0) reads; "
            "nothing orders them: a wait on 'b' before #1 for an event recorded on 'a' after #0 is "
            "missing");
}

TEST(CheckMemory, EventOrdersStreams) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Record("a", "done")
      .Wait("b", "done")
      .Launch("b", "y", {"h@2"}, {"y@4"});
  EXPECT_EQ(Verdict(t), "");
}

TEST(CheckMemory, EventRecordedTooEarlyOrdersNothing) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Record("a", "done")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Wait("b", "done")
      .Launch("b", "y", {"h@2"}, {"y@4"});
  EXPECT_THAT(Verdict(t), StartsWith("race in program 'p' step buffer 'arena' bytes [2,4)"));
}

TEST(CheckMemory, StaleReadNamesWhatIsThere) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@0"})  // over x; legal for another slice of x
      .Launch("a", "y", {"h@2"}, {"y@4"});
  TestPlan u;
  DeclareChain(u);
  u.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Launch("a", "y", {"h@0"}, {"y@4"});
  EXPECT_EQ(Verdict(u),
            "stale read in program 'p' step buffer 'arena' bytes [0,2): stream 'a' #1 launch y "
            "(ref) y@arena[4,6) <- h@arena[0,2) (segment 'step' microbatch 0) reads 'h' and must "
            "find 'h' of microbatch 0; the bytes hold input 'x' of microbatch 0, put there by the "
            "session");
}

TEST(CheckMemory, PartOfAValueIsNotTheValue) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Launch("a", "y", {"h@3"}, {"y@5"});
  EXPECT_THAT(Verdict(t), HasSubstr("bytes [3,4)"));
  EXPECT_THAT(Verdict(t), HasSubstr("the bytes hold that at another offset"));
}

TEST(CheckMemory, ReuseAfterLastRead) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"h"}, {"k"}).Node("Fn", {"k"}, {"y"});
  t.Output("y");
  t.Program()
      .Buffer("arena", 6)
      .In("x@0")
      .Out("y@2")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Launch("a", "k", {"h@2"}, {"k@4"})
      .Launch("a", "y", {"k@4"}, {"y@2"});
  EXPECT_EQ(Verdict(t), "");
}

// Named trap: reuse counted wrong across streams. The reader on 'b' is not waited for.
TEST(CheckMemory, ReuseBeforeOtherStreamHasRead) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"h"}, {"k"}).Node("Fn", {"x"}, {"y"});
  t.Output("k").Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("k@4")
      .Out("y@2")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Record("a", "h")
      .Wait("b", "h")
      .Launch("b", "k", {"h@2"}, {"k@4"})
      .Launch("a", "y", {"x@0"}, {"y@2"});
  EXPECT_EQ(Verdict(t),
            "race in program 'p' step buffer 'arena' bytes [2,4): stream 'b' #3 launch k (ref) "
            "k@arena[4,6) <- h@arena[2,4) (segment 'step' microbatch 0) reads while stream 'a' #4 "
            "launch y (ref) y@arena[2,4) <- x@arena[0,2) (segment 'step' microbatch 0) writes; "
            "nothing orders them: a wait on 'a' before #4 for an event recorded on 'b' after #3 is "
            "missing");
}

// Named trap: an in-place update read by a sibling on another stream.
TEST(CheckMemory, InPlaceUnderASiblingReader) {
  for (const bool ordered : {false, true}) {
    TestPlan t;
    t.Input("x").Node("Fn", {"x"}, {"h"}).Node("InPlace", {"h"}, {"i"}).Node("Fn", {"h"}, {"s"});
    t.Output("i").Output("s");
    TestProgram& p = t.Program().Buffer("arena", 8).In("x@0").Out("i@2").Out("s@4");
    p.Launch("a", "h", {"x@0"}, {"h@2"}).Record("a", "h").Wait("b", "h");
    p.Launch("b", "s", {"h@2"}, {"s@4"}).Record("b", "s");
    if (ordered) p.Wait("a", "s");
    p.Launch("a", "i", {"h@2"}, {"i@2"});
    EXPECT_EQ(Verdict(t) == "", ordered) << Verdict(t);
  }
}

// Named trap: a scratch buffer shared by two streams.
TEST(CheckMemory, ScratchSharedByStreams) {
  for (const char* second : {"@4", "@6"}) {
    TestPlan t;
    t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"x"}, {"k"}).Output("h").Output("k");
    t.Program()
        .Buffer("arena", 12)
        .In("x@0")
        .Out("h@8")
        .Out("k@10")
        .Launch("a", "h", {"x@0"}, {"h@8"}, "@4")
        .Launch("b", "k", {"x@0"}, {"k@10"}, second);
    if (std::string_view(second) == "@6") {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_THAT(Verdict(t), StartsWith("race in program 'p' step buffer 'arena' bytes [4,6)"));
    }
  }
}

// Named trap: zero-sized values touch nothing, wherever they are said to lie.
TEST(CheckMemory, EmptyValuesTouchNothing) {
  TestPlan t;
  t.Input("x", {0}).Node("Fn", {"x"}, {"h"}, {3, 0}).Input("z").Node("Fn", {"h", "z"}, {"y"});
  t.Output("y");
  t.Program()
      .Buffer("arena", 4)
      .In("x@4")
      .In("z@0")
      .Out("y@2")
      .Launch("a", "h", {"x@4"}, {"h@1"})
      .Launch("a", "y", {"h@1", "z@0"}, {"y@2"});
  EXPECT_EQ(Verdict(t), "");
}

TEST(CheckMemory, WriteOverAnInputNeedsTheOpsConsent) {
  for (const char* op : {"Fn", "InPlace"}) {
    TestPlan t;
    t.Input("x").Node(op, {"x"}, {"y"}).Output("y");
    t.Program().Buffer("arena", 4).In("x@0").Out("y@0").Launch("a", "y", {"x@0"}, {"y@0"});
    if (std::string_view(op) == "InPlace") {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_EQ(
          Verdict(t),
          "alias in program 'p' step buffer 'arena' bytes [0,2): stream 'a' #0 launch y (ref) "
          "y@arena[0,2) <- x@arena[0,2) (segment 'step' microbatch 0) has both 'x' [0,2) and "
          "'y' [0,2) there; its op does not allow writing there while it reads");
    }
  }
}

TEST(CheckMemory, InPlaceMustBeExactlyInPlace) {
  TestPlan t;
  t.Input("x").Node("InPlace", {"x"}, {"y"}).Output("y");
  t.Program().Buffer("arena", 4).In("x@0").Out("y@1").Launch("a", "y", {"x@0"}, {"y@1"});
  EXPECT_THAT(Verdict(t), StartsWith("alias in program 'p' step buffer 'arena' bytes [1,2)"));

  // Only input 0 may be overwritten.
  TestPlan u;
  u.Input("x").Input("z").Node("InPlace", {"x", "z"}, {"y"}).Output("y");
  u.Program()
      .Buffer("arena", 4)
      .In("x@0")
      .In("z@2")
      .Out("y@2")
      .Launch("a", "y", {"x@0", "z@2"}, {"y@2"});
  EXPECT_THAT(Verdict(u), StartsWith("alias"));

  // Both inputs lie there, and one of them may not.
  TestPlan v;
  v.Input("x").Node("InPlace", {"x", "x"}, {"y"}).Output("y");
  v.Program().Buffer("arena", 4).In("x@0").Out("y@0").Launch("a", "y", {"x@0", "x@0"}, {"y@0"});
  EXPECT_THAT(Verdict(v), StartsWith("alias"));
}

// Named trap: aliasing through reshape. The types differ, so the pair does not apply.
TEST(CheckMemory, InPlaceNeedsEqualTypes) {
  TestPlan t;
  t.Input("x").Node("InPlace", {"x"}, {"y"}, {2, 1}).Output("y");
  t.Program().Buffer("arena", 4).In("x@0").Out("y@0").Launch("a", "y", {"x@0"}, {"y@0"});
  EXPECT_THAT(Verdict(t), StartsWith("alias"));
}

TEST(CheckMemory, OutputsAndScratchLieApart) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"y", "z"}).Output("y").Output("z");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@2")
      .Out("z@3")
      .Launch("a", "y", {"x@0"}, {"y@2", "z@3"});
  EXPECT_THAT(Verdict(t), StartsWith("alias in program 'p' step buffer 'arena' bytes [3,4)"));

  TestPlan u;
  u.Input("x").Node("Fn", {"x"}, {"y"}).Output("y");
  u.Program().Buffer("arena", 8).In("x@0").Out("y@2").Launch("a", "y", {"x@0"}, {"y@2"}, "@1");
  EXPECT_THAT(Verdict(u), StartsWith("alias in program 'p' step buffer 'arena' bytes [1,2)"));
}

TEST(CheckMemory, SlicesLieInTheirBuffer) {
  const auto verdict = [](const char* y, int64_t buffer) {
    TestPlan t(3);
    t.Input("x").Node("Fn", {"x"}, {"y"}).Output("y");
    t.Program()
        .Buffer("in", 6)
        .Buffer("arena", buffer)
        .In("x@2*mb")
        .Out(y)
        .Launch("a", "y", {"x@2*mb"}, {y});
    return Verdict(t);
  };
  EXPECT_EQ(verdict("y@arena:2*mb", 6), "");
  EXPECT_EQ(verdict("y@arena:2*mb", 5),
            "bounds in program 'p' step buffer 'arena' of 5 bytes: stream 'a' #2 launch y (ref) "
            "y@arena[2*mb,+2) <- x@in[2*mb,+2) (segment 'step' microbatch 2) uses slice 1 of 'y' "
            "with 2 bytes at 4 for microbatch 2, which does not lie inside");
  EXPECT_THAT(verdict("y@arena:-2+2*mb", 6), HasSubstr("at -2 for microbatch 0"));
  EXPECT_THAT(verdict("y@arena:9223372036854775807*mb", 6), StartsWith("bounds"));
}

TEST(CheckMemory, SlicesAreLargeEnoughAndAligned) {
  TestPlan t;
  t.Input("x", {3}, DType::kF32).Node("Fn", {"x"}, {"y"}).Output("y");
  TestProgram& p = t.Program().Buffer("arena", 32).In("x@0").Out("y@16");
  p.Launch("a", "y", {"x@0"}, {"y@16"});
  EXPECT_EQ(Verdict(t), "");
  p.slice("x@0").size_bytes = 11;
  EXPECT_EQ(Verdict(t),
            "bounds in program 'p': slice 0 of 'x' in buffer 'arena': its 11 bytes are too few: "
            "f32[3] takes 12");
  p.slice("x@0").size_bytes = 12;
  p.slice("x@0").offset_bytes = 2;
  EXPECT_THAT(Verdict(t), HasSubstr("which is no multiple of its element size 4"));
}

// Two microbatches in one slot: the second input overwrites the first.
TEST(CheckMemory, InputSlotsMustNotCollide) {
  TestPlan t(2);
  t.Input("x").Node("Fn", {"x"}, {"y"}).Output("y");
  t.Program().Buffer("arena", 8).In("x@0").Out("y@2+2*mb").Launch("a", "y", {"x@0"}, {"y@2+2*mb"});
  EXPECT_THAT(Verdict(t),
              HasSubstr("the bytes hold nothing certain: the session puts two values there"));
}

TEST(CheckMemory, MicrobatchesInSlots) {
  // h of microbatch 0 is read after microbatch 1 was computed: two slots are needed.
  for (const int slots : {1, 2}) {
    TestPlan t(3);
    DeclareChain(t);
    const std::string h = slots == 1 ? "h@6" : "h@6+2*(mb%2)";
    t.Program()
        .Buffer("arena", 16)
        .In("x@2*mb")
        .Out("y@10+2*mb")
        .Segment("f")
        .Launch("a", "h", {"x@2*mb"}, {h})
        .Segment("b")
        .Launch("a", "y", {h}, {"y@10+2*mb"})
        .Schedule(Section::kStep, {{"f", 0}, {"f", 1}, {"b", 0}, {"f", 2}, {"b", 1}, {"b", 2}});
    if (slots == 2) {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_THAT(Verdict(t), HasSubstr("must find 'h' of microbatch 0; the bytes hold 'h' of "
                                        "microbatch 1, written by stream 'a' #1"));
    }
  }
}

// Named trap: a value both output and input.
TEST(CheckMemory, OutputThatIsAnInput) {
  for (const bool clobber : {false, true}) {
    TestPlan t;
    t.Input("x").Node("InPlace", {"x"}, {"y"}).Output("x").Output("y");
    const char* y = clobber ? "y@0" : "y@2";
    t.Program().Buffer("arena", 4).In("x@0").Out("x@0").Out(y).Launch("a", "y", {"x@0"}, {y});
    if (clobber) {
      EXPECT_EQ(
          Verdict(t),
          "binding in program 'p' buffer 'arena' bytes [0,2): at the end of step output 'x' of "
          "microbatch 0 must be there, which is input 'x' of microbatch 0; the bytes hold 'y' "
          "of microbatch 0, written by step stream 'a' #0 launch y (ref) y@arena[0,2) <- "
          "x@arena[0,2) (segment 'step' microbatch 0)");
    } else {
      EXPECT_EQ(Verdict(t), "");
    }
  }
}

// Named trap: an output without consumers still has bytes, and writes them.
TEST(CheckMemory, UnusedOutputStillWrites) {
  for (const char* unused : {"u@6", "u@2"}) {
    TestPlan t;
    t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"x"}, {"k", "u"}).Node("Fn", {"h"}, {"y"});
    t.Output("y").Output("k");
    t.Program()
        .Buffer("arena", 12)
        .In("x@0")
        .Out("k@4")
        .Out("y@8")
        .Launch("a", "h", {"x@0"}, {"h@2"})
        .Launch("a", "k", {"x@0"}, {"k@4", unused})
        .Launch("a", "y", {"h@2"}, {"y@8"});
    EXPECT_EQ(Verdict(t) == "", std::string_view(unused) == "u@6") << Verdict(t);
  }
}

}  // namespace
}  // namespace millrace
