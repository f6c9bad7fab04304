// Sharding of a reshape. Both shapes are cut, from the left, into the shortest groups of dims with
// equal element counts: [8,784] -> [8,28,28] is {8 | 8} and {784 | 28,28}. Within a group, a cut of
// the first dim on one side is a cut of the first dim on the other, for every number of parts that
// divides both. A later dim of a group cuts each block of the dims before it, which is no single
// cut on the other side. Dims of 1 never matter.
#include "ops/reshaping.h"

#include <cstring>
#include <numeric>

#include "graph/strings.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {

absl::Status ReshapeReference(const ReferenceContext& c) {
  std::memmove(c.outputs[0].mutable_bytes(), c.inputs[0].bytes(), c.inputs[0].size_bytes());
  return absl::OkStatus();
}

absl::Status ReshapeGradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, Reshape(f.output_grad(0), f.input_type(0).shape));
  return absl::OkStatus();
}

namespace {

// The next dim at or after `d` that is not 1; the rank when there is none.
int SkipOnes(const Shape& shape, int d) {
  while (d < shape.rank() && shape[d] == 1) ++d;
  return d;
}

void AddGroupRules(const NodeQuery& query, std::vector<ShardingRule>& rules) {
  const Shape &in = query.inputs[0]->shape, &out = query.outputs[0]->shape;
  int i = SkipOnes(in, 0), j = SkipOnes(out, 0);
  while (i < in.rank() && j < out.rank()) {
    if (std::gcd(in[i], out[j]) > 1) {
      ShardingRule rule =
          ReplicateAll(query, StrCat("split dim ", i, ", dim ", j, " of the result"));
      rule.inputs[0] = ShardDim(i);
      rule.outputs[0] = ShardDim(j);
      rules.push_back(std::move(rule));
    }
    int64_t count_in = in[i++], count_out = out[j++];
    while (count_in != count_out) {
      if (count_in < count_out) {
        count_in *= in[i++];
      } else {
        count_out *= out[j++];
      }
    }
    i = SkipOnes(in, i);
    j = SkipOnes(out, j);
  }
}

}  // namespace

std::vector<ShardingRule> ReshapeRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  if (NumElements(query.outputs[0]->shape) > 0) AddGroupRules(query, rules);
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

}  // namespace millrace
