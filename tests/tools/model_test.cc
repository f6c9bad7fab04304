// `millrace model`: graphs of well-known models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::HasSubstr;

TEST(ModelCommand, WritesAModelThatRuns) {
  const std::string file = TestPath("resnet18.json");
  const CommandResult wrote =
      RunMillrace({"model", "resnet18", "--set", "size=32", "--set", "batch=2", "-o", file});
  EXPECT_EQ(wrote.exit_code, 0) << wrote.err;
  EXPECT_EQ(wrote.out, "");
  const CommandResult ran = RunMillrace({"run", file, "--input", "image=rand:1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("f32[2,1000]"));
}

TEST(ModelCommand, ListsModelsWithTheirSettings) {
  const CommandResult list = RunMillrace({"model"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("resnet50 "));
  EXPECT_THAT(list.out, HasSubstr("25,557,032"));
  EXPECT_THAT(list.out, HasSubstr("batch=1 tokens=128 layers=12 spelling=ops"));

  const CommandResult as_json = RunMillrace({"model", "--json"});
  const nlohmann::json models = as_json.Json()["models"];
  ASSERT_TRUE(models.is_array()) << as_json.out << as_json.err;
  const auto resnet = std::ranges::find_if(
      models, [](const nlohmann::json& model) { return model["name"] == "resnet18"; });
  ASSERT_NE(resnet, models.end());
  EXPECT_EQ((*resnet)["parameters"], 11'689'512);
  EXPECT_EQ((*resnet)["settings"][0]["name"], "batch");
}

TEST(ModelCommand, DescribesAModel) {
  const CommandResult result = RunMillrace({"model", "bert-base", "--set", "spelling=primitive"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("ops or primitive"));
  EXPECT_THAT(result.out, HasSubstr("graph bert-base: "));
  EXPECT_THAT(result.out, HasSubstr("Erf"));
}

TEST(ModelCommand, RefusesWhatIsWrong) {
  const auto refused = [](const std::vector<std::string>& arguments, const char* why) {
    std::vector<std::string> command = {"model"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const CommandResult result = RunMillrace(command);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({"resnet5"}, "did you mean 'resnet50'?");
  refused({"resnet50", "--set", "size=8"}, "expected an integer from 32 to 1024");
  refused({"--set", "batch=2"}, "name the model");
  refused({"-o", TestPath("x.json")}, "name the model");
  refused({"resnet50", "-o", "no/such/folder/x.json"}, "--output");
}

}  // namespace
}  // namespace millrace
