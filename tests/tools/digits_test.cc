// The digits model, from its files to its accuracy: what tools/demo.sh shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::HasSubstr;

std::string Model() { return SourceFile("tests/data/digits/digits.json"); }
std::string Data() { return SourceFile("tests/data/digits/digits.csv.gz"); }

TEST(Digits, ClassifiesHeldOutImages) {
  const CommandResult result =
      RunMillrace({"run", Model(), "--input", "image=@" + Data() + ":0-63", "--labels",
                   "probabilities=@" + Data() + ":64", "--held-out", "5:4", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = result.Json();
  ASSERT_TRUE(report.is_object()) << result.out;
  const nlohmann::json& labels = report["labels"][0];
  EXPECT_EQ(labels["all"]["rows"], 1797);
  EXPECT_EQ(labels["held_out"]["rows"], 359);
  const double held_out = labels["held_out"]["right"].get<double>() / 359;
  const double all = labels["all"]["right"].get<double>() / 1797;
  RecordProperty("held_out_accuracy", std::to_string(held_out));
  std::printf("accuracy: held out %.4f, all %.4f\n", held_out, all);
  EXPECT_GE(held_out, 0.97);
  // Probabilities of ten digits.
  EXPECT_NEAR(report["outputs"][0]["mean"].get<double>(), 0.1, 1e-6);
}

TEST(Digits, WrongLabelsGiveTheAccuracyOfChance) {
  // The column of one pixel instead of the digit.
  const CommandResult result =
      RunMillrace({"run", Model(), "--input", "image=@" + Data() + ":0-63", "--labels",
                   "probabilities=@" + Data() + ":2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_LT(result.Json()["labels"][0]["all"]["right"].get<int>(), 1797 / 4);
}

TEST(Digits, ABatchOfOneAgreesWithTheWholeSet) {
  const std::string first = WriteTestFile(
      "first.csv",
      "0,0,5,13,9,1,0,0,0,0,13,15,10,15,5,0,0,3,15,2,0,11,8,0,0,4,12,0,0,8,8,0,0,5,8,0,0,9,8,0,0,"
      "4,11,0,1,12,7,0,0,2,14,5,10,12,0,0,0,0,6,13,10,0,0,0,0\n");
  const CommandResult result =
      RunMillrace({"run", Model(), "--set", "N=1", "--input", "image=@" + first + ":0-63",
                   "--labels", "probabilities=@" + first + ":64", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.Json()["labels"][0]["all"]["right"], 1);
}

TEST(Digits, ADataFileOfAnotherSizeSaysWhatToSet) {
  const CommandResult result =
      RunMillrace({"run", Model(), "--set", "N=8", "--input", "image=@" + Data() + ":0-63"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("1797 rows"));
}

TEST(Digits, FilesAreSmall) {
  const auto weights =
      std::filesystem::file_size(SourceFile("tests/data/digits/digits.safetensors"));
  EXPECT_LT(std::filesystem::file_size(Model()) + weights, 300'000u);
}

}  // namespace
}  // namespace millrace
