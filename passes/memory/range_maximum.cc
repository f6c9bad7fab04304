#include "passes/memory/range_maximum.h"

#include <cstddef>
#include <limits>

namespace millrace {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min() / 4;

}  // namespace

RangeMaximum::RangeMaximum(const std::vector<int64_t>& numbers) {
  while (size_ < std::ssize(numbers)) size_ *= 2;
  maximum_.assign(2 * size_, kLowest);
  added_.assign(2 * size_, 0);
  place_.resize(2 * size_);
  for (int32_t i = 0; i < size_; ++i) place_[size_ + i] = i;
  for (size_t i = 0; i < numbers.size(); ++i) maximum_[size_ + i] = numbers[i];
  for (int32_t n = size_ - 1; n > 0; --n) {
    const int32_t greater = maximum_[2 * n + 1] > maximum_[2 * n] ? 2 * n + 1 : 2 * n;
    maximum_[n] = maximum_[greater];
    place_[n] = place_[greater];
  }
}

void RangeMaximum::Add(int32_t first, int32_t last, int64_t amount) {
  Add(1, 0, size_ - 1, first, last, amount);
}

void RangeMaximum::Add(int32_t n, int32_t begin, int32_t end, int32_t first, int32_t last,
                       int64_t amount) {
  if (last < begin || end < first) return;
  if (first <= begin && end <= last) {
    maximum_[n] += amount;
    added_[n] += amount;
    return;
  }
  const int32_t middle = begin + (end - begin) / 2;
  Add(2 * n, begin, middle, first, last, amount);
  Add(2 * n + 1, middle + 1, end, first, last, amount);
  const int32_t greater = maximum_[2 * n + 1] > maximum_[2 * n] ? 2 * n + 1 : 2 * n;
  maximum_[n] = maximum_[greater] + added_[n];
  place_[n] = place_[greater];
}

std::pair<int64_t, int32_t> RangeMaximum::Find(int32_t first, int32_t last) const {
  int64_t greatest = std::numeric_limits<int64_t>::min();
  int32_t place = first;
  Find(1, 0, size_ - 1, first, last, 0, greatest, place);
  return {greatest, place};
}

void RangeMaximum::Find(int32_t n, int32_t begin, int32_t end, int32_t first, int32_t last,
                        int64_t added, int64_t& greatest, int32_t& place) const {
  if (last < begin || end < first || maximum_[n] + added <= greatest) return;
  if (first <= begin && end <= last) {
    greatest = maximum_[n] + added;
    place = place_[n];
    return;
  }
  const int32_t middle = begin + (end - begin) / 2;
  Find(2 * n, begin, middle, first, last, added + added_[n], greatest, place);
  Find(2 * n + 1, middle + 1, end, first, last, added + added_[n], greatest, place);
}

}  // namespace millrace
