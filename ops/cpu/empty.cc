// Nodes all of whose results have no elements: there is nothing to do. The families after this one
// are never asked about such nodes, so they need not think of sizes that multiply to nothing (or of
// [2^40, 2^40, 0], whose first two dims alone overflow).
#include <algorithm>

#include "ops/cpu/kernel_families.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

class EmptyKernel final : public Kernel {
 public:
  absl::Status Run(const KernelArgs&) override { return absl::OkStatus(); }
};

// Positions among the operands may be out of range, which is an error although nothing is written.
bool MayFail(const NodeQuery& query) {
  const OpDef& op = *FindOp(query.op);
  if (op.fusion != FusionClass::kNone) return false;
  const std::vector<int>& host = op.traits.host_inputs;
  for (int i = 0; i < static_cast<int>(query.inputs.size()); ++i) {
    const bool is_host = std::find(host.begin(), host.end(), i) != host.end();
    if (!is_host && query.inputs[i].has_value() && IsInteger(query.inputs[i]->dtype)) return true;
  }
  return false;
}

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (!GivesNothing(query) || MayFail(query)) return std::nullopt;
  return DenseVariant(query, "empty");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest&) {
  return std::make_unique<EmptyKernel>();
}

}  // namespace

KernelFamily EmptyFamily() { return {"empty", Match, Prepare}; }

}  // namespace millrace
