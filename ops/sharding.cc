#include "ops/sharding.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {

ShardingRule ReplicateAll(const NodeQuery& query, std::string_view note) {
  ShardingRule rule;
  rule.inputs.resize(query.inputs.size());
  rule.outputs.resize(query.outputs.size());
  rule.note = note;
  return rule;
}

bool Divisible(const Shape& shape, int dim) { return shape[dim] > 1; }

std::vector<ShardingRule> ElementwiseRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  if (query.outputs.empty() || !query.outputs[0].has_value()) return rules;
  const Shape& space = query.outputs[0]->shape;
  for (int d = 0; d < space.rank(); ++d) {
    if (!Divisible(space, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
    for (size_t i = 0; i < query.inputs.size(); ++i) {
      if (!query.inputs[i].has_value()) continue;
      const Shape& shape = query.inputs[i]->shape;
      const int own = d - (space.rank() - shape.rank());
      if (own >= 0 && shape[own] == space[d]) rule.inputs[i] = ShardDim(own);
    }
    for (AxisSharding& output : rule.outputs) output = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<ShardingRule> ElementwiseRulesExcept(const NodeQuery& query,
                                                 std::span<const int> dims) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  std::erase_if(rules, [dims](const ShardingRule& rule) {
    return std::find(dims.begin(), dims.end(), rule.outputs[0].dim) != dims.end();
  });
  return rules;
}

void AddPartialRules(const NodeQuery& query, int input, std::span<const Reduction> reductions,
                     std::vector<ShardingRule>& rules) {
  for (Reduction reduction : reductions) {
    ShardingRule rule = ReplicateAll(query, StrCat("pass partial ", ReductionName(reduction),
                                                   " of operand ", input, " through"));
    rule.inputs[input] = Partial(reduction);
    for (AxisSharding& output : rule.outputs) output = Partial(reduction);
    rules.push_back(std::move(rule));
  }
}

}  // namespace millrace
