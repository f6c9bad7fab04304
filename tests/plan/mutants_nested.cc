#include "tests/plan/mutants.h"
#include "tests/plan/plan_edit.h"

namespace millrace {
namespace {

const HandWrittenOptions kCuda = {.kind0 = "cuda", .kind1 = "cuda"};

}  // namespace

std::vector<Mutant> NestedMutants() {
  return {
      // --- Call ---------------------------------------------------------------------------------
      {"branch leaves its result elsewhere",
       [](PlanBundle& p) { SliceAt(p, "stage1/then_z@arena").offset_bytes = 896; },
       PlanRule::kAlias,
       {"stage1", "If 'z'", "'then'", "'then_z'", "very bytes of 'z'"}},
      {"branch reads another slot than the call's",
       [](PlanBundle& p) {
         LinearExpr other(256);
         other.terms.push_back({.variable = kMicrobatchVar, .scale = 64, .add = 1, .modulus = 2});
         SliceAt(p, "stage1/else_a@arena").offset_bytes = other;
       },
       PlanRule::kAlias,
       {"stage1", "If 'z'", "'else'", "'else_a'", "very bytes of 'a'"}},
      {"only one branch computes the result",
       [](PlanBundle& p) { Erase(p, "stage1/else/launch else_z"); },
       PlanRule::kCompute,
       {"stage1", "else_z"}},
      {"branch reads before it has computed",
       [](PlanBundle& p) { MoveBefore(p, "stage1/then/launch then_z", "launch then_tanh"); },
       PlanRule::kStaleRead,
       {"stage1", "launch then_z", "then_tanh"}},
      {"branch destroys what is read after the call",
       [](PlanBundle& p) { SliceAt(p, "stage1/then_tanh@arena").offset_bytes = SlotExpr(0, 64); },
       PlanRule::kStaleRead,
       {"stage1", "launch g", "t", "[0,32)"}},
      {"branch runs on another stream than the call",
       [](PlanBundle& p) {
         InstructionAt(p, "stage1/else/launch else_z").stream = StreamIdAt(p, "stage1/copy");
       },
       PlanRule::kStructure,
       {"stage1", "else", "stream"}},
      {"record inside a branch",
       [](PlanBundle& p) {
         InsertAfter(p, "stage1/else/launch else_z",
                     {StreamIdAt(p, "stage1/main"), Record{EventIdAt(p, "stage1/g_ready")}});
       },
       PlanRule::kStructure,
       {"stage1", "'else' instruction 1 (Record)", "event"}},
      {"branches exchanged",
       [](PlanBundle& p) {
         Call& call = BodyAt<Call>(p, "stage1/middle/call z");
         std::swap(call.bodies[0], call.bodies[1]);
       },
       PlanRule::kStructure,
       {"stage1", "If 'z'", "not one of graph 1"}},
      {"a branch left out",
       [](PlanBundle& p) { BodyAt<Call>(p, "stage1/middle/call z").bodies.pop_back(); },
       PlanRule::kStructure,
       {"stage1", "If 'z'", "1 bodies, expected 2"}},
      {"a branch calls the segment it is called from",
       [](PlanBundle& p) {
         BodyAt<Call>(p, "stage1/middle/call z").bodies[0].segment =
             SegmentIdAt(p, "stage1/middle");
       },
       PlanRule::kStructure,
       {"stage1", "If 'z'", "not one of graph 1"}},
      {"a branch scheduled by itself",
       [](PlanBundle& p) {
         ProgramAt(p, "stage1").step.push_back({SegmentIdAt(p, "stage1/then"), 0});
       },
       PlanRule::kStructure,
       {"stage1", "then"}},
      {"branch operand left out",
       [](PlanBundle& p) { BodyAt<Call>(p, "stage1/middle/call z").bodies[1].inputs.pop_back(); },
       PlanRule::kStructure,
       {"stage1", "If 'z'", "'else' has 2 inputs, the instruction has 1"}},
      {"condition not brought to the host",
       [](PlanBundle& p) {
         BodyAt<Call>(p, "stage1/middle/call z").inputs[0] = SliceIdAt(p, "stage1/cond@arena");
       },
       PlanRule::kSpace,
       {"stage1", "(Call)", "'cond' in buffer 'arena'", "device memory of a cuda device"},
       kCuda},
      {"condition read from the host before it is there",
       [](PlanBundle& p) { Erase(p, "stage1/middle/copy cond"); },
       PlanRule::kStaleRead,
       {"stage1", "call z", "cond", "pinned", "[0,1)"}},

      // --- HostCall and memory spaces ------------------------------------------------------------
      {"host call reads device memory",
       [](PlanBundle& p) {
         BodyAt<HostCall>(p, "stage1/middle/hostcall nz").inputs[0] =
             SliceIdAt(p, "stage1/t@arena");
       },
       PlanRule::kSpace,
       {"stage1", "(HostCall)", "'t' in buffer 'arena' is read by the host", "device memory"},
       kCuda},
      {"host call writes device memory",
       [](PlanBundle& p) {
         BufferAt(p, "stage1/arena").size_bytes = 2048;
         SliceAt(p, "stage1/nz@pinned").offset_bytes = SlotExpr(1536, 128);
         SliceAt(p, "stage1/nz@pinned").buffer = BufferIdAt(p, "stage1/arena");
       },
       PlanRule::kSpace,
       {"stage1", "(HostCall)", "'nz' in buffer 'arena' is written by the host", "device memory"},
       kCuda},
      {"host work by Launch",
       [](PlanBundle& p) {
         const HostCall call = BodyAt<HostCall>(p, "stage1/middle/hostcall nz");
         InstructionAt(p, "stage1/middle/hostcall nz").body =
             Launch{call.node, 0, "reference", call.inputs, call.outputs, {}};
       },
       PlanRule::kStructure,
       {"stage1", "NonZero 'nz'", "HostCall"}},
      {"kernel writes host memory",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/d@arena").offset_bytes = 128;
         SliceAt(p, "stage0/d@arena").buffer = BufferIdAt(p, "stage0/pinned");
         BufferAt(p, "stage0/pinned").size_bytes = 256;
       },
       PlanRule::kSpace,
       {"stage0", "'backward' instruction 4 (Launch)", "'d' in buffer 'pinned'", "host memory"},
       kCuda},
      {"axes that the host must read in device memory",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/axes@pinned").offset_bytes = 208;
         SliceAt(p, "stage0/axes@pinned").buffer = BufferIdAt(p, "stage0/weights");
       },
       PlanRule::kSpace,
       {"stage0", "'backward' instruction 6 (Launch)",
        "'axes' in buffer 'weights' is read by the host"},
       kCuda},
      {"shape that the host must read in device memory",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/flat@pinned").offset_bytes = 208;
         SliceAt(p, "stage0/flat@pinned").buffer = BufferIdAt(p, "stage0/weights");
       },
       PlanRule::kSpace,
       {"stage0", "'backward' instruction 5 (Launch)",
        "'flat' in buffer 'weights' is read by the host"},
       kCuda},
      {"kernel reads the swap file",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/a@swap").strides.clear();
         BodyAt<Launch>(p, "stage0/backward/launch d").inputs[1] = SliceIdAt(p, "stage0/a@swap");
       },
       PlanRule::kSpace,
       {"stage0", "'backward' instruction 4 (Launch)", "'a' in buffer 'swap'", "file"},
       {.swap_space = MemorySpace::kFile}},
      {"sent from the swap file",
       [](PlanBundle& p) {
         SliceAt(p, "stage0/a@swap").strides.clear();
         MoveAfter(p, "stage0/forward/send a", "copy a");
         BodyAt<Send>(p, "stage0/forward/send a").from = SliceIdAt(p, "stage0/a@swap");
       },
       PlanRule::kSpace,
       {"stage0", "(Send)", "'a' in buffer 'swap'", "file"},
       {.swap_space = MemorySpace::kFile}},
      {"input bound to device memory of a layout it does not have",
       [](PlanBundle& p) { SliceAt(p, "stage0/x@arena").layout = Layout::kNHWC; },
       PlanRule::kBounds,
       {"stage0", "x", "nhwc"}},
  };
}

}  // namespace millrace
