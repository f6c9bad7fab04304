#include "tests/run/run_graph.h"

#include <gtest/gtest.h>

#include <memory>

#include "graph/check/check.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/evaluate_graph.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "passes/pipeline.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/session.h"
#ifdef MILLRACE_HAVE_CUDA
#include "ops/cuda/cuda_target.h"
#include "ops/cuda/driver_kernels.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/cuda_sim/cublaslt_recorder.h"
#include "tests/cuda_sim/cuda_sim.h"
#include "tests/cuda_sim/cudnn_recorder.h"
#include "tests/cuda_sim/sim_kernels.h"
#include "tests/cuda_sim/simt_compiler.h"
#endif

namespace millrace {
namespace {

constexpr int64_t kDeviceBytes = 1 << 27;
constexpr int kSeeds = 6;

MachineSpec TestMachine() {
  MachineSpec machine;
  machine.name = "test";
  NodeSpec node;
  for (const char* kind : {"cpu", "cuda"}) {
    DeviceSpec device;
    device.name = device.kind = kind;
    device.memory_bytes = kDeviceBytes;
    machine.devices.push_back(device);
    node.devices.push_back({kind, 1});
  }
  machine.nodes.push_back(node);
  return machine;
}

// One device and what runs on it.
class Backend {
 public:
  absl::Status Make(const RunOptions& options) {
    host_kernels_ = CreateReferenceKernelLibrary();
    if (options.device_kind == "cpu") {
      kernels_ = CreateCpuKernelLibrary();
      target_ = std::make_unique<CpuTarget>(1);
      device_ = CreateCpuDevice({.name = "cpu:0", .memory_bytes = kDeviceBytes});
      return absl::OkStatus();
    }
#ifdef MILLRACE_HAVE_CUDA
    CudaSimOptions sim_options;
    sim_options.memory_bytes = kDeviceBytes;
    sim_options.seed = options.seed;
    sim_ = std::make_unique<CudaSim>(sim_options);
    if (options.own_kernels) {
      cublaslt_ = std::make_unique<CublasLtRecorder>(*sim_);
      cudnn_ = std::make_unique<CudnnRecorder>(*sim_);
      kernels_ = CreateCudaKernelLibrary({.compiler = CreateSimtCompiler(*sim_),
                                          .cublaslt = &cublaslt_->api(),
                                          .cudnn = &cudnn_->api()});
      target_ = std::make_unique<CudaTarget>();
    } else {
      kernels_ = CreateSimKernelLibrary(*sim_);
      target_ = std::make_unique<SimTarget>();
    }
    CudaDeviceOptions device_options;
    device_options.name = "cuda:0";
    device_options.memory_bytes = kDeviceBytes;
    MILLRACE_ASSIGN_OR_RETURN(device_, CreateCudaDevice(sim_->driver(), device_options));
    return absl::OkStatus();
#else
    return UsageError("built without CUDA");
#endif
  }

  const Target& target() const { return *target_; }
  std::vector<std::string> calls() const {
    std::vector<std::string> calls;
#ifdef MILLRACE_HAVE_CUDA
    if (cublaslt_ == nullptr) return calls;
    calls = cublaslt_->calls();
    calls.insert(calls.end(), cudnn_->calls().begin(), cudnn_->calls().end());
#endif
    return calls;
  }
  DeviceTable table() const {
    return {{std::string(device_->name()), {device_.get(), kernels_.get(), host_kernels_.get()}}};
  }

 private:
#ifdef MILLRACE_HAVE_CUDA
  std::unique_ptr<CudaSim> sim_;
  std::unique_ptr<CublasLtRecorder> cublaslt_;
  std::unique_ptr<CudnnRecorder> cudnn_;
#endif
  std::unique_ptr<KernelLibrary> kernels_, host_kernels_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Device> device_;
};

std::vector<Tensor> InOrder(const Graph& graph, const NamedTensors& inputs) {
  std::vector<Tensor> tensors;
  for (const ValueId id : graph.inputs) tensors.push_back(inputs.at(graph.value(id).name));
  return tensors;
}

}  // namespace

absl::StatusOr<Graph> TypedGraph(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, ParseGraphText(text));
  MILLRACE_RETURN_IF_ERROR(InferTypes(graph));
  return graph;
}

std::vector<std::string> RunnableKinds() {
#ifdef MILLRACE_HAVE_CUDA
  return {"cpu", "cuda"};
#else
  return {"cpu"};
#endif
}

absl::StatusOr<std::vector<std::vector<Tensor>>> RunGraph(const Graph& graph,
                                                          const std::vector<NamedTensors>& steps,
                                                          const RunOptions& options) {
  Backend backend;
  MILLRACE_RETURN_IF_ERROR(backend.Make(options));
  const MachineSpec machine = TestMachine();
  CompileOptions compile;
  compile.device = StrCat(options.device_kind, ":0");
  compile.schedule = options.schedule;
  MILLRACE_ASSIGN_OR_RETURN(CompileResult compiled,
                            Compile(graph, machine, backend.target(), compile));
  MILLRACE_ASSIGN_OR_RETURN(CheckedPlan checked,
                            CheckedPlan::Check(std::move(compiled.plan), AllOpTraits(), &machine));
  SessionOptions session_options;
  session_options.poison = true;
  Tracer tracer;
  if (options.times != nullptr) session_options.tracer = &tracer;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            Session::Create(std::move(checked), backend.table(), session_options));
  std::vector<std::vector<Tensor>> results;
  for (const NamedTensors& inputs : steps) {
    for (const auto& [name, tensor] : inputs) {
      MILLRACE_RETURN_IF_ERROR(session->SetInput(name, tensor));
    }
    MILLRACE_RETURN_IF_ERROR(session->Run());
    std::vector<Tensor>& outputs = results.emplace_back();
    for (const ValueId id : graph.outputs) {
      MILLRACE_ASSIGN_OR_RETURN(Tensor output, session->Output(graph.value(id).name));
      outputs.push_back(std::move(output));
    }
  }
  if (options.calls != nullptr) *options.calls = backend.calls();
  if (options.times != nullptr) *options.times = TimeByNode(tracer);
  return results;
}

void ExpectRunsAsItMeans(std::string_view text, const std::vector<NamedTensors>& steps) {
  const absl::StatusOr<Graph> graph = TypedGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const std::string& kind : RunnableKinds()) {
    for (int seed = 0; seed < (kind == "cpu" ? 2 : kSeeds); ++seed) {
      SCOPED_TRACE(StrCat(kind, ", seed ", seed));
      RunOptions options = {.device_kind = kind, .seed = uint64_t(seed)};
      if (seed % 2 == 1) options.schedule = ScheduleGoal::kMemory;
      const auto results = RunGraph(*graph, steps, options);
      ASSERT_TRUE(results.ok()) << results.status();
      for (size_t s = 0; s < steps.size(); ++s) {
        const auto expected = EvaluateGraph(*graph, InOrder(*graph, steps[s]));
        ASSERT_TRUE(expected.ok()) << expected.status();
        for (size_t i = 0; i < expected->size(); ++i) {
          EXPECT_EQ(ToString((*results)[s][i].type()), ToString((*expected)[i].type()));
          EXPECT_TRUE(BitEqual((*results)[s][i], (*expected)[i]))
              << "output " << i << " of step " << s;
        }
      }
    }
  }
}

std::vector<Tensor> OutputsOf(std::string_view text, const NamedTensors& inputs) {
  ExpectRunsAsItMeans(text, {inputs});
  const absl::StatusOr<Graph> graph = TypedGraph(text);
  if (!graph.ok()) return {};
  const auto results = RunGraph(*graph, {inputs});
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? (*results)[0] : std::vector<Tensor>();
}

}  // namespace millrace
