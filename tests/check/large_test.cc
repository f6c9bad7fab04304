// Large plans are checked in time and memory linear in their size. The times are printed; the
// README of graph/check quotes them for a release build.
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <string>

#include "tests/check/large_plan.h"
#include "tests/check/test_plan.h"

namespace millrace {
namespace {

struct Measured {
  CheckReport report;
  double seconds = 0;
};

Measured Measure(const char* what, const LargePlanOptions& options) {
  const PlanBundle plan = LargePlan(options);
  const OpTraitsTable traits = TestTraits();
  const std::clock_t begin = std::clock();
  Measured m{CheckPlan(plan, traits, nullptr), 0};
  m.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%-40s %8lld nodes: %.3f s of CPU\n", what, static_cast<long long>(options.nodes),
              m.seconds);
  return m;
}

TEST(CheckLarge, OneStream) {
  const Measured m = Measure("one stream", {.nodes = 100000});
  EXPECT_TRUE(m.report.ok()) << FormatReport(m.report);
  EXPECT_EQ(m.report.instructions, 100000);
  EXPECT_EQ(m.report.accesses, 300000);
}

TEST(CheckLarge, FourStreamsWithReuse) {
  const Measured m =
      Measure("four streams, reused slots", {.nodes = 100000, .streams = 4, .reuse = true});
  EXPECT_TRUE(m.report.ok()) << FormatReport(m.report);
  EXPECT_EQ(m.report.instructions, 3 * 100000 - 1 + 4);
}

TEST(CheckLarge, ManyMicrobatches) {
  const Measured m = Measure("four streams, 16 microbatches",
                             {.nodes = 10000, .streams = 4, .microbatches = 16, .reuse = true});
  EXPECT_TRUE(m.report.ok()) << FormatReport(m.report);
}

TEST(CheckLarge, OneMissingWaitIsFound) {
  PlanBundle plan = LargePlan({.nodes = 20000, .streams = 4, .reuse = true});
  std::vector<Instruction>& list = plan.programs[0].segments[0].instructions;
  ASSERT_TRUE(std::holds_alternative<Wait>(list[30000 - 1].body));
  list.erase(list.begin() + 30000 - 1);
  const CheckReport report = CheckPlan(plan, TestTraits(), nullptr);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.errors[0].rule, PlanRule::kRace);
}

}  // namespace
}  // namespace millrace
