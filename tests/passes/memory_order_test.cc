#include "passes/schedule/memory_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "passes/schedule/exact_memory_order.h"
#include "passes/schedule/greedy_memory_order.h"
#include "passes/schedule/lifetime_problem.h"
#include "tests/passes/random_schedule.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> GivenOrder(const ScheduleProblem& problem) {
  std::vector<int32_t> order(problem.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// The bytes live at each place, straight from the definition.
int64_t PeakByDefinition(const ScheduleProblem& problem, std::span<const int32_t> order) {
  std::vector<int32_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int32_t>(i);
  int64_t peak = 0;
  for (int32_t i = 0; i < std::ssize(order); ++i) {
    int64_t live = problem.tasks[order[i]].workspace_bytes;
    for (const ScheduleResult& r : problem.results) {
      int32_t last = r.producer < 0 ? -1 : place[r.producer];
      for (const int32_t reader : r.readers) last = std::max(last, place[reader]);
      const bool has_come = r.producer < 0 || place[r.producer] <= i;
      const bool is_unused = r.producer < 0 && r.readers.empty();  // an input nobody reads stays
      if (has_come && (r.is_kept || is_unused || i <= last)) live += r.size_bytes;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

int64_t LowestPeakOfAllOrders(const ScheduleProblem& problem) {
  int64_t lowest = std::numeric_limits<int64_t>::max();
  ForEachOrder(problem, [&](std::span<const int32_t> order) {
    lowest = std::min(lowest, PeakByDefinition(problem, order));
  });
  return lowest;
}

// Orders, verified.
MemoryOrder Ordered(const ScheduleProblem& problem, const MemoryOrderOptions& options = {}) {
  EXPECT_TRUE(VerifyScheduleProblem(problem).ok()) << VerifyScheduleProblem(problem);
  MemoryOrder result = OrderForMemory(problem, options);
  EXPECT_TRUE(IsOrder(problem, result.order));
  EXPECT_EQ(result.peak_bytes, PeakBytes(problem, result.order));
  EXPECT_EQ(result.given_peak_bytes, PeakBytes(problem, GivenOrder(problem)));
  EXPECT_LE(result.peak_bytes, result.given_peak_bytes);
  EXPECT_LE(result.lower_bound_bytes, result.peak_bytes);
  if (result.peak_bytes == result.given_peak_bytes) {
    EXPECT_EQ(result.order, GivenOrder(problem));
  }
  return result;
}

// Two chains from one input, each big in the middle: 0 -> 1 -> 2 and 0 -> 3 -> 4, joined by 5.
ScheduleProblem TwoChains() {
  ScheduleProblem problem;
  problem.tasks.resize(6);
  problem.results = {{.size_bytes = 1, .producer = 0, .readers = {1, 2}},
                     {.size_bytes = 100, .producer = 1, .readers = {3}},
                     {.size_bytes = 100, .producer = 2, .readers = {4}},
                     {.size_bytes = 1, .producer = 3, .readers = {5}},
                     {.size_bytes = 1, .producer = 4, .readers = {5}},
                     {.size_bytes = 1, .producer = 5, .is_kept = true}};
  return problem;
}

TEST(MemoryOrder, FinishesOneChainBeforeTheOther) {
  const MemoryOrder result = Ordered(TwoChains());
  EXPECT_EQ(result.given_peak_bytes, 201);
  EXPECT_EQ(result.peak_bytes, 102);  // the input, one chain's middle, and an end
  EXPECT_THAT(result.order, ElementsAre(0, 1, 3, 2, 4, 5));
  EXPECT_EQ(result.lower_bound_bytes, 102);
}

TEST(MemoryOrder, GreedyFindsItToo) {
  int64_t work = 0;
  const LifetimeProblem problem = LifetimesOf(TwoChains());
  EXPECT_THAT(GreedyMemoryOrder(problem, 8, work), ElementsAre(0, 1, 3, 2, 4, 5));
  EXPECT_GT(work, 0);
}

TEST(MemoryOrder, WorkspaceAndOutputsCount) {
  // The workspace of 0 is needed before or after the kept result of 1 comes: before is better.
  ScheduleProblem problem;
  problem.tasks = {{}, {.workspace_bytes = 50}};
  problem.results = {{.size_bytes = 10, .producer = 0, .is_kept = true},
                     {.size_bytes = 1, .producer = 1, .is_kept = true}};
  EXPECT_EQ(Ordered(problem).peak_bytes, 51);
  EXPECT_THAT(Ordered(problem).order, ElementsAre(1, 0));
  problem.edges = {{0, 1}};  // but it may not
  EXPECT_EQ(Ordered(problem).peak_bytes, 61);
}

TEST(MemoryOrder, Nothing) {
  EXPECT_TRUE(Ordered({}).order.empty());
  ScheduleProblem one;
  one.tasks.resize(1);
  EXPECT_THAT(Ordered(one).order, ElementsAre(0));
}

TEST(MemoryOrder, LiveBytesMatchTheDefinition) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const ScheduleProblem problem = RandomSchedule(
        random, {.tasks = 1 + i % 12, .workspaces = i % 2 == 0, .extra_edges = i % 3 == 0});
    const auto order = GivenOrder(problem);
    ASSERT_EQ(PeakBytes(problem, order), PeakByDefinition(problem, order)) << i;
    // And the same from the end.
    const LifetimeProblem reversed = Reversed(LifetimesOf(problem));
    std::vector<int64_t> live = LiveBytes(LifetimesOf(problem), order);
    std::vector<int64_t> backwards = LiveBytes(reversed, order);
    std::reverse(backwards.begin(), backwards.end());
    const bool has_unused_input = std::ranges::any_of(
        problem.results, [](const auto& r) { return r.producer < 0 && r.readers.empty(); });
    if (has_unused_input) continue;
    ASSERT_EQ(live, backwards) << i;
  }
}

TEST(MemoryOrder, ExactIsTheLowestOfAllOrders) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const ScheduleProblem problem = RandomSchedule(random, {.tasks = 1 + i % 8,
                                                            .reach = 2 + i % 7,
                                                            .reads_per_task = 1 + i % 4 * 0.5,
                                                            .workspaces = i % 2 == 0,
                                                            .extra_edges = i % 3 == 0});
    const int64_t lowest = LowestPeakOfAllOrders(problem);
    int64_t work = 0;
    ExactMemoryOrder exact =
        FindExactMemoryOrder(LifetimesOf(problem), {.max_work = 1'000'000'000}, work);
    ASSERT_TRUE(exact.is_complete);
    ASSERT_TRUE(IsOrder(problem, exact.order));
    ASSERT_EQ(exact.peak_bytes, lowest) << i;
    ASSERT_EQ(PeakByDefinition(problem, exact.order), lowest) << i;
    // There is none below it, and anything good enough will do.
    exact = FindExactMemoryOrder(LifetimesOf(problem),
                                 {.below_bytes = lowest, .max_work = 1'000'000'000}, work);
    ASSERT_TRUE(exact.is_complete && exact.order.empty()) << i;
    exact = FindExactMemoryOrder(
        LifetimesOf(problem), {.good_enough_bytes = lowest + 20, .max_work = 1'000'000'000}, work);
    ASSERT_LE(PeakByDefinition(problem, exact.order), lowest + 20) << i;
    const MemoryOrder result = Ordered(problem);
    ASSERT_EQ(result.peak_bytes, lowest) << i;
    ASSERT_EQ(result.lower_bound_bytes, lowest) << i;
  }
}

TEST(MemoryOrder, GivesUpAfterTheWorkAllowed) {
  std::mt19937 random(3);
  const ScheduleProblem problem = RandomSchedule(random, {.tasks = 60, .reach = 60});
  int64_t work = 0;
  EXPECT_FALSE(FindExactMemoryOrder(LifetimesOf(problem), {.max_work = 100'000}, work).is_complete);
  EXPECT_LT(work, 200'000);
  EXPECT_LT(Ordered(problem, {.max_work = 1'000'000}).work, 5'000'000);
}

TEST(MemoryOrder, NearIsCloseToExact) {
  // What is done on large problems, on ones whose best order is known.
  std::mt19937 random(4);
  double log_ratio = 0, worst = 1;
  int compared = 0;
  for (int i = 0; i < 120; ++i) {
    const ScheduleProblem problem = i % 2 == 0
                                        ? RandomSchedule(random, {.tasks = 30, .reach = 4 + i % 9})
                                        : BranchedSchedule(random, 1, 3 + i % 4, 3 + i % 5);
    int64_t work = 0;
    const ExactMemoryOrder exact =
        FindExactMemoryOrder(LifetimesOf(problem), {.max_work = 200'000'000}, work);
    if (!exact.is_complete) continue;
    const MemoryOrder near = Ordered(problem, {.max_exact_tasks = 12});
    ASSERT_GE(near.peak_bytes, exact.peak_bytes);
    const double ratio =
        static_cast<double>(near.peak_bytes) / static_cast<double>(exact.peak_bytes);
    log_ratio += std::log(ratio);
    worst = std::max(worst, ratio);
    ++compared;
  }
  ASSERT_GE(compared, 100);
  const double mean = std::exp(log_ratio / compared);
  std::printf("near / exact: %.4f in geometric mean, %.4f at worst, of %d\n", mean, worst,
              compared);
  EXPECT_LE(mean, 1.01);
}

TEST(MemoryOrder, PartsAreSearchedOnTheirOwn) {
  // A deep stack of blocks, far too large for one search, is still ordered as well as can be.
  std::mt19937 random(5);
  const ScheduleProblem problem = BranchedSchedule(random, 200, 4, 4);
  const MemoryOrder result = Ordered(problem);
  EXPECT_LT(result.peak_bytes, result.given_peak_bytes);
  EXPECT_EQ(result.peak_bytes, result.lower_bound_bytes);
}

TEST(MemoryOrder, SameInputSameOrder) {
  std::mt19937 random(6);
  const ScheduleProblem problem = RandomSchedule(random, {.tasks = 500, .reach = 40});
  const MemoryOrder result = Ordered(problem);
  EXPECT_EQ(result.order, Ordered(problem).order);
  EXPECT_LT(result.peak_bytes, result.given_peak_bytes);
}

TEST(ScheduleProblem, Verification) {
  ScheduleProblem problem = TwoChains();
  EXPECT_TRUE(VerifyScheduleProblem(problem).ok());
  problem.edges = {{3, 3}};
  EXPECT_FALSE(VerifyScheduleProblem(problem).ok());
  problem.edges = {};
  problem.results[1].readers = {1};  // its own producer
  EXPECT_FALSE(VerifyScheduleProblem(problem).ok());
  problem.results[1].readers = {4, 3};
  EXPECT_FALSE(VerifyScheduleProblem(problem).ok());
  problem.results[1].readers = {6};
  EXPECT_FALSE(VerifyScheduleProblem(problem).ok());
  problem = TwoChains();
  problem.tasks[0].time_us = std::nan("");
  EXPECT_FALSE(VerifyScheduleProblem(problem).ok());
}

TEST(ScheduleProblem, WhatIsAnOrder) {
  const ScheduleProblem problem = TwoChains();
  EXPECT_TRUE(IsOrder(problem, std::vector<int32_t>{0, 1, 3, 2, 4, 5}));
  EXPECT_FALSE(IsOrder(problem, std::vector<int32_t>{1, 0, 3, 2, 4, 5}));
  EXPECT_FALSE(IsOrder(problem, std::vector<int32_t>{0, 1, 3, 2, 5, 4}));
  EXPECT_FALSE(IsOrder(problem, std::vector<int32_t>{0, 1, 1, 2, 4, 5}));
  EXPECT_FALSE(IsOrder(problem, std::vector<int32_t>{0, 1, 3, 2, 4}));
}

}  // namespace
}  // namespace millrace
