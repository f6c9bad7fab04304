#include "tests/plan/mutants.h"
#include "tests/plan/plan_edit.h"

namespace millrace {

std::vector<Mutant> AllMutants() {
  std::vector<Mutant> all;
  for (const std::vector<Mutant>& part :
       {SyncMutants(), MemoryMutants(), OperandMutants(), TransferMutants(), NestedMutants()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<Variant> HarmlessVariants() {
  return {
      {"as written", [](PlanBundle&) {}},
      {"an extra wait",
       [](PlanBundle& p) {
         InsertBefore(p, "stage0/backward/launch dr",
                      {StreamIdAt(p, "stage0/main"), Wait{EventIdAt(p, "stage0/back_ready")}});
       }},
      {"an extra record",
       [](PlanBundle& p) {
         InsertBefore(p, "stage0/forward/launch mm",
                      {StreamIdAt(p, "stage0/main"), Record{EventIdAt(p, "stage0/a_ready")}});
       }},
      {"an event nobody uses", [](PlanBundle& p) { AddEvent(p, "stage0", "unused"); }},
      {"bigger buffers",
       [](PlanBundle& p) {
         BufferAt(p, "stage0/arena").size_bytes = 1 << 16;
         BufferAt(p, "stage1/pinned").size_bytes = 1 << 16;
       }},
      {"a buffer and a slice nobody uses",
       [](PlanBundle& p) {
         AddSliceLike(p, "stage0/d@arena", 0);
         ProgramAt(p, "stage0").buffers.push_back({"spare", MemorySpace::kHost, 256});
       }},
      {"independent launches exchanged",
       [](PlanBundle& p) { MoveBefore(p, "stage1/middle/launch zm", "launch y"); }},
      {"update computed in place, without the copy",
       [](PlanBundle& p) {
         BodyAt<Launch>(p, "stage1/middle/launch w2n").outputs[0] =
             SliceIdAt(p, "stage1/w2n@weights");
         for (const char* gone : {"record w2n_ready", "wait w2n_ready", "copy w2n",
                                  "record w2_home", "wait w2_home"}) {
           Erase(p, std::string("stage1/middle/") + gone);
         }
       }},
      {"activation computed in place",
       [](PlanBundle& p) { SliceAt(p, "stage0/a@arena").offset_bytes = SlotExpr(384, 64, 2); }},
      {"a pure node computed twice",
       [](PlanBundle& p) {
         InsertAfter(p, "stage0/forward/launch a", InstructionAt(p, "stage0/forward/launch a"));
       }},
      {"activations read where they were, without the swap",
       [](PlanBundle& p) {
         BodyAt<Launch>(p, "stage0/backward/launch d").inputs[1] = SliceIdAt(p, "stage0/a@arena");
         Erase(p, "stage0/forward/copy a");
         Erase(p, "stage0/backward/copy a");
       }},
      {"swap-out before the send",
       [](PlanBundle& p) { MoveBefore(p, "stage0/forward/copy a", "send a"); }},
      {"swap by a file", [](PlanBundle&) {}, {.swap_space = MemorySpace::kFile}},
      {"gradient received on the compute stream",
       [](PlanBundle& p) {
         InstructionAt(p, "stage0/backward/recv g").stream = StreamIdAt(p, "stage0/main");
       }},
      {"inner result in place of the branch's result",
       [](PlanBundle& p) { SliceAt(p, "stage1/then_tanh@arena").offset_bytes = 512; }},
      {"more slots than needed",
       [](PlanBundle& p) {
         BufferAt(p, "stage1/pinned").size_bytes = 1024;
         SliceAt(p, "stage1/t@pinned").offset_bytes = SlotExpr(768, 64, 3);
       }},
      {"all on one stream, without events",
       [](PlanBundle& p) {
         for (const char* gone : {"forward/record a_ready", "forward/wait a_ready",
                                  "backward/record back_ready", "backward/wait back_ready"}) {
           Erase(p, std::string("stage0/") + gone);
         }
         for (Segment& segment : ProgramAt(p, "stage0").segments) {
           for (Instruction& i : segment.instructions) i.stream = StreamIdAt(p, "stage0/main");
         }
       }},
      {"on two cuda devices", [](PlanBundle&) {}, {.kind0 = "cuda", .kind1 = "cuda"}},
      {"on cpu and cuda", [](PlanBundle&) {}, {.kind0 = "cpu", .kind1 = "cuda"}},
      {"on cuda and cpu", [](PlanBundle&) {}, {.kind0 = "cuda", .kind1 = "cpu"}},
  };
}

}  // namespace millrace
