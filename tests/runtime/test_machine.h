// Devices, kernels and a communicator for tests that run hand-made plans, and access to the plans'
// slices by value name.
#ifndef MILLRACE_TESTS_RUNTIME_TEST_MACHINE_H_
#define MILLRACE_TESTS_RUNTIME_TEST_MACHINE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "runtime/device_table.h"
#include "runtime/executor.h"
#include "tests/runtime/test_kernels.h"

namespace millrace {

// cpu devices that share one library of test kernels.
class TestMachine {
 public:
  explicit TestMachine(int cpu_devices = 1, const std::string& offload_directory = "",
                       int64_t memory_bytes = 0);

  TestKernels kernels;
  DeviceTable devices;
  std::unique_ptr<Communicator> communicator;

 private:
  std::vector<std::unique_ptr<Device>> owned_;
};

Graph GraphOf(std::string_view text);  // aborts the test when the text is wrong

// A plan of these programs (each made for `graph`) over no mesh.
PlanBundle PlanOf(Graph graph, std::vector<Program> programs, int32_t microbatches = 1);

// Fills and reads f32 slices of a prepared plan: the first slice of `value` in program `program`.
void Fill(const Executor& executor, std::string_view value, std::vector<float> data,
          int program = 0, int32_t microbatch = 0);
std::vector<float> Values(const Executor& executor, std::string_view value, int program = 0,
                          int32_t microbatch = 0);

}  // namespace millrace

#endif  // MILLRACE_TESTS_RUNTIME_TEST_MACHINE_H_
