// Ops that only rename the elements of a dense operand: one copy, or nothing when the planner gave
// the result the operand's own bytes.
#include <cstring>

#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

class CopyKernel final : public Kernel {
 public:
  CopyKernel(int64_t size_bytes, int threads) : size_bytes_(size_bytes), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const std::byte*>(args.inputs[0]);
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    if (from == to) return absl::OkStatus();
    ParallelFor(threads_, size_bytes_, size_bytes_ / 4, 4096, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return absl::OkStatus();
  }

 private:
  const int64_t size_bytes_;
  const int threads_;
};

bool IsRename(std::string_view op) {
  return op == "Identity" || op == "Reshape" || op == "Flatten" || op == "Squeeze" ||
         op == "Unsqueeze";
}

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (!IsRename(query.op) || !HasInput(query, 0) || !HasOutput(query, 0)) return std::nullopt;
  const TensorType &in = *query.inputs[0], &out = *query.outputs[0];
  if (in.dtype != out.dtype || ByteSize(in) != ByteSize(out)) return std::nullopt;
  return DenseVariant(query, "copy");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<CopyKernel>(ByteSize(*request.query.outputs[0]), request.threads);
}

}  // namespace

KernelFamily CopyFamily() { return {"copy", Match, Prepare}; }

}  // namespace millrace
