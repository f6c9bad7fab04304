// Plans that mean nothing: ids, counts, kinds of instructions, spaces, capacity, bindings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/check/test_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// One of each kind of node and instruction, right as it stands.
struct Everything {
  Everything() {
    t.Input("x").Input("c", {1}, DType::kBool).Node("HostIn", {"x"}, {"h"});
    t.Node("Dyn", {"h"}, {"d"}).Output("h").Output("d");
    t.plan().graph.value(t.value("d")).bounded = true;
    p().Buffer("arena", 64)
        .Buffer("host", 64, MemorySpace::kHost)
        .Buffer("file", 64, MemorySpace::kFile);
    p().In("x@host:0").Out("h@0").Out("d@host:4");
    p().Launch("main", "h", {"x@host:0"}, {"h@0"}, "@8");
    p().Copy("main", "h@host:2", "h@0");
    p().Copy("main", "h@file:0", "h@0");
    p().HostCall("main", "d", {"h@host:2"}, {"d@host:4"});
    p().Record("main", "e").Wait("main", "e");
  }
  TestProgram& p() {
    if (t.plan().programs.empty()) program = &t.Program("p", "cuda");
    return *program;
  }
  template <typename T>
  T& body(int i) {
    return std::get<T>(p().program().segments[0].instructions[i].body);
  }

  TestPlan t;
  TestProgram* program = nullptr;
};

TEST(CheckStructure, EverythingIsRight) {
  Everything e;
  EXPECT_EQ(Verdict(e.t), "");
}

struct BadPlan {
  const char* name;
  std::function<void(Everything&)> change;
  const char* message;
};

class CheckStructureBad : public ::testing::TestWithParam<BadPlan> {};

TEST_P(CheckStructureBad, IsRefused) {
  Everything e;
  GetParam().change(e);
  EXPECT_EQ(Verdict(e.t), GetParam().message);
}

const BadPlan kBadPlans[] = {
    {"NoPrograms", [](Everything& e) { e.t.plan().programs.clear(); }, "the plan has no programs"},
    {"NoMicrobatches", [](Everything& e) { e.t.plan().microbatches = 0; },
     "the plan has 0 microbatches; expected 1 to 65536"},
    {"EndlessMesh",
     [](Everything& e) {
       e.t.plan().mesh.axes = {{"a", 1 << 20}, {"b", 2}};
     },
     "the mesh a=1048576,b=2 must have between 1 and 1048576 devices"},
    {"BrokenGraph", [](Everything& e) { e.t.plan().graph.nodes[0].outputs[0] = ValueId(77); },
     "the embedded graph: node 'h': an output id is out of range"},
    {"NoBuffer", [](Everything& e) { e.p().slice("h@0").buffer = BufferId(9); },
     "program 'p': slice 1 is in no buffer (id 9 of 3)"},
    {"NoValue", [](Everything& e) { e.p().slice("h@0").value.value = ValueId(9); },
     "program 'p': slice 1 is of a value that does not exist (id 9 of graph 0)"},
    {"NoGraph", [](Everything& e) { e.p().slice("h@0").value.graph = 1; },
     "program 'p': slice 1 is of a value that does not exist (id 2 of graph 1)"},
    {"NoAxis",
     [](Everything& e) {
       e.p().slice("h@0").offset_bytes.terms.push_back({.variable = 0, .scale = 1});
     },
     "program 'p': slice 1: its offset uses a variable that does not exist"},
    {"NoLoop",
     [](Everything& e) {
       e.p().slice("h@0").offset_bytes.terms.push_back({.variable = kIterationVar});
     },
     "program 'p': slice 1: its offset uses a variable that does not exist"},
    {"NegativeBuffer", [](Everything& e) { e.p().program().buffers[0].size_bytes = -1; },
     "program 'p': buffer 'arena' of -1 bytes is not possible"},
    {"TwoBuffersOfAName", [](Everything& e) { e.p().program().buffers[1].name = "arena"; },
     "program 'p': two buffers are called 'arena'"},
    {"NoStream",
     [](Everything& e) { e.p().program().segments[0].instructions[0].stream = StreamId(5); },
     "program 'p' segment 'step' instruction 0 (Launch): its stream does not exist (id 5 of 1)"},
    {"NoNode", [](Everything& e) { e.body<Launch>(0).node = NodeId(5); },
     "program 'p' segment 'step' instruction 0 (Launch): its node does not exist (id 5 of 2)"},
    {"OtherGraph", [](Everything& e) { e.body<Launch>(0).graph = 1; },
     "program 'p' segment 'step' instruction 0 (Launch): it names graph 1; its segment runs graph "
     "0"},
    {"UnknownOp", [](Everything& e) { e.t.node("h").op = "Hostly"; },
     "program 'p' segment 'step' instruction 0 (Launch): op 'Hostly' of node 'h' is unknown"},
    {"NoVariant", [](Everything& e) { e.body<Launch>(0).variant = ""; },
     "program 'p' segment 'step' instruction 0 (Launch): HostIn 'h' names no kernel variant"},
    {"TooFewOperands", [](Everything& e) { e.body<Launch>(0).inputs.clear(); },
     "program 'p' segment 'step' instruction 0 (Launch): HostIn 'h' has 1 inputs, the instruction "
     "has 0"},
    {"MissingOperand", [](Everything& e) { e.body<Launch>(0).inputs[0] = SliceId(); },
     "program 'p' segment 'step' instruction 0 (Launch): HostIn 'h' input 0 needs a slice"},
    {"OperandOfAnotherValue",
     [](Everything& e) { e.body<Launch>(0).inputs[0] = e.body<Copy>(1).to; },
     "compute in program 'p' segment 'step' instruction 0 (Launch): HostIn 'h' input 0 is 'x', the "
     "slice given is 'h' in buffer 'host'"},
    {"ScratchWithAValue", [](Everything& e) { e.body<Launch>(0).scratch = e.body<Copy>(1).to; },
     "program 'p' segment 'step' instruction 0 (Launch): its scratch slice belongs to a value"},
    {"DynamicLaunch",
     [](Everything& e) {
       HostCall call = e.body<HostCall>(3);
       e.p().program().segments[0].instructions[3].body =
           Launch{call.node, 0, "ref", call.inputs, call.outputs, SliceId()};
     },
     "program 'p' segment 'step' instruction 3 (Launch): Dyn 'd' has sizes known only at run time: "
     "it runs by HostCall"},
    {"CopyOfTwoValues", [](Everything& e) { e.body<Copy>(1).from = e.body<Launch>(0).inputs[0]; },
     "program 'p' segment 'step' instruction 1 (Copy): it copies between slices of different "
     "values"},
    {"NoEvent", [](Everything& e) { e.body<Wait>(5).event = EventId(3); },
     "program 'p' segment 'step' instruction 5 (Wait): its event does not exist (id 3 of 1)"},
    {"HostInputOnDevice",
     [](Everything& e) {
       e.p().slice("x@host:0").buffer = BufferId(0);
       e.p().slice("x@host:0").offset_bytes = 32;
     },
     "space in program 'p' segment 'step' instruction 0 (Launch): 'x' in buffer 'arena' is read by "
     "the host, but lies in device memory of a cuda device"},
    {"KernelOnHostMemory", [](Everything& e) { e.p().slice("h@0").buffer = BufferId(1); },
     "space in program 'p' segment 'step' instruction 0 (Launch): 'h' in buffer 'host' lies in "
     "host memory, which a kernel of a cuda device cannot reach"},
    {"ScratchOnHost", [](Everything& e) { e.p().slice("@8").buffer = BufferId(1); },
     "space in program 'p' segment 'step' instruction 0 (Launch): scratch in buffer 'host' lies in "
     "host memory, which a kernel of a cuda device cannot reach"},
    {"HostCallOnDevice", [](Everything& e) { e.p().slice("h@host:2").buffer = BufferId(0); },
     "space in program 'p' segment 'step' instruction 3 (HostCall): 'h' in buffer 'arena' is read "
     "by the host, but lies in device memory of a cuda device"},
    {"InputInAFile", [](Everything& e) { e.p().slice("x@host:0").buffer = BufferId(2); },
     "space in program 'p' segment 'step' instruction 0 (Launch): 'x' in buffer 'file' is read by "
     "the host, but lies in file memory of a cuda device"},
    {"StridesForAnotherRank",
     [](Everything& e) {
       e.p().slice("h@0").strides = {2, 1};
     },
     "bounds in program 'p': slice 1 of 'h' in buffer 'arena': it has 2 strides for rank 1"},
    {"NegativeStride", [](Everything& e) { e.p().slice("h@0").strides = {-1}; },
     "bounds in program 'p': slice 1 of 'h' in buffer 'arena': a stride is negative"},
    {"BroadcastStride", [](Everything& e) { e.p().slice("h@0").strides = {0}; },
     "bounds in program 'p': slice 1 of 'h' in buffer 'arena': strides make elements of dim 0 "
     "overlap or interleave"},
    {"BlockedRank1", [](Everything& e) { e.p().slice("h@0").layout = Layout::kNChw8c; },
     "bounds in program 'p': slice 1 of 'h' in buffer 'arena': blocked layouts need rank 4 or 5"},
    {"NoSegment",
     [](Everything& e) {
       e.p().program().step = {{SegmentId(4), 0}};
     },
     "program 'p': its step schedule runs a segment that does not exist (id 4 of 1)"},
    {"NoSuchMicrobatch",
     [](Everything& e) {
       e.p().program().step = {{SegmentId(0), 1}};
     },
     "program 'p': its step schedule runs segment 'step' for microbatch 1 of 1"},
    {"BindingOfAnotherValue",
     [](Everything& e) { e.p().program().inputs[0].slice = e.body<Copy>(1).to; },
     "program 'p': input binding of 'x' has another value's slice"},
    {"InputThatIsNone",
     [](Everything& e) {
       e.p().program().inputs = {{e.t.value("h"), e.body<Copy>(1).to}};
     },
     "binding in program 'p': input binding of 'h', which is no input of the graph"},
    {"OutputNotBound", [](Everything& e) { e.p().program().outputs.pop_back(); },
     "binding: no program gives output 'd'"},
};

INSTANTIATE_TEST_SUITE_P(All, CheckStructureBad, ::testing::ValuesIn(kBadPlans),
                         [](const auto& info) { return std::string(info.param.name); });

// On a cpu device, device memory is host memory.
TEST(CheckStructure, SpacesOfACpuDevice) {
  Everything e;
  e.p().program().device_kind = "cpu";
  e.p().slice("h@0").buffer = BufferId(1);
  e.p().slice("h@0").offset_bytes = 20;
  EXPECT_EQ(Verdict(e.t), "");
}

MachineSpec Machine(int64_t memory_bytes) {
  MachineSpec machine;
  machine.name = "m";
  DeviceSpec device;
  device.name = "core";
  device.kind = "cpu";
  device.memory_bytes = memory_bytes;
  machine.devices.push_back(device);
  NodeSpec node;
  node.devices = {{"core", 2}};
  machine.nodes.push_back(node);
  return machine;
}

TEST(CheckCapacity, CountsAllProgramsOfADevice) {
  TestPlan t;
  t.Input("x").Node("Fn", {"x"}, {"y"}).Output("y");
  t.Program("a").Buffer("arena", 60).Buffer("host", 1000, MemorySpace::kHost);
  t.Program("b").Buffer("arena", 50).In("x@0").Out("y@2").Launch("s", "y", {"x@0"}, {"y@2"});
  const MachineSpec roomy = Machine(110), tight = Machine(109);
  EXPECT_EQ(Verdict(t, &roomy), "");
  EXPECT_EQ(Verdict(t, &tight),
            "capacity: device cpu:0 of machine 'm' has 109 bytes, the plan's buffers take 110 (60 "
            "of 'a' + 50 of 'b')");
  t.plan().programs[1].device_index = 1;
  EXPECT_EQ(Verdict(t, &tight), "");
  t.plan().programs[1].device_index = 2;
  EXPECT_EQ(Verdict(t, &tight),
            "capacity: program 'b' runs on cpu:2; machine 'm' has 2 cpu devices");
}

TEST(CheckCapacity, SumsDoNotOverflow) {
  TestPlan t;
  t.Input("x").Output("x");
  t.Program().Buffer("arena", 4).In("x@0").Out("x@0");
  for (int i = 0; i < 40000; ++i) {
    t.plan().programs[0].buffers.push_back(
        {"b" + std::to_string(i), MemorySpace::kDevice, kMaxBytes});
  }
  const MachineSpec machine = Machine(kMaxBytes);
  EXPECT_THAT(Verdict(t, &machine), StartsWith("capacity: device cpu:0"));
}

TEST(CheckStructure, AtMostTwentyAreShown) {
  TestPlan t;
  t.Input("x").Output("x");
  t.Program().Buffer("arena", 4).In("x@0").Out("x@0");
  for (int i = 0; i < 30; ++i) t.plan().programs[0].step.push_back({SegmentId(7), 0});
  const CheckReport report = t.Check();
  EXPECT_EQ(report.errors.size(), 20);
  EXPECT_EQ(report.total_errors, 30);
  EXPECT_THAT(FormatReport(report),
              StartsWith("plan refused: 30 errors\n1. program 'p': its step"));
  EXPECT_THAT(FormatReport(report), HasSubstr("\n20. program 'p'"));
  EXPECT_THAT(FormatReport(report), HasSubstr("\n... and 10 more"));
}

TEST(CheckedPlan, CarriesTheReport) {
  TestPlan t;
  t.Input("x").Output("x");
  t.Program().Buffer("arena", 4).In("x@0");
  const absl::StatusOr<CheckedPlan> refused = CheckedPlan::Check(t.Build(), TestTraits(), nullptr);
  EXPECT_EQ(refused.status(), CheckFailedError("plan refused: 1 error\n"
                                               "1. binding: no program gives output 'x'"));
  t.plan().programs[0].outputs = t.plan().programs[0].inputs;
  const absl::StatusOr<CheckedPlan> checked = CheckedPlan::Check(t.Build(), TestTraits(), nullptr);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked->plan().name, "test");
}

}  // namespace
}  // namespace millrace
