// The checker against every order, on random tiny plans and mutants of them, in both directions.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "graph/plan_json.h"
#include "tests/check/every_order.h"
#include "tests/check/random_plan.h"
#include "tests/check/test_plan.h"

namespace millrace {
namespace {

TEST(CheckRandom, AgreesWithEveryOrder) {
  const OpTraitsTable traits = TestTraits();
  const char* count = std::getenv("MILLRACE_RANDOM_PLANS");
  const int plans = count != nullptr ? std::atoi(count) : 4000;
  int accepted = 0, refused = 0, refused_mutants = 0, harmless_mutants = 0;
  for (int seed = 0; seed < plans; ++seed) {
    std::mt19937 random(seed);
    PlanBundle plan = RandomPlan(random);
    const int mutations = seed % 4;
    for (int i = 0; i < mutations; ++i) Mutate(random, plan);
    const std::string wrong = TryEveryOrder(plan, traits);
    const CheckReport report = CheckPlan(plan, traits, nullptr);
    ASSERT_EQ(report.ok(), wrong.empty())
        << "seed " << seed << ": every order says '" << wrong << "'\n"
        << FormatReport(report) << "\n"
        << ToText(plan);
    ++(report.ok() ? accepted : refused);
    if (mutations > 0) ++(report.ok() ? harmless_mutants : refused_mutants);
  }
  // The test is worth something only if both verdicts are common.
  EXPECT_GT(accepted, plans / 5);
  EXPECT_GT(refused, plans / 5);
  std::cout << accepted << " accepted, " << refused << " refused; of the mutants "
            << refused_mutants << " refused, " << harmless_mutants << " harmless\n";
}

// Whatever the numbers, the checker answers. (Run under the sanitizers.)
TEST(CheckRandom, CorruptPlansAreAnswered) {
  const OpTraitsTable traits = TestTraits();
  int refused = 0;
  for (int seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    PlanBundle plan = RandomPlan(random);
    for (int i = 0; i <= seed % 3; ++i) Corrupt(random, plan);
    const CheckReport report = CheckPlan(plan, traits, nullptr);
    refused += report.ok() ? 0 : 1;
    EXPECT_EQ(report.ok(), report.errors.empty());
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace millrace
