#include "tests/plan/mutants.h"
#include "tests/plan/plan_edit.h"

namespace millrace {

std::vector<Mutant> TransferMutants() {
  return {
      {"receive without a send",
       [](PlanBundle& p) { Erase(p, "stage1/middle/send g"); },
       PlanRule::kComm,
       {"stage0", "recv g", "channel 1"}},
      {"send without a receive",
       [](PlanBundle& p) { Erase(p, "stage1/receive/recv a"); },
       PlanRule::kComm,
       {"stage0", "send a", "channel 0"}},
      {"send on a channel nobody listens to",
       [](PlanBundle& p) { BodyAt<Send>(p, "stage1/middle/send g").channel = 5; },
       PlanRule::kComm,
       {"channel 5"}},
      {"channels exchanged at one end",
       [](PlanBundle& p) {
         BodyAt<Send>(p, "stage0/forward/send a").channel = 1;
         BodyAt<Recv>(p, "stage0/backward/recv g").channel = 0;
       },
       PlanRule::kComm,
       {"channel"}},
      {"sent and received sizes differ",
       [](PlanBundle& p) {
         BodyAt<Send>(p, "stage0/forward/send a").from = SliceIdAt(p, "stage0/x@arena");
       },
       PlanRule::kComm,
       {"send x", "recv a", "64", "32"}},
      {"another value of the same size sent",
       [](PlanBundle& p) {
         BodyAt<Send>(p, "stage0/forward/send a").from = SliceIdAt(p, "stage0/h@arena");
       },
       PlanRule::kStaleRead,
       {"stage1", "'a' of microbatch 0", "the bytes hold 'h' of microbatch 0", "recv a"}},
      {"sent to itself",
       [](PlanBundle& p) { BodyAt<Send>(p, "stage0/forward/send a").to.program = ProgramId(0); },
       PlanRule::kComm,
       {"stage0", "send a"}},
      {"sent to a program that does not exist",
       [](PlanBundle& p) { BodyAt<Send>(p, "stage0/forward/send a").to.program = ProgramId(2); },
       PlanRule::kStructure,
       {"stage0", "'forward' instruction 5 (Send)", "peer program does not exist", "id 2 of 2"}},
      {"one send too many",
       [](PlanBundle& p) {
         InsertAfter(p, "stage0/forward/send a", InstructionAt(p, "stage0/forward/send a"));
       },
       PlanRule::kComm,
       {"stage0", "send a", "channel 0"}},
      {"sent in another order than received",
       [](PlanBundle& p) {
         SetStep(p, "stage1",
                 "receive 1, receive 0, middle 0, receive 2, middle 1, receive 3, "
                 "middle 2, middle 3");
       },
       PlanRule::kStaleRead,
       {"microbatch 0", "microbatch 1"}},
      {"both send first",
       [](PlanBundle& p) {
         SetStep(p, "stage1",
                 "receive 0, middle 0, receive 1, middle 1, receive 2, middle 2, "
                 "receive 3, middle 3");
       },
       PlanRule::kDeadlock,
       {"stage0", "send a", "stage1", "send g"}},
      {"both receive first",
       [](PlanBundle& p) {
         SetStep(p, "stage0",
                 "forward 0, backward 0, forward 1, backward 1, forward 2, "
                 "backward 2, forward 3, backward 3");
       },
       PlanRule::kDeadlock,
       {"stage0", "recv g", "stage1", "recv a"}},
      {"a cycle through an event: the gradient waits for activations that wait for the gradient",
       [](PlanBundle& p) {
         // g goes by the main stream, which waits for the last receive: with all four first, that
         // is receive 3, whose send comes after backward 0 has its g.
         InstructionAt(p, "stage1/middle/send g").stream = StreamIdAt(p, "stage1/main");
         BufferAt(p, "stage1/arena").size_bytes = 2048;
         for (const char* slice :
              {"stage1/a@arena", "stage1/then_a@arena", "stage1/else_a@arena"}) {
           SliceAt(p, slice).offset_bytes = SlotExpr(1280, 64);
         }
         SliceAt(p, "stage1/t@pinned").offset_bytes = SlotExpr(768, 64);
         BufferAt(p, "stage1/pinned").size_bytes = 1024;
         SetStep(p, "stage1",
                 "receive 0, receive 1, receive 2, receive 3, middle 0, middle 1, "
                 "middle 2, middle 3");
       },
       PlanRule::kDeadlock,
       {"wait a_here", "send g", "recv a", "send a", "recv g"}},
      {"received from itself",
       [](PlanBundle& p) { BodyAt<Recv>(p, "stage1/receive/recv a").from.program = ProgramId(1); },
       PlanRule::kComm,
       {"stage1", "recv a"}},
      {"received to a slice of another value",
       [](PlanBundle& p) {
         BodyAt<Recv>(p, "stage1/receive/recv a").to = SliceIdAt(p, "stage1/z@arena");
       },
       PlanRule::kStaleRead,
       {"stage1", "[256,288)", "'a' of microbatch 0", "never written"}},
  };
}

}  // namespace millrace
