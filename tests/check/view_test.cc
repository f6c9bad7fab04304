// Ops that are views need not run: bytes of what they view are theirs, at the right place, for as
// long as nobody writes there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/test_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(CheckView, AWholeIsReadWhereItLies) {
  TestPlan t;
  t.Input("x").Node("Whole", {"x"}, {"v"}).Node("Whole", {"v"}, {"w"}).Node("Fn", {"w"}, {"y"});
  t.Output("y").Output("v");
  t.Program().Buffer("arena", 8).In("x@0").Out("y@2").Out("v@0").Launch("a", "y", {"w@0"}, {"y@2"});
  EXPECT_EQ(Verdict(t), "");
}

TEST(CheckView, ItMayRunAllTheSame) {
  TestPlan t;
  t.Input("x").Node("Whole", {"x"}, {"v"}).Node("Fn", {"v"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "v", {"x@0"}, {"v@2"})
      .Launch("a", "y", {"v@2"}, {"y@4"});
  EXPECT_EQ(Verdict(t), "");
}

TEST(CheckView, AnotherValueIsNotTheView) {
  TestPlan t;
  t.Input("x").Input("z").Node("Whole", {"x"}, {"v"}).Node("Fn", {"v"}, {"y"}).Output("y");
  t.Program().Buffer("arena", 8).In("x@0").In("z@2").Out("y@4").Launch("a", "y", {"v@2"}, {"y@4"});
  EXPECT_THAT(Verdict(t), HasSubstr("no instruction computes 'v'"));
}

TEST(CheckView, WhatIsViewedMayNotBeOverwrittenBefore) {
  TestPlan t;
  t.Input("x").Node("Whole", {"x"}, {"v"}).Node("InPlace", {"x"}, {"h"});
  t.Node("Fn", {"v", "h"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@0"})
      .Launch("a", "y", {"v@0", "h@0"}, {"y@4"});
  EXPECT_THAT(Verdict(t), HasSubstr("must find 'v'"));
}

TEST(CheckView, AReaderOnAnotherStreamMustWaitForWhatIsViewed) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Whole", {"h"}, {"v"}).Node("Fn", {"v"}, {"y"});
  t.Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Launch("b", "y", {"v@2"}, {"y@4"});
  EXPECT_THAT(Verdict(t), HasSubstr("nothing orders them"));
}

// x of four bytes is a, b of two.
std::string SplitVerdict(std::string_view a, std::string_view b) {
  TestPlan t;
  t.Input("x", {4}).Node("Split", {"x"}, {"a", "b"}).Node("Fn", {"a", "b"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("s", "y", {std::string(a), std::string(b)}, {"y@4"});
  return Verdict(t);
}

TEST(CheckView, PiecesLieAtTheirPlaces) {
  EXPECT_EQ(SplitVerdict("a@0", "b@2"), "");
  EXPECT_THAT(SplitVerdict("a@0", "b@0"), HasSubstr("must find 'b'"));
  EXPECT_THAT(SplitVerdict("a@2", "b@2"), HasSubstr("must find 'a'"));
  EXPECT_THAT(SplitVerdict("a@1", "b@2"), HasSubstr("must find 'a'"));
}

TEST(CheckView, PiecesAcrossRowsAreNoViews) {
  TestPlan t;
  t.Input("x", {2, 2}).Node("Split", {"x"}, {"a", "b"}, {2, 1}).Node("Fn", {"a"}, {"y"});
  t.Output("y");
  t.node("a").attrs.Set("axis", int64_t{1});
  t.Program().Buffer("arena", 8).In("x@0").Out("y@4").Launch("s", "y", {"a@0"}, {"y@4"});
  EXPECT_THAT(Verdict(t), HasSubstr("no instruction computes 'a'"));
}

// j of four bytes is a, b of two; they are made at the places given.
std::string JoinVerdict(const std::string& a, const std::string& b) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"a"}).Node("Fn", {"a"}, {"b"});
  t.Node("Join", {"a", "b"}, {"j"}, {4}).Node("Fn", {"j"}, {"y"}).Output("y").Output("a");
  t.Program()
      .Buffer("arena", 8)
      .In("x@6")
      .Out("y@4")
      .Out(a)
      .Launch("s", "a", {"x@6"}, {a})
      .Launch("s", "b", {a}, {b})
      .Launch("s", "y", {"j@0"}, {"y@4"});
  return Verdict(t);
}

TEST(CheckView, PartsMakeTheWhole) {
  EXPECT_EQ(JoinVerdict("a@0", "b@2"), "");
  EXPECT_THAT(JoinVerdict("a@2", "b@0"), HasSubstr("must find 'j'"));
}

TEST(CheckView, PiecesJoinedInTheirOrderAreTheWholeAgain) {
  for (const bool in_order : {true, false}) {
    TestPlan t;
    t.Input("x", {4}).Node("Split", {"x"}, {"a", "b"});
    t.Node("Join", {in_order ? "a" : "b", in_order ? "b" : "a"}, {"j"}, {4});
    t.Node("Fn", {"j"}, {"y"}).Output("y");
    t.Program().Buffer("arena", 8).In("x@0").Out("y@4").Launch("s", "y", {"j@0"}, {"y@4"});
    EXPECT_EQ(Verdict(t).empty(), in_order);
  }
}

}  // namespace
}  // namespace millrace
