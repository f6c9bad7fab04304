// Sharding rules, made from a few patterns.
//
// What a rule promises: cut every operand that is Shard(d) along d in the same number of parts,
// give each device its part (and Replicate operands whole), run the op with the same attributes on
// the local types, and the results are the parts, or partial results, that the rule names. Operands
// that state a shape (Reshape's `shape`, Expand's) are restated for the local result.
//
// For which numbers of devices: if all dims a rule cuts have one size, any number, also when it
// does not divide the size (as long as all operands are cut at the same places); otherwise those
// that divide each of them. A Partial(mean) result of cut operands weighs all devices alike, so it
// too needs equal parts.
#ifndef MILLRACE_OPS_SHARDING_H_
#define MILLRACE_OPS_SHARDING_H_

#include <string_view>
#include <vector>

#include "ops/op_def.h"

namespace millrace {

inline AxisSharding Replicate() { return {}; }
inline AxisSharding ShardDim(int dim) { return {AxisSharding::Kind::kShard, dim, Reduction::kSum}; }
inline AxisSharding Partial(Reduction reduction) {
  return {AxisSharding::Kind::kPartial, -1, reduction};
}

// All operands of the query replicated: what other rules start from.
ShardingRule ReplicateAll(const NodeQuery& query, std::string_view note);

// A dim of `shape` is worth cutting: there are at least two of it.
bool Divisible(const Shape& shape, int dim);

// One rule per dim of output 0, for ops whose outputs all have that shape and whose inputs
// broadcast to it.
std::vector<ShardingRule> ElementwiseRules(const NodeQuery& query);
// Those but for `dims`, which must stay whole.
std::vector<ShardingRule> ElementwiseRulesExcept(const NodeQuery& query, std::span<const int> dims);

// Rules by which an op that commutes with a reduction passes partial values from input
// `input` (others replicated) to all outputs.
void AddPartialRules(const NodeQuery& query, int input, std::span<const Reduction> reductions,
                     std::vector<ShardingRule>& rules);

// Reductions that commute with ops that only move, drop or repeat elements: all of them.
inline constexpr Reduction kAllReductions[] = {Reduction::kSum, Reduction::kMax, Reduction::kMin,
                                               Reduction::kProd, Reduction::kMean};
// ... with linear ops, and with functions that never decrease.
inline constexpr Reduction kLinearReductions[] = {Reduction::kSum, Reduction::kMean};
inline constexpr Reduction kMonotoneReductions[] = {Reduction::kMax, Reduction::kMin};

}  // namespace millrace

#endif  // MILLRACE_OPS_SHARDING_H_
