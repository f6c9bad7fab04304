// AnalyticTarget: a backend that exists on paper. It has one kernel for every op, which does the
// work the op declares on dense operands. Plans made with it can be looked at, checked and
// simulated for devices that this build has no kernels for; they cannot run.
#ifndef MILLRACE_PASSES_ANALYTIC_TARGET_H_
#define MILLRACE_PASSES_ANALYTIC_TARGET_H_

#include <string>
#include <vector>

#include "graph/target.h"

namespace millrace {

class AnalyticTarget final : public Target {
 public:
  explicit AnalyticTarget(std::string device_kind) : device_kind_(std::move(device_kind)) {}

  std::string_view device_kind() const override { return device_kind_; }
  // One variant, "analytic"; none for unknown ops, control flow and comm ops.
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override;

 private:
  std::string device_kind_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_ANALYTIC_TARGET_H_
