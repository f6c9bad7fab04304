// What is live after some tasks ran does not depend on their order, so the sets of tasks that may
// have run (the downsets) are all the states there are. Search goes through them best first: by the
// least peak with which a state can be reached, and among equals by the most tasks done, so that at
// the right peak it dives. The first time that all tasks have run, the peak is the lowest there is.
//
// Dominance: a task that can run now without exceeding the peak so far, and leaves no more live
// than before, runs now; no other choice is looked at. That loses nothing: for any set S of tasks,
// let live(S) be the bytes live after it, the sum over values of [some user ran] - [all users ran],
// the first term submodular and the second supermodular in S, so that live is submodular: what the
// task adds to live(S) can only shrink as S grows. Moving the task to the front of the best order
// to come therefore makes nothing that runs in between see more bytes.
//
// Time and memory grow with the number of downsets met, at worst 2^n.
#include "passes/schedule/exact_memory_order.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "absl/container/flat_hash_map.h"

namespace millrace {
namespace {

constexpr int64_t kStateWork = 100;  // of putting one into the table and the queue
constexpr int64_t kLookWork = 4;     // of looking at one task or value

class DownsetSearch {
 public:
  explicit DownsetSearch(const LifetimeProblem& problem)
      : problem_(problem),
        all_((problem.num_tasks() == 64 ? 0 : uint64_t{1} << problem.num_tasks()) - 1) {
    for (int32_t v = 0; v < problem.num_values(); ++v) {
      uint64_t users = 0;
      for (const int32_t task : problem.users_of[v]) users |= uint64_t{1} << task;
      users_.push_back(users);
    }
    for (int32_t t = 0; t < problem.num_tasks(); ++t) {
      uint64_t before = 0;
      for (const int32_t task : problem.before[t]) before |= uint64_t{1} << task;
      before_.push_back(before);
    }
  }

  ExactMemoryOrder Run(const ExactMemoryLimits& limits) {
    below_bytes_ = limits.below_bytes;
    int64_t live = 0;
    for (const OrderedValue& value : problem_.values)
      live += value.from_start ? value.size_bytes : 0;
    const int64_t lowest = std::max(limits.good_enough_bytes, LowestPeakOfAnyTask(problem_));
    Reach({.done = 0, .live_bytes = live, .peak_bytes = lowest}, /*tasks_done=*/0);
    while (!queue_.empty()) {
      const Waiting next = queue_.top();
      queue_.pop();
      const State state = states_[next.state];
      if (state.done == all_) return Found(next.state);
      if (index_of_[state.done] != next.state) continue;  // reached with a lower peak since
      work_ += kStateWork;
      Expand(state, next.state);
      if (work_ > limits.max_work) return {};
    }
    return {.is_complete = true, .order = {}, .peak_bytes = 0};
  }

  int64_t work() const { return work_; }

 private:
  struct State {
    uint64_t done = 0;
    int64_t live_bytes = 0;  // between tasks
    int64_t peak_bytes = 0;  // on the way here
    int32_t from = -1;       // state
    int32_t task = -1;       // that led here
  };
  struct Waiting {
    int64_t peak_bytes = 0;
    int32_t tasks_done = 0;
    int32_t state = 0;
    bool operator<(const Waiting& other) const {  // greatest first out
      if (peak_bytes != other.peak_bytes) return peak_bytes > other.peak_bytes;
      if (tasks_done != other.tasks_done) return tasks_done < other.tasks_done;
      return state > other.state;
    }
  };

  ExactMemoryOrder Found(int32_t state) const {
    ExactMemoryOrder found = {.is_complete = true, .order = PathTo(state), .peak_bytes = 0};
    for (const int64_t bytes : LiveBytes(problem_, found.order)) {
      found.peak_bytes = std::max(found.peak_bytes, bytes);
    }
    return found;
  }

  void Reach(const State& state, int32_t tasks_done) {
    if (state.peak_bytes >= below_bytes_) return;
    const auto [it, is_new] = index_of_.try_emplace(state.done, states_.size());
    if (!is_new) {
      if (states_[it->second].peak_bytes <= state.peak_bytes) return;
      it->second = static_cast<int32_t>(states_.size());
    }
    queue_.push({state.peak_bytes, tasks_done, static_cast<int32_t>(states_.size())});
    states_.push_back(state);
  }

  State After(const State& state, int32_t from, int32_t task) {
    State next = state;
    next.done |= uint64_t{1} << task;
    next.from = from;
    next.task = task;
    int64_t closed = 0;
    for (const int32_t v : problem_.values_of[task]) {
      const OrderedValue& value = problem_.values[v];
      if (!value.from_start && (users_[v] & state.done) == 0) next.live_bytes += value.size_bytes;
      if (!value.is_kept && (users_[v] & ~next.done) == 0) closed += value.size_bytes;
      work_ += kLookWork;
    }
    next.peak_bytes = std::max(next.peak_bytes, next.live_bytes + problem_.workspace_bytes[task]);
    next.live_bytes -= closed;
    return next;
  }

  void Expand(const State& state, int32_t index) {
    next_.clear();
    for (uint64_t rest = all_ & ~state.done; rest != 0; rest &= rest - 1) {
      const int task = std::countr_zero(rest);
      work_ += kLookWork;
      if ((before_[task] & ~state.done) != 0) continue;
      next_.push_back(After(state, index, task));
      const State& next = next_.back();
      if (next.peak_bytes <= state.peak_bytes && next.live_bytes <= state.live_bytes) {
        Reach(next, std::popcount(next.done));
        return;
      }
    }
    for (const State& next : next_) Reach(next, std::popcount(next.done));
    work_ += kStateWork * static_cast<int64_t>(next_.size());
  }

  std::vector<int32_t> PathTo(int32_t state) const {
    std::vector<int32_t> path;
    for (; states_[state].from >= 0; state = states_[state].from) {
      path.push_back(states_[state].task);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  const LifetimeProblem& problem_;
  const uint64_t all_;
  std::vector<uint64_t> users_;   // by value: tasks
  std::vector<uint64_t> before_;  // by task: tasks
  std::vector<State> states_;
  std::vector<State> next_;                          // scratch
  absl::flat_hash_map<uint64_t, int32_t> index_of_;  // best state, by tasks done
  std::priority_queue<Waiting> queue_;
  int64_t below_bytes_ = 0;
  int64_t work_ = 0;
};

}  // namespace

ExactMemoryOrder FindExactMemoryOrder(const LifetimeProblem& problem,
                                      const ExactMemoryLimits& limits, int64_t& work) {
  if (problem.num_tasks() > kMaxExactTasks) return {};
  DownsetSearch search(problem);
  ExactMemoryOrder found = search.Run(limits);
  work += search.work();
  return found;
}

}  // namespace millrace
