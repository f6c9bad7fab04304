// Calls: one of two bodies runs, and both must be right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/check/test_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// z = if c: then_z(a) else: else_z(a)
Graph Body(const std::string& prefix) {
  GraphBuilder b(prefix);
  const TensorType type{DType::kU8, {2}};
  const ValueId a = b.Input(prefix + "_a", type);
  const ValueId z = b.Op("Fn", {a}, {}, prefix + "_z");
  b.graph().value(z).type = type;
  b.graph().value(z).typed = true;
  b.Output(z);
  return std::move(b).Build();
}

struct Branches {
  Branches() {
    t.Input("x")
        .Input("c", {1}, DType::kBool)
        .Node("Fn", {"x"}, {"a"})
        .Node("If", {"c", "a"}, {"z"});
    t.node("z").subgraphs = {{"then_branch", Body("then")}, {"else_branch", Body("else")}};
    t.Node("Fn", {"z"}, {"y"}).Output("y");
    p = &t.Program();
    p->Buffer("arena", 32).In("x@0").In("c@2").Out("y@4");
  }
  // The body segments, then everything else up to the call.
  void Write(const char* then_z = "then_z#1@8", const char* else_z = "else_z#2@8",
             const char* else_a = "else_a#2@6") {
    p->Segment("then", 1).Launch("s", "then_z", {"then_a#1@6"}, {then_z});
    p->Segment("else", 2).Launch("s", "else_z", {else_a}, {else_z});
    p->Segment("main").Launch("s", "a", {"x@0"}, {"a@6"});
    p->Call("s", "z", {"c@2", "a@6"}, {"z@8"},
            {{"then", {"then_a#1@6"}, {"then_z#1@8"}}, {"else", {"else_a#2@6"}, {"else_z#2@8"}}});
  }
  TestPlan t;
  TestProgram* p;
};

TEST(CheckCall, BothBodiesAreRight) {
  Branches b;
  b.Write();
  b.p->Launch("s", "y", {"z@8"}, {"y@4"});
  EXPECT_EQ(Verdict(b.t), "");
}

TEST(CheckCall, EachBodyMustLeaveTheOutput) {
  Branches b;
  b.Write("then_z#1@8", "else_z#2@10");
  b.p->Launch("s", "y", {"z@8"}, {"y@4"});
  EXPECT_THAT(
      Verdict(b.t),
      StartsWith("stale read in program 'p' step buffer 'arena' bytes [8,10): stream 's' #1 "
                 "call z"));
  EXPECT_THAT(Verdict(b.t), HasSubstr("reads 'else_z' and must find 'else_z' of microbatch 0; the "
                                      "bytes hold nothing when this body ends"));
}

TEST(CheckCall, BodiesReadWhatIsPassed) {
  Branches b;
  b.Write("then_z#1@8", "else_z#2@8", "else_a#2@0");
  b.p->Launch("s", "y", {"z@8"}, {"y@4"});
  EXPECT_THAT(Verdict(b.t), HasSubstr("launch else_z (ref) else_z#2@arena[8,10) <- "
                                      "else_a#2@arena[0,2) in a body of call z"));
  EXPECT_THAT(Verdict(b.t), HasSubstr("reads 'else_a' and must find 'a' of microbatch 0; the bytes "
                                      "hold input 'x' of microbatch 0"));
}

// A value that survives one body only may not be read afterwards.
TEST(CheckCall, AfterwardsOnlyWhatBothBodiesLeft) {
  for (const char* scratch : {"@10", "@12"}) {
    Branches b;
    b.t.Node("Fn", {"a"}, {"k"}).Output("k");
    b.p->Out("k@14");
    b.p->Segment("then", 1).Launch("s", "then_z", {"then_a#1@6"}, {"then_z#1@8"}, scratch);
    b.p->Segment("else", 2).Launch("s", "else_z", {"else_a#2@6"}, {"else_z#2@8"});
    b.p->Segment("main").Launch("s", "a", {"x@0"}, {"a@6"}).Copy("s", "a@10", "a@6");
    b.p->Call("s", "z", {"c@2", "a@6"}, {"z@8"},
              {{"then", {"then_a#1@6"}, {"then_z#1@8"}}, {"else", {"else_a#2@6"}, {"else_z#2@8"}}});
    b.p->Launch("s", "y", {"z@8"}, {"y@4"}).Launch("s", "k", {"a@10"}, {"k@14"});
    if (std::string_view(scratch) == "@12") {
      EXPECT_EQ(Verdict(b.t), "");
    } else {
      EXPECT_THAT(Verdict(b.t), HasSubstr("must find 'a' of microbatch 0; the bytes hold what "
                                          "depends on the branch taken, written by stream 's' #2"));
    }
  }
}

// All that a body touches, the call touches.
TEST(CheckCall, BodiesRaceLikeTheirCall) {
  for (const char* k : {"k@10", "k@12"}) {
    Branches b;
    b.t.Node("Fn", {"x"}, {"k"}).Output("k");
    b.p->Out(k);
    b.p->Segment("then", 1).Launch("s", "then_z", {"then_a#1@6"}, {"then_z#1@8"}, "@10");
    b.p->Segment("else", 2).Launch("s", "else_z", {"else_a#2@6"}, {"else_z#2@8"});
    b.p->Segment("main").Launch("s", "a", {"x@0"}, {"a@6"});
    b.p->Call("s", "z", {"c@2", "a@6"}, {"z@8"},
              {{"then", {"then_a#1@6"}, {"then_z#1@8"}}, {"else", {"else_a#2@6"}, {"else_z#2@8"}}});
    b.p->Launch("s", "y", {"z@8"}, {"y@4"}).Launch("r", "k", {"x@0"}, {k});
    if (std::string_view(k) == "k@12") {
      EXPECT_EQ(Verdict(b.t), "");
    } else {
      EXPECT_THAT(Verdict(b.t), StartsWith("race in program 'p' step buffer 'arena' bytes [10,12): "
                                           "stream 's' #1 call z"));
    }
  }
}

TEST(CheckCall, BordersMoveNothing) {
  Branches b;
  b.Write();
  b.p->Launch("s", "y", {"z@8"}, {"y@4"});
  b.p->slice("then_a#1@6").offset_bytes = 7;
  EXPECT_EQ(
      Verdict(b.t),
      "alias in program 'p' step: stream 's' #1 call z z@arena[8,10) <- c@arena[2,3), "
      "a@arena[6,8) {then: then_z#1@arena[8,10) <- then_a#1@arena[7,9)} {else: "
      "else_z#2@arena[8,10) <- else_a#2@arena[6,8)} (segment 'main' microbatch 0): If 'z' body "
      "'then': 'then_a' does not lie on the very bytes of 'a', but in buffer 'arena' bytes [7,9) "
      "instead of buffer 'arena' bytes [6,8)");
}

TEST(CheckCall, BodiesStayOnTheStreamAndAmongThemselves) {
  const auto verdict = [](std::function<void(TestProgram&)> in_body) {
    Branches b;
    b.p->Segment("then", 1).Launch("s", "then_z", {"then_a#1@6"}, {"then_z#1@8"});
    in_body(*b.p);
    b.p->Segment("else", 2).Launch("s", "else_z", {"else_a#2@6"}, {"else_z#2@8"});
    b.p->Segment("main").Launch("s", "a", {"x@0"}, {"a@6"});
    b.p->Call("s", "z", {"c@2", "a@6"}, {"z@8"},
              {{"then", {"then_a#1@6"}, {"then_z#1@8"}}, {"else", {"else_a#2@6"}, {"else_z#2@8"}}});
    b.p->Launch("s", "y", {"z@8"}, {"y@4"});
    return Verdict(b.t);
  };
  EXPECT_EQ(verdict([](TestProgram&) {}), "");
  EXPECT_THAT(
      verdict([](TestProgram& p) { p.Launch("r", "then_z", {"then_a#1@6"}, {"then_z#1@8"}); }),
      HasSubstr("body 'then' leaves the call's stream"));
  EXPECT_THAT(verdict([](TestProgram& p) { p.Record("s", "e"); }),
              HasSubstr("a Call's body may not use events"));
  EXPECT_THAT(verdict([](TestProgram& p) { p.Send("s", "then_a#1@6", 0); }),
              HasSubstr("a Call's body may not send or receive"));
}

TEST(CheckCall, ConditionIsOneBoolOnTheHost) {
  Branches b;
  b.Write();
  b.p->Launch("s", "y", {"z@8"}, {"y@4"});
  b.p->program().device_kind = "cuda";
  EXPECT_EQ(
      Verdict(b.t),
      "space in program 'p' segment 'main' instruction 1 (Call): 'c' in buffer 'arena' is the "
      "condition, but lies in device memory of a cuda device");
  b.p->program().device_kind = "cpu";
  b.t.plan().graph.value(b.t.value("c")).type.dtype = DType::kU8;
  EXPECT_EQ(
      Verdict(b.t),
      "program 'p' segment 'main' instruction 1 (Call): If 'z' its condition 'c' is u8[1], not "
      "one bool");
}

// Nested graphs are not for schedules.
TEST(CheckCall, BodiesAreNotScheduled) {
  Branches b;
  b.Write();
  b.p->Launch("s", "y", {"z@8"}, {"y@4"}).Schedule(Section::kStep, {{"then", 0}, {"main", 0}});
  EXPECT_EQ(
      Verdict(b.t),
      "program 'p': its step schedule runs segment 'then' of nested graph 1; only a Call may");
}

}  // namespace
}  // namespace millrace
