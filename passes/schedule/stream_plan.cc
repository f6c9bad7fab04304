// List scheduling with restarts.
//
// A list schedule goes through the tasks by priority and appends each to the stream where it starts
// first. There are two kinds, and which is better differs from problem to problem: by priority
// alone among the tasks whose predecessors are placed, and by earliest start, with priority among
// those that could start by the time a stream is free. Priorities are the longest way to the end
// (Graham's critical path rule; with events on each edge, and without); the problem turned around
// and scheduled from the end gives more. All of them are tried, and the best is the first result.
//
// The rest of the work goes into changing it: a task put on another stream, or priorities shaken by
// a tenth to a third. What is no worse is gone on with. That ends at the lower bound, the longer of
// the critical path and an even share of all work, or when the work allowed is done. Random numbers
// come from a fixed seed.
#include "passes/schedule/stream_plan.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <random>

#include "passes/schedule/lifetime_problem.h"

namespace millrace {
namespace {

constexpr double kSlack = 1e-9;  // relative
constexpr int64_t kPlaceWork = 60;
constexpr int64_t kMaxIdleTries = 3000;  // in a row that lower nothing

// Times and lists, so that the problem may be turned around.
struct ListProblem {
  std::vector<double> time_us = {};
  IndexLists before = {}, after = {};
};

class ListScheduler {
 public:
  ListScheduler(const ListProblem& problem, int32_t num_streams, const StreamCosts& costs)
      : problem_(problem), num_streams_(num_streams), costs_(costs) {}

  // Tasks placed one by one, the ready one of the highest priority next.
  StreamAssignment ByPriority(std::span<const double> priority) {
    Reset();
    std::priority_queue<Ranked> ready;
    for (int32_t t = 0; t < num_tasks(); ++t) {
      if (waits_for_[t] == 0) ready.push({priority[t], t});
    }
    while (!ready.empty()) {
      const int32_t task = ready.top().task;
      ready.pop();
      Place(task, BestStream(task));
      for (const int32_t a : problem_.after[task]) {
        if (--waits_for_[a] == 0) ready.push({priority[a], a});
      }
    }
    return std::move(result_);
  }

  // The same among those that can start when the next stream is free.
  StreamAssignment ByStart(std::span<const double> priority) {
    Reset();
    std::priority_queue<Ranked> ready, coming;  // coming: by the time their predecessors end
    for (int32_t t = 0; t < num_tasks(); ++t) {
      if (waits_for_[t] == 0) ready.push({priority[t], t});
    }
    while (!ready.empty() || !coming.empty()) {
      double now = *std::min_element(free_us_.begin(), free_us_.end());
      if (ready.empty()) now = std::max(now, -coming.top().rank);
      while (!coming.empty() && -coming.top().rank <= now) {
        ready.push({priority[coming.top().task], coming.top().task});
        coming.pop();
      }
      const int32_t task = ready.top().task;
      ready.pop();
      Place(task, BestStream(task));
      for (const int32_t a : problem_.after[task]) {
        if (--waits_for_[a] > 0) continue;
        double ready_us = 0;
        for (const int32_t b : problem_.before[a]) ready_us = std::max(ready_us, end_us_[b]);
        coming.push({-ready_us, a});
      }
    }
    return std::move(result_);
  }

 private:
  struct Ranked {
    double rank = 0;
    int32_t task = 0;
    bool operator<(const Ranked& other) const {  // greatest first out
      return rank != other.rank ? rank < other.rank : task > other.task;
    }
  };

  int32_t num_tasks() const { return static_cast<int32_t>(problem_.time_us.size()); }

  void Reset() {
    result_ = {};
    result_.stream.assign(num_tasks(), 0);
    free_us_.assign(num_streams_, 0);
    end_us_.assign(num_tasks(), 0);
    waits_for_.resize(num_tasks());
    for (int32_t t = 0; t < num_tasks(); ++t) {
      waits_for_[t] = static_cast<int32_t>(problem_.before[t].size());
    }
  }

  double StartOn(int32_t task, int32_t stream) const {
    const double issued_us = static_cast<double>(result_.order.size() + 1) * costs_.issue_us;
    double start = std::max(free_us_[stream], issued_us);
    for (const int32_t b : problem_.before[task]) {
      const double event_us = result_.stream[b] == stream ? 0 : costs_.event_us;
      start = std::max(start, end_us_[b] + event_us);
    }
    return start;
  }

  // Where it starts first; among equals where the stream has been idle for the shortest time, which
  // leaves the others to those who need them.
  int32_t BestStream(int32_t task) const {
    int32_t best = 0;
    double best_start = StartOn(task, 0);
    for (int32_t s = 1; s < num_streams_; ++s) {
      const double start = StartOn(task, s);
      if (start < best_start || (start == best_start && free_us_[s] > free_us_[best])) {
        best = s;
        best_start = start;
      }
    }
    return best;
  }

  void Place(int32_t task, int32_t stream) {
    const double start = StartOn(task, stream);
    result_.stream[task] = stream;
    result_.order.push_back(task);
    free_us_[stream] = end_us_[task] = start + problem_.time_us[task];
  }

  const ListProblem& problem_;
  const int32_t num_streams_;
  const StreamCosts costs_;
  StreamAssignment result_;
  std::vector<double> free_us_;     // by stream
  std::vector<double> end_us_;      // by task
  std::vector<int32_t> waits_for_;  // by task: how many before it are to come
};

// By task: the longest way from its start to the end, with `event_us` on each edge.
std::vector<double> WaysToTheEnd(const ListProblem& problem, double event_us) {
  std::vector<double> way(problem.time_us.size(), 0);
  for (auto t = static_cast<int32_t>(way.size()) - 1; t >= 0; --t) {
    for (const int32_t a : problem.after[t]) way[t] = std::max(way[t], way[a] + event_us);
    way[t] += problem.time_us[t];
  }
  return way;
}

class StreamAssigner {
 public:
  StreamAssigner(const ScheduleProblem& problem, const StreamOptions& options)
      : problem_(problem), options_(options), best_(OneStream(problem, options.costs)) {
    const LifetimeProblem forwards = LifetimesOf(problem), backwards = Reversed(forwards);
    problems_[0] = {.before = forwards.before, .after = forwards.after};
    problems_[1] = {.before = backwards.before, .after = backwards.after};
    for (const ScheduleTask& task : problem.tasks) problems_[0].time_us.push_back(task.time_us);
    problems_[1].time_us.assign(problems_[0].time_us.rbegin(), problems_[0].time_us.rend());
    pass_work_ = kPlaceWork * options.num_streams * static_cast<int64_t>(problem.tasks.size()) + 1;
    best_.num_streams = options.num_streams;
    current_ = best_.assignment;
    current_us_ = best_.makespan_us;
  }

  StreamPlan Run() {
    for (const double event_us : {options_.costs.event_us, 0.0}) {
      for (const bool turned : {false, true}) {
        priorities_.push_back({WaysToTheEnd(problems_[turned], event_us), turned});
        Try(priorities_.back().first, turned, /*by_start=*/false);
        Try(priorities_.back().first, turned, /*by_start=*/true);
      }
    }
    idle_tries_ = 0;
    while (work_ < options_.max_work && idle_tries_ < kMaxIdleTries && !IsBest()) {
      if (random_() % 2 == 0) {
        Move();
      } else {
        Shake();
      }
    }
    best_.events = FewestEvents(problem_, best_.assignment);
    best_.shared_us = SharedMakespanOf(problem_, best_.assignment, options_.costs);
    return std::move(best_);
  }

 private:
  bool IsBest() const { return best_.makespan_us <= best_.lower_bound_us() * (1 + kSlack); }

  void Try(std::span<const double> priority, bool turned, bool by_start) {
    if (IsBest()) return;
    work_ += pass_work_;
    ListScheduler scheduler(problems_[turned], options_.num_streams, options_.costs);
    StreamAssignment found =
        by_start ? scheduler.ByStart(priority) : scheduler.ByPriority(priority);
    if (turned) {
      const auto last = static_cast<int32_t>(found.order.size()) - 1;
      std::reverse(found.order.begin(), found.order.end());
      for (int32_t& task : found.order) task = last - task;
      std::reverse(found.stream.begin(), found.stream.end());
    }
    Keep(std::move(found));
  }

  void Keep(StreamAssignment found) {
    const double makespan = MakespanOf(problem_, problems_[0].before, found, options_.costs);
    ++idle_tries_;
    if (makespan > current_us_) return;
    current_us_ = makespan;
    current_ = std::move(found);
    if (makespan >= best_.makespan_us * (1 - kSlack)) return;
    best_.makespan_us = makespan;
    best_.assignment = current_;
    idle_tries_ = 0;
  }

  void Shake() {
    const auto& [priority, turned] = priorities_[random_() % priorities_.size()];
    const double by = 0.1 + 0.1 * static_cast<double>(random_() % 3);
    std::vector<double> shaken = priority;
    for (double& p : shaken) p *= 1 + by * (static_cast<double>(random_() % 2001) / 1000 - 1);
    Try(shaken, turned, random_() % 2 == 0);
  }

  void Move() {
    work_ += pass_work_;
    StreamAssignment moved = current_;
    const auto num_moves = 1 + random_() % 2;
    for (uint32_t i = 0; i < num_moves; ++i) {
      moved.stream[random_() % moved.stream.size()] =
          static_cast<int32_t>(random_() % options_.num_streams);
    }
    Keep(std::move(moved));
  }

  const ScheduleProblem& problem_;
  const StreamOptions options_;
  ListProblem problems_[2];                                       // as it is, and turned around
  std::vector<std::pair<std::vector<double>, bool>> priorities_;  // with whether turned around
  StreamPlan best_;
  StreamAssignment current_;  // what is being changed: as good as the best, often another one
  double current_us_ = 0;
  std::mt19937 random_{1};
  int64_t work_ = 0, pass_work_ = 1, idle_tries_ = 0;
};

}  // namespace

double StreamPlan::lower_bound_us() const {
  return std::max(critical_path_us, work_us / num_streams);
}

StreamPlan OneStream(const ScheduleProblem& problem, const StreamCosts& costs) {
  StreamPlan plan;
  plan.assignment.order.resize(problem.tasks.size());
  std::iota(plan.assignment.order.begin(), plan.assignment.order.end(), 0);
  plan.assignment.stream.assign(problem.tasks.size(), 0);
  plan.makespan_us = plan.shared_us = MakespanOf(problem, plan.assignment, costs);
  ListProblem lists = {.after = LifetimesOf(problem).after};
  for (const ScheduleTask& task : problem.tasks) {
    lists.time_us.push_back(task.time_us);
    plan.work_us += task.time_us;
  }
  for (const double way : WaysToTheEnd(lists, 0)) {
    plan.critical_path_us = std::max(plan.critical_path_us, way);
  }
  return plan;
}

StreamPlan AssignStreams(const ScheduleProblem& problem, const StreamOptions& options) {
  if (options.num_streams <= 1 || problem.tasks.empty()) return OneStream(problem, options.costs);
  return StreamAssigner(problem, options).Run();
}

}  // namespace millrace
