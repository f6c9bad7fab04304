// Squeeze drops dims of 1, Unsqueeze puts some in.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/op_def.h"
#include "ops/reshaping.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status InferSqueeze(InferContext& c) {
  const Shape& from = c.input(0).shape;
  std::vector<int> dropped;
  if (c.has_input(1)) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> axes,
                              ConstantInts(c, 1, "axes", kMaxRank));
    MILLRACE_ASSIGN_OR_RETURN(dropped, NormalizeAxes(axes, from.rank()));
    for (int d : dropped) {
      if (from[d] != 1) {
        return BadInputError(StrCat("dim ", d, " of ", ToString(from), " is not 1"));
      }
    }
  }
  Shape shape;
  for (int d = 0; d < from.rank(); ++d) {
    const bool drops = c.has_input(1)
                           ? std::find(dropped.begin(), dropped.end(), d) != dropped.end()
                           : from[d] == 1;
    if (!drops) shape.push_back(from[d]);
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status InferUnsqueeze(InferContext& c) {
  const Shape& from = c.input(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ConstantInts(c, 1, "axes", kMaxRank));
  const int rank = from.rank() + static_cast<int>(axes.size());
  if (rank > kMaxRank) {
    return BadInputError(
        StrCat("the result would have ", rank, " dims, at most ", kMaxRank, " are possible"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> added, NormalizeAxes(axes, rank));
  Shape shape;
  for (int d = 0, next = 0; d < rank; ++d) {
    const bool adds = std::find(added.begin(), added.end(), d) != added.end();
    shape.push_back(adds ? 1 : from[next++]);
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

// Without axes, a part of size 1 would lose the dim that was cut.
std::vector<ShardingRule> SqueezeRules(const NodeQuery& query) {
  if (query.inputs.size() > 1 && query.inputs[1].has_value()) return ReshapeRules(query);
  std::vector<ShardingRule> rules;
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

OpDef Renaming(std::string name, std::string doc, std::string result, InferFn infer) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "data", .same_as = "T"}, {.name = "axes", .dtypes = {DType::kI64}}},
          .outputs = {{.name = std::move(result), .same_as = "T"}},
          .traits = {.in_place = {{0, 0}}, .host_inputs = {1}, .view = ViewKind::kWhole},
          .fusion = FusionClass::kShape,
          .infer = infer,
          .reference = ReshapeReference,
          .gradient = ReshapeGradient,
          .sharding = ReshapeRules};
}

}  // namespace

OpDef SqueezeOp() {
  OpDef op = Renaming("Squeeze", "Data without dims of 1", "squeezed", InferSqueeze);
  op.inputs[1].optional = true;
  op.sharding = SqueezeRules;
  op.inputs[1].doc = "the dims to drop; absent: all of 1";
  return op;
}

OpDef UnsqueezeOp() {
  OpDef op = Renaming("Unsqueeze", "Data with dims of 1 put in", "expanded", InferUnsqueeze);
  op.inputs[1].doc = "where the new dims are in the result";
  return op;
}

}  // namespace millrace
