// Bucket elimination (Dechter 1999; Bertele and Brioschi 1972). Members are eliminated one after
// another, always one whose neighbors span the smallest table; eliminating one sends a message, the
// minimum over its own strategies by the strategies of its neighbors, which are neighbors of each
// other from then on. Going back through the order, every member's best strategy follows from those
// of the members after it. On graphs of low treewidth this is exact for all variables at once;
// otherwise, whenever the smallest table would be too large, a variable beside it leaves the
// block and keeps its strategy. Which one is random, so that repeated blocks differ.
//
// A bucket's factors lie with the eliminated member innermost, which is where orders of elimination
// put it: edges have both orientations of their table, and messages list later members first.
#include "passes/parallel/strategy_block.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace {
namespace {

void EraseUnordered(std::vector<int32_t>& items, int32_t item) {
  const auto found = std::find(items.begin(), items.end(), item);
  *found = items.back();
  items.pop_back();
}

}  // namespace

StrategyBlock::StrategyBlock(const ReducedStrategies& reduced) : reduced_(reduced) {
  position_.assign(reduced.variables.size(), -1);
  number_.assign(reduced.variables.size(), -1);
}

// log2 of the cells that eliminating it goes through.
double StrategyBlock::WeightOf(int32_t local) const {
  double weight = log2_size_[local];
  for (const int32_t other : adjacent_[local]) weight += log2_size_[other];
  return weight;
}

void StrategyBlock::Disconnect(int32_t local) {
  gone_[local] = true;
  for (const int32_t other : adjacent_[local]) EraseUnordered(adjacent_[other], local);
  work_ += static_cast<int64_t>(8 * adjacent_[local].size());
}

void StrategyBlock::LeaveOut(int32_t local) {
  Disconnect(local);
  for (const int32_t other : adjacent_[local]) {
    weight_[other] -= log2_size_[local];
    queue_.emplace(weight_[other], other);
  }
}

void StrategyBlock::Eliminate(int32_t local) {
  Disconnect(local);
  const std::vector<int32_t>& scope = adjacent_[local];
  position_[candidates_[local]] = static_cast<int32_t>(members_.size());
  members_.push_back(candidates_[local]);
  for (const int32_t u : scope) {
    std::vector<int32_t>& of_u = adjacent_[u];
    for (const int32_t w : scope) {
      if (w != u && std::find(of_u.begin(), of_u.end(), w) == of_u.end()) of_u.push_back(w);
    }
    work_ += static_cast<int64_t>(scope.size() * of_u.size());
    weight_[u] = WeightOf(u);
    queue_.emplace(weight_[u], u);
  }
}

void StrategyBlock::Build(std::span<const int32_t> candidates, double max_log2_cells,
                          StrategyRandom& random) {
  for (const int32_t variable : members_) position_[variable] = -1;
  members_.clear();
  candidates_.assign(candidates.begin(), candidates.end());
  const size_t n = candidates_.size();
  if (adjacent_.size() < n) adjacent_.resize(n);
  log2_size_.resize(n);
  weight_.resize(n);
  gone_.assign(n, false);
  for (size_t i = 0; i < n; ++i) number_[candidates_[i]] = static_cast<int32_t>(i);
  for (size_t i = 0; i < n; ++i) {
    const StrategyVariable& variable = reduced_.variables[candidates_[i]];
    log2_size_[i] = std::log2(static_cast<double>(variable.size()));
    adjacent_[i].clear();
    for (const StrategyNeighbor& neighbor : variable.neighbors) {
      const int32_t other = number_[neighbor.variable];
      if (other >= 0) adjacent_[i].push_back(other);
    }
    work_ += static_cast<int64_t>(4 + variable.neighbors.size());
  }
  queue_ = {};
  for (size_t i = 0; i < n; ++i) {
    weight_[i] = WeightOf(static_cast<int32_t>(i));
    queue_.emplace(weight_[i], static_cast<int32_t>(i));
  }
  while (!queue_.empty()) {
    const auto [weight, local] = queue_.top();
    if (gone_[local] || weight != weight_[local]) {
      queue_.pop();
    } else if (weight <= max_log2_cells || adjacent_[local].empty()) {
      queue_.pop();
      Eliminate(local);
    } else {
      // The better connected one of two neighbors, or the variable itself now and then.
      const std::vector<int32_t>& near = adjacent_[local];
      const auto pick = [&] { return near[random.Below(static_cast<int32_t>(near.size()))]; };
      const int32_t a = pick(), b = pick();
      LeaveOut(adjacent_[a].size() >= adjacent_[b].size() ? a : b);
    }
    work_ += 16;
  }
  LayOut();
  for (const int32_t variable : candidates_) number_[variable] = -1;
}

// Scopes, factors and places of messages, from the order.
void StrategyBlock::LayOut() {
  num_buckets_ = members_.size();
  if (buckets_.size() < num_buckets_) buckets_.resize(num_buckets_);
  int64_t messages = 0;
  int32_t unary = 0;
  for (size_t i = 0; i < num_buckets_; ++i) {
    Bucket& bucket = buckets_[i];
    const StrategyVariable& variable = reduced_.variables[members_[i]];
    bucket.size = variable.size();
    bucket.factors.clear();
    bucket.scope.clear();
    bucket.unary = unary;
    unary += bucket.size;
    for (const int32_t local : adjacent_[number_[members_[i]]]) {
      // Neighbors that left the block after this one was eliminated stay in its list no longer.
      const int32_t position = position_[candidates_[local]];
      if (position > static_cast<int32_t>(i)) bucket.scope.push_back(position);
    }
    std::sort(bucket.scope.begin(), bucket.scope.end(), std::greater<>());
    bucket.cells = 1;
    for (const int32_t position : bucket.scope) {
      bucket.cells *= reduced_.variables[members_[position]].size();
    }
    bucket.message = messages;
    messages += bucket.scope.empty() ? 0 : bucket.cells;
  }
  messages_.resize(messages);
  unary_.resize(unary);
  for (size_t i = 0; i < num_buckets_; ++i) {
    Bucket& bucket = buckets_[i];
    for (const StrategyNeighbor& neighbor : reduced_.variables[members_[i]].neighbors) {
      if (position_[neighbor.variable] > static_cast<int32_t>(i)) {
        bucket.factors.push_back(
            {reduced_.tables[neighbor.table].data(), 0, position_[neighbor.variable]});
      }
    }
    if (!bucket.scope.empty()) {
      buckets_[bucket.scope.back()].factors.push_back(
          {nullptr, bucket.message, -1 - static_cast<int32_t>(i)});
    }
    // By now all messages to this bucket are known. first_stride held what the factor is over.
    bucket.strides.assign(bucket.factors.size() * bucket.scope.size(), 0);
    for (size_t f = 0; f < bucket.factors.size(); ++f) {
      Factor& factor = bucket.factors[f];
      const int32_t over = factor.first_stride;
      factor.first_stride = static_cast<int32_t>(f * bucket.scope.size());
      int64_t* strides = bucket.strides.data() + factor.first_stride;
      const auto dim_of = [&](int32_t position) {
        return std::find(bucket.scope.begin(), bucket.scope.end(), position) - bucket.scope.begin();
      };
      if (over >= 0) {
        strides[dim_of(over)] = bucket.size;
        continue;
      }
      int64_t stride = 1;
      const std::vector<int32_t>& scope = buckets_[-1 - over].scope;
      for (size_t d = scope.size(); d-- > 0;) {
        if (scope[d] != static_cast<int32_t>(i)) strides[dim_of(scope[d])] = stride;
        stride *= reduced_.variables[members_[scope[d]]].size();
      }
    }
    work_ += static_cast<int64_t>(8 + 8 * bucket.strides.size());
  }
}

void StrategyBlock::FillUnary(std::span<const double> unary, std::span<const int32_t> unary_offset,
                              std::span<const int32_t> assignment) {
  for (size_t i = 0; i < num_buckets_; ++i) {
    const int32_t member = members_[i];
    const StrategyVariable& variable = reduced_.variables[member];
    const int32_t size = variable.size();
    double* own = unary_.data() + buckets_[i].unary;
    std::copy_n(unary.data() + unary_offset[member], size, own);
    for (const StrategyNeighbor& neighbor : variable.neighbors) {
      if (position_[neighbor.variable] >= 0) continue;
      const double* row = reduced_.tables[neighbor.table].data() +
                          static_cast<size_t>(assignment[neighbor.variable]) * size;
      for (int32_t s = 0; s < size; ++s) own[s] += row[s];
      work_ += size;
    }
    work_ += size;
  }
}

void StrategyBlock::SendMessage(const Bucket& bucket) {
  const size_t dims = bucket.scope.size(), num_factors = bucket.factors.size();
  const int32_t size = bucket.size;
  const double* own = unary_.data() + bucket.unary;
  double* message = messages_.data() + bucket.message;
  std::vector<const double*> at(num_factors);
  for (size_t f = 0; f < num_factors; ++f) {
    const Factor& factor = bucket.factors[f];
    at[f] = factor.table != nullptr ? factor.table : messages_.data() + factor.message;
  }
  std::vector<int32_t> index(dims, 0), sizes(dims);
  for (size_t d = 0; d < dims; ++d) {
    sizes[d] = reduced_.variables[members_[bucket.scope[d]]].size();
  }
  sums_.resize(size);
  for (int64_t cell = 0; cell < bucket.cells; ++cell) {
    double best = std::numeric_limits<double>::infinity();
    if (num_factors == 1) {
      for (int32_t s = 0; s < size; ++s) best = std::min(best, own[s] + at[0][s]);
    } else if (num_factors == 2) {
      for (int32_t s = 0; s < size; ++s) best = std::min(best, own[s] + at[0][s] + at[1][s]);
    } else {
      for (int32_t s = 0; s < size; ++s) sums_[s] = own[s] + at[0][s] + at[1][s];
      for (size_t f = 2; f + 1 < num_factors; ++f) {
        for (int32_t s = 0; s < size; ++s) sums_[s] += at[f][s];
      }
      const double* last = at[num_factors - 1];
      for (int32_t s = 0; s < size; ++s) best = std::min(best, sums_[s] + last[s]);
    }
    message[cell] = best;
    for (size_t d = dims; d-- > 0;) {
      const bool carry = ++index[d] == sizes[d];
      const int64_t steps = carry ? 1 - sizes[d] : 1;
      for (size_t f = 0; f < num_factors; ++f) {
        at[f] += steps * bucket.strides[bucket.factors[f].first_stride + d];
      }
      if (!carry) break;
      index[d] = 0;
    }
  }
  work_ += bucket.cells * size * static_cast<int64_t>(num_factors);
}

const std::vector<int32_t>& StrategyBlock::Solve(std::span<const double> unary,
                                                 std::span<const int32_t> unary_offset,
                                                 std::span<const int32_t> assignment) {
  FillUnary(unary, unary_offset, assignment);
  for (size_t i = 0; i < num_buckets_; ++i) {
    if (!buckets_[i].scope.empty()) SendMessage(buckets_[i]);
  }
  chosen_.resize(num_buckets_);
  for (size_t i = num_buckets_; i-- > 0;) {
    const Bucket& bucket = buckets_[i];
    double* own = unary_.data() + bucket.unary;
    for (const Factor& factor : bucket.factors) {
      const double* row =
          factor.table != nullptr ? factor.table : messages_.data() + factor.message;
      for (size_t d = 0; d < bucket.scope.size(); ++d) {
        row += bucket.strides[factor.first_stride + d] * chosen_[bucket.scope[d]];
      }
      for (int32_t s = 0; s < bucket.size; ++s) own[s] += row[s];
      work_ += bucket.size;
    }
    int32_t best = assignment[members_[i]];
    for (int32_t s = 0; s < bucket.size; ++s) {
      if (own[s] < own[best]) best = s;
    }
    chosen_[i] = best;
  }
  return chosen_;
}

}  // namespace millrace
