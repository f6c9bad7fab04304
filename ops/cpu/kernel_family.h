// A kernel family: one way to compute some ops on the cpu, in one file of this folder. The ordered
// list of families is the whole of kernel choice: Target and KernelLibrary both walk it, so they
// cannot disagree.
#ifndef MILLRACE_OPS_CPU_KERNEL_FAMILY_H_
#define MILLRACE_OPS_CPU_KERNEL_FAMILY_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/status.h"
#include "graph/target.h"
#include "ops/kernel_query.h"
#include "runtime/kernel.h"

namespace millrace {

struct KernelFamily {
  std::string_view name;  // of its variants; "name:isa" where the answer depends on the processor
  // The variant for a team of exactly `threads`, or nullopt when the family does not take the
  // query.
  std::optional<KernelVariant> (*match)(const NodeQuery& query, int threads);
  // For queries that matched; the request's scratch is what `match` asked for, or more.
  absl::StatusOr<std::unique_ptr<Kernel>> (*prepare)(const KernelRequest& request);
  // Ways for operands in other layouts than dense ones, best first; better than `match`'s where
  // operands lie that way. nullptr: none. Of its variants and `match`'s no two have equal layouts.
  std::vector<KernelVariant> (*more)(const NodeQuery& query, int threads) = nullptr;
};

// Best first; the reference is last.
std::span<const KernelFamily> CpuKernelFamilies();

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_KERNEL_FAMILY_H_
