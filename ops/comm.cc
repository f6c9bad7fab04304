#include "ops/comm.h"

#include <algorithm>

#include "ops/dtypes.h"

namespace millrace {

AttrSpec MeshAxesAttr() {
  return {.name = "axis",
          .kind = AttrKind::kStrings,
          .required = true,
          .doc = "the mesh axes: one name or a list"};
}

absl::Status CheckMeshAxes(const InferContext& c) {
  const AttrValue* axis = c.attrs().Find("axis");
  const auto& names = std::get<std::vector<std::string>>(*axis);
  if (names.empty()) return BadInputError("attribute 'axis' names no mesh axis");
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) {
      return BadInputError(StrCat("attribute 'axis' names '", names[i], "' twice"));
    }
  }
  return absl::OkStatus();
}

AttrSpec PartsAttr() {
  return {.name = "parts",
          .kind = AttrKind::kInt,
          .required = true,
          .doc = "how many devices there are along the axes"};
}

AttrSpec ReductionAttr() {
  return {.name = "op",
          .kind = AttrKind::kString,
          .default_value = "sum",
          .choices = {"sum", "max", "min", "prod", "mean"},
          .doc = "the reduction"};
}

OpDef CollectiveOp(std::string_view name, std::string_view doc, std::vector<AttrSpec> attrs,
                   CommKind kind, InferFn infer) {
  return {.name = std::string(name),
          .doc = std::string(doc),
          .inputs = {{.name = "X", .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = std::move(attrs),
          .traits = {.comm = kind},
          .infer = infer};
}

}  // namespace millrace
