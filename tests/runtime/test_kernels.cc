#include "tests/runtime/test_kernels.h"

#include "graph/strings.h"

namespace millrace {
namespace {

class TestKernel : public Kernel {
 public:
  TestKernel(const KernelRequest& request, TestOp run) : request_(request), run_(std::move(run)) {}
  absl::Status Run(const KernelArgs& args) override { return run_({request_, args}); }

 private:
  const KernelRequest request_;
  const TestOp run_;
};

absl::Status Add(const TestCall& call) {
  for (int64_t i = 0; i < call.size(); ++i) call.out(0)[i] = call.in(0)[i] + call.in(1)[i];
  return absl::OkStatus();
}

absl::Status Scale(const TestCall& call) {
  const auto by = static_cast<float>(call.request.query.attrs.Float("by", 1));
  for (int64_t i = 0; i < call.size(); ++i) call.out(0)[i] = call.in(0)[i] * by;
  return absl::OkStatus();
}

absl::Status Less10(const TestCall& call) {
  *static_cast<bool*>(call.args.outputs[0]) = call.in(0)[0] < 10;
  return absl::OkStatus();
}

}  // namespace

TestKernels::TestKernels() : ops_{{"Add", Add}, {"Scale", Scale}, {"Less10", Less10}} {}

absl::StatusOr<std::unique_ptr<Kernel>> TestKernels::Prepare(const KernelRequest& request) {
  const auto op = ops_.find(request.query.op);
  if (op == ops_.end()) return InternalError(StrCat("no test kernel for ", request.query.op));
  return std::make_unique<TestKernel>(request, op->second);
}

}  // namespace millrace
