// Meshes: offsets, peers and groups by coordinate, and how little of a large mesh is looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/test_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Attrs Axis(const char* name) {
  Attrs attrs;
  attrs.Set("axis", std::string(name));
  return attrs;
}

// r = all-reduce of h = f(x) over "data"; w <- g(w, r).
struct DataParallel {
  explicit DataParallel(int64_t devices) {
    t.plan().mesh.axes = {{"data", devices}};
    t.plan().graph.mesh = t.plan().mesh;
    t.Input("x").Param("w").Node("Fn", {"x", "w"}, {"h"}).Node("comm.AllReduce", {"h"}, {"r"});
    t.node("r").attrs = Axis("data");
    t.Node("InPlace", {"w", "r"}, {"u"}).Output("h").Update("w", "u");
    t.plan().graph.shardings[t.value("x")] = {{{AxisSharding::Kind::kShard, 0, Reduction::kSum}}};
    p = &t.Program();
    p->program().device_index.terms.push_back({.variable = 0});
    p->Buffer("arena", 16).Load("w@0").In("x@2").Out("h@4");
    p->Launch("main", "h", {"x@2", "w@0"}, {"h@4"}).Record("main", "h").Wait("comm", "h");
    p->Collective("comm", "r", "h@4", "r@6").Record("comm", "r").Wait("main", "r");
    p->Launch("main", "u", {"w@0", "r@6"}, {"u@0"});
  }
  TestPlan t;
  TestProgram* p;
};

TEST(CheckMesh, ReplicasStandForEachOther) {
  DataParallel two(2), many(1024);
  EXPECT_EQ(Verdict(two.t), "");
  const CheckReport report = many.t.Check();
  EXPECT_TRUE(report.ok()) << FormatReport(report);
  EXPECT_EQ(report.instructions, two.t.Check().instructions);
  EXPECT_EQ(report.instructions, 7);
}

TEST(CheckMesh, CollectiveNeedsItsInput) {
  DataParallel d(4);
  std::vector<Instruction>& list = d.p->program().segments[0].instructions;
  list.erase(list.begin() + 2);  // the wait of 'comm'
  EXPECT_THAT(Verdict(d.t), StartsWith("race in program 'p' at data=0 step buffer 'arena' bytes "
                                       "[4,6): stream 'main' #0 launch h"));
}

TEST(CheckMesh, CollectiveTypesFitTheGroup) {
  TestPlan t;
  t.plan().mesh.axes = {{"data", 4}};
  t.Input("x").Node("comm.AllGather", {"x"}, {"y"}, {8}).Output("y");
  t.node("y").attrs = Axis("data");
  t.Program().Buffer("arena", 16).In("x@0").Out("y@2").Collective("s", "y", "x@0", "y@2");
  EXPECT_EQ(Verdict(t), "");
  t.plan().mesh.axes[0].size = 3;
  EXPECT_EQ(
      Verdict(t),
      "comm in program 'p' segment 'step' instruction 0 (Collective): comm.AllGather 'y' over 3 "
      "devices cannot make u8[8] of u8[2]");
  t.plan().mesh.axes[0].name = "tensor";
  EXPECT_EQ(
      Verdict(t),
      "comm in program 'p' segment 'step' instruction 0 (Collective): comm.AllGather 'y' names "
      "no axis of the mesh in 'axis'");
}

// Each device keeps its own share of y at an offset of its own: all four are looked at.
TEST(CheckMesh, OffsetsByCoordinate) {
  for (const int64_t size : {10, 9}) {
    TestPlan t;
    t.plan().mesh.axes = {{"data", 4}, {"other", 16}};
    t.Input("x").Node("Fn", {"x"}, {"y"}).Output("y");
    t.Program()
        .Buffer("arena", size)
        .In("x@0")
        .Out("y@2+2*data")
        .Launch("s", "y", {"x@0"}, {"y@2+2*data"});
    const CheckReport report = t.Check();
    EXPECT_EQ(report.instructions, 4);
    if (size == 10) {
      EXPECT_TRUE(report.ok());
    } else {
      EXPECT_EQ(
          report.errors[0].message,
          "bounds in program 'p' at data=3,other=0 step buffer 'arena' of 9 bytes: stream 's' "
          "#0 launch y (ref) y@arena[2+2*data,+2) <- x@arena[0,2) (segment 'step' microbatch "
          "0) uses slice 1 of 'y' with 2 bytes at 8 for microbatch 0, which does not lie "
          "inside");
    }
  }
}

// Coordinates with equal offsets are one class.
TEST(CheckMesh, OddAndEven) {
  TestPlan t;
  t.plan().mesh.axes = {{"data", 1000}};
  t.Input("x").Node("Fn", {"x"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@2+2*(data%2)")
      .Launch("s", "y", {"x@0"}, {"y@2+2*(data%2)"});
  const CheckReport report = t.Check();
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.instructions, 2);
}

// Each device sends h to a peer and makes y of what it receives. That is another device's h, unless
// all have the same.
struct Exchange {
  Exchange(int64_t devices, const char* to, const char* from, bool same) {
    t.plan().mesh.axes = {{"data", devices}, {"other", 8}};
    t.plan().graph.mesh = t.plan().mesh;
    t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"h"}, {"y"}).Output("y");
    AxisSharding data{same ? AxisSharding::Kind::kReplicate : AxisSharding::Kind::kShard, 0,
                      Reduction::kSum};
    t.plan().graph.shardings[t.value("x")] = {{data, {}}};
    t.Program()
        .Buffer("arena", 16)
        .In("x@0")
        .Out("y@6")
        .Launch("s", "h", {"x@0"}, {"h@2"})
        .Record("s", "h")
        .Wait("r", "h")
        .Recv("r", "h@4", 0)
        .AtCoordinate(0, from)
        .Record("r", "h2")
        .Send("s", "h@2", 0)
        .AtCoordinate(0, to)
        .Wait("s", "h2")
        .Launch("s", "y", {"h@4"}, {"y@6"});
  }
  TestPlan t;
};

TEST(CheckMesh, PairsExchange) {
  // 0 with 2, 1 with 3: one pair is looked at.
  Exchange e(4, "((data+2)%4)", "((data+2)%4)", true);
  const CheckReport report = e.t.Check();
  EXPECT_TRUE(report.ok()) << FormatReport(report);
  EXPECT_EQ(report.instructions, 2 * 8);
}

TEST(CheckMesh, RingIsLookedAtAsAWhole) {
  Exchange e(6, "((data+1)%6)", "((data+5)%6)", true);
  const CheckReport report = e.t.Check();
  EXPECT_TRUE(report.ok()) << FormatReport(report);
  EXPECT_EQ(report.instructions, 6 * 8);
}

TEST(CheckMesh, AnotherDevicesShareIsStale) {
  Exchange e(4, "((data+2)%4)", "((data+2)%4)", false);
  EXPECT_THAT(Verdict(e.t), StartsWith("stale read in program 'p' at data=0,other=0 step buffer "
                                       "'arena' bytes [4,6)"));
  EXPECT_THAT(Verdict(e.t), HasSubstr("(made from input 'x' of microbatch 0 at data=2,other=0 "
                                      "instead of input 'x' of microbatch 0 at data=0,other=0)"));
}

TEST(CheckMesh, PeersAgree) {
  Exchange wrong(4, "((data+1)%4)", "((data+1)%4)", true);
  EXPECT_THAT(Verdict(wrong.t), HasSubstr("it waits forever"));
  Exchange outside(4, "data+1", "((data+3)%4)", true);
  EXPECT_THAT(Verdict(outside.t), HasSubstr("its peer is at data=4; the axis has 4 coordinates"));
}

// All send to the right before they receive from the left, on one stream: nobody ever receives.
TEST(CheckMesh, RingOfSendsDeadlocks) {
  TestPlan t;
  t.plan().mesh.axes = {{"data", 3}};
  t.Input("x").Node("Fn", {"x"}, {"y"}).Output("y");
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Send("s", "x@0", 0)
      .AtCoordinate(0, "((data+1)%3)")
      .Recv("s", "x@2", 0)
      .AtCoordinate(0, "((data+2)%3)")
      .Launch("s", "y", {"x@2"}, {"y@4"});
  EXPECT_THAT(Verdict(t), StartsWith("deadlock in the step section; these wait for each other: (1) "
                                     "program 'p' at data=0 stream 's' #0 send"));
  EXPECT_THAT(Verdict(t), HasSubstr("which is behind (3)"));
}

// Replicas that each apply their own gradient are no replicas any more.
TEST(CheckMesh, ReplicasDiverge) {
  TestPlan t;
  t.plan().mesh.axes = {{"data", 2}};
  t.plan().graph.mesh = t.plan().mesh;
  t.Input("x").Param("w").Node("Fn", {"x", "w"}, {"u"}).Node("Fn", {"w"}, {"y"}).Output("y");
  t.Update("w", "u");
  t.plan().graph.shardings[t.value("x")] = {{{AxisSharding::Kind::kShard, 0, Reduction::kSum}}};
  // y is made of the other device's w, which is the same in the first step only.
  t.Program()
      .Buffer("arena", 16)
      .Load("w@0")
      .In("x@2")
      .Out("y@6")
      .Recv("r", "w@4", 0)
      .AtCoordinate(0, "((data+1)%2)")
      .Record("r", "w")
      .Send("s", "w@0", 0)
      .AtCoordinate(0, "((data+1)%2)")
      .Wait("s", "w")
      .Launch("s", "y", {"w@4"}, {"y@6"})
      .Launch("s", "u", {"x@2", "w@0"}, {"u@8"})
      .Copy("s", "u@0", "u@8");
  EXPECT_THAT(Verdict(t), HasSubstr("reads 'w' and must find param 'w' of the start of the step"));
  EXPECT_THAT(Verdict(t), HasSubstr("the bytes hold param 'w' of the start of the step at data=1"));
}

}  // namespace
}  // namespace millrace
