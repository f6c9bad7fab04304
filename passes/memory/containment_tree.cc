#include "passes/memory/containment_tree.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace millrace {

ContainmentTree::ContainmentTree(std::span<const PackItem> items)
    : items_(items), order_(items.size()), leaf_of_(items.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  size_t leaves = 1;
  while (leaves * kLeafSize < items.size()) leaves *= 2;
  nodes_.resize(2 * leaves);
  if (!items.empty()) Build(1, 0, static_cast<int32_t>(items.size()), /*by_first=*/true);
}

void ContainmentTree::Build(int32_t n, int32_t begin, int32_t end, bool by_first) {
  Node& node = nodes_[n];
  for (int32_t i = begin; i < end; ++i) {
    const PackItem& item = items_[order_[i]];
    node.least_first = std::min(node.least_first, item.first);
    node.greatest_first = std::max(node.greatest_first, item.first);
    node.least_last = std::min(node.least_last, item.last);
    node.greatest_last = std::max(node.greatest_last, item.last);
  }
  if (2 * static_cast<size_t>(n) >= nodes_.size()) {
    node.begin = begin;
    node.end = end;
    for (int32_t i = begin; i < end; ++i) leaf_of_[order_[i]] = n;
    return;
  }
  const int32_t middle = begin + (end - begin) / 2;
  const auto key = [&](int32_t i) {
    return std::pair(by_first ? items_[i].first : items_[i].last, i);
  };
  std::nth_element(order_.begin() + begin, order_.begin() + middle, order_.begin() + end,
                   [&](int32_t a, int32_t b) { return key(a) < key(b); });
  Build(2 * n, begin, middle, !by_first);
  Build(2 * n + 1, middle, end, !by_first);
}

void ContainmentTree::Reset(std::vector<int32_t> ranks) {
  rank_ = std::move(ranks);
  item_of_.resize(rank_.size());
  for (size_t i = 0; i < rank_.size(); ++i) item_of_[rank_[i]] = static_cast<int32_t>(i);
  for (size_t n = nodes_.size(); n-- > 1;) {
    Node& node = nodes_[n];
    node.best = 2 * n >= nodes_.size() ? BestInLeaf(node)
                                       : std::min(nodes_[2 * n].best, nodes_[2 * n + 1].best);
  }
}

int32_t ContainmentTree::BestInLeaf(const Node& leaf) const {
  int32_t best = kNone;
  for (int32_t i = leaf.begin; i < leaf.end; ++i) best = std::min(best, rank_[order_[i]]);
  return best;
}

void ContainmentTree::TakeOut(int32_t item) {
  rank_[item] = kNone;
  int32_t n = leaf_of_[item];
  nodes_[n].best = BestInLeaf(nodes_[n]);
  while ((n /= 2) > 0) {
    const int32_t best = std::min(nodes_[2 * n].best, nodes_[2 * n + 1].best);
    if (best == nodes_[n].best) return;
    nodes_[n].best = best;
  }
}

int32_t ContainmentTree::Best(int32_t lo, int32_t section, int32_t hi) {
  int32_t rank = kNone;
  FindBest(1, lo, section, hi, rank);
  return rank == kNone ? -1 : item_of_[rank];
}

void ContainmentTree::FindBest(int32_t n, int32_t lo, int32_t section, int32_t hi, int32_t& rank) {
  const Node& node = nodes_[n];
  ++steps_;
  if (node.best >= rank || node.least_first > section || node.greatest_first < lo ||
      node.least_last > hi || node.greatest_last < section) {
    return;
  }
  if (node.is_leaf()) {
    for (int32_t i = node.begin; i < node.end; ++i) {
      const PackItem& item = items_[order_[i]];
      if (item.first < lo || item.first > section || item.last < section || item.last > hi)
        continue;
      rank = std::min(rank, rank_[order_[i]]);
    }
    return;
  }
  const int32_t better = nodes_[2 * n].best <= nodes_[2 * n + 1].best ? 2 * n : 2 * n + 1;
  FindBest(better, lo, section, hi, rank);
  FindBest(better ^ 1, lo, section, hi, rank);
}

int32_t ContainmentTree::LastBefore(int32_t lo, int32_t section) {
  int32_t last = lo - 1;
  FindLastBefore(1, lo, section, last);
  return last;
}

void ContainmentTree::FindLastBefore(int32_t n, int32_t lo, int32_t section, int32_t& last) {
  const Node& node = nodes_[n];
  ++steps_;
  if (node.best == kNone || node.greatest_first < lo || node.least_last >= section ||
      std::min(node.greatest_last, section - 1) <= last) {
    return;
  }
  if (node.is_leaf()) {
    for (int32_t i = node.begin; i < node.end; ++i) {
      const PackItem& item = items_[order_[i]];
      if (rank_[order_[i]] == kNone || item.first < lo || item.last >= section) continue;
      last = std::max(last, item.last);
    }
    return;
  }
  const bool right = nodes_[2 * n + 1].greatest_last > nodes_[2 * n].greatest_last;
  FindLastBefore(2 * n + (right ? 1 : 0), lo, section, last);
  FindLastBefore(2 * n + (right ? 0 : 1), lo, section, last);
}

int32_t ContainmentTree::FirstAfter(int32_t section, int32_t hi) {
  int32_t first = hi + 1;
  FindFirstAfter(1, section, hi, first);
  return first;
}

void ContainmentTree::FindFirstAfter(int32_t n, int32_t section, int32_t hi, int32_t& first) {
  const Node& node = nodes_[n];
  ++steps_;
  if (node.best == kNone || node.least_last > hi || node.greatest_first <= section ||
      std::max(node.least_first, section + 1) >= first) {
    return;
  }
  if (node.is_leaf()) {
    for (int32_t i = node.begin; i < node.end; ++i) {
      const PackItem& item = items_[order_[i]];
      if (rank_[order_[i]] == kNone || item.last > hi || item.first <= section) continue;
      first = std::min(first, item.first);
    }
    return;
  }
  const bool right = nodes_[2 * n + 1].least_first < nodes_[2 * n].least_first;
  FindFirstAfter(2 * n + (right ? 1 : 0), section, hi, first);
  FindFirstAfter(2 * n + (right ? 0 : 1), section, hi, first);
}

}  // namespace millrace
