// Axes fall into three sorts.
//
//  * Axes that no offset and no peer mentions: all coordinates behave alike; 0 stands for them.
//  * Axes that offsets mention, but no peer: coordinates where every term has the same value are
//    alike, and the first of each such class stands for it. Collectives are no obstacle: a path of
//    happens-before through members of a group can be folded onto the representatives, since alike
//    members have alike local paths and every member of a group meets all others. So races and
//    deadlocks exist among the representatives exactly when they exist at all.
//  * Axes that peers mention. Folding is wrong here: a path from a device to its neighbour is no
//    path back to itself. What a device exchanges messages with, directly or not, is a component,
//    and is looked at as a whole; of components that are equal up to renaming, one is enough. When
//    collectives run along such an axis too, all of it is looked at.
//
// The representatives are the product of the three.
#include "graph/check/mesh_classes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include "graph/strings.h"

namespace millrace {
namespace {

// Coordinates of peer axes taken together, and representatives, are at most this many.
constexpr int64_t kMaxCoordinates = int64_t{1} << 16;
constexpr size_t kMaxPeers = 4096;  // different ones
// Expressions evaluated to find them.
constexpr int64_t kMaxClassEvaluations = int64_t{1} << 24;

using Coordinate = std::vector<int64_t>;

class ClassFinder {
 public:
  ClassFinder(const PlanModel& model, ErrorList& errors)
      : plan_(*model.plan), mesh_(plan_.mesh), model_(model), errors_(errors) {}

  MeshClasses Find() {
    CollectTerms();
    CollectPeers();
    int64_t evaluations = 0;
    for (size_t axis = 0; axis < mesh_.axes.size(); ++axis) {
      evaluations += mesh_.axes[axis].size * std::ssize(terms_[axis]);
    }
    if (evaluations > kMaxClassEvaluations) TooMany();
    if (!errors_.ok()) return {};
    std::vector<Coordinate> found = PeerRepresentatives();
    for (int axis = 0; axis < std::ssize(mesh_.axes) && errors_.ok(); ++axis) {
      if (!peer_axis_[axis]) found = Extend(found, axis, AxisRepresentatives(axis));
    }
    std::sort(found.begin(), found.end());
    MeshClasses classes;
    classes.coordinates = std::move(found);
    for (const Coordinate& c : classes.coordinates) {
      classes.linear.push_back(LinearCoordinate(c, mesh_));
    }
    return classes;
  }

 private:
  void TooMany() {
    errors_.Add(PlanRule::kStructure,
                StrCat("devices of the mesh ", ToString(mesh_),
                       " behave in too many different ways to check each; at most ",
                       kMaxCoordinates, " are looked at"));
  }

  // Distinct terms of offsets, by axis.
  void CollectTerms() {
    terms_.resize(mesh_.axes.size());
    peer_axis_.assign(mesh_.axes.size(), false);
    for (const Program& program : plan_.programs) {
      for (const Slice& slice : program.slices) {
        for (const LinearTerm& t : slice.offset_bytes.terms) {
          if (t.variable >= 0) terms_[t.variable].insert({t.scale, t.add, t.modulus});
        }
      }
    }
  }

  // What peers are, without what they have in common: each axis and expression once.
  void CollectPeers() {
    for (const Program& program : plan_.programs) {
      for (const Segment& segment : program.segments) {
        for (const Instruction& i : segment.instructions) {
          if (const Send* send = std::get_if<Send>(&i.body)) AddPeer(send->to);
          if (const Recv* recv = std::get_if<Recv>(&i.body)) AddPeer(recv->from);
          if (const Collective* c = std::get_if<Collective>(&i.body)) {
            std::vector<int> axes;
            CommAxes(model_.plan->graph.node(c->node), mesh_, axes);
            group_axes_.insert(axes.begin(), axes.end());
          }
        }
      }
    }
  }

  void AddPeer(const Peer& peer) {
    if (peer.coordinates.empty()) return;
    std::string text;
    for (const auto& [axis, expr] : peer.coordinates) {
      StrAppend(&text, axis, "=", ToString(expr, mesh_), ";");
    }
    if (!peer_texts_.insert(text).second) return;
    if (peers_.size() >= kMaxPeers) return TooMany();
    peers_.push_back(peer.coordinates);
    for (const auto& [axis, expr] : peer.coordinates) {
      peer_axis_[axis] = true;
      for (const LinearTerm& t : expr.terms) {
        if (t.variable >= 0) peer_axis_[t.variable] = true;
        peers_use_microbatch_ |= t.variable == kMicrobatchVar;
      }
    }
  }

  std::vector<int64_t> Signature(int axis, int64_t coordinate) const {
    std::vector<int64_t> signature;
    Coordinate at(mesh_.axes.size(), 0);
    at[axis] = coordinate;
    for (const auto& [scale, add, modulus] : terms_[axis]) {
      LinearExpr expr;
      expr.terms.push_back({axis, scale, add, modulus});
      signature.push_back(Evaluate(expr, {.coordinates = at}));
    }
    return signature;
  }

  std::vector<int64_t> AxisRepresentatives(int axis) const {
    if (terms_[axis].empty()) return {0};
    std::set<std::vector<int64_t>> seen;
    std::vector<int64_t> first;
    for (int64_t c = 0; c < mesh_.axes[axis].size; ++c) {
      if (seen.insert(Signature(axis, c)).second) first.push_back(c);
    }
    return first;
  }

  std::vector<Coordinate> Extend(const std::vector<Coordinate>& coordinates, int axis,
                                 const std::vector<int64_t>& along) {
    std::vector<Coordinate> wider;
    if (std::ssize(coordinates) * std::ssize(along) > kMaxCoordinates) {
      TooMany();
      return wider;
    }
    for (const Coordinate& c : coordinates) {
      for (int64_t x : along) {
        wider.push_back(c);
        wider.back()[axis] = x;
      }
    }
    return wider;
  }

  // Coordinates of the peer axes, others 0: all of them, or one component of each kind.
  std::vector<Coordinate> PeerRepresentatives() {
    std::vector<Coordinate> all = {Coordinate(mesh_.axes.size(), 0)};
    bool group_along = false;
    for (int axis = 0; axis < std::ssize(mesh_.axes); ++axis) {
      if (!peer_axis_[axis]) continue;
      std::vector<int64_t> along(mesh_.axes[axis].size);
      std::iota(along.begin(), along.end(), 0);
      all = Extend(all, axis, along);
      group_along |= group_axes_.contains(axis);
    }
    if (peers_.empty() || !errors_.ok()) return all;
    if (!LinkPeers(all) || group_along) return all;
    return OneOfEachKind(all);
  }

  // For each coordinate, where each peer expression leads (for every microbatch, if it matters).
  // False when one leads outside the mesh.
  bool LinkPeers(const std::vector<Coordinate>& all) {
    std::map<Coordinate, int32_t> place;
    for (size_t i = 0; i < all.size(); ++i) place[all[i]] = static_cast<int32_t>(i);
    const int32_t microbatches = peers_use_microbatch_ ? plan_.microbatches : 1;
    if (std::ssize(all) * microbatches * std::ssize(peers_) > kMaxClassEvaluations) {
      TooMany();
      return false;
    }
    links_.assign(all.size(), {});
    for (size_t i = 0; i < all.size(); ++i) {
      for (const auto& peer : peers_) {
        for (int32_t mb = 0; mb < microbatches; ++mb) {
          Coordinate to = all[i];
          for (const auto& [axis, expr] : peer) {
            to[axis] = Evaluate(expr, {.coordinates = all[i], .microbatch = mb});
          }
          const auto it = place.find(to);
          // Only what is used need be in range: pairing looks at the representatives again.
          links_[i].push_back(it != place.end() ? it->second : -1);
        }
      }
    }
    return true;
  }

  std::vector<Coordinate> OneOfEachKind(const std::vector<Coordinate>& all) const {
    std::vector<Coordinate> found;
    std::vector<bool> visited(all.size(), false);
    std::set<std::vector<int64_t>> kinds;
    const std::vector<std::vector<int32_t>> back = ReverseLinks();
    for (size_t start = 0; start < all.size(); ++start) {
      if (visited[start]) continue;
      const std::vector<int32_t> component = Component(static_cast<int32_t>(start), back, visited);
      if (!kinds.insert(Describe(component, all)).second) continue;
      for (int32_t i : component) found.push_back(all[i]);
    }
    return found;
  }

  std::vector<std::vector<int32_t>> ReverseLinks() const {
    std::vector<std::vector<int32_t>> back(links_.size());
    for (size_t i = 0; i < links_.size(); ++i) {
      for (int32_t to : links_[i]) {
        if (to >= 0) back[to].push_back(static_cast<int32_t>(i));
      }
    }
    return back;
  }

  // Breadth first, along links and against them, in an order that renaming preserves.
  std::vector<int32_t> Component(int32_t start, const std::vector<std::vector<int32_t>>& back,
                                 std::vector<bool>& visited) const {
    std::vector<int32_t> order = {start};
    visited[start] = true;
    const auto visit = [&](int32_t to) {
      if (to < 0 || visited[to]) return;
      visited[to] = true;
      order.push_back(to);
    };
    for (size_t i = 0; i < order.size(); ++i) {
      for (int32_t to : links_[order[i]]) visit(to);
      for (int32_t to : back[order[i]]) visit(to);
    }
    return order;
  }

  // Equal for components that are equal up to renaming of coordinates.
  std::vector<int64_t> Describe(const std::vector<int32_t>& component,
                                const std::vector<Coordinate>& all) const {
    absl::flat_hash_map<int32_t, int64_t> place;
    for (size_t i = 0; i < component.size(); ++i) place[component[i]] = static_cast<int64_t>(i);
    std::vector<int64_t> description;
    for (int32_t i : component) {
      for (int axis = 0; axis < std::ssize(mesh_.axes); ++axis) {
        if (!peer_axis_[axis]) continue;
        const std::vector<int64_t> signature = Signature(axis, all[i][axis]);
        description.insert(description.end(), signature.begin(), signature.end());
      }
      for (int32_t to : links_[i]) description.push_back(to >= 0 ? place.at(to) : -1);
    }
    return description;
  }

  const PlanBundle& plan_;
  const Mesh& mesh_;
  const PlanModel& model_;
  ErrorList& errors_;
  std::vector<std::set<std::tuple<int64_t, int64_t, int64_t>>> terms_;
  std::vector<std::vector<std::pair<int, LinearExpr>>> peers_;
  std::set<std::string> peer_texts_;  // of peers_
  std::vector<bool> peer_axis_;
  std::set<int> group_axes_;
  bool peers_use_microbatch_ = false;
  std::vector<std::vector<int32_t>> links_;
};

}  // namespace

int32_t MeshClasses::Find(const std::vector<int64_t>& coordinate, const Mesh& mesh) const {
  const int64_t wanted = LinearCoordinate(coordinate, mesh);
  const auto it = std::lower_bound(linear.begin(), linear.end(), wanted);
  return it != linear.end() && *it == wanted ? static_cast<int32_t>(it - linear.begin()) : -1;
}

MeshClasses FindMeshClasses(const PlanModel& model, ErrorList& errors) {
  return ClassFinder(model, errors).Find();
}

}  // namespace millrace
