// The one move: a block of variables takes the strategies that are best together
// (strategy_block.h), given all others. Memory enters as prices per byte and moment (Lagrange
// multipliers), which make it a part of the strategies' own costs; whether the result keeps to the
// limit is then counted exactly, by adding up the intervals of the variables that changed.
#include "passes/parallel/strategy_search.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace millrace {

StrategySearch::StrategySearch(const ReducedStrategies& reduced, uint64_t seed)
    : reduced_(reduced), random_(seed), block_(reduced) {
  const size_t n = reduced.variables.size();
  everyone_.resize(n);
  std::iota(everyone_.begin(), everyone_.end(), 0);
  seen_.assign(n, 0);
  steps_.assign(reduced.fixed_usage.size() + 1, 0);
  steps_begin_ = static_cast<int32_t>(steps_.size());
  int32_t offset = 0;
  for (const StrategyVariable& variable : reduced.variables) {
    priced_offset_.push_back(offset);
    offset += variable.size();
  }
  priced_.assign(offset, 0);
  unary_.assign(offset, 0);
  Assign(std::vector<int32_t>(n, 0));
}

void StrategySearch::Assign(std::vector<int32_t> assignment) {
  assignment_ = std::move(assignment);
  cost_ = reduced_.constant_cost;
  std::vector<int64_t> steps(reduced_.fixed_usage.size() + 1, 0);
  for (size_t v = 0; v < assignment_.size(); ++v) {
    const StrategyVariable& variable = reduced_.variables[v];
    cost_ += variable.costs[assignment_[v]];
    for (const StrategyNeighbor& n : variable.neighbors) {
      if (n.variable > static_cast<int32_t>(v)) continue;
      cost_ +=
          reduced_.tables[n.table][static_cast<size_t>(assignment_[n.variable]) * variable.size() +
                                   assignment_[v]];
    }
    for (const StrategyInterval& interval : variable.intervals) {
      steps[interval.begin] += interval.usages[assignment_[v]];
      steps[interval.end] -= interval.usages[assignment_[v]];
    }
  }
  usage_ = reduced_.fixed_usage;
  overflow_ = 0;
  int64_t held = 0;
  for (size_t t = 0; t < usage_.size(); ++t) {
    usage_[t] += held += steps[t];
    overflow_ += static_cast<double>(std::max<int64_t>(0, usage_[t] - reduced_.memory_limit));
  }
}

void StrategySearch::SetPrices(const std::vector<double>& prices) {
  std::vector<double> before(prices.size() + 1, 0);  // price of all moments before one
  std::partial_sum(prices.begin(), prices.end(), before.begin() + 1);
  std::fill(priced_.begin(), priced_.end(), 0);
  for (size_t v = 0; v < reduced_.variables.size(); ++v) {
    double* priced = priced_.data() + priced_offset_[v];
    for (const StrategyInterval& interval : reduced_.variables[v].intervals) {
      const double price = before[interval.end] - before[interval.begin];
      for (size_t s = 0; s < interval.usages.size(); ++s) {
        priced[s] += price * static_cast<double>(interval.usages[s]);
      }
      work_ += static_cast<int64_t>(interval.usages.size());
    }
  }
  work_ += static_cast<int64_t>(prices.size());
}

void StrategySearch::GrowAround(int32_t center, int32_t max_size, double max_log2_cells) {
  center_ = center;
  grown_.clear();
  frontier_.assign(1, center);
  seen_[center] = 1;
  while (!frontier_.empty() && static_cast<int32_t>(grown_.size()) < max_size) {
    const int32_t pick = random_.Below(static_cast<int32_t>(frontier_.size()));
    const int32_t variable = frontier_[pick];
    frontier_[pick] = frontier_.back();
    frontier_.pop_back();
    grown_.push_back(variable);
    for (const StrategyNeighbor& n : reduced_.variables[variable].neighbors) {
      if (seen_[n.variable]) continue;
      seen_[n.variable] = 1;
      frontier_.push_back(n.variable);
    }
    work_ += static_cast<int64_t>(reduced_.variables[variable].neighbors.size());
  }
  for (const int32_t variable : grown_) seen_[variable] = 0;
  for (const int32_t variable : frontier_) seen_[variable] = 0;
  block_.Build(grown_, max_log2_cells, random_);
}

void StrategySearch::FillUnary(double weight, std::span<const int32_t> variables) {
  for (const int32_t member : variables) {
    const int32_t offset = priced_offset_[member];
    const std::vector<double>& costs = reduced_.variables[member].costs;
    for (size_t s = 0; s < costs.size(); ++s) {
      unary_[offset + s] = costs[s] + weight * priced_[offset + s];
    }
    work_ += static_cast<int64_t>(costs.size());
  }
}

void StrategySearch::AddSteps(int32_t variable, int32_t from, int32_t to) {
  for (const StrategyInterval& interval : reduced_.variables[variable].intervals) {
    const int64_t more = interval.usages[to] - interval.usages[from];
    if (more == 0) continue;
    steps_[interval.begin] += more;
    steps_[interval.end] -= more;
    steps_begin_ = std::min(steps_begin_, interval.begin);
    steps_end_ = std::max(steps_end_, interval.end + 1);
  }
  work_ += static_cast<int64_t>(reduced_.variables[variable].intervals.size());
}

// Of move_.changes, made one after another. Leaves assignment_ as it was.
double StrategySearch::CostChange() {
  double change = 0;
  for (auto& [variable, strategy] : move_.changes) {
    const StrategyVariable& v = reduced_.variables[variable];
    const int32_t old = assignment_[variable];
    change += v.costs[strategy] - v.costs[old];
    for (const StrategyNeighbor& n : v.neighbors) {
      const double* row =
          reduced_.tables[n.table].data() + static_cast<size_t>(assignment_[n.variable]) * v.size();
      change += row[strategy] - row[old];
    }
    work_ += static_cast<int64_t>(v.neighbors.size());
    assignment_[variable] = strategy;
    strategy = old;
  }
  for (auto& [variable, strategy] : move_.changes) std::swap(assignment_[variable], strategy);
  return change;
}

double StrategySearch::OverflowChange() {
  for (const auto& [variable, strategy] : move_.changes) {
    AddSteps(variable, assignment_[variable], strategy);
  }
  double change = 0;
  int64_t more = 0;
  const int32_t end = std::min(steps_end_, static_cast<int32_t>(usage_.size()));
  for (int32_t t = steps_begin_; t < end; ++t) {
    more += steps_[t];
    steps_[t] = 0;
    if (more == 0) continue;
    const int64_t over = usage_[t] - reduced_.memory_limit;
    const int64_t difference = std::max<int64_t>(0, over + more) - std::max<int64_t>(0, over);
    change += static_cast<double>(difference);
  }
  if (steps_end_ > end) steps_.back() = 0;
  work_ += std::max(0, end - steps_begin_);
  steps_begin_ = static_cast<int32_t>(steps_.size());
  steps_end_ = 0;
  return change;
}

const StrategySearch::Move& StrategySearch::ProposeChange(double weight, int32_t forced) {
  FillUnary(weight, block_.members());
  if (forced >= 0) {
    const int32_t offset = priced_offset_[center_];
    for (int32_t s = 0; s < reduced_.variables[center_].size(); ++s) {
      if (s != forced) unary_[offset + s] = std::numeric_limits<double>::infinity();
    }
  }
  const std::vector<int32_t>& chosen = block_.Solve(unary_, priced_offset_, assignment_);
  move_.changes.clear();
  for (size_t i = 0; i < chosen.size(); ++i) {
    const int32_t member = block_.members()[i];
    if (chosen[i] != assignment_[member]) move_.changes.emplace_back(member, chosen[i]);
  }
  move_.cost_change = CostChange();
  move_.overflow_change = OverflowChange();
  return move_;
}

void StrategySearch::Apply(const Move& move) {
  for (const auto& [variable, strategy] : move.changes) {
    AddSteps(variable, assignment_[variable], strategy);
    assignment_[variable] = strategy;
  }
  int64_t more = 0;
  const int32_t end = std::min(steps_end_, static_cast<int32_t>(usage_.size()));
  for (int32_t t = steps_begin_; t < end; ++t) {
    more += steps_[t];
    steps_[t] = 0;
    usage_[t] += more;
  }
  if (steps_end_ > end) steps_.back() = 0;
  steps_begin_ = static_cast<int32_t>(steps_.size());
  steps_end_ = 0;
  cost_ += move.cost_change;
  overflow_ += move.overflow_change;
}

bool StrategySearch::ImproveAll(double max_log2_cells) {
  block_.Build(everyone_, max_log2_cells, random_);
  Apply(ProposeChange(1, -1));
  return block_.members().size() == everyone_.size();
}

}  // namespace millrace
