// Across microbatches and steps: versions of params, recomputation, init and finish, what must hold
// at the end, and nodes that may run only so often.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/test_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// y = f(x, w); w <- u(w, y).
void DeclareTraining(TestPlan& t) {
  t.Input("x").Param("w").Node("Fn", {"x", "w"}, {"y"}).Node("InPlace", {"w", "y"}, {"u"});
  t.Output("y").Update("w", "u");
}

TEST(CheckStep, UpdateInPlace) {
  TestPlan t;
  DeclareTraining(t);
  t.Program()
      .Buffer("arena", 8)
      .Load("w@0")
      .In("x@2")
      .Out("y@4")
      .Launch("s", "y", {"x@2", "w@0"}, {"y@4"})
      .Launch("s", "u", {"w@0", "y@4"}, {"u@0"});
  EXPECT_EQ(Verdict(t), "");
}

TEST(CheckStep, UpdateMustComeHome) {
  TestPlan t;
  DeclareTraining(t);
  t.Program()
      .Buffer("arena", 8)
      .Load("w@0")
      .In("x@2")
      .Out("y@4")
      .Launch("s", "y", {"x@2", "w@0"}, {"y@4"})
      .Launch("s", "u", {"w@0", "y@4"}, {"u@6"});
  EXPECT_EQ(Verdict(t),
            "binding in program 'p' buffer 'arena' bytes [0,2): at the end of step param 'w' must "
            "be there, which is 'u' of microbatch 0; the bytes hold param 'w' of the start of the "
            "step, put there by the session");
}

TEST(CheckStep, UpdateThatIsNeverComputed) {
  TestPlan t;
  DeclareTraining(t);
  t.Program()
      .Buffer("arena", 8)
      .Load("w@0")
      .In("x@2")
      .Out("y@4")
      .Launch("s", "y", {"x@2", "w@0"}, {"y@4"});
  EXPECT_THAT(Verdict(t),
              StartsWith("compute in program 'p' buffer 'arena' bytes [0,2): at the end "
                         "of step param 'w' must be there"));
  EXPECT_THAT(Verdict(t), HasSubstr("no instruction computes 'u'"));
}

TEST(CheckStep, UpdatedParamIsKeptSomewhere) {
  TestPlan t;
  t.Input("x").Param("w").Node("Fn", {"x"}, {"u"}).Output("x").Update("w", "u");
  t.Program().Buffer("arena", 8).In("x@2").Out("x@2").Launch("s", "u", {"x@2"}, {"u@4"});
  EXPECT_EQ(Verdict(t), "binding: no program keeps param 'w', which the graph updates");
}

// The next microbatch sees the new version; what was begun before keeps the old one.
TEST(CheckStep, VersionsFollowTheSchedule) {
  // Forward 1 runs before backward 0 ends (in 2 slots), and both of its reads see version 0.
  const auto verdict = [](bool forward_first, const char* w) {
    TestPlan t(2);
    t.Input("x").Param("w").Node("Fn", {"x", "w"}, {"h"}).Node("Fn", {"h", "w"}, {"u"});
    t.Output("h").Update("w", "u");
    TestProgram& p = t.Program().Buffer("arena", 16).Load("w@0").In("x@2+2*mb").Out("h@6+2*mb");
    p.Segment("f").Launch("s", "h", {"x@2+2*mb", w}, {"h@6+2*mb"});
    p.Segment("b").Launch("s", "u", {"h@6+2*mb", "w@0"}, {"u@10"}).Copy("s", "u@0", "u@10");
    if (forward_first) {
      p.Schedule(Section::kStep, {{"f", 0}, {"f", 1}, {"b", 0}, {"b", 1}});
    } else {
      p.Schedule(Section::kStep, {{"f", 0}, {"b", 0}, {"f", 1}, {"b", 1}});
    }
    return Verdict(t);
  };
  EXPECT_EQ(verdict(true, "w@0"), "");
  EXPECT_EQ(verdict(false, "w@0"), "");
  EXPECT_THAT(verdict(false, "w@14"), StartsWith("binding in program 'p' step buffer 'arena' bytes "
                                                 "[14,16)"));
}

// A copy of the old version is stale once the schedule has passed the update.
TEST(CheckStep, OldVersionIsStaleForTheNextMicrobatch) {
  TestPlan t(2);
  t.Input("x").Param("w").Node("Fn", {"x", "w"}, {"h"}).Node("Fn", {"h", "w"}, {"u"});
  t.Output("h").Update("w", "u");
  t.Program()
      .Buffer("arena", 16)
      .Load("w@0")
      .In("x@2+2*mb")
      .Out("h@6+2*mb")
      .Segment("save")
      .Copy("s", "w@12", "w@0")
      .Segment("f")
      .Launch("s", "h", {"x@2+2*mb", "w@12"}, {"h@6+2*mb"})
      .Launch("s", "u", {"h@6+2*mb", "w@12"}, {"u@10"})
      .Copy("s", "u@0", "u@10")
      .Schedule(Section::kStep, {{"save", 0}, {"f", 0}, {"f", 1}});
  EXPECT_THAT(Verdict(t),
              HasSubstr("reads 'w' and must find 'u' of microbatch 0; the bytes hold param 'w' of "
                        "the start of the step, written by stream 's' #0 copy"));
}

// Named trap: recomputed from an updated parameter.
TEST(CheckStep, RecomputationNeedsTheOldVersion) {
  for (const bool keep_old : {true, false}) {
    TestPlan t;
    t.Input("x").Param("w").Node("Fn", {"x", "w"}, {"h"}).Node("Fn", {"h"}, {"u"});
    t.Node("Fn", {"h"}, {"y"}).Output("y").Update("w", "u");
    const std::string w = keep_old ? "w@10" : "w@0";
    t.Program()
        .Buffer("arena", 16)
        .Load("w@0")
        .In("x@2")
        .Out("y@6")
        .Segment("f")
        .Copy("s", "w@10", "w@0")
        .Launch("s", "h", {"x@2", "w@0"}, {"h@4"})
        .Launch("s", "u", {"h@4"}, {"u@0"})
        .Segment("b")
        .Launch("s", "h", {"x@2", w}, {"h@8"})
        .Launch("s", "y", {"h@8"}, {"y@6"});
    if (keep_old) {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_THAT(
          Verdict(t),
          HasSubstr("#3 launch h (ref) h@arena[8,10) <- x@arena[2,4), w@arena[0,2) (segment "
                    "'b' microbatch 0) reads 'w' and must find param 'w' of the start of the "
                    "step; the bytes hold 'u' of microbatch 0"));
    }
  }
}

// Named trap: in-place update of a swapped value; freed while its copy-out runs.
TEST(CheckStep, SwapOutMustEndBeforeTheBytesAreReused) {
  for (const bool waits : {true, false}) {
    TestPlan t;
    t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"x"}, {"k"}).Node("Fn", {"h", "k"}, {"y"});
    t.Output("y");
    TestProgram& p = t.Program().Buffer("arena", 8).Buffer("swap", 2, MemorySpace::kFile);
    p.In("x@0").Out("y@4");
    p.Launch("main", "h", {"x@0"}, {"h@2"}).Record("main", "h").Wait("copy", "h");
    p.Copy("copy", "h@swap:0", "h@2").Record("copy", "out");
    if (waits) p.Wait("main", "out");
    p.Launch("main", "k", {"x@0"}, {"k@2"});
    p.Copy("copy", "h@6", "h@swap:0").Record("copy", "in").Wait("main", "in");
    p.Launch("main", "y", {"h@6", "k@2"}, {"y@4"});
    if (waits) {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_THAT(
          Verdict(t),
          StartsWith("race in program 'p' step buffer 'arena' bytes [2,4): stream 'copy' #3 "
                     "copy h@swap[0,2) <- h@arena[2,4)"));
    }
  }
}

// Named trap: reloaded before its own store ended (on another copy stream).
TEST(CheckStep, ReloadAfterStore) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"h"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 8)
      .Buffer("swap", 2, MemorySpace::kHost)
      .In("x@0")
      .Out("y@4")
      .Launch("main", "h", {"x@0"}, {"h@2"})
      .Record("main", "h")
      .Wait("out", "h")
      .Copy("out", "h@swap:0", "h@2")
      .Wait("in", "h")
      .Copy("in", "h@6", "h@swap:0")
      .Record("in", "in")
      .Wait("main", "in")
      .Launch("main", "y", {"h@6"}, {"y@4"});
  EXPECT_THAT(Verdict(t), StartsWith("race in program 'p' step buffer 'swap' bytes [0,2)"));
}

// Named trap: dropout recomputed with another mask.
TEST(CheckStep, RandomNodesRunOnce) {
  TestPlan t;
  t.Input("x").Node("Random", {"x"}, {"h"}).Node("Fn", {"h"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("s", "h", {"x@0"}, {"h@2"})
      .Launch("s", "h", {"x@0"}, {"h@2"})
      .Launch("s", "y", {"h@2"}, {"y@4"});
  EXPECT_EQ(Verdict(t),
            "compute: Random 'h' runs 2 times for microbatch 0; each time its result is another");
}

TEST(CheckStep, EffectsHappenOnceEach) {
  const auto verdict = [](std::vector<std::pair<std::string, int>> items) {
    TestPlan t(3);
    t.Input("x").Node("Effect", {"x"}, {"e"}).Output("x");
    t.Program()
        .Buffer("arena", 8)
        .In("x@2*mb")
        .Out("x@2*mb")
        .Segment("f")
        .Launch("s", "e", {"x@2*mb"}, {"e@6"})
        .Segment("empty")
        .Schedule(Section::kStep, std::move(items));
    return Verdict(t);
  };
  EXPECT_EQ(verdict({{"f", 0}, {"f", 1}, {"f", 2}}), "");
  EXPECT_EQ(verdict({{"f", 2}}), "");  // once a step
  EXPECT_EQ(verdict({{"empty", 0}}),
            "compute: Effect 'e' never runs in the step, but it has effects");
  EXPECT_EQ(
      verdict({{"f", 0}, {"f", 2}}),
      "compute: Effect 'e' runs for 2 microbatches of 3, not for microbatch 1; it has effects, "
      "so all or one is right");
  EXPECT_EQ(verdict({{"f", 0}, {"f", 1}, {"f", 2}, {"f", 2}}),
            "compute: Effect 'e' runs 2 times for microbatch 2; it has effects, so once is right");
}

// Gradient accumulation: every microbatch adds, the optimizer runs once.
TEST(CheckStep, AccumulationMustNotLoseAMicrobatch) {
  const auto verdict = [](std::vector<std::pair<std::string, int>> items) {
    TestPlan t(3);
    t.Input("x").Param("w").Param("sum").Output("x");
    t.Node("InPlace", {"sum", "x"}, {"add"}).Node("InPlace", {"w", "sum"}, {"new"});
    t.Update("sum", "add").Update("w", "new");
    t.Program()
        .Buffer("arena", 16)
        .Load("w@0")
        .Load("sum@2")
        .In("x@4+2*mb")
        .Out("x@4+2*mb")
        .Segment("add")
        .Launch("s", "add", {"sum@2", "x@4+2*mb"}, {"add@2"})
        .Segment("new")
        .Launch("s", "new", {"w@0", "sum@2"}, {"new@0"})
        .Schedule(Section::kStep, std::move(items));
    return Verdict(t);
  };
  EXPECT_EQ(verdict({{"add", 0}, {"add", 1}, {"add", 2}, {"new", 2}}), "");
  EXPECT_EQ(verdict({{"add", 2}, {"add", 1}, {"add", 0}, {"new", 0}}), "");
  EXPECT_EQ(verdict({{"add", 0}, {"add", 2}, {"new", 2}}),
            "compute: InPlace 'add' runs for 2 microbatches of 3, not for microbatch 1; it updates "
            "param 'sum', so all or one is right");
}

// Work that is the same for all microbatches may be done once.
TEST(CheckStep, OnceForAllMicrobatches) {
  TestPlan t(3);
  t.Input("x").Param("w").Node("Fn", {"w"}, {"cast"}).Node("Fn", {"x", "cast"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 32)
      .Load("w@0")
      .In("x@2+2*mb")
      .Out("y@8+2*mb")
      .Segment("cast")
      .Launch("s", "cast", {"w@0"}, {"cast@16"})
      .Segment("f")
      .Launch("s", "y", {"x@2+2*mb", "cast@16"}, {"y@8+2*mb"})
      .Schedule(Section::kStep, {{"cast", 0}, {"f", 0}, {"f", 1}, {"f", 2}});
  EXPECT_EQ(Verdict(t), "");
}

// ... and if it depends on nothing that changes, in init; an update takes that away.
TEST(CheckStep, InitComputesWhatStays) {
  for (const bool updated : {false, true}) {
    TestPlan t;
    t.Input("x").Param("w").Node("Fn", {"w"}, {"cast"}).Node("Fn", {"x", "cast"}, {"y"});
    t.Output("y");
    if (updated) t.Update("w", "y");
    TestProgram& p = t.Program().Buffer("arena", 32).Load("w@0").In("x@2").Out("y@4");
    p.Segment("cast").Launch("s", "cast", {"w@0"}, {"cast@16"});
    p.Segment("f").Launch("s", "y", {"x@2", "cast@16"}, {"y@4"});
    if (updated) p.Copy("s", "y@0", "y@4");
    p.Schedule(Section::kInit, {{"cast", 0}}).Schedule(Section::kStep, {{"f", 0}});
    if (!updated) {
      EXPECT_EQ(Verdict(t), "");
    } else {
      // The first step is right; the second finds the cast of an old version.
      EXPECT_EQ(
          Verdict(t),
          "stale read in program 'p' step buffer 'arena' bytes [16,18): stream 's' #0 launch y "
          "(ref) y@arena[4,6) <- x@arena[2,4), cast@arena[16,18) (segment 'f' microbatch 0) "
          "reads 'cast' and must find 'cast' of microbatch 0; the bytes hold 'cast' of "
          "microbatch 0, of an earlier step, written by init stream 's' #0 launch cast (ref) "
          "cast@arena[16,18) <- w@arena[0,2) (segment 'cast' microbatch 0)");
    }
  }
}

// A second copy of a param that is refreshed at the end of each step is as good as the home.
TEST(CheckStep, SecondCopyOfAParamIsKeptFresh) {
  for (const bool refreshed : {true, false}) {
    TestPlan t;
    DeclareTraining(t);
    TestProgram& p = t.Program().Buffer("arena", 12).Load("w@0").In("x@2").Out("y@4");
    p.Segment("prepare").Copy("s", "w@8", "w@0");
    p.Segment("f").Launch("s", "y", {"x@2", "w@8"}, {"y@4"});
    p.Launch("s", "u", {"w@8", "y@4"}, {"u@6"}).Copy("s", "u@0", "u@6");
    if (refreshed) p.Copy("s", "u@8", "u@6");
    p.Schedule(Section::kInit, {{"prepare", 0}}).Schedule(Section::kStep, {{"f", 0}});
    if (refreshed) {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_THAT(Verdict(t), HasSubstr("must find param 'w' of the start of the step; the bytes "
                                        "hold param 'w' of the start of the step, of an earlier "
                                        "step, written by init stream 's' #0 copy"));
    }
  }
}

// Activations of the last step are not those of this one.
TEST(CheckStep, LastStepsValuesAreStale) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"h"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Segment("f")
      .Launch("s", "h", {"x@0"}, {"h@2"})
      .Segment("b")
      .Launch("s", "y", {"h@2"}, {"y@4"})
      .Schedule(Section::kStep, {{"b", 0}, {"f", 0}});
  EXPECT_THAT(Verdict(t), HasSubstr("the bytes hold nothing: they were never written"));
}

TEST(CheckStep, FinishRunsAfterAnyNumberOfSteps) {
  for (const bool fresh : {true, false}) {
    TestPlan t;
    t.Input("x").Param("w").Node("Fn", {"x", "w"}, {"u"}).Node("Fn", {"w"}, {"packed"});
    t.Output("x").Update("w", "u");
    TestProgram& p = t.Program().Buffer("arena", 12).Load("w@0").In("x@2").Out("x@2");
    p.Segment("prepare").Copy("s", "w@4", "w@0");
    p.Segment("f").Launch("s", "u", {"x@2", "w@0"}, {"u@6"}).Copy("s", "u@0", "u@6");
    p.Segment("end").Launch("s", "packed", {fresh ? "w@0" : "w@4"}, {"packed@8"});
    p.Schedule(Section::kInit, {{"prepare", 0}}).Schedule(Section::kStep, {{"f", 0}});
    p.Schedule(Section::kFinish, {{"end", 0}});
    if (fresh) {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_THAT(Verdict(t), StartsWith("stale read in program 'p' finish buffer 'arena' bytes "
                                         "[4,6)"));
    }
  }
}

TEST(CheckStep, NeverComputed) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"h"}, {"y"}).Output("y");
  t.Program().Buffer("arena", 8).In("x@0").Out("y@4").Launch("s", "y", {"h@2"}, {"y@4"});
  EXPECT_EQ(
      Verdict(t),
      "compute in program 'p' step buffer 'arena' bytes [2,4): stream 's' #0 launch y (ref) "
      "y@arena[4,6) <- h@arena[2,4) (segment 'step' microbatch 0) reads 'h' and must find 'h' "
      "of microbatch 0; the bytes hold nothing: they were never written; no instruction "
      "computes 'h' for microbatch 0");
}

TEST(CheckStep, InputsAreBound) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"y"}).Output("y");
  t.Program().Buffer("arena", 8).Out("y@4").Launch("s", "y", {"x@2"}, {"y@4"});
  EXPECT_THAT(Verdict(t), StartsWith("binding in program 'p' step buffer 'arena' bytes [2,4)"));
  EXPECT_THAT(Verdict(t), HasSubstr("; no program binds 'x'"));
}

// A graph output of an updated param is the version from before the step.
TEST(CheckStep, OutputOfAParamIsTheOldVersion) {
  for (const bool saved : {true, false}) {
    TestPlan t;
    t.Input("x").Param("w").Node("Fn", {"x", "w"}, {"u"}).Output("w").Update("w", "u");
    TestProgram& p = t.Program().Buffer("arena", 12).Load("w@0").In("x@2");
    if (saved) p.Copy("s", "w@4", "w@0");
    p.Out(saved ? "w@4" : "w@0");
    p.Launch("s", "u", {"x@2", "w@0"}, {"u@6"}).Copy("s", "u@0", "u@6");
    EXPECT_EQ(Verdict(t) == "", saved) << Verdict(t);
  }
}

// Two programs hold the param; only the one that computes the update would have the new version.
TEST(CheckStep, EveryHomeGetsTheNewVersion) {
  for (const bool sent : {true, false}) {
    TestPlan t;
    DeclareTraining(t);
    TestProgram& a = t.Program("a").Buffer("arena", 12).Load("w@0").In("x@2").Out("y@4");
    TestProgram& b = t.Program("b").Buffer("arena", 12).Load("w@0");
    a.Launch("s", "y", {"x@2", "w@0"}, {"y@4"}).Launch("s", "u", {"w@0", "y@4"}, {"u@0"});
    b.Record("s", "e");
    if (sent) {
      a.Send("s", "u@0", 1);
      b.Recv("s", "u@0", 0);
    }
    EXPECT_EQ(Verdict(t) == "", sent);
    if (!sent) {
      EXPECT_THAT(Verdict(t),
                  StartsWith("binding in program 'b' buffer 'arena' bytes [0,2): at the "
                             "end of step param 'w' must be there"));
    }
  }
}

// Params that swap their contents: q <- p and p <- q, as they were before the step.
TEST(CheckStep, ParamsThatTakeEachOthersPlace) {
  TestPlan t;
  t.Input("x").Param("p").Param("q").Node("Fn", {"p", "q"}, {"y"}).Output("y").Output("x");
  t.Update("p", "q").Update("q", "p");
  t.Program()
      .Buffer("arena", 12)
      .Load("p@0")
      .Load("q@2")
      .In("x@4")
      .Out("x@4")
      .Out("y@6")
      .Launch("s", "y", {"p@0", "q@2"}, {"y@6"})
      .Copy("s", "p@8", "p@0")
      .Copy("s", "q@0", "q@2")
      .Copy("s", "p@2", "p@8");
  EXPECT_EQ(Verdict(t), "");
}

}  // namespace
}  // namespace millrace
