#include "passes/variant_memo.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "passes/attr_bits.h"

namespace millrace {
namespace {

size_t HashOfTypes(const std::vector<std::optional<TensorType>>& types) {
  size_t hash = types.size();
  for (const std::optional<TensorType>& type : types) {
    if (!type.has_value()) {
      hash = absl::HashOf(hash);
      continue;
    }
    const std::span<const int64_t> dims = type->shape.dims();
    hash = absl::HashOf(hash, static_cast<int>(type->dtype),
                        absl::Span<const int64_t>(dims.data(), dims.size()));
  }
  return hash;
}

}  // namespace

size_t QueryHash::operator()(const NodeQuery& query) const {
  size_t hash = absl::HashOf(query.op, HashOfBits(query.attrs), HashOfTypes(query.inputs),
                             HashOfTypes(query.outputs));
  for (const auto& [input, elements] : query.known) hash = absl::HashOf(hash, input, elements);
  return hash;
}

bool SameQuery::operator()(const NodeQuery& a, const NodeQuery& b) const {
  return a.op == b.op && a.inputs == b.inputs && a.outputs == b.outputs && a.known == b.known &&
         SameBits(a.attrs, b.attrs);
}

const KernelVariant* VariantMemo::BestStrided(const NodeQuery& query) {
  const auto is_strided = [](Layout layout) { return layout == Layout::kStrided; };
  for (const KernelVariant& variant : Variants(query)) {
    if (std::ranges::all_of(variant.in_layouts, is_strided) &&
        std::ranges::all_of(variant.out_layouts, is_strided)) {
      return &variant;
    }
  }
  return nullptr;
}

bool VariantMemo::HasFastKernel(const NodeQuery& query) {
  const std::vector<KernelVariant>& variants = Variants(query);
  return !variants.empty() && variants[0].name != "reference";
}

const std::vector<KernelVariant>& VariantMemo::Variants(const NodeQuery& query) {
  const auto [it, is_new] = answers_.try_emplace(query);
  if (is_new) it->second = target_.Variants(query);
  return it->second;
}

}  // namespace millrace
