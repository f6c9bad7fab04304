#include "tests/plan/mutants.h"
#include "tests/plan/plan_edit.h"

namespace millrace {

std::vector<Mutant> MemoryMutants() {
  return {
      {"activations have one slot instead of two",
       [](PlanBundle& p) { SliceAt(p, "stage0/a@arena").offset_bytes = 512; },
       PlanRule::kRace,
       {"stage0", "launch a", "arena", "[512,544)"}},
      {"gradients have one slot: only the last two microbatches meet",
       [](PlanBundle& p) { SliceAt(p, "stage0/g@arena").offset_bytes = 640; },
       PlanRule::kRace,
       {"stage0", "recv g", "launch d", "[640,672)"}},
      {"one slot to swap to: the second swap-out overwrites the first",
       [](PlanBundle& p) { SliceAt(p, "stage0/a@swap").offset_bytes = 0; },
       PlanRule::kStaleRead,
       {"stage0", "copy a", "swap", "microbatch"}},
      {"one slot to swap in to",
       [](PlanBundle& p) { SliceAt(p, "stage0/a@arena#2").offset_bytes = 384; },
       PlanRule::kRace,
       {"stage0", "copy a", "launch d", "[384,416)"}},
      {"received activations have one slot",
       [](PlanBundle& p) {
         for (const char* slice :
              {"stage1/a@arena", "stage1/then_a@arena", "stage1/else_a@arena"}) {
           SliceAt(p, slice).offset_bytes = 256;
         }
       },
       PlanRule::kStaleRead,
       {"stage1", "a", "microbatch 1", "microbatch 0"}},
      {"slots of received activations by the wrong modulus",
       [](PlanBundle& p) {
         for (const char* slice :
              {"stage1/a@arena", "stage1/then_a@arena", "stage1/else_a@arena"}) {
           SliceAt(p, slice).offset_bytes = SlotExpr(256, 64, 4);
         }
       },
       PlanRule::kStaleRead,
       {"stage1", "launch then_tanh", "[384,388)", "'a' of microbatch 2", "launch sum"}},
      {"outputs share slots",
       [](PlanBundle& p) { SliceAt(p, "stage1/y@arena").offset_bytes = SlotExpr(1024, 64, 2); },
       PlanRule::kBinding,
       {"stage1", "y", "microbatch"}},
      {"next microbatch's input is read",
       [](PlanBundle& p) {
         LinearExpr next(0);
         next.terms.push_back({.variable = kMicrobatchVar, .scale = 64, .add = 1, .modulus = 4});
         BodyAt<Launch>(p, "stage0/forward/launch mm").inputs[0] =
             AddSliceLike(p, "stage0/x@arena", next);
       },
       PlanRule::kStaleRead,
       {"stage0", "launch mm", "x", "microbatch 1", "microbatch 0"}},
      {"swapped-in activations land on the gradient",
       [](PlanBundle& p) { SliceAt(p, "stage0/a@arena#2").offset_bytes = SlotExpr(640, 64, 2); },
       PlanRule::kStaleRead,
       {"stage0", "launch d", "g", "[640,672)", "copy a"}},
      {"reduction writes over its own operand",
       [](PlanBundle& p) { SliceAt(p, "stage0/r@arena").offset_bytes = 768; },
       PlanRule::kAlias,
       {"stage0", "launch r", "[768,784)"}},
      {"in place, but shifted",
       [](PlanBundle& p) { SliceAt(p, "stage0/up@arena").offset_bytes = 840; },
       PlanRule::kAlias,
       {"stage0", "launch up", "[840,848)"}},
      {"matrix product over its operand",
       [](PlanBundle& p) {
         for (const char* slice : {"stage0/mm@arena", "stage0/h@arena"}) {
           SliceAt(p, slice).offset_bytes = SlotExpr(0, 64);
         }
       },
       PlanRule::kAlias,
       {"stage0", "launch mm", "[0,32)"}},
      {"reshape in place of another type",
       [](PlanBundle& p) {
         BodyAt<Launch>(p, "stage0/backward/launch dr").outputs[0] =
             AddSliceLike(p, "stage0/dr@arena", 768);
       },
       PlanRule::kAlias,
       {"stage0", "launch dr", "[768,800)"}},
      {"slice past the end of its buffer",
       [](PlanBundle& p) { SliceAt(p, "stage0/d@arena").offset_bytes = 1520; },
       PlanRule::kBounds,
       {"stage0", "d", "[1520,1552)", "1536"}},
      {"slice before the start of its buffer",
       [](PlanBundle& p) { SliceAt(p, "stage0/d@arena").offset_bytes = -64; },
       PlanRule::kBounds,
       {"stage0", "d", "-64"}},
      {"only the last microbatch's slot is outside",
       [](PlanBundle& p) { SliceAt(p, "stage1/y@arena").offset_bytes = SlotExpr(1344, 64); },
       PlanRule::kBounds,
       {"stage1", "launch y", "'y'", "32 bytes at 1536", "microbatch 3"}},
      {"buffer smaller than its slices",
       [](PlanBundle& p) { BufferAt(p, "stage0/arena").size_bytes = 1024; },
       PlanRule::kBounds,
       {"stage0", "dr", "1024"}},
      {"buffer of negative size",
       [](PlanBundle& p) { BufferAt(p, "stage0/arena").size_bytes = -1; },
       PlanRule::kStructure,
       {"stage0", "'arena'", "-1 bytes"}},
      {"offset that overflows",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/d@arena").offset_bytes = SlotExpr(INT64_MAX - 8, INT64_MAX);
       },
       PlanRule::kBounds,
       {"stage0", "d"}},
      {"slice smaller than its value",
       [](PlanBundle& p) { SliceAt(p, "stage0/h@arena").size_bytes = 16; },
       PlanRule::kBounds,
       {"stage0", "h", "16", "32"}},
      {"slice too small for its strides",
       [](PlanBundle& p) { SliceAt(p, "stage0/a@swap").size_bytes = 32; },
       PlanRule::kBounds,
       {"stage0", "a", "32", "40"}},
      {"slice misaligned for its type",
       [](PlanBundle& p) { SliceAt(p, "stage0/d@arena").offset_bytes = 770; },
       PlanRule::kBounds,
       {"stage0", "d", "770"}},
      {"strides of the wrong rank",
       [](PlanBundle& p) { SliceAt(p, "stage0/a@swap").strides = {1}; },
       PlanRule::kBounds,
       {"stage0", "a", "strides"}},
      {"strides that lay elements over each other",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/a@swap").strides = {1, 1};
       },
       PlanRule::kBounds,
       {"stage0", "a"}},
      {"negative stride",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/a@swap").strides = {-6, 1};
       },
       PlanRule::kBounds,
       {"stage0", "a"}},
      {"more memory than the device has",
       [](PlanBundle& p) { BufferAt(p, "stage0/arena").size_bytes = 2 << 20; },
       PlanRule::kCapacity,
       {"stage0", "cpu:0", "1048576"}},
      {"scratch over a receive buffer",
       [](PlanBundle& p) { SliceAt(p, "stage0/scratch@arena").offset_bytes = 704; },
       PlanRule::kRace,
       {"stage0", "recv g", "launch r", "[704,"}},
      {"scratch over an operand",
       [](PlanBundle& p) { SliceAt(p, "stage0/scratch@arena").offset_bytes = 0; },
       PlanRule::kAlias,
       {"stage0", "launch mm", "[0,64)"}},
      {"scratch shared by two streams",
       [](PlanBundle& p) {
         Slice scratch;
         scratch.buffer = BufferIdAt(p, "stage1/arena");
         scratch.offset_bytes = 896;
         scratch.size_bytes = 64;
         ProgramAt(p, "stage1").slices.push_back(scratch);
         const SliceId id(ProgramAt(p, "stage1").slices.size() - 1);
         // The sum moves to the copy stream, before a_here: right but for the scratch.
         Instruction sum = InstructionAt(p, "stage1/middle/launch sum");
         Erase(p, "stage1/middle/launch sum");
         std::get<Launch>(sum.body).scratch = id;
         sum.stream = StreamIdAt(p, "stage1/copy");
         SliceAt(p, "stage1/sum@arena").offset_bytes = SlotExpr(384, 16, 4);
         InsertBefore(p, "stage1/receive/record a_here", sum);
         BodyAt<Launch>(p, "stage1/middle/launch y").scratch = id;
         // Beyond what the copy stream has waited for when it takes the next sum.
         MoveAfter(p, "stage1/middle/launch y", "wait w2_home");
       },
       PlanRule::kRace,
       {"stage1", "launch sum", "launch y", "[896,960)"}},
      {"output on a weight that init prepared: right once, wrong the next step",
       [](PlanBundle& p) { SliceAt(p, "stage0/dr@arena").offset_bytes = SlotExpr(64, 64); },
       PlanRule::kStaleRead,
       {"stage0", "launch mm", "wt", "[256,"}},
      {"swap-out and swap-in exchanged",
       [](PlanBundle& p) {
         Copy& copy = BodyAt<Copy>(p, "stage0/forward/copy a");
         std::swap(copy.from, copy.to);
       },
       PlanRule::kStaleRead,
       {"stage0", "copy a", "swap"}},
      {"swap-out dropped",
       [](PlanBundle& p) { Erase(p, "stage0/forward/copy a"); },
       PlanRule::kStaleRead,
       {"stage0", "launch d", "'a' of microbatch 0", "[384,416)", "copy a"}},
      {"swap-in dropped",
       [](PlanBundle& p) { Erase(p, "stage0/backward/copy a"); },
       PlanRule::kStaleRead,
       {"stage0", "launch d", "a", "[384,416)"}},
      {"swap-in before the swap-out",
       [](PlanBundle& p) {
         InsertBefore(p, "stage0/forward/copy a", InstructionAt(p, "stage0/backward/copy a"));
         Erase(p, "stage0/backward/copy a");
       },
       PlanRule::kStaleRead,
       {"stage0", "copy a", "swap"}},
      {"copy between slices of different values",
       [](PlanBundle& p) {
         BodyAt<Copy>(p, "stage0/forward/copy a").from = SliceIdAt(p, "stage0/h@arena");
       },
       PlanRule::kStructure,
       {"stage0", "'forward' instruction 6 (Copy)", "different values"}},
      {"sum written over another microbatch's input",
       [](PlanBundle& p) { SliceAt(p, "stage1/sum@arena").offset_bytes = 64; },
       PlanRule::kStaleRead,
       {"stage1", "launch sum", "t", "[64,"}},
  };
}

}  // namespace millrace
