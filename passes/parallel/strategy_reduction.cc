// Three exact reductions, until none finds anything:
//
// - A strategy is dropped when it is forbidden, or when an edge forbids it beside every strategy
//   that its neighbor has left (arc consistency).
// - Two nodes whose strategies determine each other, because the edge between them forbids all
//   else, become one variable: costs, bytes and edges of its nodes are added up. In graphs of real
//   models most nodes only pass on the layout of another, so tens of thousands become hundreds.
// - Of all moments only those matter at which something begins and after which something ends
//   before anything else begins: memory held at any other is part of what is held there.
//
// Each pass is O(cells of edge tables); two or three find all.
#include "passes/parallel/strategy_reduction.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "graph/assert.h"

namespace millrace {
namespace {

// Nodes with the same variable, while variables are still being joined. A variable's number is that
// of one of its nodes.
class StrategyGroups {
 public:
  explicit StrategyGroups(const StrategyProblem& problem) : problem_(problem) {
    for (size_t i = 0; i < problem.nodes.size(); ++i) {
      const StrategyNode& node = problem.nodes[i];
      std::vector<int32_t> map;
      for (size_t s = 0; s < node.costs.size(); ++s) {
        if (node.costs[s] < kForbiddenCost) map.push_back(static_cast<int32_t>(s));
      }
      if (map.empty() && impossible_node_ < 0) impossible_node_ = static_cast<int32_t>(i);
      maps_.push_back(std::move(map));
      variable_.push_back(static_cast<int32_t>(i));
      members_.push_back({static_cast<int32_t>(i)});
    }
  }

  // One pass over all edges; whether anything changed.
  bool Pass() {
    bool changed = false;
    for (const StrategyEdge& edge : problem_.edges) {
      if (impossible_node_ >= 0) return false;
      changed |= Drop(edge, true);
      changed |= Drop(edge, false);
      if (impossible_node_ >= 0) return false;
      changed |= Join(edge);
    }
    return changed;
  }

  int32_t impossible_node() const { return impossible_node_; }
  int32_t variable(size_t node) const { return variable_[node]; }
  const std::vector<std::vector<int32_t>>& maps() const { return maps_; }
  size_t size(int32_t variable) const { return maps_[members_[variable][0]].size(); }

  // The edge's cost when the variables of its ends take a and b.
  int64_t Cost(const StrategyEdge& edge, size_t a, size_t b) const {
    const size_t columns = problem_.nodes[edge.to].costs.size();
    return edge.costs[maps_[edge.from][a] * columns + maps_[edge.to][b]];
  }

 private:
  bool Allowed(const StrategyEdge& edge, bool forward, size_t a, size_t b) const {
    return (forward ? Cost(edge, a, b) : Cost(edge, b, a)) < kForbiddenCost;
  }

  // Drops strategies of one end's variable that the edge leaves no partner.
  bool Drop(const StrategyEdge& edge, bool forward) {
    const int32_t u = variable_[forward ? edge.from : edge.to];
    const int32_t v = variable_[forward ? edge.to : edge.from];
    std::vector<int32_t> kept;
    for (size_t a = 0; a < size(u); ++a) {
      bool any = false;
      if (u == v) {
        any = Allowed(edge, forward, a, a);
      } else {
        for (size_t b = 0; b < size(v) && !any; ++b) any = Allowed(edge, forward, a, b);
      }
      if (any) kept.push_back(static_cast<int32_t>(a));
    }
    if (kept.size() == size(u)) return false;
    if (kept.empty()) {
      impossible_node_ = forward ? edge.from : edge.to;
      return false;
    }
    Remap(u, kept);
    return true;
  }

  // Strategies `kept` of `variable` become 0, 1, ...
  void Remap(int32_t variable, const std::vector<int32_t>& kept) {
    for (const int32_t node : members_[variable]) {
      std::vector<int32_t> map(kept.size());
      for (size_t s = 0; s < kept.size(); ++s) map[s] = maps_[node][kept[s]];
      maps_[node] = std::move(map);
    }
  }

  // For each strategy of the first end's variable the only partner, if each has just one.
  std::vector<int32_t> FunctionOf(const StrategyEdge& edge, bool forward) const {
    const int32_t u = variable_[forward ? edge.from : edge.to];
    const int32_t v = variable_[forward ? edge.to : edge.from];
    std::vector<int32_t> function(size(u), -1);
    for (size_t a = 0; a < size(u); ++a) {
      for (size_t b = 0; b < size(v); ++b) {
        if (!Allowed(edge, forward, a, b)) continue;
        if (function[a] >= 0) return {};
        function[a] = static_cast<int32_t>(b);
      }
    }
    return function;
  }

  bool Join(const StrategyEdge& edge) {
    const int32_t u = variable_[edge.from], v = variable_[edge.to];
    if (u == v || size(u) == 1 || size(v) == 1) return false;
    // Drop has left every strategy a partner, so a function between equal sizes is one to one.
    if (size(u) != size(v)) return false;
    const bool forward = members_[u].size() >= members_[v].size();
    const std::vector<int32_t> function = FunctionOf(edge, forward);
    if (function.empty()) return false;
    const int32_t into = forward ? u : v, from = forward ? v : u;
    Remap(from, function);
    for (const int32_t node : members_[from]) variable_[node] = into;
    members_[into].insert(members_[into].end(), members_[from].begin(), members_[from].end());
    members_[from].clear();
    return true;
  }

  const StrategyProblem& problem_;
  std::vector<std::vector<int32_t>> maps_;     // by node
  std::vector<int32_t> variable_;              // by node
  std::vector<std::vector<int32_t>> members_;  // by variable
  int32_t impossible_node_ = -1;
};

// Moments that matter, in order; `At` numbers them.
class StrategyMoments {
 public:
  explicit StrategyMoments(const StrategyProblem& problem) {
    std::vector<std::pair<int64_t, bool>> bounds;  // (moment, begins): ends come first
    for (const StrategyNode& node : problem.nodes) {
      if (node.begin >= node.end) continue;
      bounds.emplace_back(node.begin, true);
      bounds.emplace_back(node.end, false);
    }
    std::sort(bounds.begin(), bounds.end());
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      if (bounds[i].second && !bounds[i + 1].second) moments_.push_back(bounds[i].first);
    }
  }

  // The first kept moment at or after `moment`.
  int32_t At(int64_t moment) const {
    return static_cast<int32_t>(std::lower_bound(moments_.begin(), moments_.end(), moment) -
                                moments_.begin());
  }
  size_t size() const { return moments_.size(); }

 private:
  std::vector<int64_t> moments_;
};

// More than all allowed costs together.
double MoreThanAllCosts(const StrategyProblem& problem) {
  double sum = 1;
  const auto add = [&](const std::vector<int64_t>& costs) {
    int64_t most = 0;
    for (const int64_t cost : costs) {
      if (cost < kForbiddenCost) most = std::max(most, cost);
    }
    sum += static_cast<double>(most);
  };
  for (const StrategyNode& node : problem.nodes) add(node.costs);
  for (const StrategyEdge& edge : problem.edges) add(edge.costs);
  return sum;
}

void AddNodes(const StrategyProblem& problem, ReducedStrategies& reduced) {
  const StrategyMoments moments(problem);
  std::vector<int64_t> steps(moments.size() + 1, 0);
  std::vector<std::map<std::pair<int32_t, int32_t>, std::vector<int64_t>>> intervals(
      reduced.variables.size());
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const StrategyNode& node = problem.nodes[i];
    const std::vector<int32_t>& map = reduced.maps[i];
    const int32_t begin = moments.At(node.begin), end = moments.At(node.end);
    const bool held = node.begin < node.end;
    int64_t least = INT64_MAX, most = 0;
    for (const int32_t s : map) {
      least = std::min(least, node.usages[s]);
      most = std::max(most, node.usages[s]);
    }
    if (held) steps[begin] += least, steps[end] -= least;
    const int32_t variable = reduced.variable_of[i];
    if (variable < 0) {
      reduced.constant_cost += static_cast<double>(node.costs[map[0]]);
      continue;
    }
    StrategyVariable& v = reduced.variables[variable];
    for (size_t s = 0; s < map.size(); ++s) v.costs[s] += static_cast<double>(node.costs[map[s]]);
    if (!held || least == most) continue;
    std::vector<int64_t>& usages = intervals[variable][{begin, end}];
    usages.resize(map.size());
    for (size_t s = 0; s < map.size(); ++s) usages[s] += node.usages[map[s]] - least;
  }
  reduced.fixed_usage.resize(moments.size());
  std::partial_sum(steps.begin(), steps.end() - 1, reduced.fixed_usage.begin());
  for (size_t v = 0; v < intervals.size(); ++v) {
    for (auto& [bounds, usages] : intervals[v]) {
      reduced.variables[v].intervals.push_back({bounds.first, bounds.second, std::move(usages)});
    }
  }
}

void AddEdges(const StrategyProblem& problem, const StrategyGroups& groups,
              ReducedStrategies& reduced) {
  const auto cost_of = [&](const StrategyEdge& edge, size_t a, size_t b) {
    const int64_t cost = groups.Cost(edge, a, b);
    return cost >= kForbiddenCost ? reduced.forbidden : static_cast<double>(cost);
  };
  std::map<std::pair<int32_t, int32_t>, std::vector<double>> tables;
  for (const StrategyEdge& edge : problem.edges) {
    int32_t u = reduced.variable_of[edge.from], v = reduced.variable_of[edge.to];
    if (u < 0 && v < 0) {
      reduced.constant_cost += cost_of(edge, 0, 0);
    } else if (u < 0 || v < 0 || u == v) {
      std::vector<double>& costs = reduced.variables[std::max(u, v)].costs;
      for (size_t s = 0; s < costs.size(); ++s) {
        costs[s] += cost_of(edge, u < 0 ? 0 : s, v < 0 ? 0 : s);
      }
    } else {
      const bool swapped = u > v;
      if (swapped) std::swap(u, v);
      const int32_t rows = reduced.variables[u].size(), columns = reduced.variables[v].size();
      std::vector<double>& table = tables[{u, v}];
      table.resize(static_cast<size_t>(rows) * columns);
      for (int32_t a = 0; a < rows; ++a) {
        for (int32_t b = 0; b < columns; ++b) {
          table[static_cast<size_t>(a) * columns + b] +=
              swapped ? cost_of(edge, b, a) : cost_of(edge, a, b);
        }
      }
    }
  }
  for (auto& [ends, table] : tables) {
    const auto [low, high] = std::minmax_element(table.begin(), table.end());
    if (*low == *high) {  // does not depend on the choice
      reduced.constant_cost += *low;
      continue;
    }
    StrategyVariable &u = reduced.variables[ends.first], &v = reduced.variables[ends.second];
    std::vector<double> transposed(table.size());
    for (int32_t a = 0; a < u.size(); ++a) {
      for (int32_t b = 0; b < v.size(); ++b) {
        transposed[static_cast<size_t>(b) * u.size() + a] =
            table[static_cast<size_t>(a) * v.size() + b];
      }
    }
    const int32_t index = static_cast<int32_t>(reduced.tables.size());
    u.neighbors.push_back({ends.second, index + 1, index});
    v.neighbors.push_back({ends.first, index, index + 1});
    reduced.tables.push_back(std::move(table));
    reduced.tables.push_back(std::move(transposed));
  }
}

}  // namespace

ReducedStrategies ReduceStrategies(const StrategyProblem& problem) {
  ReducedStrategies reduced;
  StrategyGroups groups(problem);
  while (groups.Pass()) {
  }
  reduced.memory_limit = problem.memory_limit;
  reduced.impossible_node = groups.impossible_node();
  if (reduced.impossible_node >= 0) return reduced;
  reduced.forbidden = MoreThanAllCosts(problem);
  reduced.maps = groups.maps();
  reduced.variable_of.assign(problem.nodes.size(), -1);
  std::vector<int32_t> number(problem.nodes.size(), -1);
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const int32_t group = groups.variable(i);
    if (groups.size(group) == 1) continue;
    if (number[group] < 0) {
      number[group] = static_cast<int32_t>(reduced.variables.size());
      reduced.variables.emplace_back().costs.assign(groups.size(group), 0);
    }
    reduced.variable_of[i] = number[group];
  }
  AddNodes(problem, reduced);
  AddEdges(problem, groups, reduced);
  return reduced;
}

std::vector<int32_t> ExpandStrategies(const ReducedStrategies& reduced,
                                      std::span<const int32_t> assignment) {
  std::vector<int32_t> choice(reduced.variable_of.size());
  for (size_t i = 0; i < choice.size(); ++i) {
    const int32_t variable = reduced.variable_of[i];
    choice[i] = reduced.maps[i][variable < 0 ? 0 : assignment[variable]];
  }
  return choice;
}

}  // namespace millrace
