#include "passes/parallel/reshard.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "graph/link_cost.h"
#include "graph/mesh_coordinates.h"
#include "passes/parallel/sharding_choice.h"

namespace millrace {
namespace {

using Kind = AxisSharding::Kind;

constexpr double kPlainBytesPerUs = 1e4;  // without a machine
constexpr double kPlainStepUs = 5;
constexpr double kLocalStepUs = 0.5;  // of what moves nothing between devices

bool IsPartial(const AxisSharding& along) { return along.kind == Kind::kPartial; }
bool IsShard(const AxisSharding& along) { return along.kind == Kind::kShard; }

// No axis after this one cuts the dim.
bool IsInnermostOn(const Sharding& sharding, size_t axis, int dim) {
  for (size_t later = axis + 1; later < sharding.axes.size(); ++later) {
    if (IsShard(sharding.axes[later]) && sharding.axes[later].dim == dim) return false;
  }
  return true;
}

// Shardings as keys: ordered, so that ties are broken alike everywhere.
std::vector<int> KeyOfSharding(const Sharding& sharding) {
  std::vector<int> key;
  for (const AxisSharding& along : sharding.axes) {
    key.push_back(static_cast<int>(along.kind) * 1000 + (IsShard(along) ? along.dim
                                                         : IsPartial(along)
                                                             ? static_cast<int>(along.reduction)
                                                             : 0));
  }
  return key;
}

// How the devices of a collective over these axes lie on the machine's nodes; the first group
// stands for all.
GroupLayout LayoutOf(const std::vector<int>& axes, const Mesh& mesh, const ReshardLinks& links) {
  GroupLayout layout;
  std::map<int64_t, int64_t> members_on;
  layout.members = 0;
  for (int64_t c = 0; c < mesh.num_devices(); ++c) {
    const std::vector<int64_t> at = CoordinatesOf(mesh, c);
    bool first_group = true;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const bool in = std::ranges::find(axes, static_cast<int>(axis)) != axes.end();
      first_group = first_group && (in || at[axis] == 0);
    }
    if (!first_group) continue;
    ++layout.members;
    const auto device = FindDevice(*links.machine, links.kind, links.first + c);
    ++members_on[device.ok() ? device->node : 0];
  }
  layout.nodes = std::ssize(members_on);
  layout.per_node = 0;
  for (const auto& [node, members] : members_on) {
    if (layout.per_node != 0 && members != layout.per_node) layout.even = false;
    layout.per_node = std::max(layout.per_node, members);
  }
  return layout;
}

class ReshardSearch {
 public:
  ReshardSearch(const TensorType& type, const Mesh& mesh, const ReshardLinks& links)
      : type_(type), mesh_(mesh), links_(links) {}

  std::optional<ReshardPlan> Find(const Sharding& from, const Sharding& to) {
    const auto wanted = KeyOfSharding(to);
    Reach(from, {}, 0);
    while (!open_.empty()) {
      const auto [time_us, order, key] = *open_.begin();
      open_.erase(open_.begin());
      const Found found = best_.at(key);  // by value: entries are added below
      if (found.time_us != time_us) continue;
      if (key == wanted) return ReshardPlan{found.steps, time_us / 1e6};
      Expand(found);
    }
    return std::nullopt;
  }

 private:
  struct Found {
    Sharding sharding;
    std::vector<ReshardStep> steps;
    double time_us = 0;
  };

  void Reach(const Sharding& sharding, std::vector<ReshardStep> steps, double time_us) {
    std::vector<int> key = KeyOfSharding(sharding);
    const auto [it, is_new] = best_.try_emplace(key);
    if (!is_new && it->second.time_us <= time_us) return;
    it->second = {sharding, std::move(steps), time_us};
    open_.insert({time_us, next_order_++, std::move(key)});
  }

  void Take(const Found& found, ReshardStep step, const std::vector<AxisSharding>& become) {
    Sharding sharding = found.sharding;
    for (size_t i = 0; i < step.axes.size(); ++i) sharding.axes[step.axes[i]] = become[i];
    if (!LocalType(type_, sharding, mesh_).has_value()) return;
    const std::optional<TensorType> local = LocalType(type_, found.sharding, mesh_);
    if (!local.has_value()) return;
    step.bytes = static_cast<double>(ByteSize(*local));
    step.time_us = TimeUs(step);
    std::vector<ReshardStep> steps = found.steps;
    const double time_us = found.time_us + step.time_us;
    steps.push_back(std::move(step));
    Reach(sharding, std::move(steps), time_us);
  }

  void Expand(const Found& found) {
    for (size_t axis = 0; axis < found.sharding.axes.size(); ++axis) {
      const AxisSharding& along = found.sharding.axes[axis];
      const std::vector<int> axes = {static_cast<int>(axis)};
      if (IsPartial(along)) {
        ReduceSeveral(found, axis);
        ForEachFreeDim(found.sharding, axis, [&](int dim) {
          Take(found, {CommKind::kReduceScatter, axes, -1, dim, along.reduction},
               {{Kind::kShard, dim}});
        });
      } else if (!IsShard(along)) {
        ForEachFreeDim(found.sharding, axis, [&](int dim) {
          Take(found, {CommKind::kNone, axes, -1, dim}, {{Kind::kShard, dim}});
        });
      } else if (IsInnermostOn(found.sharding, axis, along.dim)) {
        Take(found, {CommKind::kAllGather, axes, along.dim, -1}, {{}});
        ForEachFreeDim(found.sharding, axis, [&](int dim) {
          if (dim == along.dim) return;
          Take(found, {CommKind::kAllToAll, axes, along.dim, dim}, {{Kind::kShard, dim}});
        });
      }
    }
  }

  // Partial to Replicate over this axis, and over it and all later ones of the same reduction.
  void ReduceSeveral(const Found& found, size_t axis) {
    const Reduction reduction = found.sharding.axes[axis].reduction;
    std::vector<int> axes = {static_cast<int>(axis)};
    Take(found, {CommKind::kAllReduce, axes, -1, -1, reduction}, {{}});
    for (size_t later = axis + 1; later < found.sharding.axes.size(); ++later) {
      const AxisSharding& along = found.sharding.axes[later];
      if (IsPartial(along) && along.reduction == reduction) axes.push_back(static_cast<int>(later));
    }
    if (axes.size() == 1) return;
    const std::vector<AxisSharding> become(axes.size());
    Take(found, {CommKind::kAllReduce, axes, -1, -1, reduction}, become);
  }

  template <typename Do>
  void ForEachFreeDim(const Sharding& sharding, size_t axis, Do what) const {
    for (int dim = 0; dim < type_.shape.rank(); ++dim) {
      if (IsInnermostOn(sharding, axis, dim)) what(dim);
    }
  }

  double TimeUs(const ReshardStep& step) {
    if (step.comm == CommKind::kNone) return kLocalStepUs + step.bytes / kPlainBytesPerUs / 10;
    int64_t members = 1;
    for (const int axis : step.axes) members *= mesh_.axes[axis].size;
    if (members == 1) return kLocalStepUs;
    if (links_.machine == nullptr)
      return kPlainStepUs + PlainBytes(step, members) / kPlainBytesPerUs;
    const auto device = FindDevice(*links_.machine, links_.kind, links_.first);
    if (!device.ok()) return kPlainStepUs + PlainBytes(step, members) / kPlainBytesPerUs;
    auto layout = layouts_.find(step.axes);
    if (layout == layouts_.end()) {
      layout = layouts_.emplace(step.axes, LayoutOf(step.axes, mesh_, links_)).first;
    }
    // Each step is also one more thing to start and to wait for.
    return kLocalStepUs +
           CostOfCollective(*links_.machine, *device, layout->second, step.comm, step.bytes)
               .task.time_us;
  }

  // What leaves a device, as the formulas of graph/link_cost.cc have it.
  static double PlainBytes(const ReshardStep& step, int64_t members) {
    const double n = static_cast<double>(members);
    switch (step.comm) {
      case CommKind::kAllReduce:
        return 2 * (n - 1) / n * step.bytes;
      case CommKind::kAllGather:
        return (n - 1) * step.bytes;
      default:
        return (n - 1) / n * step.bytes;
    }
  }

  const TensorType& type_;
  const Mesh& mesh_;
  const ReshardLinks& links_;
  std::map<std::vector<int>, Found> best_;
  std::set<std::tuple<double, int64_t, std::vector<int>>> open_;
  std::map<std::vector<int>, GroupLayout> layouts_;
  int64_t next_order_ = 0;
};

}  // namespace

std::optional<ReshardPlan> PlanReshard(const TensorType& type, const Sharding& from,
                                       const Sharding& to, const Mesh& mesh,
                                       const ReshardLinks& links) {
  if (from == to) return ReshardPlan{};
  // A value that is there whole is its own mean, its own greatest and least.
  Sharding goal = to;
  for (size_t axis = 0; axis < to.axes.size(); ++axis) {
    if (!IsPartial(to.axes[axis]) || from.axes[axis] == to.axes[axis]) continue;
    const Reduction reduction = to.axes[axis].reduction;
    if (reduction == Reduction::kSum || reduction == Reduction::kProd) return std::nullopt;
    goal.axes[axis] = AxisSharding();
  }
  return ReshardSearch(type, mesh, links).Find(from, goal);
}

}  // namespace millrace
