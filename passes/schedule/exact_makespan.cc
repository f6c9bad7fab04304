// Branch and bound over all ways to append, one after another, a ready task to a stream, each
// starting as soon as it can. Every schedule whose tasks cannot be moved up arises from its tasks
// in order of their starts, so without issue costs only appends with starts that do not decrease
// are tried. Streams are alike: of those still empty only the first is tried. Bounds: the longest
// way from any task to the end, and the work left over all streams.
#include <algorithm>
#include <limits>

#include "passes/schedule/lifetime_problem.h"
#include "passes/schedule/stream_plan.h"

namespace millrace {
namespace {

constexpr double kNoBetter = 1e-9;  // relative: sums in another order are no better schedule

class MakespanSearch {
 public:
  MakespanSearch(const ScheduleProblem& problem, int32_t num_streams, const StreamCosts& costs,
                 int64_t max_work)
      : problem_(problem),
        costs_(costs),
        max_work_(max_work),
        lifetimes_(LifetimesOf(problem)),
        free_us_(num_streams, 0),
        is_empty_(num_streams, true),
        waits_for_(problem.tasks.size()),
        stream_(problem.tasks.size(), -1),
        end_us_(problem.tasks.size(), 0),
        to_end_us_(problem.tasks.size()) {
    const auto n = static_cast<int32_t>(problem.tasks.size());
    for (int32_t t = n - 1; t >= 0; --t) {
      waits_for_[t] = static_cast<int32_t>(lifetimes_.before[t].size());
      for (const int32_t a : lifetimes_.after[t]) {
        to_end_us_[t] = std::max(to_end_us_[t], to_end_us_[a]);
      }
      to_end_us_[t] += problem.tasks[t].time_us;
      left_us_ += problem.tasks[t].time_us;
    }
  }

  double Run() {
    Extend(0, 0, 0);
    return work_ > max_work_ ? -1 : best_us_;
  }

 private:
  double StartOn(int32_t task, int32_t stream, size_t num_done) const {
    double start = std::max(free_us_[stream], static_cast<double>(num_done + 1) * costs_.issue_us);
    for (const int32_t b : lifetimes_.before[task]) {
      start = std::max(start, end_us_[b] + (stream_[b] == stream ? 0 : costs_.event_us));
    }
    return start;
  }

  bool IsHopeless(double makespan_us) const {
    double bound = left_us_;
    for (const double free : free_us_) bound += free;
    bound = std::max(bound / static_cast<double>(free_us_.size()), makespan_us);
    for (size_t t = 0; t < stream_.size(); ++t) {
      if (stream_[t] >= 0 || waits_for_[t] > 0) continue;
      double start = *std::min_element(free_us_.begin(), free_us_.end());
      for (const int32_t b : lifetimes_.before[static_cast<int32_t>(t)]) {
        start = std::max(start, end_us_[b]);
      }
      bound = std::max(bound, start + to_end_us_[t]);
    }
    return bound >= best_us_ * (1 - kNoBetter);
  }

  void Extend(size_t num_done, double last_start_us, double makespan_us) {
    work_ += 20 * static_cast<int64_t>(stream_.size());
    if (num_done == stream_.size()) best_us_ = std::min(best_us_, makespan_us);
    if (num_done == stream_.size() || work_ > max_work_ || IsHopeless(makespan_us)) return;
    for (int32_t t = 0; t < std::ssize(stream_); ++t) {
      if (stream_[t] >= 0 || waits_for_[t] > 0) continue;
      for (int32_t s = 0; s < std::ssize(free_us_); ++s) {
        const double start = StartOn(t, s, num_done);
        if (costs_.issue_us > 0 || start >= last_start_us)
          Append(t, s, start, num_done, makespan_us);
        if (is_empty_[s]) break;
      }
    }
  }

  void Append(int32_t task, int32_t stream, double start, size_t num_done, double makespan_us) {
    const double time_us = problem_.tasks[task].time_us;
    const double free_before = free_us_[stream];
    const bool was_empty = is_empty_[stream];
    stream_[task] = stream;
    is_empty_[stream] = false;
    free_us_[stream] = end_us_[task] = start + time_us;
    left_us_ -= time_us;
    for (const int32_t a : lifetimes_.after[task]) --waits_for_[a];
    Extend(num_done + 1, start, std::max(makespan_us, end_us_[task]));
    for (const int32_t a : lifetimes_.after[task]) ++waits_for_[a];
    left_us_ += time_us;
    free_us_[stream] = free_before;
    is_empty_[stream] = was_empty;
    stream_[task] = -1;
  }

  const ScheduleProblem& problem_;
  const StreamCosts costs_;
  const int64_t max_work_;
  const LifetimeProblem lifetimes_;
  std::vector<double> free_us_;     // by stream
  std::vector<bool> is_empty_;      // by stream
  std::vector<int32_t> waits_for_;  // by task: how many before it are to come
  std::vector<int32_t> stream_;     // by task; -1: to come
  std::vector<double> end_us_;      // by task
  std::vector<double> to_end_us_;   // by task: the longest way to the end, itself included
  double left_us_ = 0;              // work to come
  double best_us_ = std::numeric_limits<double>::infinity();
  int64_t work_ = 0;
};

}  // namespace

double ExactMakespan(const ScheduleProblem& problem, int32_t num_streams, const StreamCosts& costs,
                     int64_t max_work) {
  return MakespanSearch(problem, num_streams, costs, max_work).Run();
}

}  // namespace millrace
