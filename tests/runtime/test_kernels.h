// Kernels that tests of the executor make up: an op's meaning is a function given to the library.
#ifndef MILLRACE_TESTS_RUNTIME_TEST_KERNELS_H_
#define MILLRACE_TESTS_RUNTIME_TEST_KERNELS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "graph/status.h"
#include "runtime/kernel.h"

namespace millrace {

// f32 operands, all of the type of output 0 unless the op knows better.
struct TestCall {
  const KernelRequest& request;
  const KernelArgs& args;

  const float* in(int i) const { return static_cast<const float*>(args.inputs[i]); }
  float* out(int i) const { return static_cast<float*>(args.outputs[i]); }
  int64_t size() const { return NumElements(request.query.outputs[0]->shape); }
};
using TestOp = std::function<absl::Status(const TestCall&)>;

class TestKernels : public KernelLibrary {
 public:
  // Knows "Add" (a + b), "Scale" (attribute "by") and "Less10" (bool: input element 0 below 10).
  TestKernels();

  void Set(const std::string& op, TestOp run) { ops_[op] = std::move(run); }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override;

 private:
  std::map<std::string, TestOp> ops_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_RUNTIME_TEST_KERNELS_H_
