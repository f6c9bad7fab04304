// The hand-written plan in every order that its streams, events and meetings allow (a sample of
// them, by seed), bit for bit what its graph means; and its mutants, whose harm the adversary
// finds.
#include "tests/adversary/adversary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "graph/strings.h"
#include "ops/cpu/cpu_kernels.h"
#include "tests/plan/hand_written_plan.h"
#include "tests/plan/mutants.h"
#include "tests/plan/plan_edit.h"
#include "tests/plan/reference_run.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 2;

// What the steps leave, by name.
using Results = std::map<std::string, Tensor>;

Results Expected(const PlanBundle& plan) {
  ReferenceRun reference(plan);
  Results results;
  for (int step = 0; step < kSteps; ++step) {
    reference.Step(HandWrittenInputs(step));
    for (const char* name : {"y", "nz", "dr"}) {
      results[StrCat(name, " of step ", step)] = reference.Output(name);
    }
  }
  for (const char* name : {"w0", "b0", "w2"}) results[name] = reference.Param(name);
  return results;
}

// "" when all is as expected, else what was not.
std::string RunBy(const PlanBundle& plan, const Results& expected, uint64_t seed, bool checked) {
  const std::unique_ptr<KernelLibrary> kernels = CreateReferenceKernelLibrary();
  absl::StatusOr<std::unique_ptr<Adversary>> adversary = Adversary::Create(
      plan,
      {.seed = seed, .checked = checked, .kernels = kernels.get(), .host_kernels = kernels.get()});
  if (!adversary.ok()) return std::string(adversary.status().message());
  const auto differs = [&](const std::string& key, const absl::StatusOr<Tensor>& actual) {
    return !actual.ok() || !BitEqual(*actual, expected.at(key));
  };
  for (int step = 0; step < kSteps; ++step) {
    const absl::Status status = (*adversary)->Step(HandWrittenInputs(step));
    if (!status.ok()) return std::string(status.message());
    for (const char* name : {"y", "nz", "dr"}) {
      const std::string key = StrCat(name, " of step ", step);
      if (differs(key, (*adversary)->Output(name))) return key + " is another";
    }
  }
  for (const char* name : {"w0", "b0", "w2"}) {
    if (differs(name, (*adversary)->Param(name))) return StrCat(name, " is another");
  }
  return "";
}

// Schedules of each plan; the long run asks for more.
uint64_t Schedules(uint64_t usually) {
  const char* asked = std::getenv("MILLRACE_ADVERSARY_SCHEDULES");
  return asked == nullptr ? usually : std::strtoull(asked, nullptr, 10);
}

TEST(AdversaryTest, NoOrderChangesABit) {
  const PlanBundle plan = HandWrittenPlan();
  const Results expected = Expected(plan);
  const uint64_t schedules = Schedules(300);
  for (uint64_t seed = 0; seed < schedules; ++seed) {
    ASSERT_EQ(RunBy(plan, expected, seed, /*checked=*/seed % 4 == 0), "") << "seed " << seed;
  }
}

TEST(AdversaryTest, NoOrderOfAHarmlessVariantChangesABit) {
  for (const Variant& variant : HarmlessVariants()) {
    SCOPED_TRACE(variant.name);
    PlanBundle plan = HandWrittenPlan(variant.options);
    variant.change(plan);
    const Results expected = Expected(plan);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      ASSERT_EQ(RunBy(plan, expected, seed, /*checked=*/true), "") << "seed " << seed;
    }
  }
}

TEST(AdversaryTest, ThereIsMuchToChooseFrom) {
  const PlanBundle plan = HandWrittenPlan();
  const std::unique_ptr<KernelLibrary> kernels = CreateReferenceKernelLibrary();
  std::set<int64_t> choices;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto adversary = Adversary::Create(
        plan, {.seed = seed, .kernels = kernels.get(), .host_kernels = kernels.get()});
    ASSERT_TRUE(adversary.ok()) << adversary.status();
    ASSERT_TRUE((*adversary)->Step(HandWrittenInputs(0)).ok());
    EXPECT_GT((*adversary)->choices(), 50);
    choices.insert((*adversary)->choices());
  }
  EXPECT_GT(choices.size(), 1u);  // seeds differ
}

// Some order of it goes wrong.
std::string FindHarm(const PlanBundle& plan, const Results& expected, uint64_t seeds) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const std::string harm = RunBy(plan, expected, seed, /*checked=*/true);
    if (!harm.empty()) return harm;
  }
  return "";
}

// Each wait of the plan is needed: without it some order goes wrong, and is found.
TEST(AdversaryTest, FindsTheHarmOfEachMissingWait) {
  const PlanBundle plan = HandWrittenPlan();
  const Results expected = Expected(plan);
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    for (size_t s = 0; s < plan.programs[p].segments.size(); ++s) {
      const auto& instructions = plan.programs[p].segments[s].instructions;
      for (size_t i = 0; i < instructions.size(); ++i) {
        if (!std::holds_alternative<Wait>(instructions[i].body)) continue;
        PlanBundle without = plan;
        auto& list = without.programs[p].segments[s].instructions;
        list.erase(list.begin() + static_cast<int64_t>(i));
        EXPECT_NE(FindHarm(without, expected, 200), "") << p << " " << s << " " << i;
      }
    }
  }
}

// Mutants that are wrong in ways that no run by this adversary can show: its memory is all of one
// kind and as much as is asked for, its kernels do not use scratch and compute in place what the op
// does not promise, and segments that are bodies only may run by themselves without harm.
const std::set<std::string> kDoNoHarmHere = {
    "reduction writes over its own operand",
    "matrix product over its operand",
    "slice misaligned for its type",
    "more memory than the device has",
    "scratch over an operand",
    "scratch shared by two streams",
    "expression over an axis that does not exist",
    "record inside a branch",
    "a branch scheduled by itself",
    "condition not brought to the host",
    "host call reads device memory",
    "host call writes device memory",
    "kernel writes host memory",
    "axes that the host must read in device memory",
    "shape that the host must read in device memory",
    "kernel reads the swap file",
};

// The checker refuses every mutant (mutants_test.cc), and is right to.
TEST(AdversaryTest, FindsTheHarmOfAllOtherMutants) {
  for (const Mutant& mutant : AllMutants()) {
    if (kDoNoHarmHere.contains(mutant.name)) continue;
    const PlanBundle plan = HandWrittenPlan(mutant.options);
    PlanBundle changed = plan;
    mutant.mutate(changed);
    EXPECT_NE(FindHarm(changed, Expected(plan), 200), "") << mutant.name;
  }
}

TEST(AdversaryTest, ADeadlockNamesWhatStands) {
  PlanBundle plan = HandWrittenPlan();
  Erase(plan, "stage0/forward/send a");
  const std::string harm = RunBy(plan, {}, 0, /*checked=*/false);
  EXPECT_THAT(harm, HasSubstr("no stream can go on"));
  EXPECT_THAT(harm, HasSubstr("recv a"));
}

}  // namespace
}  // namespace millrace
