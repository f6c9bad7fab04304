// TRW-S, sequential tree-reweighted message passing (Kolmogorov 2006): variables are visited in
// order and back; each divides what it knows among the chains that pass through it, and what the
// messages subtract from the problem without changing any assignment's cost adds up to a bound
// that never falls. A pass is O(cells of all edge tables).
#include "passes/parallel/strategy_messages.h"

#include <algorithm>
#include <limits>

namespace millrace {

StrategyMessages::StrategyMessages(const ReducedStrategies& reduced) : reduced_(reduced) {
  const size_t n = reduced.variables.size();
  from_.resize(n);
  to_.resize(n);
  int64_t total = 0;
  for (size_t v = 0; v < n; ++v) {
    for (size_t i = 0; i < reduced.variables[v].neighbors.size(); ++i) {
      from_[v].push_back(total);
      total += reduced.variables[v].size();
    }
  }
  messages_.assign(total, 0);
  // Neighbors are in order of variables on both sides, so a cursor finds each one's counterpart.
  std::vector<size_t> cursor(n, 0);
  for (size_t v = 0; v < n; ++v) to_[v].resize(from_[v].size());
  for (size_t v = 0; v < n; ++v) {
    const auto& neighbors = reduced.variables[v].neighbors;
    for (size_t i = 0; i < neighbors.size(); ++i) {
      const int32_t other = neighbors[i].variable;
      to_[v][i] = from_[other][cursor[other]++];
    }
  }
}

// Sends messages to the neighbors after (before) it; what was taken off them is returned.
double StrategyMessages::Visit(int32_t variable, bool forward, std::span<const double> own) {
  const StrategyVariable& v = reduced_.variables[variable];
  const int32_t size = v.size();
  belief_.assign(own.begin(), own.end());
  int32_t before = 0;
  for (size_t i = 0; i < v.neighbors.size(); ++i) {
    const double* message = messages_.data() + from_[variable][i];
    for (int32_t s = 0; s < size; ++s) belief_[s] += message[s];
    before += v.neighbors[i].variable < variable;
  }
  const int32_t after = static_cast<int32_t>(v.neighbors.size()) - before;
  const double share = 1.0 / std::max({1, before, after});
  double taken = 0;
  for (size_t i = 0; i < v.neighbors.size(); ++i) {
    const StrategyNeighbor& neighbor = v.neighbors[i];
    if ((neighbor.variable > variable) != forward) continue;
    const double* message = messages_.data() + from_[variable][i];
    const int32_t columns = reduced_.variables[neighbor.variable].size();
    sent_.assign(columns, std::numeric_limits<double>::infinity());
    const double* row = reduced_.tables[neighbor.transposed].data();
    for (int32_t s = 0; s < size; ++s, row += columns) {
      const double base = share * belief_[s] - message[s];
      for (int32_t b = 0; b < columns; ++b) sent_[b] = std::min(sent_[b], base + row[b]);
    }
    const double least = *std::min_element(sent_.begin(), sent_.end());
    double* to = messages_.data() + to_[variable][i];
    for (int32_t b = 0; b < columns; ++b) to[b] = sent_[b] - least;
    taken += least;
    work_ += static_cast<int64_t>(size) * columns;
  }
  // What is left of it for chains that end here.
  const double left = 1.0 - share * (forward ? after : before);
  if (left > 1e-9) taken += left * *std::min_element(belief_.begin(), belief_.end());
  work_ += size * static_cast<int64_t>(1 + v.neighbors.size());
  return taken;
}

double StrategyMessages::Pass(std::span<const double> unary,
                              std::span<const int32_t> unary_offset) {
  const int32_t n = static_cast<int32_t>(reduced_.variables.size());
  const auto own = [&](int32_t v) {
    return unary.subspan(unary_offset[v], reduced_.variables[v].size());
  };
  for (int32_t v = 0; v < n; ++v) Visit(v, true, own(v));
  double bound = reduced_.constant_cost;
  for (int32_t v = n; v-- > 0;) bound += Visit(v, false, own(v));
  return bound;
}

std::vector<int32_t> StrategyMessages::Suggest(std::span<const double> unary,
                                               std::span<const int32_t> unary_offset) const {
  std::vector<int32_t> assignment(reduced_.variables.size(), 0);
  std::vector<double> belief;
  for (size_t v = 0; v < assignment.size(); ++v) {
    const StrategyVariable& variable = reduced_.variables[v];
    const int32_t size = variable.size();
    const double* own = unary.data() + unary_offset[v];
    belief.assign(own, own + size);
    for (size_t i = 0; i < variable.neighbors.size(); ++i) {
      const StrategyNeighbor& n = variable.neighbors[i];
      const double* row =
          n.variable < static_cast<int32_t>(v)
              ? reduced_.tables[n.table].data() + static_cast<size_t>(assignment[n.variable]) * size
              : messages_.data() + from_[v][i];
      for (int32_t s = 0; s < size; ++s) belief[s] += row[s];
    }
    assignment[v] =
        static_cast<int32_t>(std::min_element(belief.begin(), belief.end()) - belief.begin());
  }
  return assignment;
}

}  // namespace millrace
