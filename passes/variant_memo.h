// VariantMemo: a target's answers, remembered, because graphs ask the same question over and over.
#ifndef MILLRACE_PASSES_VARIANT_MEMO_H_
#define MILLRACE_PASSES_VARIANT_MEMO_H_

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "graph/target.h"

namespace millrace {

// Of all that a target's answer may depend on, attributes by their bits.
struct QueryHash {
  size_t operator()(const NodeQuery& query) const;
};
struct SameQuery {
  bool operator()(const NodeQuery& a, const NodeQuery& b) const;
};

class VariantMemo {
 public:
  // `target` must outlive it.
  explicit VariantMemo(const Target& target) : target_(target) {}

  // As Target::Variants; the result stays where it is.
  const std::vector<KernelVariant>& Variants(const NodeQuery& query);
  // The best of them that takes and gives strided operands, as plans have them; nullptr: none.
  const KernelVariant* BestStrided(const NodeQuery& query);
  // Whether the best of them is written for the device: no reference kernel.
  bool HasFastKernel(const NodeQuery& query);

 private:
  const Target& target_;
  std::unordered_map<NodeQuery, std::vector<KernelVariant>, QueryHash, SameQuery> answers_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_VARIANT_MEMO_H_
