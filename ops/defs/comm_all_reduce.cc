// comm.AllReduce: every device along the named mesh axes gets the reduction of all their inputs.
// It runs as a Collective of a plan, so there is no kernel here.
#include <algorithm>

#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const AttrValue* axis = c.attrs().Find("axis");
  const auto& names = std::get<std::vector<std::string>>(*axis);
  if (names.empty()) return BadInputError("attribute 'axis' names no mesh axis");
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) {
      return BadInputError(StrCat("attribute 'axis' names '", names[i], "' twice"));
    }
  }
  return InferLikeInput(c);
}

// Along a mesh axis other than its own.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  const std::string op = query.attrs.String("op", "sum");
  for (Reduction reduction : kAllReductions) {
    if (ReductionName(reduction) == op) AddPartialRules(query, 0, {&reduction, 1}, rules);
  }
  return rules;
}

}  // namespace

OpDef CommAllReduceOp() {
  return {.name = "comm.AllReduce",
          .doc = "The reduction of X over all devices along mesh axes",
          .inputs = {{.name = "X", .dtypes = NumericTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = {{.name = "axis",
                     .kind = AttrKind::kStrings,
                     .required = true,
                     .doc = "the mesh axes: one name or a list"},
                    {.name = "op",
                     .kind = AttrKind::kString,
                     .default_value = "sum",
                     .choices = {"sum", "max", "min", "prod", "mean"},
                     .doc = "the reduction"}},
          .traits = {.in_place = {{0, 0}}, .comm = CommKind::kAllReduce},
          .infer = Infer,
          .sharding = Rules};
}

}  // namespace millrace
