#include <utility>

#include "tests/plan/mutants.h"
#include "tests/plan/plan_edit.h"
#include "tests/plan/program_writer.h"

namespace millrace {

std::vector<Mutant> OperandMutants() {
  return {
      // --- Ids --------------------------------------------------------------------------------
      {"slice that does not exist",
       [](PlanBundle& p) { BodyAt<Launch>(p, "stage0/forward/launch a").inputs[0] = SliceId(999); },
       PlanRule::kStructure,
       {"stage0", "'forward' instruction 2 (Launch)", "'a' input 0 needs a slice", "id 999"}},
      {"required operand left out",
       [](PlanBundle& p) { BodyAt<Launch>(p, "stage0/forward/launch a").inputs[0] = SliceId(); },
       PlanRule::kStructure,
       {"stage0", "'forward' instruction 2 (Launch)", "'a' input 0"}},
      {"node that does not exist",
       [](PlanBundle& p) { BodyAt<Launch>(p, "stage0/forward/launch a").node = NodeId(99); },
       PlanRule::kStructure,
       {"stage0", "'forward' instruction 2 (Launch)", "node does not exist", "id 99"}},
      {"stream that does not exist",
       [](PlanBundle& p) { InstructionAt(p, "stage0/forward/launch a").stream = StreamId(2); },
       PlanRule::kStructure,
       {"stage0", "'forward' instruction 2 (Launch)", "stream does not exist", "id 2 of 2"}},
      {"event that does not exist",
       [](PlanBundle& p) { BodyAt<Wait>(p, "stage0/forward/wait a_ready").event = EventId(-1); },
       PlanRule::kStructure,
       {"stage0", "'forward' instruction 4 (Wait)", "event does not exist", "id -1"}},
      {"buffer that does not exist",
       [](PlanBundle& p) { SliceAt(p, "stage0/d@arena").buffer = BufferId(7); },
       PlanRule::kStructure,
       {"stage0", "slice 8", "no buffer", "id 7 of 4"}},
      {"value that does not exist",
       [](PlanBundle& p) { SliceAt(p, "stage0/d@arena").value.value = ValueId(999); },
       PlanRule::kStructure,
       {"stage0", "slice 8", "value that does not exist", "id 999"}},
      {"graph that does not exist",
       [](PlanBundle& p) { SliceAt(p, "stage0/d@arena").value.graph = 3; },
       PlanRule::kStructure,
       {"stage0", "slice 8", "value that does not exist", "graph 3"}},
      {"segment that does not exist",
       [](PlanBundle& p) { ProgramAt(p, "stage0").step[2].segment = SegmentId(9); },
       PlanRule::kStructure,
       {"stage0", "step", "segment that does not exist", "id 9 of 3"}},
      {"microbatch that does not exist",
       [](PlanBundle& p) { ProgramAt(p, "stage0").step[7].microbatch = 4; },
       PlanRule::kStructure,
       {"stage0", "microbatch 4"}},
      {"expression over an axis that does not exist",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/d@arena").offset_bytes.terms.push_back({.variable = 0, .scale = 64});
       },
       PlanRule::kStructure,
       {"stage0", "slice 8", "offset", "variable"}},

      // --- Nodes and operands -------------------------------------------------------------------
      {"operands exchanged",
       [](PlanBundle& p) {
         Launch& launch = BodyAt<Launch>(p, "stage0/backward/launch b0n");
         std::swap(launch.inputs[0], launch.inputs[1]);
       },
       PlanRule::kCompute,
       {"stage0", "'backward' instruction 8 (Launch)", "input 0 is 'b0'",
        "'up' in buffer 'arena'"}},
      {"operand of another value",
       [](PlanBundle& p) {
         BodyAt<Launch>(p, "stage0/backward/launch r").inputs[0] = SliceIdAt(p, "stage0/g@arena");
       },
       PlanRule::kCompute,
       {"stage0", "'r' input 0 is 'd'", "'g' in buffer 'arena'"}},
      {"result to the slice of another value",
       [](PlanBundle& p) {
         BodyAt<Launch>(p, "stage1/middle/launch y").outputs[0] = SliceIdAt(p, "stage1/z@arena");
       },
       PlanRule::kCompute,
       {"stage1", "'y' output 0 is 'y'", "'z' in buffer 'arena'"}},
      {"an operand too few",
       [](PlanBundle& p) { BodyAt<Launch>(p, "stage0/forward/launch mm").inputs.pop_back(); },
       PlanRule::kStructure,
       {"stage0", "MatMul 'mm' has 2 inputs, the instruction has 1"}},
      {"an operand too many",
       [](PlanBundle& p) {
         Launch& launch = BodyAt<Launch>(p, "stage0/forward/launch a");
         launch.outputs.push_back(launch.outputs[0]);
       },
       PlanRule::kStructure,
       {"stage0", "Relu 'a' has 1 outputs, the instruction has 2"}},
      {"no variant named",
       [](PlanBundle& p) { BodyAt<Launch>(p, "stage0/forward/launch mm").variant.clear(); },
       PlanRule::kStructure,
       {"stage0", "MatMul 'mm'", "variant"}},
      {"another node's kernel",
       [](PlanBundle& p) {
         BodyAt<Launch>(p, "stage0/forward/launch a").node = FindNode(p.graph, "h");
       },
       PlanRule::kStructure,
       {"stage0", "'forward' instruction 2 (Launch)", "Add 'h' has 2 inputs"}},
      {"node of a graph that is not the segment's",
       [](PlanBundle& p) { BodyAt<Launch>(p, "stage0/forward/launch a").graph = 1; },
       PlanRule::kStructure,
       {"stage0", "graph 1"}},
      {"control flow by Launch",
       [](PlanBundle& p) {
         const Call call = BodyAt<Call>(p, "stage1/middle/call z");
         InstructionAt(p, "stage1/middle/call z").body =
             Launch{call.node, 0, "reference", call.inputs, call.outputs, {}};
       },
       PlanRule::kStructure,
       {"stage1", "If 'z' runs by Call"}},
      {"collective of a node that communicates nothing",
       [](PlanBundle& p) {
         const Launch launch = BodyAt<Launch>(p, "stage0/forward/launch a");
         InstructionAt(p, "stage0/forward/launch a").body =
             Collective{launch.node, launch.inputs, launch.outputs, {}};
       },
       PlanRule::kStructure,
       {"stage0", "Relu 'a' is no collective"}},

      // --- What is computed ---------------------------------------------------------------------
      {"output never computed",
       [](PlanBundle& p) { Erase(p, "stage0/backward/launch dr"); },
       PlanRule::kCompute,
       {"dr", "microbatch"}},
      {"host call dropped",
       [](PlanBundle& p) { Erase(p, "stage1/middle/hostcall nz"); },
       PlanRule::kCompute,
       {"nz"}},
      {"update never computed",
       [](PlanBundle& p) { Erase(p, "stage0/backward/launch b0n"); },
       PlanRule::kCompute,
       {"b0n"}},
      {"intermediate never computed",
       [](PlanBundle& p) { Erase(p, "stage0/backward/launch up"); },
       PlanRule::kCompute,
       {"stage0", "launch b0n", "reads 'up'", "[832,848)",
        "no instruction computes 'up' for microbatch 0"}},
      {"init left out",
       [](PlanBundle& p) { ProgramAt(p, "stage0").init.clear(); },
       PlanRule::kCompute,
       {"stage0", "launch mm", "'wt'", "[256,384)", "never written"}},
      {"update made twice",
       [](PlanBundle& p) {
         InsertAfter(p, "stage0/backward/launch b0n",
                     InstructionAt(p, "stage0/backward/launch b0n"));
       },
       PlanRule::kStaleRead,
       {"stage0", "launch b0n", "b0", "[128,144)"}},
      {"a microbatch left out",
       [](PlanBundle& p) {
         SetStep(p, "stage0",
                 "forward 0, forward 1, backward 0, forward 2, backward 1, forward 3, "
                 "backward 2");
         SetStep(p, "stage1",
                 "receive 0, receive 1, middle 0, receive 2, middle 1, receive 3, "
                 "middle 2");
       },
       PlanRule::kCompute,
       {"microbatch 3"}},
      {"a microbatch run twice in place of another",
       [](PlanBundle& p) { ProgramAt(p, "stage0").step[3].microbatch = 1; },
       PlanRule::kCompute,
       {"microbatch 2"}},
      {"instructions in an order their data do not allow",
       [](PlanBundle& p) { MoveBefore(p, "stage0/forward/launch a", "launch h"); },
       PlanRule::kStaleRead,
       {"stage0", "launch a", "h", "[384,416)"}},
      {"stage 1 takes two microbatches in the other order",
       [](PlanBundle& p) {
         SetStep(p, "stage1",
                 "receive 0, receive 1, middle 1, receive 2, middle 0, receive 3, "
                 "middle 2, middle 3");
       },
       PlanRule::kStaleRead,
       {"microbatch 0", "microbatch 1"}},

      // --- Params -------------------------------------------------------------------------------
      {"new param never brought home",
       [](PlanBundle& p) { Erase(p, "stage1/middle/copy w2n"); },
       PlanRule::kStaleRead,
       {"stage1", "launch w2n", "must find 'w2n' of microbatch 0",
        "param 'w2' of the start of the step"}},
      {"new param computed beside its home",
       [](PlanBundle& p) { SliceAt(p, "stage0/b0n@weights").offset_bytes = 208; },
       PlanRule::kStaleRead,
       {"stage0", "launch h", "[128,144)", "must find 'b0n' of microbatch 0",
        "param 'b0' of the start of the step"}},
      {"forward reads a copy of the param that is never renewed",
       [](PlanBundle& p) {
         const SliceId old = AddSliceLike(p, "stage0/b0@weights", 208);
         const SliceId home = SliceIdAt(p, "stage0/b0@weights");
         InsertAfter(p, "stage0/prepare/launch wt",
                     {StreamIdAt(p, "stage0/main"), Copy{home, old}});
         BodyAt<Launch>(p, "stage0/forward/launch h").inputs[1] = old;
       },
       PlanRule::kStaleRead,
       {"stage0", "launch h", "[208,224)", "microbatch 2", "must find 'b0n' of microbatch 0",
        "init stream 'main'"}},
      {"param updated before the segment's own read of it",
       [](PlanBundle& p) {
         // Reads w2 again after its home was renewed, in the instance that renews it.
         MoveBefore(p, "stage1/middle/launch w2n", "launch y");
         BodyAt<Launch>(p, "stage1/middle/launch w2n").outputs[0] =
             SliceIdAt(p, "stage1/w2n@weights");
         MoveBefore(p, "stage1/middle/launch zm", "launch w2n");
         MoveAfter(p, "stage1/middle/launch w2n", "launch zm");
         MoveBefore(p, "stage1/middle/launch w2n", "launch y");
         InsertAfter(p, "stage1/middle/launch w2n", InstructionAt(p, "stage1/middle/call z"));
       },
       PlanRule::kStaleRead,
       {"stage1", "launch then_z", "call z", "must find param 'w2' of the start of the step",
        "the bytes hold 'w2n' of microbatch 0"}},

      // --- Bindings -----------------------------------------------------------------------------
      {"param not loaded",
       [](PlanBundle& p) {
         ProgramAt(p, "stage0").loads.erase(ProgramAt(p, "stage0").loads.begin());
       },
       PlanRule::kBinding,
       {"stage0", "launch wt", "'w0'", "[0,128)", "no program binds 'w0'"}},
      {"input not bound",
       [](PlanBundle& p) { ProgramAt(p, "stage0").inputs.clear(); },
       PlanRule::kBinding,
       {"input", "x"}},
      {"output not bound",
       [](PlanBundle& p) { ProgramAt(p, "stage1").outputs.pop_back(); },
       PlanRule::kBinding,
       {"output", "nz"}},
      {"output bound to the slice of another value",
       [](PlanBundle& p) {
         ProgramAt(p, "stage1").outputs[0].slice = SliceIdAt(p, "stage1/g@arena");
       },
       PlanRule::kStructure,
       {"stage1", "'y'", "another value's slice"}},
      {"a result bound as an input",
       [](PlanBundle& p) {
         ProgramAt(p, "stage0")
             .inputs.push_back({FindValue(p.graph, "h"), SliceIdAt(p, "stage0/h@arena")});
       },
       PlanRule::kBinding,
       {"stage0", "h"}},
      {"loaded values over each other",
       [](PlanBundle& p) { SliceAt(p, "stage0/lr@weights").offset_bytes = 64; },
       PlanRule::kBinding,
       {"stage0", "'w0'", "[64,68)", "two values"}},
      {"output overwritten before the step ends",
       [](PlanBundle& p) { SliceAt(p, "stage0/scratch@arena").offset_bytes = 1024; },
       PlanRule::kBinding,
       {"stage0", "dr", "microbatch 0", "[1024,"}},
  };
}

}  // namespace millrace
