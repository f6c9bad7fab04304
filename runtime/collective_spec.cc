#include "runtime/collective_spec.h"

#include <algorithm>
#include <utility>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr std::pair<std::string_view, CommKind> kCollectives[] = {
    {"comm.AllReduce", CommKind::kAllReduce},         {"comm.AllGather", CommKind::kAllGather},
    {"comm.ReduceScatter", CommKind::kReduceScatter}, {"comm.AllToAll", CommKind::kAllToAll},
    {"comm.Broadcast", CommKind::kBroadcast},
};

std::vector<std::string> AxisNames(const Node& node) {
  const AttrValue* axis = node.attrs.Find("axis");
  if (axis == nullptr) return {};
  if (const auto* name = std::get_if<std::string>(axis)) return {*name};
  if (const auto* names = std::get_if<std::vector<std::string>>(axis)) return *names;
  return {};
}

}  // namespace

absl::StatusOr<CollectiveSpec> CollectiveSpecOf(const Node& node, const TensorType& input) {
  const auto collective = std::ranges::find(kCollectives, std::string_view(node.op),
                                            [](const auto& entry) { return entry.first; });
  if (collective == std::end(kCollectives)) {
    return InternalError(StrCat("'", node.op, "' is not a collective"));
  }
  CollectiveSpec spec;
  spec.kind = collective->second;
  spec.dtype = input.dtype;
  spec.count = NumElements(input.shape);
  spec.root = static_cast<int>(node.attrs.Int("root", 0));
  const std::string name = node.attrs.String("op", "sum");
  for (const Reduction reduction :
       {Reduction::kSum, Reduction::kMax, Reduction::kMin, Reduction::kProd, Reduction::kMean}) {
    if (ReductionName(reduction) != name) continue;
    spec.reduction = reduction;
    return spec;
  }
  return InternalError(StrCat("unknown reduction '", name, "'"));
}

absl::StatusOr<std::vector<int>> CollectiveAxes(const Node& node, const Mesh& mesh) {
  std::vector<int> axes;
  for (const std::string& name : AxisNames(node)) {
    const int axis = mesh.FindAxis(name);
    if (axis < 0) return InternalError(StrCat("the mesh has no axis '", name, "'"));
    axes.push_back(axis);
  }
  std::ranges::sort(axes);
  return axes;
}

absl::StatusOr<std::vector<Endpoint>> CollectiveMembers(const Node& node, const Mesh& mesh,
                                                        const Endpoint& self) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> axes, CollectiveAxes(node, mesh));
  std::vector<Endpoint> members = {self};
  for (int axis : axes) members[0].coordinates[axis] = 0;
  for (int axis : axes) {
    std::vector<Endpoint> wider;
    for (const Endpoint& member : members) {
      for (int64_t c = 0; c < mesh.axes[axis].size; ++c) {
        wider.push_back(member);
        wider.back().coordinates[axis] = c;
      }
    }
    members = std::move(wider);
  }
  return members;
}

}  // namespace millrace
