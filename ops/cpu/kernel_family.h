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

// The query with the op's attribute defaults filled in, once its types are what the op's rules
// give: families take both for granted. (Where the rules need the data of host operands, the
// families of these ops check what they rely on.) BadInputError otherwise.
absl::StatusOr<NodeQuery> NormalizeQuery(const NodeQuery& query);

// A variant over dense operands with the work the op declares.
KernelVariant DenseVariant(const NodeQuery& query, std::string name);

// No result has an element (empty.cc).
bool GivesNothing(const NodeQuery& query);

// Operand i is there.
inline bool HasInput(const NodeQuery& query, size_t i) {
  return i < query.inputs.size() && query.inputs[i].has_value();
}
inline bool HasOutput(const NodeQuery& query, size_t i) {
  return i < query.outputs.size() && query.outputs[i].has_value();
}
// All operands that are there have element type `dtype`.
bool AllOf(const NodeQuery& query, DType dtype);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_KERNEL_FAMILY_H_
