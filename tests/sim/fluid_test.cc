// Tasks on shared resources, against times worked out by hand and against a second, simpler player.
#include "runtime/sim/fluid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Pointwise;

MATCHER(IsNear, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-9; }

TEST(FluidTest, AChainRunsOneAfterAnother) {
  FluidProblem problem(0);
  const int32_t a = problem.AddTask(3), b = problem.AddTask(4), c = problem.AddTask(5);
  problem.AddOrder(a, b);
  problem.AddOrder(b, c);
  const FluidTimes times = Play(problem);
  EXPECT_THAT(times.begin_us, ElementsAre(0, 3, 7));
  EXPECT_THAT(times.end_us, ElementsAre(3, 7, 12));
  EXPECT_THAT(times.last_before, ElementsAre(-1, a, b));
  EXPECT_EQ(times.total_us, 12);
}

TEST(FluidTest, TasksThatShareNothingDoNotSlowEachOther) {
  FluidProblem problem(2);
  problem.AddUse(problem.AddTask(10), 0, 1);
  problem.AddUse(problem.AddTask(20), 1, 1);
  EXPECT_THAT(Play(problem).end_us, ElementsAre(10, 20));
}

// Together they ask for 1.2 of the resource, so both run at 1 / 1.2. The first is done at
// 10 * 1.2 = 12; the second has done 10 of its 20 by then and does the rest alone: 12 + 10 = 22.
TEST(FluidTest, AnOversubscribedResourceSlowsAllAlike) {
  FluidProblem problem(1);
  problem.AddUse(problem.AddTask(10), 0, 0.6);
  problem.AddUse(problem.AddTask(20), 0, 0.6);
  const FluidTimes times = Play(problem);
  EXPECT_THAT(times.end_us, Pointwise(IsNear(), {12.0, 22.0}));
  EXPECT_THAT(times.slowed_by, ElementsAre(0, 0));
  EXPECT_NEAR(times.busy_us[0], 0.6 * 30, 1e-9);
}

TEST(FluidTest, AResourceThatIsJustFullSlowsNothing) {
  FluidProblem problem(1);
  for (int i = 0; i < 10; ++i) problem.AddUse(problem.AddTask(10), 0, 0.1f);
  const FluidTimes times = Play(problem);
  for (const double end_us : times.end_us) EXPECT_EQ(end_us, 10);
}

// The first asks for half of each resource. On resource 0 the load is 1.5, on 1 it is 2: it runs at
// half speed (10 of work take 20), the others at 1 / 1.5 and 1 / 2 until then.
// The second has done 20 / 1.5 = 13.33 of 20 by then: ends at 20 + 6.67 = 26.67.
// The third has done 20 / 2 = 10 of 20 by then: ends at 30.
TEST(FluidTest, TheMostLoadedResourceCounts) {
  FluidProblem problem(2);
  const int32_t both = problem.AddTask(10);
  problem.AddUse(both, 0, 0.5);
  problem.AddUse(both, 1, 0.5);
  problem.AddUse(problem.AddTask(20), 0, 1);
  problem.AddUse(problem.AddTask(20), 1, 1.5);
  const FluidTimes times = Play(problem);
  EXPECT_EQ(times.slowed_by[both], 1);
  EXPECT_NEAR(times.end_us[0], 20, 1e-9);
  EXPECT_NEAR(times.end_us[1], 20 + (20 - 20 / 1.5), 1e-9);
  // Alone it still asks for 1.5 of the resource: the 10 that are left take 15.
  EXPECT_NEAR(times.end_us[2], 20 + 10 * 1.5, 1e-9);
}

TEST(FluidTest, TasksOfNoLengthPassAtOnce) {
  FluidProblem problem(0);
  const int32_t work = problem.AddTask(5), record = problem.AddTask(0), wait = problem.AddTask(0);
  const int32_t after = problem.AddTask(2);
  problem.AddOrder(work, record);
  problem.AddOrder(record, wait);
  problem.AddOrder(wait, after);
  const FluidTimes times = Play(problem);
  EXPECT_THAT(times.end_us, ElementsAre(5, 5, 5, 7));
}

TEST(FluidTest, TheLastToEndIsWhatATaskWaitedFor) {
  FluidProblem problem(0);
  const int32_t quick = problem.AddTask(1), slow = problem.AddTask(9), join = problem.AddTask(1);
  problem.AddOrder(slow, join);
  problem.AddOrder(quick, join);
  EXPECT_EQ(Play(problem).last_before[join], slow);
}

TEST(FluidTest, ACycleNeverBegins) {
  FluidProblem problem(0);
  const int32_t free = problem.AddTask(2), a = problem.AddTask(1), b = problem.AddTask(1);
  problem.AddOrder(a, b);
  problem.AddOrder(b, a);
  const FluidTimes times = Play(problem);
  EXPECT_EQ(times.never_begun, 2);
  EXPECT_EQ(times.end_us[free], 2);
  EXPECT_EQ(times.end_us[a], -1);
}

// --- A second player: looks at everything at each moment ----------------------------------------

struct Use {
  int32_t task, resource;
  double share;
};
struct Case {
  std::vector<double> durations;
  std::vector<Use> uses;
  std::vector<std::pair<int32_t, int32_t>> orders;
};

Case RandomCase(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int32_t>(random() % n); };
  Case c;
  const int32_t tasks = 1 + below(25), resources = 1 + below(4);
  for (int32_t t = 0; t < tasks; ++t) {
    c.durations.push_back(below(5) == 0 ? 0 : 1 + below(40));
    for (int32_t r = 0; r < resources; ++r) {
      if (below(2) == 0) c.uses.push_back({t, r, (1 + below(12)) / 8.0});
    }
    for (int32_t before = 0; before < t; ++before) {
      if (below(6) == 0) c.orders.push_back({before, t});
    }
  }
  return c;
}

std::vector<double> PlaySlowly(const Case& c) {
  const size_t n = c.durations.size();
  std::vector<double> left = c.durations, end(n, -1);
  double now = 0;
  const auto runs = [&](size_t t) {
    if (end[t] >= 0) return false;
    return std::all_of(c.orders.begin(), c.orders.end(), [&](const auto& o) {
      return o.second != static_cast<int32_t>(t) || end[o.first] >= 0;
    });
  };
  while (std::count(end.begin(), end.end(), -1.0) > 0) {
    std::vector<double> load(8, 0), speed(n, 0);
    std::vector<bool> running(n);
    for (size_t t = 0; t < n; ++t) running[t] = runs(t);
    for (const Use& use : c.uses) load[use.resource] += running[use.task] ? use.share : 0;
    double step = 1e300;
    for (size_t t = 0; t < n; ++t) {
      if (!running[t]) continue;
      double most = 1;
      for (const Use& use : c.uses) {
        if (use.task == static_cast<int32_t>(t)) most = std::max(most, load[use.resource]);
      }
      speed[t] = 1 / most;
      step = std::min(step, left[t] / speed[t]);
    }
    now += step;
    for (size_t t = 0; t < n; ++t) {
      if (!running[t]) continue;
      left[t] -= step * speed[t];
      if (left[t] < 1e-9) end[t] = now;
    }
  }
  return end;
}

TEST(FluidTest, AgreesWithASimplerPlayer) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const Case c = RandomCase(seed);
    FluidProblem problem(8);
    for (const double duration : c.durations) problem.AddTask(duration);
    for (const Use& use : c.uses) problem.AddUse(use.task, use.resource, use.share);
    for (const auto& [before, after] : c.orders) problem.AddOrder(before, after);
    const FluidTimes times = Play(problem);
    const std::vector<double> expected = PlaySlowly(c);
    for (size_t t = 0; t < expected.size(); ++t) {
      ASSERT_NEAR(times.end_us[t], expected[t], 1e-6) << "task " << t;
    }
    EXPECT_NEAR(times.total_us, *std::max_element(expected.begin(), expected.end()), 1e-6);
  }
}

}  // namespace
}  // namespace millrace
