// Stage 0's forward and backward, and stage 1's middle, with their events weakened.
#include "tests/plan/mutants.h"
#include "tests/plan/plan_edit.h"

namespace millrace {

std::vector<Mutant> SyncMutants() {
  return {
      {"send does not wait for what it sends",
       [](PlanBundle& p) { Erase(p, "stage0/forward/wait a_ready"); },
       PlanRule::kRace,
       {"stage0", "launch a", "send a", "arena", "[512,544)"}},
      {"event waited for is never recorded",
       [](PlanBundle& p) { Erase(p, "stage0/forward/record a_ready"); },
       PlanRule::kEvent,
       {"stage0", "'forward'", "stream 'copy' waits for event 'a_ready'", "no record"}},
      {"backward does not wait for its gradient",
       [](PlanBundle& p) { Erase(p, "stage0/backward/wait back_ready"); },
       PlanRule::kRace,
       {"stage0", "recv g", "launch d", "[640,672)"}},
      {"record of the swap-in dropped",
       [](PlanBundle& p) { Erase(p, "stage0/backward/record back_ready"); },
       PlanRule::kEvent,
       {"stage0", "'backward'", "stream 'main' waits for event 'back_ready'", "no record"}},
      {"call does not wait for the activations",
       [](PlanBundle& p) { Erase(p, "stage1/middle/wait a_here"); },
       PlanRule::kRace,
       {"stage1", "recv a", "[256,288)"}},
      {"gradient sent while it is computed",
       [](PlanBundle& p) { Erase(p, "stage1/middle/wait g_ready"); },
       PlanRule::kRace,
       {"stage1", "launch g", "send g", "[640,672)"}},
      {"copy of the new param does not wait for it",
       [](PlanBundle& p) { Erase(p, "stage1/middle/wait w2n_ready"); },
       PlanRule::kRace,
       {"stage1", "launch w2n", "copy w2n", "[832,848)"}},
      {"next microbatch does not wait for the new param",
       [](PlanBundle& p) { Erase(p, "stage1/middle/wait w2_home"); },
       PlanRule::kRace,
       {"stage1", "copy w2n", "weights", "[0,16)"}},
      {"record of the new param dropped",
       [](PlanBundle& p) { Erase(p, "stage1/middle/record w2_home"); },
       PlanRule::kEvent,
       {"stage1", "stream 'main' waits for event 'w2_home'", "no record"}},
      {"backward waits for the wrong event",
       [](PlanBundle& p) {
         BodyAt<Wait>(p, "stage0/backward/wait back_ready").event = EventIdAt(p, "stage0/a_ready");
       },
       PlanRule::kRace,
       {"stage0", "recv g", "launch d"}},
      {"send waits for an event of its own stream",
       [](PlanBundle& p) {
         BodyAt<Wait>(p, "stage1/middle/wait g_ready").event = EventIdAt(p, "stage1/a_here");
       },
       PlanRule::kRace,
       {"stage1", "launch g", "send g"}},
      {"send waits for an earlier point of the stream it needs",
       [](PlanBundle& p) {
         const EventId early = AddEvent(p, "stage1", "early");
         InsertBefore(p, "stage1/middle/launch g", {StreamIdAt(p, "stage1/main"), Record{early}});
         BodyAt<Wait>(p, "stage1/middle/wait g_ready").event = early;
       },
       PlanRule::kRace,
       {"stage1", "launch g", "send g"}},
      {"event recorded on both streams",
       [](PlanBundle& p) {
         InsertAfter(p, "stage0/forward/copy a",
                     {StreamIdAt(p, "stage0/copy"), Record{EventIdAt(p, "stage0/a_ready")}});
       },
       PlanRule::kEvent,
       {"stage0", "a_ready", "main", "copy"}},
      {"event recorded before the work it stands for",
       [](PlanBundle& p) { MoveBefore(p, "stage0/forward/record a_ready", "launch a"); },
       PlanRule::kRace,
       {"stage0", "launch a", "send a"}},
      {"event recorded too early, and again too late to count",
       [](PlanBundle& p) {
         const Instruction record = InstructionAt(p, "stage0/forward/record a_ready");
         MoveBefore(p, "stage0/forward/record a_ready", "launch a");
         InsertAfter(p, "stage0/forward/copy a", record);
       },
       PlanRule::kRace,
       {"stage0", "launch a", "send a"}},
      {"wait after what it should hold back",
       [](PlanBundle& p) { MoveAfter(p, "stage0/forward/wait a_ready", "send a"); },
       PlanRule::kRace,
       {"stage0", "launch a", "send a"}},
      {"swap-out before the wait",
       [](PlanBundle& p) { MoveBefore(p, "stage0/forward/copy a", "wait a_ready"); },
       PlanRule::kRace,
       {"stage0", "launch a", "copy a"}},
      {"wait for the swap-in after its reader",
       [](PlanBundle& p) { MoveAfter(p, "stage0/backward/wait back_ready", "launch d"); },
       PlanRule::kRace,
       {"stage0", "recv g", "launch d"}},
      {"gradient recorded as ready before it is",
       [](PlanBundle& p) { MoveBefore(p, "stage1/middle/record g_ready", "launch g"); },
       PlanRule::kRace,
       {"stage1", "launch g", "send g"}},
      {"host call after the record that protects its operand",
       [](PlanBundle& p) { MoveAfter(p, "stage1/middle/hostcall nz", "record w2n_ready"); },
       PlanRule::kRace,
       {"stage1", "hostcall nz", "copy t", "pinned", "[64,96)"}},
      {"wait comes before the first record in issue order",
       [](PlanBundle& p) { MoveBefore(p, "stage1/middle/wait w2_home", "wait a_here"); },
       PlanRule::kEvent,
       {"stage1", "microbatch 0", "stream 'main' waits for event 'w2_home'", "no record"}},
      {"swap-in recorded before it is made",
       [](PlanBundle& p) { MoveBefore(p, "stage0/backward/record back_ready", "copy a"); },
       PlanRule::kRace,
       {"stage0", "copy a", "launch d", "[384,416)"}},
      {"a launch on a stream that nothing orders",
       [](PlanBundle& p) {
         InstructionAt(p, "stage0/backward/launch dr").stream = StreamIdAt(p, "stage0/copy");
       },
       PlanRule::kRace,
       {"stage0", "launch d", "launch dr", "[768,800)"}},
      {"mean computed on the stream that only copies",
       [](PlanBundle& p) {
         InstructionAt(p, "stage1/middle/launch zm").stream = StreamIdAt(p, "stage1/copy");
       },
       PlanRule::kRace,
       {"stage1", "zm"}},
  };
}

}  // namespace millrace
