// What an assignment comes to: when tasks run on streams of their own, and when they share a
// device.
#include <algorithm>
#include <limits>

#include "passes/schedule/lifetime_problem.h"
#include "passes/schedule/stream_plan.h"

namespace millrace {

namespace {

std::vector<double> StartTimes(const ScheduleProblem& problem, const IndexLists& before,
                               const StreamAssignment& assignment, const StreamCosts& costs) {
  std::vector<double> start(problem.tasks.size()), free;
  double issued_us = 0;
  for (const int32_t task : assignment.order) {
    const int32_t stream = assignment.stream[task];
    if (stream >= std::ssize(free)) free.resize(stream + 1, 0);
    issued_us += costs.issue_us;
    start[task] = std::max(free[stream], issued_us);
    for (const int32_t b : before[task]) {
      const double event_us = assignment.stream[b] == stream ? 0 : costs.event_us;
      start[task] = std::max(start[task], start[b] + problem.tasks[b].time_us + event_us);
    }
    free[stream] = start[task] + problem.tasks[task].time_us;
  }
  return start;
}

}  // namespace

std::vector<double> StartTimes(const ScheduleProblem& problem, const StreamAssignment& assignment,
                               const StreamCosts& costs) {
  return StartTimes(problem, LifetimesOf(problem).before, assignment, costs);
}

double MakespanOf(const ScheduleProblem& problem, const IndexLists& before,
                  const StreamAssignment& assignment, const StreamCosts& costs) {
  const std::vector<double> start = StartTimes(problem, before, assignment, costs);
  double end = 0;
  for (size_t t = 0; t < start.size(); ++t) {
    end = std::max(end, start[t] + problem.tasks[t].time_us);
  }
  return end;
}

double MakespanOf(const ScheduleProblem& problem, const StreamAssignment& assignment,
                  const StreamCosts& costs) {
  return MakespanOf(problem, LifetimesOf(problem).before, assignment, costs);
}

namespace {

constexpr double kNotYet = std::numeric_limits<double>::infinity();

// Plays the streams. Between two moments at which a task starts or ends, all that run progress at
// one speed.
class SharedPlayer {
 public:
  SharedPlayer(const ScheduleProblem& problem, const StreamAssignment& assignment,
               const StreamCosts& costs)
      : problem_(problem),
        assignment_(assignment),
        costs_(costs),
        before_(LifetimesOf(problem).before),
        end_us_(problem.tasks.size(), -1) {
    for (size_t i = 0; i < assignment.order.size(); ++i) {
      const int32_t task = assignment.order[i];
      const int32_t stream = assignment.stream[task];
      if (stream >= std::ssize(streams_)) streams_.resize(stream + 1);
      streams_[stream].tasks.push_back(task);
      streams_[stream].issued_us.push_back(static_cast<double>(i + 1) * costs.issue_us);
    }
  }

  double Play() {
    double now = 0;
    for (size_t ended = 0; ended < problem_.tasks.size();) {
      double next = kNotYet;
      for (Stream& s : streams_) {
        if (!s.is_running && s.at < s.tasks.size()) {
          const double start = StartOf(s);
          s.is_running = start <= now;
          if (s.is_running) {
            s.left_us = problem_.tasks[s.tasks[s.at]].time_us;
          } else {
            next = std::min(next, start);
          }
        }
      }
      const double speed = Speed();
      for (const Stream& s : streams_) {
        if (s.is_running) next = std::min(next, now + s.left_us / speed);
      }
      for (Stream& s : streams_) {
        if (!s.is_running) continue;
        if (now + s.left_us / speed <= next) {
          end_us_[s.tasks[s.at++]] = next;
          s.is_running = false;
          ++ended;
        } else {
          s.left_us -= (next - now) * speed;
        }
      }
      now = next;
    }
    return now;
  }

 private:
  struct Stream {
    std::vector<int32_t> tasks;
    std::vector<double> issued_us;  // by place
    size_t at = 0;
    bool is_running = false;
    double left_us = 0;  // of the running task, at full speed
  };

  // kNotYet as long as something it waits for has not ended.
  double StartOf(const Stream& s) const {
    const int32_t task = s.tasks[s.at];
    double start = s.issued_us[s.at];
    for (const int32_t b : before_[task]) {
      if (end_us_[b] < 0) return kNotYet;
      const bool waits = assignment_.stream[b] != assignment_.stream[task];
      start = std::max(start, end_us_[b] + (waits ? costs_.event_us : 0));
    }
    return start;
  }

  double Speed() const {
    double compute = 0, memory = 0;
    for (const Stream& s : streams_) {
      if (!s.is_running) continue;
      compute += problem_.tasks[s.tasks[s.at]].compute_use;
      memory += problem_.tasks[s.tasks[s.at]].memory_use;
    }
    return 1 / std::max({1.0, compute, memory});
  }

  const ScheduleProblem& problem_;
  const StreamAssignment& assignment_;
  const StreamCosts costs_;
  const IndexLists before_;
  std::vector<double> end_us_;  // by task; -1: not yet
  std::vector<Stream> streams_;
};

}  // namespace

double SharedMakespanOf(const ScheduleProblem& problem, const StreamAssignment& assignment,
                        const StreamCosts& costs) {
  return SharedPlayer(problem, assignment, costs).Play();
}

}  // namespace millrace
