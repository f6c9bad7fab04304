#include "passes/schedule/stream_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "tests/passes/random_schedule.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TaskEdge> EdgesOf(const ScheduleProblem& problem) {
  std::vector<TaskEdge> edges = problem.edges;
  for (const ScheduleResult& result : problem.results) {
    for (const int32_t reader : result.readers) {
      if (result.producer >= 0) edges.push_back({result.producer, reader});
    }
  }
  return edges;
}

// By task, all tasks that are over when it starts, given only stream order and events.
std::vector<std::vector<bool>> Known(const StreamAssignment& assignment,
                                     const std::vector<StreamEvent>& events) {
  const size_t n = assignment.order.size();
  std::vector<std::vector<bool>> known(n, std::vector<bool>(n, false));
  std::map<int32_t, int32_t> last_of_stream;
  const auto learn = [&](int32_t task, int32_t from) {
    for (size_t t = 0; t < n; ++t) {
      if (known[from][t]) known[task][t] = true;
    }
    known[task][from] = true;
  };
  for (const int32_t task : assignment.order) {
    const auto last = last_of_stream.find(assignment.stream[task]);
    if (last != last_of_stream.end()) learn(task, last->second);
    for (const StreamEvent& event : events) {
      if (event.to == task) learn(task, event.from);
    }
    last_of_stream[assignment.stream[task]] = task;
  }
  return known;
}

bool AreEnough(const ScheduleProblem& problem, const StreamAssignment& assignment,
               const std::vector<StreamEvent>& events) {
  const auto known = Known(assignment, events);
  return std::ranges::all_of(EdgesOf(problem),
                             [&](const TaskEdge& edge) { return known[edge.after][edge.before]; });
}

// An order, enough events, and none too many.
void ExpectValid(const ScheduleProblem& problem, const StreamPlan& plan, const StreamCosts& costs) {
  ASSERT_TRUE(IsOrder(problem, plan.assignment.order));
  for (const int32_t s : plan.assignment.stream) {
    ASSERT_GE(s, 0);
    ASSERT_LT(s, plan.num_streams);
  }
  ASSERT_TRUE(AreEnough(problem, plan.assignment, plan.events));
  for (size_t e = 0; e < plan.events.size(); ++e) {
    std::vector<StreamEvent> fewer = plan.events;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(e));
    ASSERT_FALSE(AreEnough(problem, plan.assignment, fewer))
        << "event " << plan.events[e].from << " -> " << plan.events[e].to << " is not needed";
  }
  EXPECT_NEAR(plan.makespan_us, MakespanOf(problem, plan.assignment, costs), 1e-9);
  EXPECT_LE(plan.lower_bound_us(), plan.makespan_us * (1 + 1e-9));
  EXPECT_LE(plan.makespan_us, OneStream(problem, costs).makespan_us * (1 + 1e-9));
}

// 0 -> {1, 2} -> 3, the middle taking 10 us, the ends 1.
ScheduleProblem Diamond() {
  ScheduleProblem problem;
  problem.tasks = {{.time_us = 1}, {.time_us = 10}, {.time_us = 10}, {.time_us = 1}};
  problem.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  return problem;
}

TEST(AssignStreams, RunsIndependentTasksSideBySide) {
  const ScheduleProblem problem = Diamond();
  const StreamPlan plan = AssignStreams(problem, {.num_streams = 2, .costs = {.event_us = 0.5}});
  // The one that waits for an event starts and ends later, so that the last one follows it.
  EXPECT_DOUBLE_EQ(plan.makespan_us, 1 + 0.5 + 10 + 1);
  EXPECT_EQ(plan.events.size(), 2u);
  EXPECT_DOUBLE_EQ(plan.critical_path_us, 12);
  EXPECT_DOUBLE_EQ(plan.work_us, 22);
  ExpectValid(problem, plan, {.event_us = 0.5});
}

TEST(AssignStreams, StaysOnOneStreamWhenEventsCostMoreThanTheyGain) {
  const ScheduleProblem problem = Diamond();
  const StreamPlan plan = AssignStreams(problem, {.num_streams = 2, .costs = {.event_us = 20}});
  EXPECT_DOUBLE_EQ(plan.makespan_us, 22);
  EXPECT_THAT(plan.events, IsEmpty());
  EXPECT_THAT(plan.assignment.order, ElementsAre(0, 1, 2, 3));
}

TEST(AssignStreams, Nothing) { EXPECT_EQ(AssignStreams({}, {.num_streams = 4}).makespan_us, 0); }

TEST(FewestEvents, LeavesOutWhatStreamsAndOtherEventsTell) {
  // 0 and 1 on stream 0, 2 on stream 1, 3 and 4 on stream 2.
  ScheduleProblem problem;
  problem.tasks.resize(5);
  problem.edges = {{0, 2}, {1, 2}, {0, 3}, {2, 3}, {1, 4}, {2, 4}};
  const StreamAssignment assignment = {{0, 1, 2, 3, 4}, {0, 0, 1, 2, 2}};
  // 1 tells 2 of 0 as well, 2 tells 3 of 0 and of 1, and 3 is followed by 4.
  EXPECT_THAT(FewestEvents(problem, assignment), ElementsAre(StreamEvent{1, 2}, StreamEvent{2, 3}));
}

TEST(StreamTimes, SharedResourcesSlowTasksDown) {
  ScheduleProblem problem = Diamond();
  const StreamAssignment assignment = {{0, 1, 2, 3}, {0, 0, 1, 0}};
  EXPECT_DOUBLE_EQ(SharedMakespanOf(problem, assignment, {}), 12);
  problem.tasks[1].compute_use = problem.tasks[2].compute_use = 1;  // nothing to gain
  EXPECT_DOUBLE_EQ(SharedMakespanOf(problem, assignment, {}), 22);
  problem.tasks[2].time_us = 4;  // 8 us side by side at half speed, then 6 alone
  EXPECT_DOUBLE_EQ(SharedMakespanOf(problem, assignment, {}), 1 + 8 + 6 + 1);
  problem.tasks[2].compute_use = 0.5;
  problem.tasks[2].memory_use = 0.9f;  // the busiest resource decides: 1.5 of compute
  EXPECT_DOUBLE_EQ(SharedMakespanOf(problem, assignment, {}), 1 + 6 + 6 + 1);
}

TEST(StreamTimes, TheHostMustIssueFirst) {
  const ScheduleProblem problem = Diamond();
  const StreamAssignment assignment = {{0, 1, 2, 3}, {0, 0, 1, 0}};
  const StreamCosts costs = {.event_us = 0, .issue_us = 5};
  EXPECT_THAT(StartTimes(problem, assignment, costs), ElementsAre(5, 10, 15, 25));
  EXPECT_DOUBLE_EQ(SharedMakespanOf(problem, assignment, costs), 26);
}

TEST(StreamTimes, AloneSharingChangesNothing) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const ScheduleProblem problem = RandomSchedule(random, {.tasks = 1 + i % 40});
    const StreamCosts costs = {.event_us = 0.5 * (i % 3), .issue_us = 0.25 * (i % 5)};
    const StreamPlan plan =
        AssignStreams(problem, {.num_streams = 2 + i % 3, .costs = costs, .max_work = 100'000});
    EXPECT_NEAR(plan.shared_us, plan.makespan_us, 1e-6) << i;
  }
}

TEST(AssignStreams, RandomProblemsGiveValidPlans) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const ScheduleProblem problem = RandomSchedule(random, {.tasks = 1 + i % 40,
                                                            .reach = 2 + i % 17,
                                                            .reads_per_task = 0.5 + i % 5 * 0.5,
                                                            .extra_edges = i % 3 == 0});
    const StreamCosts costs = {.event_us = i % 4 * 1.5, .issue_us = i % 5 == 0 ? 0.5 : 0};
    const StreamPlan plan =
        AssignStreams(problem, {.num_streams = 1 + i % 5, .costs = costs, .max_work = 200'000});
    SCOPED_TRACE(i);
    ASSERT_NO_FATAL_FAILURE(ExpectValid(problem, plan, costs));
  }
}

// Every order on every assignment.
double ShortestOfAll(const ScheduleProblem& problem, int32_t num_streams,
                     const StreamCosts& costs) {
  double shortest = std::numeric_limits<double>::infinity();
  ForEachOrder(problem, [&](std::span<const int32_t> order) {
    StreamAssignment assignment = {{order.begin(), order.end()},
                                   std::vector<int32_t>(order.size(), 0)};
    for (;;) {
      shortest = std::min(shortest, MakespanOf(problem, assignment, costs));
      size_t t = 0;
      while (t < order.size() && ++assignment.stream[t] == num_streams) assignment.stream[t++] = 0;
      if (t == order.size()) return;
    }
  });
  return shortest;
}

TEST(ExactMakespan, IsTheShortestOfAll) {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const ScheduleProblem problem =
        RandomSchedule(random, {.tasks = 1 + i % 5, .reach = 5, .extra_edges = i % 2 == 0});
    const StreamCosts costs = {.event_us = i % 3 * 2.0, .issue_us = i % 4 == 0 ? 3.0 : 0};
    for (const int32_t num_streams : {1, 2, 3}) {
      EXPECT_NEAR(ExactMakespan(problem, num_streams, costs, 1'000'000'000),
                  ShortestOfAll(problem, num_streams, costs), 1e-9)
          << i << " on " << num_streams;
    }
  }
}

TEST(AssignStreams, WithinTwoPercentOfTheExactMakespan) {
  std::mt19937 random(4);
  double log_ratio = 0, log_gap = 0, worst = 1;
  int compared = 0;
  for (int i = 0; i < 100; ++i) {
    const ScheduleProblem problem = RandomSchedule(
        random, {.tasks = 6 + i % 5, .reach = 3 + i % 8, .reads_per_task = 0.8 + i % 3 * 0.4});
    const StreamCosts costs = {.event_us = i % 4 * 1.0};
    const int32_t num_streams = 2 + i % 2;
    const double exact = ExactMakespan(problem, num_streams, costs, 30'000'000);
    if (exact < 0) continue;
    const StreamPlan plan =
        AssignStreams(problem, {.num_streams = num_streams, .costs = costs, .max_work = 500'000});
    ASSERT_GE(plan.makespan_us, exact * (1 - 1e-9));
    log_ratio += std::log(plan.makespan_us / exact);
    log_gap += std::log(plan.makespan_us / plan.lower_bound_us());
    worst = std::max(worst, plan.makespan_us / exact);
    ++compared;
  }
  ASSERT_GE(compared, 80);
  const double mean = std::exp(log_ratio / compared);
  std::printf("makespan / exact: %.4f in geometric mean, %.4f at worst, of %d; / bound %.4f\n",
              mean, worst, compared, std::exp(log_gap / compared));
  EXPECT_LE(mean, 1.02);
}

TEST(AssignStreams, SameInputSamePlan) {
  std::mt19937 random(5);
  const ScheduleProblem problem = RandomSchedule(random, {.tasks = 200, .reach = 20});
  const StreamOptions options = {.num_streams = 3, .costs = {.event_us = 1}, .max_work = 2'000'000};
  const StreamPlan a = AssignStreams(problem, options), b = AssignStreams(problem, options);
  EXPECT_EQ(a.assignment.order, b.assignment.order);
  EXPECT_EQ(a.assignment.stream, b.assignment.stream);
  EXPECT_EQ(a.events, b.events);
}

}  // namespace
}  // namespace millrace
