#include "passes/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/check/check.h"
#include "graph/plan_json.h"
#include "graph/query_key.h"
#include "graph/text.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "tests/passes/typed_graph.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Has a plain reference kernel with 100 bytes of scratch for every op that is not left out.
class TestTarget : public Target {
 public:
  explicit TestTarget(std::string kind = "cpu") : kind_(std::move(kind)) {}
  std::string_view device_kind() const override { return kind_; }
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override {
    const OpDef* op = FindOp(query.op);
    if (op == nullptr || op->reference == nullptr || query.op == missing_op) return {};
    KernelVariant variant;
    variant.name = "reference";
    variant.in_layouts.resize(query.inputs.size(), Layout::kStrided);
    variant.out_layouts.resize(query.outputs.size(), Layout::kStrided);
    variant.scratch_bytes = 100;
    return {variant};
  }
  std::string missing_op;

 private:
  std::string kind_;
};

MachineSpec TestMachine(int64_t memory_bytes = 1 << 20) {
  MachineSpec machine;
  machine.name = "test";
  for (const char* kind : {"cpu", "cuda"}) {
    DeviceSpec device;
    device.name = device.kind = kind;
    device.memory_bytes = memory_bytes;
    device.threads = 2;
    machine.devices.push_back(device);
  }
  NodeSpec node;
  node.devices = {{"cpu", 1}, {"cuda", 2}};
  machine.nodes.push_back(node);
  return machine;
}

// The plan of `text` for `device`; the checker must accept it.
PlanBundle CheckedCompile(std::string_view text, const std::string& device,
                          ScheduleGoal schedule = ScheduleGoal::kTime) {
  CompileOptions options;
  options.device = device;
  options.schedule = schedule;
  const TestTarget target(device.substr(0, device.find(':')));
  const MachineSpec machine = TestMachine();
  auto result = Compile(TypedGraph(text), machine, target, options);
  EXPECT_TRUE(result.ok()) << result.status();
  const CheckReport report = CheckPlan(result->plan, AllOpTraits(), &machine);
  EXPECT_TRUE(report.ok()) << FormatReport(report) << "\n" << ToText(result->plan);
  return result->plan;
}

// What could go wrong in emission, one graph each.
constexpr std::pair<const char*, const char*> kGraphs[] = {
    {"chain", R"(
      input x : f32[2,3]
      param w : f32[3,4] = init ones
      h = MatMul(x, w)
      y = Relu(h)
      output y)"},
    {"a param is updated through a view", R"(
      input x : f32[2,2]
      param p : f32[4] = init ones
      const s : i64[1] = inline [4]
      n = Exp(x)
      m = Reshape(n, s)
      y = Neg(p)
      update p <- m
      output y)"},
    {"input is output", R"(
      input x : f32[2]
      y = Relu(x)
      output x
      output y)"},
    {"param is output and updated", R"(
      input x : f32[2]
      param p : f32[2] = init zeros
      u = Add(p, x)
      update p <- u
      output p
      output u)"},
    {"params swap", R"(
      param p : f32[2] = init zeros
      param q : f32[2] = init ones
      update p <- q
      update q <- p
      output p)"},
    {"param updated from an input", R"(
      input x : f32[2]
      param p : f32[2] = init zeros
      y = Relu(p)
      update p <- x
      output y)"},
    {"one value updates two params", R"(
      input x : f32[2]
      param p : f32[2] = init zeros
      param q : f32[2] = init zeros
      u = Relu(x)
      update p <- u
      update q <- u
      output u)"},
    {"constant is output", R"(
      const k : f32[2] = inline [1.0, 2.0]
      output k)"},
    {"zero-sized values", R"(
      input x : f32[0,3]
      y = Relu(x)
      output y)"},
    {"unread results", R"(
      input x : f32[2,4]
      a, b = Split(x) {axis = 1}
      output b)"},
    {"host operand", R"(
      input x : f32[2,3]
      const shape : i64[2] = inline [3, 2]
      r = Reshape(x, shape)
      y = Relu(r)
      output y)"},
    {"host operand also read on the device", R"(
      input x : f32[2,3]
      const shape : i64[2] = inline [3, 2]
      r = Reshape(x, shape)
      s = Add(shape, shape)
      output r
      output s)"},
    {"sizes known only at run time", R"(
      input x : f32[2,3]
      h = Relu(x)
      n = NonZero(h)
      output n)"},
    {"run-time sizes read on", R"(
      input x : f32[2,3]
      n = NonZero(x)
      t = Transpose(n)
      output t)"},
    {"branches", R"(
      input x : f32[2]
      input c : bool[]
      y = If(c, x) graph then_branch {
        input a : f32[2]
        t = Relu(a)
        output t
      } graph else_branch {
        input a : f32[2]
        const k : f32[2] = inline [1.0, 2.0]
        t = Add(a, k)
        output t
      }
      output y)"},
    {"a branch returns what it was given, and one value twice", R"(
      input x : f32[2]
      input z : f32[2]
      input c : bool[]
      y, w = If(c, x, z) graph then_branch {
        input a : f32[2]
        input b : f32[2]
        output b
        output a
      } graph else_branch {
        input a : f32[2]
        input b : f32[2]
        s = Add(a, b)
        r = Relu(s)
        output s
        output r
      }
      output y
      output w)"},
    {"a condition made on the device", R"(
      input x : f32[2]
      input k : f32[]
      c = Cast(k) {to = "bool"}
      y = If(c, x) graph then_branch {
        input a : f32[2]
        t = Relu(a)
        output t
      } graph else_branch {
        input a : f32[2]
        t = Exp(a)
        output t
      }
      output y)"},
    {"branches in branches", R"(
      input x : f32[2]
      input c : bool[]
      y = If(c, c, x) graph then_branch {
        input d : bool[]
        input a : f32[2]
        t = If(d, a) graph then_branch {
          input b : f32[2]
          s = Relu(b)
          output s
        } graph else_branch {
          input b : f32[2]
          const two : f32[] = splat 2.0
          s = Mul(b, two)
          output s
        }
        output t
      } graph else_branch {
        input d : bool[]
        input a : f32[2]
        output a
      }
      output y)"},
    {"a loop that counts, carries and stacks", R"(
      input x : f32[2]
      input w : f32[2]
      const m : i64[] = splat 3
      z, s = Loop(m, _, x, w) {num_captures = 1} graph body {
        input n : i64[]
        input c : bool[]
        input v : f32[2]
        input k : f32[2]
        f = Cast(n) {to = "f32"}
        u = Mul(v, k)
        t = Add(u, f)
        output c
        output t
        output u
      }
      output z
      output s)"},
    {"a loop that ends by a condition made on the device", R"(
      input x : f32[]
      input c : bool[]
      z = Loop(_, c, x) graph body {
        input n : i64[]
        input c : bool[]
        input v : f32[]
        const one : f32[] = splat 1.0
        const limit : f32[] = splat 10.0
        t = Add(v, one)
        go = Greater(limit, t)
        output go
        output t
      }
      output z)"},
    {"carried values change places, one is stacked before it goes", R"(
      input x : f32[2]
      input y : f32[2]
      const m : i64[] = splat 4
      a, _, s = Loop(m, _, x, y) graph body {
        input n : i64[]
        input c : bool[]
        input p : f32[2]
        input q : f32[2]
        i = Identity(p)
        output c
        output q
        output p
        output i
      }
      output a
      output s)"},
    {"a stack of bounded size", R"(
      input x : f32[2]
      input m : i64[]
      z, s = Loop(m, _, x) {max_trips = 5} graph body {
        input n : i64[]
        input c : bool[]
        input v : f32[2]
        t = Relu(v)
        r = Exp(v)
        output c
        output t
        output r
      }
      n = NonZero(s)
      output z
      output n)"},
    {"a loop over values of unknown size", R"(
      input x : f32[2,3]
      const m : i64[] = splat 2
      h = NonZero(x)
      z = Loop(m, _, h) graph body {
        input n : i64[]
        input c : bool[]
        input v : i64[2,6]
        t = Add(v, v)
        output c
        output t
      }
      output z)"},
    {"a scan along other axes, backwards", R"(
      input h : f32[2]
      input q : f32[2,5]
      input r : f32[5,3]
      z, a, b = Scan(h, q, r) {num_scan_inputs = 2, scan_input_axes = [1, 0], scan_output_axes = [-1, 0]} graph body {
        input s : f32[2]
        input e : f32[2]
        input g : f32[3]
        t = Add(s, e)
        u = Relu(t)
        i = Exp(g)
        output u
        output t
        output i
      }
      output z
      output a
      output b)"},
    {"a branch in a loop in a scan", R"(
      input h : f32[2]
      input q : f32[4,2]
      input c : bool[]
      z = Scan(h, q, c) {num_scan_inputs = 1, num_captures = 1} graph body {
        input s : f32[2]
        input e : f32[2]
        input d : bool[]
        const m : i64[] = splat 3
        t = Loop(m, _, s, e, d) {num_captures = 2} graph body {
          input n : i64[]
          input go : bool[]
          input v : f32[2]
          input k : f32[2]
          input b : bool[]
          w = If(b, v, k) graph then_branch {
            input x : f32[2]
            input y : f32[2]
            p = Add(x, y)
            output p
          } graph else_branch {
            input x : f32[2]
            input y : f32[2]
            output y
          }
          output go
          output w
        }
        output t
      }
      output z)"},
};

TEST(Pipeline, ItsPlansPassTheChecker) {
  for (const auto& [name, text] : kGraphs) {
    for (const char* device : {"cpu:0", "cuda:1"}) {
      SCOPED_TRACE(std::string(name) + " on " + device);
      CheckedCompile(text, device);
      CheckedCompile(text, device, ScheduleGoal::kMemory);
    }
  }
}

TEST(Pipeline, SameInputSameBytes) {
  for (const auto& [name, text] : kGraphs) {
    EXPECT_EQ(PlanToJson(CheckedCompile(text, "cpu:0")), PlanToJson(CheckedCompile(text, "cpu:0")))
        << name;
  }
}

TEST(Pipeline, SaysWhatTheScheduleCameTo) {
  CompileOptions options;
  options.schedule = ScheduleGoal::kMemory;
  const auto record_of = [&](std::string_view text) {
    const auto result = Compile(TypedGraph(text), TestMachine(), TestTarget(), options);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->records.back().pass, "schedule");
    return result->records.back();
  };
  const RewriteRecord nothing = record_of("input x : f32[2]\ny = Relu(x)\noutput y");
  EXPECT_FALSE(nothing.applied);
  EXPECT_THAT(nothing.result, HasSubstr("the given one's 16 live bytes; the least there is"));
  const RewriteRecord lowered = record_of(R"(
    input x : f32[1,1]
    input z : f32[1,1]
    param w : f32[1,64] = init ones
    param v : f32[64,1] = init ones
    a = MatMul(x, w)
    b = MatMul(z, w)
    c = MatMul(a, v)
    d = MatMul(b, v)
    y = Add(c, d)
    output y)");
  EXPECT_TRUE(lowered.applied);
  EXPECT_EQ(lowered.result, "live bytes at the peak: 516 -> 264; the least there is");
}

absl::Status CompileError(std::string_view text, const CompileOptions& options = {},
                          const TestTarget& target = TestTarget(), int64_t memory_bytes = 1 << 20) {
  return Compile(TypedGraph(text), TestMachine(memory_bytes), target, options).status();
}

constexpr char kSmall[] = "input x : f32[64]\ny = Relu(x)\noutput y";

TEST(Pipeline, TooLittleMemoryIsInfeasibleAndSaysWhatIsNeeded) {
  const absl::Status status = CompileError(kSmall, {}, TestTarget(), /*memory_bytes=*/383);
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(status.message(), HasSubstr("the smallest budget that works is 384 bytes"));
  EXPECT_TRUE(CompileError(kSmall, {}, TestTarget(), 384).ok());
}

TEST(Pipeline, StreamsAreForTime) {
  CompileOptions options;
  options.streams = 2;
  options.schedule = ScheduleGoal::kMemory;
  EXPECT_EQ(ExitCode(CompileError("input x : f32[1]\ny = Relu(x)\noutput y", options)), 2);
  options.schedule = ScheduleGoal::kTime;
  const auto result = Compile(TypedGraph("input x : f32[1]\ny = Relu(x)\noutput y"), TestMachine(),
                              TestTarget(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->plan.programs[0].streams.size(), 1u);  // nothing to run side by side
  EXPECT_THAT(result->records.back().result, HasSubstr("more gain nothing"));
}

// The device has no rates: only measurements say that two streams halve the time.
TEST(Pipeline, StreamsGoByMeasuredCosts) {
  const Graph graph = TypedGraph(
      "input x : f32[8]\ninput y : f32[8]\na = Tanh(x)\nb = Tanh(y)\noutput a\noutput b");
  CompileOptions options;
  options.streams = 2;
  const auto guessed = Compile(graph, TestMachine(), TestTarget(), options);
  ASSERT_TRUE(guessed.ok()) << guessed.status();
  EXPECT_EQ(guessed->plan.programs[0].streams.size(), 1u);

  CostTable costs;
  for (const int threads : {1, 2}) {
    const KernelKey key{QueryKey(QueryFor(graph, NodeId(0))), "reference", threads};
    costs.devices["cpu"].kernels[key] = {.time_us = 1000, .flops = 8, .bytes = 64};
  }
  options.costs = &costs;
  const auto measured = Compile(graph, TestMachine(), TestTarget(), options);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->plan.programs[0].streams.size(), 2u);
}

TEST(Pipeline, RequestsItCannotHonourAreRefused) {
  CompileOptions on_cpu;
  EXPECT_EQ(ExitCode(CompileError("input x : f32[1]\ny = Relu(x) device \"cuda:0\"\noutput y")), 2);
  EXPECT_EQ(ExitCode(CompileError("input x : f32[1]\ny = Relu(x) stream 2\noutput y")), 2);
  const char in_a_body[] = R"(
    input c : bool[]
    input x : f32[1]
    y = If(c, x) graph then_branch {
      input v : f32[1]
      t = Relu(v) device "cuda:3"
      output t
    } graph else_branch {
      input v : f32[1]
      t = Neg(v)
      output t
    }
    output y)";
  EXPECT_EQ(ExitCode(CompileError(in_a_body)), 2);
  CompileOptions on_two;
  on_two.streams = 2;
  EXPECT_EQ(ExitCode(CompileError("input x : f32[1]\ny = Relu(x) stream 0\noutput y", on_two)), 2);
  EXPECT_EQ(ExitCode(CompileError("mesh \"data=2\"\ninput x : f32[1]\ny = Relu(x)\noutput y")), 2);
  EXPECT_TRUE(
      CompileError("input x : f32[1]\ny = Relu(x) device \"cpu:0\" stream 0\noutput y").ok());
}

TEST(Pipeline, MissingKernelsAreAllNamedWithTheirCounts) {
  TestTarget target;
  target.missing_op = "Relu";
  const absl::Status status =
      CompileError("input x : f32[1]\na = Relu(x)\nb = Exp(a)\ny = Relu(b)\noutput y", {}, target);
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_EQ(status.message(), "no kernel for cpu:\n  Relu (2 nodes)");
}

TEST(Pipeline, UnknownDevicesAreRefused) {
  CompileOptions options;
  options.device = "cuda:9";
  EXPECT_NE(ExitCode(CompileError(kSmall, options, TestTarget("cuda"))), 0);
  options.device = "cuda:0";
  EXPECT_EQ(ExitCode(CompileError(kSmall, options)), 2);  // a cpu target
  options.device = "gpu";
  EXPECT_EQ(ExitCode(CompileError(kSmall, options)), 2);
}

}  // namespace
}  // namespace millrace
