// After Liu (1987), whose rule is best when tasks form chains: the next thing to run is not a task
// but a segment, a task with what it makes ready in its wake, as far as the point where least is
// live (the valley; the most on the way there is the hill). Segments that leave no more live than
// before go first, low hills before high ones; of those that grow, the ones with the most to fall
// from hill to valley go first, because what comes later pays for their valleys but not for their
// hills.
//
// What a ready task's segment is worth changes as others run. A heap holds the worth as it was last
// seen; it is found again for a task whose value lost all other users or came to live, and for
// whatever the heap gives out. Other changes are noticed late.
#include "passes/schedule/greedy_memory_order.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace millrace {
namespace {

constexpr size_t kMaxFollowed = 64;  // successors: beyond tasks with more nobody looks

struct TaskSegment {
  int64_t hill_bytes = 0;    // above what is live before
  int64_t valley_bytes = 0;  // the same, after it
  int32_t task = 0;          // first

  bool grows() const { return valley_bytes > 0; }
  // Whether it goes later than the other one.
  bool operator<(const TaskSegment& other) const {
    if (grows() != other.grows()) return grows();
    const int64_t key = grows() ? valley_bytes - hill_bytes : hill_bytes;
    const int64_t other_key = grows() ? other.valley_bytes - other.hill_bytes : other.hill_bytes;
    return key != other_key ? key > other_key : task > other.task;
  }
};

class Greedy {
 public:
  Greedy(const LifetimeProblem& problem, int32_t lookahead, int64_t& work)
      : problem_(problem),
        lookahead_(lookahead),
        work_(work),
        waits_for_(problem.num_tasks()),
        to_come_(problem.num_values()),
        sum_to_come_(problem.num_values(), 0),
        is_done_(problem.num_tasks(), 0) {
    for (int32_t v = 0; v < problem.num_values(); ++v) {
      to_come_[v] = static_cast<int32_t>(problem.users_of[v].size());
      for (const int32_t user : problem.users_of[v]) sum_to_come_[v] += user;
    }
    for (int32_t t = 0; t < problem.num_tasks(); ++t) {
      waits_for_[t] = static_cast<int32_t>(problem.before[t].size());
    }
  }

  std::vector<int32_t> Run() {
    for (int32_t t = 0; t < problem_.num_tasks(); ++t) {
      if (waits_for_[t] == 0) Offer(t);
    }
    while (!heap_.empty()) {
      const TaskSegment seen = heap_.top();
      heap_.pop();
      if (is_done_[seen.task]) continue;
      const TaskSegment now = Look(seen.task);
      if (now < seen) {
        heap_.push(now);
        continue;
      }
      const std::vector<int32_t> segment(path_.begin(), path_.begin() + valley_length_);
      for (const int32_t task : segment) Commit(task);
    }
    return std::move(order_);
  }

 private:
  void Offer(int32_t task) { heap_.push(Look(task)); }

  bool IsUnused(int32_t v) const {
    return to_come_[v] == static_cast<int32_t>(problem_.users_of[v].size());
  }

  // Bytes that come to live when the task runs, and that go after it.
  struct Effect {
    int64_t opened = 0, closed = 0;
    int64_t change() const { return opened - closed; }
  };
  Effect EffectOf(int32_t task) const {
    Effect effect;
    for (const int32_t v : problem_.values_of[task]) {
      const OrderedValue& value = problem_.values[v];
      if (!value.from_start && IsUnused(v)) effect.opened += value.size_bytes;
      if (!value.is_kept && to_come_[v] == 1) effect.closed += value.size_bytes;
    }
    return effect;
  }

  // The segment of a ready task; its tasks are the first valley_length_ of path_.
  TaskSegment Look(int32_t first) {
    TaskSegment best{.valley_bytes = std::numeric_limits<int64_t>::max(), .task = first};
    path_.clear();
    fresh_.assign(1, first);
    int64_t live = 0, hill = 0;
    while (!fresh_.empty()) {
      const int32_t task = TakeFresh();
      const Effect effect = EffectOf(task);
      hill = std::max(hill, live + effect.opened + problem_.workspace_bytes[task]);
      live += effect.change();
      path_.push_back(task);
      if (live < best.valley_bytes) {
        best.valley_bytes = live;
        best.hill_bytes = hill;
        valley_length_ = static_cast<int32_t>(path_.size());
      }
      if (live <= 0 || static_cast<int32_t>(path_.size()) == lookahead_) break;
      Try(task);
    }
    Untry();
    work_ += 60 * static_cast<int64_t>(path_.size());
    return best;
  }

  // Of the tasks that the path has made ready, the one that leaves least live.
  int32_t TakeFresh() {
    size_t best = 0;
    if (fresh_.size() > 1) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (size_t i = 0; i < fresh_.size(); ++i) {
        const int64_t change = EffectOf(fresh_[i]).change();
        if (change < least) best = i;
        least = std::min(least, change);
      }
      work_ += 10 * static_cast<int64_t>(fresh_.size());
    }
    const int32_t task = fresh_[best];
    fresh_.erase(fresh_.begin() + static_cast<std::ptrdiff_t>(best));
    return task;
  }

  void Try(int32_t task) {
    for (const int32_t v : problem_.values_of[task]) --to_come_[v];
    const std::span<const int32_t> after = problem_.after[task];
    tried_.push_back(task);
    if (after.size() > kMaxFollowed) return;
    for (const int32_t next : after) {
      if (--waits_for_[next] == 0) fresh_.push_back(next);
    }
    work_ += 2 * static_cast<int64_t>(after.size() + problem_.values_of[task].size());
  }

  void Untry() {
    for (const int32_t task : tried_) {
      for (const int32_t v : problem_.values_of[task]) ++to_come_[v];
      const std::span<const int32_t> after = problem_.after[task];
      if (after.size() > kMaxFollowed) continue;
      for (const int32_t next : after) ++waits_for_[next];
    }
    tried_.clear();
  }

  void Commit(int32_t task) {
    is_done_[task] = 1;
    order_.push_back(task);
    changed_.clear();
    for (const int32_t v : problem_.values_of[task]) {
      const bool was_unused = IsUnused(v) && !problem_.values[v].from_start;
      sum_to_come_[v] -= task;
      if (--to_come_[v] == 1) {
        changed_.push_back(static_cast<int32_t>(sum_to_come_[v]));
      } else if (was_unused) {
        const std::span<const int32_t> users = problem_.users_of[v];
        changed_.insert(changed_.end(), users.begin(), users.end());
      }
    }
    for (const int32_t next : problem_.after[task]) {
      if (--waits_for_[next] == 0) changed_.push_back(next);
    }
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const int32_t next : changed_) {
      if (!is_done_[next] && waits_for_[next] == 0) Offer(next);
    }
    work_ += 200 + 10 * static_cast<int64_t>(changed_.size());
  }

  const LifetimeProblem& problem_;
  const int32_t lookahead_;
  int64_t& work_;
  std::vector<int32_t> order_;
  std::vector<int32_t> waits_for_;    // by task: how many that must come before it
  std::vector<int32_t> to_come_;      // by value: how many users
  std::vector<int64_t> sum_to_come_;  // by value: of their numbers, which names the last one
  std::vector<uint8_t> is_done_;      // by task
  std::priority_queue<TaskSegment> heap_;
  std::vector<int32_t> path_, fresh_, tried_, changed_;  // scratch
  int32_t valley_length_ = 0;
};

}  // namespace

std::vector<int32_t> GreedyMemoryOrder(const LifetimeProblem& problem, int32_t lookahead,
                                       int64_t& work) {
  return Greedy(problem, lookahead, work).Run();
}

}  // namespace millrace
