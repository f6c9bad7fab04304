#include "tests/runtime/test_machine.h"

#include <cstdio>

#include "distributed/in_process.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/session_transfer.h"

namespace millrace {
namespace {

struct Found {
  const BoundProgram& bound;
  SliceId slice;
  TensorType type;
};

Found FindSlice(const Executor& executor, std::string_view value, int program) {
  const BoundProgram& bound = executor.programs()[program];
  for (size_t i = 0; i < bound.program->slices.size(); ++i) {
    const ValueRef ref = bound.program->slices[i].value;
    if (!ref.value.valid()) continue;
    const Value& v = executor.graph(ref.graph).value(ref.value);
    if (v.name == value) return {bound, SliceId(i), v.type};
  }
  MILLRACE_CHECK(false && "no such value");
}

}  // namespace

TestMachine::TestMachine(int cpu_devices, const std::string& offload_directory,
                         int64_t memory_bytes)
    : communicator(CreateInProcessCommunicator()) {
  for (int i = 0; i < cpu_devices; ++i) {
    const std::string name = StrCat("cpu:", i);
    owned_.push_back(CreateCpuDevice(
        {.name = name, .memory_bytes = memory_bytes, .offload_directory = offload_directory}));
    devices[name] = {.device = owned_.back().get(), .kernels = &kernels, .host_kernels = &kernels};
  }
}

Graph GraphOf(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text, "test");
  if (!graph.ok()) std::fprintf(stderr, "%s\n", std::string(graph.status().message()).c_str());
  MILLRACE_CHECK(graph.ok());
  return *std::move(graph);
}

PlanBundle PlanOf(Graph graph, std::vector<Program> programs, int32_t microbatches) {
  PlanBundle plan;
  plan.name = "test";
  plan.microbatches = microbatches;
  plan.graph = std::move(graph);
  plan.programs = std::move(programs);
  return plan;
}

void Fill(const Executor& executor, std::string_view value, std::vector<float> data, int program,
          int32_t microbatch) {
  const Found found = FindSlice(executor, value, program);
  MILLRACE_CHECK(static_cast<int64_t>(data.size()) == NumElements(found.type.shape));
  const absl::Status status = WriteSlice(found.bound, found.slice, microbatch, found.type,
                                         reinterpret_cast<const std::byte*>(data.data()));
  MILLRACE_CHECK(status.ok());
}

std::vector<float> Values(const Executor& executor, std::string_view value, int program,
                          int32_t microbatch) {
  const Found found = FindSlice(executor, value, program);
  std::vector<float> data(NumElements(found.type.shape));
  const absl::Status status = ReadSlice(found.bound, found.slice, microbatch, found.type,
                                        reinterpret_cast<std::byte*>(data.data()));
  MILLRACE_CHECK(status.ok());
  return data;
}

}  // namespace millrace
