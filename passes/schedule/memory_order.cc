// Divide, search, improve.
//
// Parts. A task that is before or after every other one stands at the same place in all orders, and
// what stands between two of them can be ordered on its own (Ahn et al. 2020, "SERENITY", use the
// same cuts). Deep models fall apart into their blocks. Parts are taken by their peaks, highest
// first, until the highest one left is no higher than what some part has been brought to.
//
// Search. A small part is searched exactly (exact_memory_order.h). A large one, or one that defies
// the search, takes the best of the given order, the greedy one, and the greedy one from the end.
//
// Windows. What is left of the work goes into windows around the peaks of that order, each searched
// exactly: narrow ones first, then wider ones. A window starts and ends with the same tasks done,
// so nothing outside of it changes. The first peak that no window lowers ends it.
#include "passes/schedule/memory_order.h"

#include <algorithm>
#include <numeric>

#include "passes/schedule/exact_memory_order.h"
#include "passes/schedule/greedy_memory_order.h"
#include "passes/schedule/lifetime_problem.h"

namespace millrace {
namespace {

constexpr int64_t kPartWork = 20'000'000;   // of one exact search of a part, at most
constexpr int64_t kWindowWork = 2'000'000;  // and of a window
constexpr int32_t kWidths[] = {12, 24, 48};
constexpr int32_t kLongLookahead = 16, kShortLookahead = 4;
constexpr int32_t kManyTasks = 20'000;  // from here on the lookahead is short

int64_t Highest(std::span<const int64_t> bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

// The tasks, in given order, that come before or after every other one: those whose direct
// predecessors include all tasks before them that have no successor yet, and the same from the end.
std::vector<uint8_t> FindCuts(const LifetimeProblem& problem) {
  const int32_t n = problem.num_tasks();
  std::vector<uint8_t> is_cut(n, 1);
  for (const bool backwards : {false, true}) {
    std::vector<uint8_t> is_end(n, 0);
    int32_t num_ends = 0;
    for (int32_t i = 0; i < n; ++i) {
      const int32_t task = backwards ? n - 1 - i : i;
      for (const int32_t before : backwards ? problem.after[task] : problem.before[task]) {
        num_ends -= is_end[before];
        is_end[before] = 0;
      }
      if (num_ends > 0) is_cut[task] = 0;
      is_end[task] = 1;
      ++num_ends;
    }
  }
  return is_cut;
}

class MemoryOrderer {
 public:
  MemoryOrderer(const ScheduleProblem& problem, const MemoryOrderOptions& options)
      : problem_(LifetimesOf(problem)), options_(options) {
    result_.order.resize(problem.tasks.size());
    std::iota(result_.order.begin(), result_.order.end(), 0);
    live_ = LiveBytes(problem_, result_.order);
    result_.given_peak_bytes = result_.peak_bytes = Highest(live_);
    result_.lower_bound_bytes = LowestPeakOfAnyTask(problem_);
  }

  MemoryOrder Run() {
    if (result_.peak_bytes > result_.lower_bound_bytes) {
      places_ = PlacesIn(problem_, result_.order);
      ImproveParts();
      result_.peak_bytes = Highest(live_);
      if (result_.peak_bytes == result_.given_peak_bytes) {
        std::iota(result_.order.begin(), result_.order.end(), 0);
      }
    }
    return std::move(result_);
  }

 private:
  struct Range {
    int32_t begin = 0, end = 0;  // places
    int64_t peak_bytes = 0;
  };

  std::vector<Range> Parts() const {
    const std::vector<uint8_t> is_cut = FindCuts(problem_);
    std::vector<Range> parts;
    int32_t begin = 0;
    const auto close = [&](int32_t end) {
      if (end > begin) parts.push_back({begin, end, PeakOf(begin, end)});
      begin = end;
    };
    for (int32_t i = 0; i < problem_.num_tasks(); ++i) {
      if (!is_cut[i]) continue;
      close(i);
      close(i + 1);
    }
    close(problem_.num_tasks());
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Range& a, const Range& b) { return a.peak_bytes > b.peak_bytes; });
    return parts;
  }

  int64_t PeakOf(int32_t begin, int32_t end) const {
    return Highest(std::span(live_).subspan(begin, end - begin));
  }

  bool HasWork() const { return result_.work < options_.max_work; }

  void ImproveParts() {
    int64_t reached = result_.lower_bound_bytes;  // some part's peak will be as high
    for (const Range& part : Parts()) {
      if (part.peak_bytes <= reached || !HasWork()) break;
      const bool is_best = ImprovePart(part.begin, part.end, reached);
      const int64_t peak = PeakOf(part.begin, part.end);
      if (peak <= reached) continue;
      reached = peak;
      if (is_best) result_.lower_bound_bytes = std::max(result_.lower_bound_bytes, peak);
    }
  }

  // Whether the part's peak is now proved to be the lowest, or as low as `good_enough`.
  bool ImprovePart(int32_t begin, int32_t end, int64_t good_enough) {
    if (end - begin == 1) return true;
    if (end - begin <= std::min(options_.max_exact_tasks, kMaxExactTasks)) {
      const int64_t work = std::min(kPartWork, options_.max_work - result_.work);
      if (Search(begin, end, good_enough, work) != Outcome::kGaveUp) return true;
    }
    TakeBestGreedy(begin, end);
    while (HasWork() && PeakOf(begin, end) > good_enough) {
      if (!LowerPeaks(begin, end)) break;
    }
    return PeakOf(begin, end) <= good_enough;
  }

  void TakeBestGreedy(int32_t begin, int32_t end) {
    const LifetimeProblem part = WindowOf(problem_, result_.order, places_, begin, end);
    const int32_t lookahead = end - begin < kManyTasks ? kLongLookahead : kShortLookahead;
    const std::vector<int64_t> given = GivenLiveBytes(part);
    std::vector<int32_t> best;
    std::vector<int64_t> best_live = given;
    for (const bool backwards : {false, true}) {
      if (!HasWork()) break;
      std::vector<int32_t> order =
          GreedyMemoryOrder(backwards ? Reversed(part) : part, lookahead, result_.work);
      if (backwards) {
        std::reverse(order.begin(), order.end());
        for (int32_t& task : order) task = end - begin - 1 - task;
      }
      std::vector<int64_t> live = LiveBytes(part, order);
      if (Highest(live) >= Highest(best_live)) continue;
      best = std::move(order);
      best_live = std::move(live);
    }
    if (!best.empty()) Reorder(begin, best, best_live, live_[begin] - given[0]);
  }

  // Takes windows around all places in [begin, end) that are as high as the highest, until one of
  // them cannot be lowered. False then.
  bool LowerPeaks(int32_t begin, int32_t end) {
    const int64_t peak = PeakOf(begin, end);
    result_.work += end - begin;
    for (int32_t place = begin; place < end; ++place) {
      if (live_[place] == peak && !LowerPeakAt(place, begin, end)) return false;
    }
    return true;
  }

  bool LowerPeakAt(int32_t place, int32_t begin, int32_t end) {
    for (const int32_t width : kWidths) {
      if (width > options_.max_exact_tasks) break;
      // The peak in the middle, near the end, near the start.
      for (const int32_t ahead : {width / 2, width * 7 / 8, width / 8}) {
        if (!HasWork()) return false;
        const int32_t first = std::max(begin, place - ahead);
        const int32_t last = std::min(end, first + width);
        if (Search(first, last, /*good_enough=*/0, kWindowWork) == Outcome::kLowered) return true;
      }
    }
    return false;
  }

  enum class Outcome : uint8_t { kLowered, kIsBest, kGaveUp };

  // Exactly, what stands in [begin, end).
  Outcome Search(int32_t begin, int32_t end, int64_t good_enough, int64_t max_work) {
    const LifetimeProblem window = WindowOf(problem_, result_.order, places_, begin, end);
    const std::vector<int64_t> given = GivenLiveBytes(window);
    const int64_t elsewhere = live_[begin] - given[0];  // lives through it all
    result_.work += 100 * (end - begin);
    const std::optional<ExactMemoryOrder> found =
        FindExactMemoryOrder(window, good_enough - elsewhere, max_work, result_.work);
    if (!found.has_value()) return Outcome::kGaveUp;
    if (found->peak_bytes >= Highest(given)) return Outcome::kIsBest;
    Reorder(begin, found->order, LiveBytes(window, found->order), elsewhere);
    return Outcome::kLowered;
  }

  // The live bytes of a window as it is.
  static std::vector<int64_t> GivenLiveBytes(const LifetimeProblem& window) {
    std::vector<int32_t> same(window.num_tasks());
    std::iota(same.begin(), same.end(), 0);
    return LiveBytes(window, same);
  }

  // `order` permutes what stands from `begin` on. `live` is what lives then in the window, and
  // `elsewhere` what lives through all of it.
  void Reorder(int32_t begin, std::span<const int32_t> order, std::span<const int64_t> live,
               int64_t elsewhere) {
    const auto size = static_cast<int32_t>(order.size());
    const std::vector<int32_t> old(result_.order.begin() + begin,
                                   result_.order.begin() + begin + size);
    for (int32_t i = 0; i < size; ++i) {
      const int32_t task = old[order[i]];
      result_.order[begin + i] = task;
      places_.task[task] = begin + i;
      live_[begin + i] = live[i] + elsewhere;
    }
    for (const int32_t task : old) {
      for (const int32_t v : problem_.values_of[task]) MoveUses(v, begin, begin + size);
    }
  }

  // Finds the value's first and last users again, if they are in [begin, end).
  void MoveUses(int32_t v, int32_t begin, int32_t end) {
    const bool first_moved = places_.first[v] >= begin, last_moved = places_.last[v] < end;
    if (first_moved) places_.first[v] = end;
    if (last_moved) places_.last[v] = begin;
    if (!first_moved && !last_moved) return;
    for (const int32_t user : problem_.users_of[v]) {
      if (first_moved) places_.first[v] = std::min(places_.first[v], places_.task[user]);
      if (last_moved) places_.last[v] = std::max(places_.last[v], places_.task[user]);
    }
  }

  const LifetimeProblem problem_;
  const MemoryOrderOptions options_;
  OrderPlaces places_;
  std::vector<int64_t> live_;  // by place
  MemoryOrder result_;
};

}  // namespace

MemoryOrder OrderForMemory(const ScheduleProblem& problem, const MemoryOrderOptions& options) {
  return MemoryOrderer(problem, options).Run();
}

}  // namespace millrace
