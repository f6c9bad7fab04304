// The hand-written plan is right; each mutant of it is refused with a counterexample that names
// what is wrong; harmless changes of it are accepted.
#include "tests/plan/mutants.h"

#include <cctype>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "graph/check/check.h"
#include "graph/plan_json.h"
#include "gtest/gtest.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

CheckReport Check(const PlanBundle& plan) {
  const MachineSpec machine = HandWrittenMachine();
  return CheckPlan(plan, AllOpTraits(), &machine);
}

std::string TestName(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

class MutantTest : public ::testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsRefusedWithACounterexample) {
  const Mutant& mutant = GetParam();
  PlanBundle plan = HandWrittenPlan(mutant.options);
  mutant.mutate(plan);

  const CheckReport report = Check(plan);

  EXPECT_FALSE(report.ok());
  bool said = false;
  for (const PlanError& error : report.errors) {
    said = said || (error.rule == mutant.rule &&
                    std::all_of(mutant.says.begin(), mutant.says.end(), [&](const std::string& s) {
                      return absl::StrContains(error.message, s);
                    }));
  }
  EXPECT_TRUE(said) << "no " << PlanRuleName(mutant.rule) << " error says "
                    << ::testing::PrintToString(mutant.says) << " in:\n"
                    << FormatReport(report);
}

INSTANTIATE_TEST_SUITE_P(All, MutantTest, ::testing::ValuesIn(AllMutants()),
                         [](const auto& info) { return TestName(info.param.name); });

TEST(Mutants, AreManyAndDiffer) {
  std::set<std::string> names;
  for (const Mutant& mutant : AllMutants()) names.insert(mutant.name);
  EXPECT_EQ(names.size(), AllMutants().size());
  EXPECT_GE(names.size(), 60u);
}

// What the mutants show would be worth little if a mutation changed nothing.
TEST(Mutants, ChangeThePlan) {
  for (const Mutant& mutant : AllMutants()) {
    PlanBundle plan = HandWrittenPlan(mutant.options);
    const std::string before = PlanToJson(plan);
    mutant.mutate(plan);
    EXPECT_NE(PlanToJson(plan), before) << mutant.name;
  }
}

class VariantTest : public ::testing::TestWithParam<Variant> {};

TEST_P(VariantTest, IsAccepted) {
  PlanBundle plan = HandWrittenPlan(GetParam().options);
  GetParam().change(plan);
  const CheckReport report = Check(plan);
  EXPECT_TRUE(report.ok()) << FormatReport(report);
}

INSTANTIATE_TEST_SUITE_P(All, VariantTest, ::testing::ValuesIn(HarmlessVariants()),
                         [](const auto& info) { return TestName(info.param.name); });

TEST(HandWrittenPlan, IsCheckedInFull) {
  const CheckReport report = Check(HandWrittenPlan());
  ASSERT_TRUE(report.ok()) << FormatReport(report);
  // One of init; per microbatch forward and backward, receive and middle.
  EXPECT_EQ(report.instructions, 1 + 4 * (7 + 9) + 4 * (3 + 18));
  EXPECT_GT(report.accesses, report.instructions);
}

// Without any one of its waits the plan is wrong: none is there for show.
TEST(HandWrittenPlan, NeedsEachOfItsWaits) {
  const PlanBundle plan = HandWrittenPlan();
  int waits = 0;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    for (size_t s = 0; s < plan.programs[p].segments.size(); ++s) {
      const std::vector<Instruction>& instructions = plan.programs[p].segments[s].instructions;
      for (size_t i = 0; i < instructions.size(); ++i) {
        if (!std::holds_alternative<Wait>(instructions[i].body)) continue;
        ++waits;
        PlanBundle without = plan;
        auto& list = without.programs[p].segments[s].instructions;
        list.erase(list.begin() + static_cast<int64_t>(i));
        EXPECT_FALSE(Check(without).ok())
            << DescribeInstruction(plan, plan.programs[p], instructions[i]);
      }
    }
  }
  EXPECT_EQ(waits, 6);
}

TEST(HandWrittenPlan, SurvivesSavingAndLoading) {
  const PlanBundle plan = HandWrittenPlan();
  const absl::StatusOr<PlanBundle> loaded = ParsePlanJson(PlanToJson(plan), "hand-written.json");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(PlanToJson(*loaded), PlanToJson(plan));
  EXPECT_EQ(ToText(*loaded), ToText(plan));
  EXPECT_TRUE(Check(*loaded).ok()) << FormatReport(Check(*loaded));
}

}  // namespace
}  // namespace millrace
