#include "passes/memory/time_fit.h"

#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"

namespace millrace {
namespace {

// The holes below the topmost buffer; above it all is free.
class FreeList {
 public:
  int64_t Allocate(int64_t size, int64_t alignment) {
    for (auto it = by_size_.lower_bound({size, 0}); it != by_size_.end(); ++it) {
      const auto [hole_size, begin] = *it;
      const int64_t offset = AlignUp(begin, alignment);
      if (offset + size > begin + hole_size) continue;
      by_size_.erase(it);
      by_begin_.erase(begin);
      AddHole(begin, offset);
      AddHole(offset + size, begin + hole_size);
      return offset;
    }
    const int64_t offset = AlignUp(top_, alignment);
    AddHole(top_, offset);
    top_ = offset + size;
    return offset;
  }

  void Free(int64_t begin, int64_t end) {
    auto next = by_begin_.lower_bound(begin);
    if (next != by_begin_.end() && next->first == end) {
      end = next->second;
      next = Erase(next);
    }
    if (next != by_begin_.begin()) {
      const auto previous = std::prev(next);
      if (previous->second == begin) {
        begin = previous->first;
        Erase(previous);
      }
    }
    if (end == top_) {
      top_ = begin;
    } else {
      AddHole(begin, end);
    }
  }

 private:
  using Holes = absl::btree_map<int64_t, int64_t>;  // begin -> end

  void AddHole(int64_t begin, int64_t end) {
    if (begin == end) return;
    by_begin_.emplace(begin, end);
    by_size_.emplace(end - begin, begin);
  }
  Holes::iterator Erase(Holes::iterator hole) {
    by_size_.erase({hole->second - hole->first, hole->first});
    return by_begin_.erase(hole);
  }

  Holes by_begin_;
  absl::btree_set<std::pair<int64_t, int64_t>> by_size_;  // (size, begin)
  int64_t top_ = 0;
};

}  // namespace

ItemOffsets FitInOrderOfTime(const LiveSections& sections, int64_t& work) {
  constexpr int64_t kStepsPerItem = 200;
  work += kStepsPerItem * sections.num_items();
  std::vector<int32_t> next_ending(sections.num_items(), -1);  // lists of items by last section
  std::vector<int32_t> first_ending(sections.num_sections(), -1);
  ItemOffsets offsets(sections.num_items(), 0);
  FreeList free;
  int32_t i = 0;
  for (int32_t s = 0; s < sections.num_sections(); ++s) {
    if (s > 0) {
      for (int32_t k = first_ending[s - 1]; k >= 0; k = next_ending[k]) {
        free.Free(offsets[k], offsets[k] + sections.items[k].size);
      }
    }
    for (; i < sections.num_items() && sections.items[i].first == s; ++i) {
      const PackItem& item = sections.items[i];
      offsets[i] = free.Allocate(item.size, item.alignment);
      next_ending[i] = first_ending[item.last];
      first_ending[item.last] = i;
    }
  }
  return offsets;
}

}  // namespace millrace
