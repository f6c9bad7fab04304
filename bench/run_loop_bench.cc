// Engine time per node: a chain of 10,000 tiny ops through the run loop, beside the bare kernel
// calls.
//
//   run_loop_bench                       -> BM_RunLoop/* minus BM_BareCalls/* is the engine's share
//
// "null": the null device, whose streams and kernels do nothing: the loop alone. "empty": the cpu
// device with kernels that return at once: the loop and the cpu stream. "add": the cpu device with
// additions of four floats by the cpu library's kernels. BM_BareCalls calls the same kernels with
// the same arguments from a plain loop. Report: ns_per_node.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/infer.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/executor.h"
#include "runtime/null/null_device.h"

namespace millrace {
namespace {

constexpr int kNodes = 10000;

void CheckOk(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  MILLRACE_CHECK(status.ok());
}

// v(i+1) = v(i) + one, each value in the slot its predecessor's predecessor had.
PlanBundle ChainPlan(const std::string& kind, const std::string& variant) {
  GraphBuilder builder("chain");
  const TensorType type{DType::kF32, {4}};
  const ValueId one = builder.Constant("one", Tensor::Of<float>({4}, {1, 1, 1, 1}));
  std::vector<ValueId> values = {builder.Input("x", type)};
  for (int i = 0; i < kNodes; ++i) {
    values.push_back(builder.Op("Add", {values.back(), one}, {}, StrCat("v", i)));
  }
  builder.Output(values.back());

  PlanBundle plan;
  plan.name = "chain";
  plan.graph = std::move(builder).Build();
  CheckOk(InferTypes(plan.graph));
  Program program;
  program.name = "p";
  program.device_kind = kind;
  program.buffers = {{"arena", MemorySpace::kDevice, 256}};
  program.streams = {{.name = "main"}};
  const auto slice = [&](ValueId value, int64_t offset) {
    Slice s;
    s.value = {0, value};
    s.buffer = BufferId(0);
    s.offset_bytes = offset;
    s.size_bytes = ByteSize(type);
    program.slices.push_back(s);
    return SliceId(program.slices.size() - 1);
  };
  const SliceId one_at = slice(one, 128);
  SliceId from = slice(values[0], 0);
  Segment segment;
  segment.name = "forward";
  for (int i = 0; i < kNodes; ++i) {
    const SliceId to = slice(values[i + 1], i % 2 == 0 ? 64 : 0);
    Launch launch;
    launch.node = NodeId(i);
    launch.variant = variant;
    launch.inputs = {from, one_at};
    launch.outputs = {to};
    segment.instructions.push_back({StreamId(0), std::move(launch)});
    from = to;
  }
  program.segments = {std::move(segment)};
  program.step = {{SegmentId(0), 0}};
  plan.programs = {std::move(program)};
  return plan;
}

class EmptyKernel : public Kernel {
 public:
  absl::Status Run(const KernelArgs&) override { return absl::OkStatus(); }
};

class EmptyKernelLibrary : public KernelLibrary {
 public:
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest&) override {
    return std::make_unique<EmptyKernel>();
  }
};

struct Setup {
  std::unique_ptr<Device> device;
  std::unique_ptr<KernelLibrary> kernels;
  PlanBundle plan;
};

Setup MakeSetup(const std::string& what) {
  if (what == "null") {
    auto device = CreateNullDevice("null:0", "null");
    device->set_recording(false);
    return {std::move(device), std::make_unique<NullKernelLibrary>(), ChainPlan("null", "empty")};
  }
  if (what == "empty") {
    return {CreateCpuDevice(), std::make_unique<EmptyKernelLibrary>(), ChainPlan("cpu", "empty")};
  }
  // The variant the target likes best for this op.
  PlanBundle plan = ChainPlan("cpu", "");
  const std::string best = CpuTarget(1).Variants(QueryFor(plan.graph, NodeId(0))).front().name;
  return {CreateCpuDevice(), CreateCpuKernelLibrary(), ChainPlan("cpu", best)};
}

void Report(benchmark::State& state) {
  state.counters["ns_per_node"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kNodes * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_RunLoop(benchmark::State& state, const std::string& what) {
  const Setup setup = MakeSetup(what);
  auto executor = Executor::Prepare(
      setup.plan,
      {{std::string(setup.device->name()), {setup.device.get(), setup.kernels.get(), nullptr}}});
  CheckOk(executor.status());
  for (auto _ : state) CheckOk((*executor)->Run(Section::kStep));
  Report(state);
}

void BM_BareCalls(benchmark::State& state, const std::string& what) {
  const Setup setup = MakeSetup(what);
  auto bound = BindPrograms(setup.plan,
                            {{std::string(setup.device->name()),
                              {setup.device.get(), setup.kernels.get(), nullptr}}},
                            /*others=*/false);
  CheckOk(bound.status());
  const BoundProgram& program = bound->front();
  struct Call {
    std::unique_ptr<Kernel> kernel;
    KernelArgs args;
    void* operands[3];
  };
  std::vector<Call> calls(kNodes);
  for (int i = 0; i < kNodes; ++i) {
    const Instruction& instruction = program.program->segments[0].instructions[i];
    const Launch& launch = std::get<Launch>(instruction.body);
    auto kernel = setup.kernels->Prepare({.query = QueryFor(setup.plan.graph, launch.node),
                                          .variant = launch.variant,
                                          .inputs = std::vector<OperandLayout>(2),
                                          .outputs = std::vector<OperandLayout>(1),
                                          .device = setup.device.get()});
    CheckOk(kernel.status());
    Call& call = calls[i];
    call.kernel = *std::move(kernel);
    for (int j = 0; j < 2; ++j) call.operands[j] = program.Address(launch.inputs[j], 0);
    call.operands[2] = program.Address(launch.outputs[0], 0);
    call.args.inputs = call.operands;
    call.args.outputs = call.operands + 2;
  }
  for (auto _ : state) {
    for (const Call& call : calls) CheckOk(call.kernel->Run(call.args));
  }
  Report(state);
}

BENCHMARK_CAPTURE(BM_RunLoop, null, "null");
BENCHMARK_CAPTURE(BM_RunLoop, empty, "empty");
BENCHMARK_CAPTURE(BM_BareCalls, empty, "empty");
BENCHMARK_CAPTURE(BM_RunLoop, add, "add");
BENCHMARK_CAPTURE(BM_BareCalls, add, "add");

}  // namespace
}  // namespace millrace

BENCHMARK_MAIN();
