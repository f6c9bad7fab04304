// What the cpu backend can do: its kernel variants for a query, as plain data, answered without
// running anything. Best first; "reference" last, for every op that has a reference kernel.
#ifndef MILLRACE_OPS_CPU_CPU_TARGET_H_
#define MILLRACE_OPS_CPU_CPU_TARGET_H_

#include <string_view>
#include <vector>

#include "graph/target.h"

namespace millrace {

// Teams up to this size get all the scratch memory they want, unless the caller says otherwise.
inline constexpr int kDefaultMaxTeam = 16;

class CpuTarget final : public Target {
 public:
  // `max_threads`: the largest team a planned stream will have. Scratch sizes cover every team up
  // to it; a larger team runs such a kernel with fewer threads. It changes no other part of an
  // answer.
  explicit CpuTarget(int max_threads = kDefaultMaxTeam) : max_threads_(max_threads) {}

  std::string_view device_kind() const override { return "cpu"; }
  // Empty for unknown ops, for types the op's rules refuse, and for control flow and comm ops.
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override;

 private:
  int max_threads_;
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_CPU_TARGET_H_
