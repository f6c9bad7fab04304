// Who waits for whom: events, meetings, deadlocks, collectives, control dependencies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/test_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CheckOrder, WaitNeedsARecord) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Wait("b", "done")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Record("a", "done")
      .Launch("a", "y", {"h@2"}, {"y@4"});
  EXPECT_EQ(
      Verdict(t),
      "event in program 'p' step #0 (segment 'step' microbatch 0): stream 'b' waits for event "
      "'done', but no record of it comes before in the section");
}

TEST(CheckOrder, EventIsRecordedOnOneStream) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Launch("a", "y", {"h@2"}, {"y@4"})
      .Record("a", "done")
      .Record("b", "done");
  EXPECT_EQ(
      Verdict(t),
      "event in program 'p' step #3 (segment 'step' microbatch 0): event 'done' is recorded on "
      "two streams, 'a' and 'b'");
}

// The Wait is for the last Record before it, not for the first.
TEST(CheckOrder, RecordsOfOneEventFollowEachOther) {
  for (const bool late : {false, true}) {
    TestPlan t;
    DeclareChain(t);
    TestProgram& p = t.Program().Buffer("arena", 8).In("x@0").Out("y@4");
    p.Record("a", "e").Launch("a", "h", {"x@0"}, {"h@2"});
    if (late) p.Record("a", "e");
    p.Wait("b", "e").Launch("b", "y", {"h@2"}, {"y@4"});
    EXPECT_EQ(Verdict(t) == "", late) << Verdict(t);
  }
}

// Program 0 computes h and sends it; program 1 makes y of it.
struct Pipeline {
  explicit Pipeline(int microbatches = 1) : t(microbatches) {
    DeclareChain(t);
    a = &t.Program("a");
    b = &t.Program("b");
    a->Buffer("arena", 16).In("x@2*mb");
    b->Buffer("arena", 16).Out("y@8+2*mb");
  }
  TestPlan t;
  TestProgram *a, *b;
};

TEST(CheckOrder, SendMeetsRecv) {
  Pipeline p(2);
  p.a->Launch("s", "h", {"x@2*mb"}, {"h@8"}).Send("s", "h@8", 1);
  p.b->Recv("s", "h@0", 0).Launch("s", "y", {"h@0"}, {"y@8+2*mb"});
  EXPECT_EQ(Verdict(p.t), "");
}

TEST(CheckOrder, SendAndRecvComeInPairs) {
  Pipeline p;
  p.a->Launch("s", "h", {"x@2*mb"}, {"h@8"}).Send("s", "h@8", 1).Send("s", "h@8", 1);
  p.b->Recv("s", "h@0", 0).Launch("s", "y", {"h@0"}, {"y@8+2*mb"});
  EXPECT_EQ(
      Verdict(p.t),
      "comm in program 'a' step: stream 's' #2 send h@arena[8,10) -> b channel 0 (segment "
      "'step' microbatch 0): it waits forever: on channel 0 there are 2 sends and 1 recvs, so "
      "its recv is missing");
}

TEST(CheckOrder, BothSidesMoveTheSame) {
  Pipeline p;
  p.a->Launch("s", "h", {"x@2*mb"}, {"h@8"}).Send("s", "h@8", 1);
  p.b->Recv("s", "h@0", 0).Launch("s", "y", {"h@0"}, {"y@8+2*mb"});
  p.b->slice("h@0").size_bytes = 3;
  EXPECT_EQ(Verdict(p.t),
            "comm in program 'a' step: stream 's' #1 send h@arena[8,10) -> b channel 0 (segment "
            "'step' microbatch 0): it sends 2 bytes of u8, but program 'b' stream 's' #0 recv "
            "h@arena[0,3) <- a channel 0 (segment 'step' microbatch 0) expects 3 bytes of u8");
}

// Contents travel: what arrives is what was sent, of the microbatch it was sent for.
TEST(CheckOrder, ReceivedBytesKeepTheirMeaning) {
  Pipeline p(2);
  p.a->Segment("f").Launch("s", "h", {"x@2*mb"}, {"h@8+2*mb"});
  p.a->Segment("send").Send("s", "h@8+2*mb", 1);
  p.a->Schedule(Section::kStep, {{"f", 0}, {"f", 1}, {"send", 1}, {"send", 0}});
  p.b->Recv("s", "h@0", 0).Launch("s", "y", {"h@0"}, {"y@8+2*mb"});
  EXPECT_THAT(Verdict(p.t), HasSubstr("must find 'h' of microbatch 0; the bytes hold 'h' of "
                                      "microbatch 1, written by stream 's' #0 recv"));
}

TEST(CheckOrder, TwoThatBothRecvFirstDeadlock) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"x"}, {"k"}).Output("h").Output("k");
  TestProgram& a = t.Program("a").Buffer("arena", 8).In("x@0").Out("h@2").Out("k@4");
  TestProgram& b = t.Program("b").Buffer("arena", 8).In("x@0");
  a.Launch("s", "h", {"x@0"}, {"h@2"}).Recv("s", "k@4", 1, 7).Send("s", "h@2", 1, 8);
  b.Launch("s", "k", {"x@0"}, {"k@4"}).Recv("s", "h@2", 0, 8).Send("s", "k@4", 0, 7);
  EXPECT_EQ(
      Verdict(t),
      "deadlock in the step section; these wait for each other: (1) program 'a' stream 's' #1 "
      "recv k@arena[4,6) <- b channel 7 (segment 'step' microbatch 0) waits for program 'b' "
      "stream 's' #2 send k@arena[4,6) -> a channel 7 (segment 'step' microbatch 0), which is "
      "behind (2); (2) program 'b' stream 's' #1 recv h@arena[2,4) <- a channel 8 (segment "
      "'step' microbatch 0) waits for program 'a' stream 's' #2 send h@arena[2,4) -> b channel "
      "8 (segment 'step' microbatch 0), which is behind (1)");
}

TEST(CheckOrder, OtherStreamsCanMeetMeanwhile) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"x"}, {"k"}).Output("h").Output("k");
  TestProgram& a = t.Program("a").Buffer("arena", 8).In("x@0").Out("h@2").Out("k@4");
  TestProgram& b = t.Program("b").Buffer("arena", 8).In("x@0");
  a.Launch("s", "h", {"x@0"}, {"h@2"}).Record("s", "h").Recv("s", "k@4", 1, 7);
  a.Wait("r", "h").Send("r", "h@2", 1, 8);
  b.Launch("s", "k", {"x@0"}, {"k@4"}).Recv("s", "h@2", 0, 8).Send("s", "k@4", 0, 7);
  EXPECT_EQ(Verdict(t), "");
}

// A wait across streams closes the cycle: 'r' cannot send before 's' has received.
TEST(CheckOrder, WaitsTakePartInDeadlocks) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"x"}, {"k"}).Output("h").Output("k");
  TestProgram& a = t.Program("a").Buffer("arena", 8).In("x@0").Out("h@2").Out("k@4");
  TestProgram& b = t.Program("b").Buffer("arena", 8).In("x@0");
  a.Launch("s", "h", {"x@0"}, {"h@2"}).Recv("s", "k@4", 1, 7).Record("s", "h");
  a.Wait("r", "h").Send("r", "h@2", 1, 8);
  b.Launch("s", "k", {"x@0"}, {"k@4"}).Recv("s", "h@2", 0, 8).Send("s", "k@4", 0, 7);
  const std::string verdict = Verdict(t);
  EXPECT_THAT(verdict, StartsWith("deadlock in the step section; these wait for each other: (1) "
                                  "program 'a' stream 's' #1 recv"));
  EXPECT_THAT(verdict, HasSubstr("stream 'r' #3 wait h"));
  EXPECT_THAT(verdict, HasSubstr("which is behind (3)"));
}

TEST(CheckOrder, SendToItselfOnOneStreamDeadlocks) {
  TestPlan t;
  DeclareChain(t);
  t.Program()
      .Buffer("arena", 8)
      .In("x@0")
      .Out("y@4")
      .Launch("a", "h", {"x@0"}, {"h@2"})
      .Send("a", "h@2", 0)
      .Recv("a", "h@6", 0)
      .Launch("a", "y", {"h@6"}, {"y@4"});
  EXPECT_THAT(Verdict(t), HasSubstr("which is behind (1)"));
}

// Both sends use channel 0, and either may come first.
TEST(CheckOrder, ChannelUsersAreOrdered) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"x"}, {"k"}).Node("Fn", {"h", "k"}, {"y"});
  t.Output("y");
  TestProgram& a = t.Program("a").Buffer("arena", 8).In("x@0");
  TestProgram& b = t.Program("b").Buffer("arena", 8).Out("y@4");
  a.Launch("s", "h", {"x@0"}, {"h@2"}).Send("s", "h@2", 1);
  a.Launch("r", "k", {"x@0"}, {"k@4"}).Send("r", "k@4", 1);
  b.Recv("s", "h@0", 0).Recv("s", "k@2", 0).Launch("s", "y", {"h@0", "k@2"}, {"y@4"});
  EXPECT_EQ(
      Verdict(t),
      "comm in program 'a' step: stream 's' #1 send h@arena[2,4) -> b channel 0 (segment "
      "'step' microbatch 0) and stream 'r' #3 send k@arena[4,6) -> b channel 0 (segment 'step' "
      "microbatch 0) use one channel, and nothing orders them");
}

// A message is also a signal: after the reply, 'a' may reuse the bytes that 'b' made it from.
TEST(CheckOrder, MeetingsOrderOtherStreams) {
  for (const bool reply_waits : {false, true}) {
    TestPlan t;
    t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"h"}, {"y"}).Node("Fn", {"h"}, {"z"});
    t.Output("y").Output("z");
    TestProgram& a = t.Program("a").Buffer("arena", 8).In("x@0").Out("z@2");
    TestProgram& b = t.Program("b").Buffer("arena", 8).Out("y@2");
    // 'copy' reads h at 2 to send it; 'main' then overwrites it with z.
    a.Launch("main", "h", {"x@0"}, {"h@2"}).Copy("main", "h@4", "h@2").Record("main", "h");
    a.Wait("copy", "h").Send("copy", "h@2", 1);
    a.Recv("main", "h@6", 1, 1).Launch("main", "z", {"h@6"}, {"z@2"});
    b.Recv("s", "h@0", 0).Launch("s", "y", {"h@0"}, {"y@2"});
    // The reply either follows the message, or comes from a stream that does not wait for it.
    b.Send(reply_waits ? "s" : "r", reply_waits ? "h@0" : "h@4", 0, 1);
    const std::string verdict = Verdict(t);
    if (reply_waits) {
      EXPECT_EQ(verdict, "");
    } else {
      EXPECT_THAT(FormatReport(t.Check()),
                  HasSubstr("race in program 'a' step buffer 'arena' bytes [2,4)"));
    }
  }
}

TEST(CheckOrder, ControlDependencies) {
  for (const char* stream : {"a", "b"}) {
    TestPlan t;
    t.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"x"}, {"y"}).Output("h").Output("y");
    t.node("y").after = {t.node_id("h")};
    t.Program()
        .Buffer("arena", 8)
        .In("x@0")
        .Out("h@2")
        .Out("y@4")
        .Launch("a", "h", {"x@0"}, {"h@2"})
        .Launch(stream, "y", {"x@0"}, {"y@4"});
    if (std::string_view(stream) == "a") {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_EQ(Verdict(t),
                "compute in program 'p' step: stream 'b' #1 launch y (ref) y@arena[4,6) <- "
                "x@arena[0,2) (segment 'step' microbatch 0) must run after node 'h' (its control "
                "dependency), and nothing orders them");
    }
  }
}

TEST(CheckOrder, Mailboxes) {
  for (const int64_t size : {2, 3}) {
    TestPlan t;
    t.Input("x").Node("comm.Publish", {"x"}, {}).Node("comm.TakeLatest", {}, {"l"});
    t.Node("Fn", {"l"}, {"y"}).Output("y");
    TestProgram& p = t.Program().Buffer("arena", 8).In("x@0").Out("y@4");
    p.Publish("s", "comm.Publish", "x@0").TakeLatest("s", "l", "l@2");
    p.Launch("s", "y", {"l@2"}, {"y@4"});
    p.slice("l@2").size_bytes = size;
    if (size == 2) {
      EXPECT_EQ(Verdict(t), "");
    } else {
      EXPECT_EQ(Verdict(t),
                "comm in program 'p' segment 'step' instruction 1 (TakeLatest): mailbox 'box' "
                "carries 3 bytes of u8 here and 2 bytes of u8 in program 'p' segment 'step' "
                "instruction 0 (Publish)");
    }
  }
}

}  // namespace
}  // namespace millrace
