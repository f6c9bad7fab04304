// RangeMaximum: numbers by position; ranges can be lowered together and asked for their greatest.
#ifndef MILLRACE_PASSES_MEMORY_RANGE_MAXIMUM_H_
#define MILLRACE_PASSES_MEMORY_RANGE_MAXIMUM_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace millrace {

class RangeMaximum {
 public:
  explicit RangeMaximum(const std::vector<int64_t>& numbers);

  void Add(int32_t first, int32_t last, int64_t amount);  // to all of [first, last]
  // The greatest of [first, last], and the first place of it. O(log n), as Add.
  std::pair<int64_t, int32_t> Find(int32_t first, int32_t last) const;

 private:
  void Add(int32_t node, int32_t begin, int32_t end, int32_t first, int32_t last, int64_t amount);
  // The greatest of the part of [first, last] in the node, if above `greatest`.
  void Find(int32_t node, int32_t begin, int32_t end, int32_t first, int32_t last, int64_t added,
            int64_t& greatest, int32_t& place) const;

  // A node's maximum includes what was added to it, but not what was added above it.
  std::vector<int64_t> maximum_, added_;
  std::vector<int32_t> place_;  // of the maximum: the first
  int32_t size_ = 1;            // leaves: a power of two
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_RANGE_MAXIMUM_H_
