// ContainmentTree: intervals of sections, to be asked for those that lie within bounds. A balanced
// tree over the intervals as points (first, last), split by the one and the other in turn; each
// node knows the box of its points and the best rank among those not taken out.
#ifndef MILLRACE_PASSES_MEMORY_CONTAINMENT_TREE_H_
#define MILLRACE_PASSES_MEMORY_CONTAINMENT_TREE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "passes/memory/live_sections.h"

namespace millrace {

class ContainmentTree {
 public:
  explicit ContainmentTree(std::span<const PackItem> items);

  // Puts all intervals back; `ranks` by item, all different: less is better.
  void Reset(std::vector<int32_t> ranks);
  void TakeOut(int32_t item);

  // The best item that lies within [lo, hi] and covers `section`; -1: none.
  int32_t Best(int32_t lo, int32_t section, int32_t hi);
  // Of the items that lie within [lo, hi] and end before `section`, the last section of all;
  // lo - 1 where there is none. Likewise the first section of those that start after it, or hi + 1.
  int32_t LastBefore(int32_t lo, int32_t section);
  int32_t FirstAfter(int32_t section, int32_t hi);

  int64_t steps() const { return steps_; }

 private:
  static constexpr int32_t kLeafSize = 8;
  static constexpr int32_t kNone = INT32_MAX;  // a rank

  struct Node {
    int32_t least_first = INT32_MAX, greatest_first = -1;
    int32_t least_last = INT32_MAX, greatest_last = -1;
    int32_t best = kNone;
    int32_t begin = 0, end = 0;  // of a leaf, in order_; empty otherwise
    bool is_leaf() const { return begin < end; }
  };

  void Build(int32_t node, int32_t begin, int32_t end, bool by_first);
  int32_t BestInLeaf(const Node& leaf) const;
  void FindBest(int32_t node, int32_t lo, int32_t section, int32_t hi, int32_t& rank);
  void FindLastBefore(int32_t node, int32_t lo, int32_t section, int32_t& last);
  void FindFirstAfter(int32_t node, int32_t section, int32_t hi, int32_t& first);

  std::span<const PackItem> items_;
  std::vector<int32_t> order_;    // items, leaf by leaf
  std::vector<Node> nodes_;       // children of k: 2k and 2k + 1; the root is 1
  std::vector<int32_t> leaf_of_;  // by item
  std::vector<int32_t> rank_;     // by item; kNone: taken out
  std::vector<int32_t> item_of_;  // by rank
  int64_t steps_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_CONTAINMENT_TREE_H_
