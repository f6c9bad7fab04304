// Divide, improve, search: the part with the highest peak first, until nothing lowers it.
//
// Parts. A task that is before or after every other one stands at the same place in all orders, and
// what stands between two of them can be ordered on its own (Ahn et al. 2020, "SERENITY", use the
// same cuts). Deep models fall apart into their blocks.
//
// Chunks. A part of very many tasks is cut, as it is, into pieces that are treated like parts: only
// those around peaks cost anything, but nothing moves from one to another.
//
// Greed. A part first takes the best of the order given, the greedy one, and the greedy one from
// the end (greedy_memory_order.h).
//
// Search. Should it become the highest again, a small part is searched exactly for something lower
// (exact_memory_order.h). When there is nothing, that peak is proved, and all is done.
//
// Windows. A part that is too large for that, or defies it, is searched in windows around its
// peaks: narrow ones first, then wider ones. A window starts and ends with the same tasks done, so
// nothing outside of it changes. The first peak that no window lowers ends it all.
#include "passes/schedule/memory_order.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "passes/schedule/exact_memory_order.h"
#include "passes/schedule/greedy_memory_order.h"
#include "passes/schedule/lifetime_problem.h"

namespace millrace {
namespace {

constexpr int64_t kWindowTaskWork = 500;    // of making a window
constexpr int64_t kPartWork = 20'000'000;   // of one exact search of a part, at most
constexpr int64_t kWindowWork = 2'000'000;  // and of a window
constexpr int32_t kWidths[] = {12, 24, 48};
constexpr int32_t kLookahead = 16;
constexpr int32_t kMaxPart = 20'000, kChunk = 2'000;  // tasks: larger parts are taken in chunks

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
  enum class Stage : uint8_t { kGiven, kGreedy, kWindows };
  struct Part {
    int32_t begin = 0, end = 0;  // places
    int64_t peak_bytes = 0;
    bool is_apart = true;  // from the others in all orders; else a chunk of something larger
    Stage stage = Stage::kGiven;
    bool operator<(const Part& other) const {  // highest first out
      if (peak_bytes != other.peak_bytes) return peak_bytes < other.peak_bytes;
      return begin > other.begin;
    }
  };

  std::priority_queue<Part> Parts() const {
    const std::vector<uint8_t> is_cut = FindCuts(problem_);
    std::priority_queue<Part> parts;
    int32_t begin = 0;
    const auto close = [&](int32_t end) {
      const bool is_apart = end - begin <= kMaxPart;
      while (begin < end) {
        const int32_t next = is_apart ? end : std::min(end, begin + kChunk);
        parts.push({begin, next, PeakOf(begin, next), is_apart, Stage::kGiven});
        begin = next;
      }
    };
    for (int32_t i = 0; i < problem_.num_tasks(); ++i) {
      if (!is_cut[i]) continue;
      close(i);
      close(i + 1);
    }
    close(problem_.num_tasks());
    return parts;
  }

  int64_t PeakOf(int32_t begin, int32_t end) const {
    return Highest(std::span(live_).subspan(begin, end - begin));
  }

  bool HasWork() const { return result_.work < options_.max_work; }

  void ImproveParts() {
    std::priority_queue<Part> parts = Parts();
    while (!parts.empty()) {
      Part part = parts.top();
      if (part.stage != Stage::kGiven && !HasWork()) return;
      parts.pop();
      if (!Improve(part)) return;
      part.peak_bytes = PeakOf(part.begin, part.end);
      parts.push(part);
    }
  }

  // Takes the part with the highest peak to its next stage. False when it cannot be lowered.
  bool Improve(Part& part) {
    const int32_t size = part.end - part.begin;
    const bool is_small = size <= std::min(options_.max_exact_tasks, kMaxExactTasks);
    switch (part.stage) {
      case Stage::kGiven:
        part.stage = Stage::kGreedy;
        if (size > 1) TakeBestGreedy(part.begin, part.end);
        return true;
      case Stage::kGreedy:
        part.stage = Stage::kWindows;
        if (!is_small) return true;
        switch (Search(part.begin, part.end, std::min(kPartWork, options_.max_work))) {
          case Outcome::kLowered:
            part.stage = Stage::kGreedy;  // to prove that it is the lowest, if it comes to that
            return true;
          case Outcome::kIsBest:
            if (part.is_apart) result_.lower_bound_bytes = part.peak_bytes;
            return false;
          case Outcome::kGaveUp:
            return true;
        }
        return true;
      case Stage::kWindows:
        return LowerPeaks(part.begin, part.end);
    }
    return false;
  }

  void TakeBestGreedy(int32_t begin, int32_t end) {
    const LifetimeProblem part = WindowOf(problem_, result_.order, places_, begin, end);
    const std::vector<int64_t> given = GivenLiveBytes(part);
    std::vector<int32_t> best;
    std::vector<int64_t> best_live = given;
    for (const bool backwards : {false, true}) {
      std::vector<int32_t> order =
          GreedyMemoryOrder(backwards ? Reversed(part) : part, kLookahead, result_.work);
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
        if (Search(first, last, kWindowWork) == Outcome::kLowered) return true;
      }
    }
    return false;
  }

  enum class Outcome : uint8_t { kLowered, kIsBest, kGaveUp };

  // Exactly, what stands in [begin, end).
  Outcome Search(int32_t begin, int32_t end, int64_t max_work) {
    const LifetimeProblem window = WindowOf(problem_, result_.order, places_, begin, end);
    const std::vector<int64_t> given = GivenLiveBytes(window);
    const int64_t elsewhere = live_[begin] - given[0];  // lives through it all
    result_.work += kWindowTaskWork * (end - begin);
    const ExactMemoryOrder found = FindExactMemoryOrder(
        window, {.below_bytes = Highest(given), .max_work = max_work}, result_.work);
    if (!found.is_complete) return Outcome::kGaveUp;
    if (found.order.empty()) return Outcome::kIsBest;
    Reorder(begin, found.order, LiveBytes(window, found.order), elsewhere);
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
