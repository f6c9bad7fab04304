#include "passes/memory/valley_fill.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "passes/memory/range_maximum.h"

namespace millrace {
namespace {

constexpr int64_t kNoWall = std::numeric_limits<int64_t>::max() / 2;

// Which item is worth more: ranks from 0.
std::vector<int32_t> RankItems(const LiveSections& sections, const FillRule& rule) {
  std::vector<double> heat_before(sections.num_sections() + 1, 0);
  for (int32_t s = 0; s < sections.num_sections(); ++s) {
    const double load = static_cast<double>(sections.load[s]) / sections.max_load;
    double heat = rule.by_duration ? static_cast<double>(sections.duration[s]) : 1;
    for (int i = 0; i < rule.hotness; ++i) heat *= load;
    heat_before[s + 1] = heat_before[s] + heat;
  }
  std::vector<std::pair<double, int32_t>> order;  // least first
  order.reserve(sections.items.size());
  for (int32_t i = 0; i < sections.num_items(); ++i) {
    const PackItem& item = sections.items[i];
    const double heat = heat_before[item.last + 1] - heat_before[item.first];
    const double size = static_cast<double>(item.size);
    const double scale = rule.size_exponent == 0     ? 1
                         : rule.size_exponent == 0.5 ? std::sqrt(size)
                                                     : std::pow(size, rule.size_exponent);
    order.push_back({-heat * scale, i});
  }
  std::sort(order.begin(), order.end());
  std::vector<int32_t> ranks(order.size());
  for (size_t r = 0; r < order.size(); ++r) ranks[order[r].second] = static_cast<int32_t>(r);
  return ranks;
}

// The tops of what is placed, as runs of sections of one height; neighbours differ.
class Skyline {
 public:
  explicit Skyline(int32_t num_sections)
      : end_(num_sections), begin_(num_sections), height_(num_sections, 0) {
    Insert(0, num_sections - 1, 0);
  }

  struct Run {
    int32_t begin, end;  // both included
    int64_t height;
  };
  Run Lowest() {
    for (;;) {
      const auto [height, begin] = heap_.top();
      if (end_[begin] >= begin && height_[begin] == height) return {begin, end_[begin], height};
      heap_.pop();  // that run is no more
    }
  }
  // The height of the lower wall beside a run.
  int64_t LowerWall(const Run& run) const {
    int64_t wall = kNoWall;
    if (run.begin > 0) wall = height_[begin_[run.begin - 1]];
    if (run.end + 1 < std::ssize(end_)) wall = std::min(wall, height_[run.end + 1]);
    return wall;
  }
  // Raises [first, last], part of `run`.
  void Raise(const Run& run, int32_t first, int32_t last, int64_t height) {
    Erase(run.begin);
    if (first > run.begin) {
      Insert(run.begin, first - 1, run.height);
    } else if (first > 0 && height_[begin_[first - 1]] == height) {
      first = begin_[first - 1];
      Erase(first);
    }
    if (last < run.end) {
      Insert(last + 1, run.end, run.height);
    } else if (last + 1 < std::ssize(end_) && height_[last + 1] == height) {
      const int32_t next = last + 1;
      last = end_[next];
      Erase(next);
    }
    Insert(first, last, height);
  }

 private:
  void Insert(int32_t begin, int32_t end, int64_t height) {
    end_[begin] = end;
    begin_[end] = begin;
    height_[begin] = height;
    heap_.push({height, begin});
  }
  void Erase(int32_t begin) { end_[begin] = -1; }

  std::vector<int32_t> end_;     // by the first section of a run; -1 elsewhere
  std::vector<int32_t> begin_;   // by the last section of a run
  std::vector<int64_t> height_;  // by the first section of a run
  using HeightAndBegin = std::pair<int64_t, int32_t>;
  std::priority_queue<HeightAndBegin, std::vector<HeightAndBegin>, std::greater<>> heap_;
};

}  // namespace

ValleyFiller::ValleyFiller(const LiveSections& sections)
    : sections_(sections), tree_(sections.items) {}

std::optional<ItemOffsets> ValleyFiller::Fill(const FillRule& rule, int64_t height, int64_t& work) {
  constexpr int64_t kStepsPerItem = 500;
  const int64_t steps_before = tree_.steps();
  tree_.Reset(RankItems(sections_, rule));
  RangeMaximum to_come(sections_.load);
  Skyline skyline(sections_.num_sections());
  ItemOffsets offsets(sections_.num_items(), 0);
  int32_t left = sections_.num_items();
  while (left > 0) {
    const Skyline::Run run = skyline.Lowest();
    const auto [load, section] = to_come.Find(run.begin, run.end);
    const int32_t i = load > 0 ? tree_.Best(run.begin, section, run.end) : -1;
    work += kStepsPerItem;
    if (i < 0) {
      // Nothing fits over the section, nor over others without such a buffer around it.
      const int64_t wall = skyline.LowerWall(run);
      if (wall + load >= height) break;
      int32_t first = run.begin, last = run.end;
      if (load > 0) {
        first = tree_.LastBefore(run.begin, section) + 1;
        last = tree_.FirstAfter(section, run.end) - 1;
      }
      skyline.Raise(run, first, last, wall);
      continue;
    }
    const PackItem& item = sections_.items[i];
    offsets[i] = AlignUp(run.height, item.alignment);
    if (offsets[i] + load >= height) break;
    tree_.TakeOut(i);
    to_come.Add(item.first, item.last, -item.size);
    skyline.Raise(run, item.first, item.last, offsets[i] + item.size);
    --left;
  }
  work += 10 * (tree_.steps() - steps_before);
  if (left > 0) return std::nullopt;
  return offsets;
}

}  // namespace millrace
