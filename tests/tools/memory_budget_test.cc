// `--memory-budget` and `plan --sweep-budget`, on a step of training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::HasSubstr;

constexpr int kInfeasible = 4, kUsage = 2;

// The step graph of the digits model, which takes some 16 MB without a budget.
std::string MakeDigitsStep() {
  const std::string digits = std::string(MILLRACE_SOURCE_DIR) + "/tests/data/digits/";
  const std::string step = TestPath("step.json");
  const CommandResult result =
      RunMillrace({"train", digits + "untrained.json", "--data", digits + "digits.csv.gz", "--loss",
                   "softmax-cross-entropy", "--batch", "256", "--step-graph", step});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return step;
}

const std::string& DigitsStep() {
  static const std::string step = MakeDigitsStep();
  return step;
}

int64_t PlannedBytes(const std::string& step, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"plan", step, "--json", "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult result = RunMillrace(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const size_t at = result.out.find("\"device_bytes\":");
  EXPECT_NE(at, std::string::npos) << result.out;
  return at == std::string::npos ? 0 : std::stoll(result.out.substr(at + 15));
}

TEST(MemoryBudget, IsKeptAndChangesNoBit) {
  const std::string step = DigitsStep(), loss = TestPath("loss.npy"), w = TestPath("w.npy");
  const int64_t most = PlannedBytes(step, {});
  const std::string budget = std::to_string(most * 7 / 10);
  EXPECT_LE(PlannedBytes(step, {"--memory-budget", budget}), most * 7 / 10);
  const std::vector<std::string> run = {
      "run",           step,           "--input", "image=rand:1", "--input",
      "labels=rand:1", "--iterations", "3",       "--threads",    "1"};
  std::vector<std::string> free = run, tight = run;
  free.insert(free.end(), {"--output", "loss=@" + loss, "--output", "conv1.weight=@" + w});
  tight.insert(tight.end(), {"--memory-budget", budget, "--expect", "loss=@" + loss, "--expect",
                             "conv1.weight=@" + w, "--rtol", "0", "--atol", "0"});
  EXPECT_EQ(RunMillrace(free).exit_code, 0);
  const CommandResult result = RunMillrace(tight);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const CommandResult explain = RunMillrace({"explain", step, "--memory-budget", budget});
  EXPECT_THAT(explain.out, HasSubstr("budget/fit"));
  EXPECT_THAT(explain.out, HasSubstr("budget/recompute"));
  EXPECT_THAT(explain.out, HasSubstr("lives while most does"));
}

TEST(MemoryBudget, WhatCannotBeIsRefusedWithWhatCan) {
  const std::string step = DigitsStep();
  const CommandResult result = RunMillrace({"plan", step, "--memory-budget", "100KiB"});
  EXPECT_EQ(result.exit_code, kInfeasible);
  EXPECT_THAT(result.err, HasSubstr("the memory budget of 102400 bytes"));
  EXPECT_THAT(result.err, HasSubstr("needs less than"));
  EXPECT_THAT(result.err, HasSubstr("the smallest budget that works is"));
  EXPECT_THAT(result.err, HasSubstr("Live at its peak:"));
  EXPECT_EQ(RunMillrace({"plan", step, "--memory-budget", "much"}).exit_code, kUsage);
}

TEST(MemoryBudget, OfAPlanIsComparedToIt) {
  const std::string step = DigitsStep(), plan = TestPath("plan.json");
  ASSERT_EQ(RunMillrace({"plan", step, "-o", plan}).exit_code, 0);
  const CommandResult result =
      RunMillrace({"run", plan, "--input", "*=rand:1", "--memory-budget", "100KiB"});
  EXPECT_EQ(result.exit_code, kInfeasible);
  EXPECT_THAT(result.err, HasSubstr("plan the graph with this budget instead"));
}

TEST(MemoryBudget, SweepPrintsMemoryAgainstTime) {
  const CommandResult result = RunMillrace({"plan", DigitsStep(), "--sweep-budget"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("90.0 %"));
  EXPECT_THAT(result.out, HasSubstr("below: the memory budget of"));
}

}  // namespace
}  // namespace millrace
