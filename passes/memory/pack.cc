// Cheap ways first, each as far as it helps: the order of time, then filling valleys under several
// rules, then exact search. What ends it early is the greatest load, which is reached surprisingly
// often. Exact search is quick or hopeless, and which it is depends on the rule more than on the
// problem; so all rules get a little work in turn, then twice as much with their preferences shaken
// a little, and so on. While the aim is the lowest packing, a round aims at the greatest load
// first, and then goes down from the best so far.
//
// All of it is counted in steps, not measured in time: the same plan everywhere.
#include "passes/memory/pack.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "passes/memory/exact_search.h"
#include "passes/memory/live_sections.h"
#include "passes/memory/time_fit.h"
#include "passes/memory/valley_fill.h"

namespace millrace {
namespace {

constexpr FillRule kFillRules[] = {
    {16, true, 0.5}, {4, false, 0.5}, {16, true, 0}, {0, false, 0.5},
    {4, true, 0},    {64, true, 0},   {4, false, 1}, {0, false, 0},
};

// What an item is worth to the search.
enum class Worth { kSections, kDuration, kSize, kArea, kPeakThenArea, kFlatness, kHotTime };
using Section = SearchRule::Section;
constexpr std::pair<Section, Worth> kSearchRules[] = {
    {Section::kFewest, Worth::kPeakThenArea},
    {Section::kTightest, Worth::kSections},
    {Section::kFewest, Worth::kSize},
    {Section::kTightest, Worth::kDuration},
    {Section::kTightest, Worth::kFlatness},
    {Section::kRelativelyTightest, Worth::kSize},
    {Section::kRelativelyTightest, Worth::kArea},
    {Section::kFewest, Worth::kSections},
    {Section::kTightest, Worth::kHotTime},
    {Section::kTightest, Worth::kArea},
};
constexpr int kSmallestPart = 32;
constexpr double kShaking = 0.3;  // of worths, after the first round

double WorthOf(const LiveSections& sections, const PackItem& item, Worth worth) {
  const double span = item.last - item.first + 1, size = static_cast<double>(item.size);
  double duration = 0, hot_time = 0, peak = 0;
  for (int32_t s = item.first; s <= item.last; ++s) {
    const double time = static_cast<double>(sections.duration[s]);
    const double load = static_cast<double>(sections.load[s]) / sections.max_load;
    const double load2 = load * load, load4 = load2 * load2, load8 = load4 * load4;
    duration += time;
    hot_time += time * load8 * load8;
    peak = std::max(peak, load);
  }
  const double tie = size / static_cast<double>(sections.max_load);  // at most 1
  switch (worth) {
    case Worth::kSections:
      return span + tie / 2;
    case Worth::kDuration:
      return duration + tie / 2;
    case Worth::kSize:
      return size + span / static_cast<double>(sections.num_sections() + 1);
    case Worth::kArea:
      return span * size;
    case Worth::kPeakThenArea:
      return peak + 1e-6 * span * tie;
    case Worth::kFlatness:
      return span / size;
    case Worth::kHotTime:
      return hot_time;
  }
  return 0;
}

// In [-1, 1), the same for the same arguments.
double Noise(uint64_t round, uint64_t rule, uint64_t item) {
  uint64_t x = (round * 64 + rule) * 0x9e3779b97f4a7c15 + item;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((x ^ (x >> 31)) >> 11) / static_cast<double>(uint64_t{1} << 52) - 1;
}

class Packer {
 public:
  Packer(std::span<const TimedBuffer> buffers, LiveSections sections, const PackOptions& options)
      : buffers_(buffers), sections_(std::move(sections)), options_(options) {
    best_.lower_bound_bytes = sections_.lower_bound_bytes;
    best_.peak_time = sections_.peak_time;
    best_.offsets.assign(buffers.size(), 0);
  }

  Packing Run() {
    if (sections_.items.empty()) return std::move(best_);
    Offer(FitInOrderOfTime(sections_, best_.work));
    if (!Done()) FillValleys();
    if (!Done()) Search();
    return std::move(best_);
  }

 private:
  bool ReachedGoal() const {
    return best_.height_bytes <= std::max(options_.capacity_bytes, best_.lower_bound_bytes);
  }
  bool Done() const { return ReachedGoal() || best_.work >= options_.max_work; }

  // Takes a packing if it is better than the best.
  void Offer(const ItemOffsets& offsets) {
    int64_t height_bytes = 0;
    for (int32_t i = 0; i < sections_.num_items(); ++i) {
      const int64_t size_bytes = buffers_[sections_.items[i].buffer].size_bytes;
      height_bytes = std::max(height_bytes, offsets[i] * sections_.unit_bytes + size_bytes);
    }
    if (best_height_.has_value() && height_bytes >= best_.height_bytes) return;
    best_height_ = HeightOf(sections_, offsets);
    best_.height_bytes = height_bytes;
    for (int32_t i = 0; i < sections_.num_items(); ++i) {
      best_.offsets[sections_.items[i].buffer] = offsets[i] * sections_.unit_bytes;
    }
  }

  void FillValleys() {
    ValleyFiller filler(sections_);
    for (const FillRule& rule : kFillRules) {
      const std::optional<ItemOffsets> offsets = filler.Fill(rule, *best_height_, best_.work);
      if (offsets.has_value()) Offer(*offsets);
      if (Done()) return;
    }
  }

  void Search() {
    for (const auto& [section, worth] : kSearchRules) {
      std::vector<double>& list = worths_.emplace_back();
      for (const PackItem& item : sections_.items) list.push_back(WorthOf(sections_, item, worth));
    }
    ExactSearch search(sections_);
    possible_ = sections_.max_load;
    const bool has_capacity = options_.capacity_bytes > 0;
    const int64_t capacity = options_.capacity_bytes / sections_.unit_bytes;
    allowed_ = 120 * sections_.total_span() + 1000 * sections_.num_items();
    for (round_ = 0; !Done() && possible_ < *best_height_; ++round_, allowed_ *= 2) {
      Aim(search, has_capacity ? std::max(capacity, possible_) : possible_);
      if (!has_capacity) Descend(search);
    }
  }

  // At one height, under one rule after another.
  void Aim(ExactSearch& search, int64_t height) {
    for (size_t rule = 0; rule < std::size(kSearchRules) && !Done(); ++rule) {
      if (Try(search, rule, height) != SearchOutcome::kGaveUp) return;
    }
  }

  // From the best height down, by a half, a quarter ... of what lies between it and the possible:
  // the next smaller part once all rules have failed.
  void Descend(ExactSearch& search) {
    size_t rule = 0;
    for (int part = 2; part <= kSmallestPart; part *= 2) {
      size_t failures = 0;
      while (failures < std::size(kSearchRules) && !Done() && possible_ < *best_height_) {
        const int64_t step = std::max<int64_t>(1, (*best_height_ - possible_) / part);
        if (Try(search, rule, *best_height_ - step) == SearchOutcome::kFound) {
          failures = 0;
        } else {
          ++failures;
          rule = (rule + 1) % std::size(kSearchRules);
        }
      }
    }
  }

  SearchOutcome Try(ExactSearch& search, size_t which, int64_t height) {
    SearchRule rule{kSearchRules[which].first, worths_[which]};
    for (size_t i = 0; round_ > 0 && i < rule.worth.size(); ++i) {
      rule.worth[i] *= 1 + kShaking * Noise(round_, which, i);
    }
    const int64_t work = std::min(allowed_, options_.max_work - best_.work);
    const SearchOutcome outcome = search.Run(height, rule, work, best_.work);
    if (outcome == SearchOutcome::kFound) Offer(search.offsets());
    if (outcome == SearchOutcome::kImpossible) {
      possible_ = height + 1;
      best_.lower_bound_bytes =
          std::max(best_.lower_bound_bytes,
                   possible_ * sections_.unit_bytes - sections_.greatest_shortfall_bytes);
    }
    return outcome;
  }

  const std::span<const TimedBuffer> buffers_;
  const LiveSections sections_;
  const PackOptions options_;
  Packing best_;
  std::optional<int64_t> best_height_;  // in units
  int64_t possible_ = 0;                // in units: no lower packing exists

  // Of the search: worths of items by rule, and what a try may cost in this round.
  std::vector<std::vector<double>> worths_;
  int round_ = 0;
  int64_t allowed_ = 0;
};

}  // namespace

absl::StatusOr<Packing> Pack(std::span<const TimedBuffer> buffers, const PackOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(LiveSections sections, CutIntoSections(buffers));
  return Packer(buffers, std::move(sections), options).Run();
}

}  // namespace millrace
