// `millrace run` on a graph that can be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "graph/npy.h"
#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"

namespace millrace {
namespace {

using testing::HasSubstr;

Tensor Load(const std::string& path) {
  absl::StatusOr<Tensor> tensor = ReadNpy(path);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return tensor.ok() ? *tensor : Tensor();
}

const std::string kInput = "x=2x2xf32=1 2 -3 -4";
const Tensor& Expected() {
  static const Tensor& tensor = *new Tensor(Tensor::Of<float>({2, 2}, {7, 10, 0, 0}));
  return tensor;
}

TEST(Run, LiteralInputGivesTheRightOutputFile) {
  const std::string output = TestPath("y.npy");
  const CommandResult result =
      RunMillrace({"run", TinyFile(), "--input", kInput, "--output", "y=@" + output});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(BitEqual(Load(output), Expected()));
  EXPECT_THAT(result.out, HasSubstr("7 10 0 0"));
  EXPECT_THAT(result.out, HasSubstr("cpu:0"));
}

TEST(Run, InputFromNpy) {
  const std::string input = TestPath("x.npy"), output = TestPath("y.npy");
  ASSERT_TRUE(WriteNpy(input, Tensor::Of<float>({2, 2}, {1, 2, -3, -4})).ok());
  const CommandResult result =
      RunMillrace({"run", TinyFile(), "--input", "x=@" + input, "--output", "y=@" + output});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(BitEqual(Load(output), Expected()));
}

TEST(Run, InputFromCsvColumns) {
  const std::string input = WriteTestFile("x.csv", "9,1,2,9\n9,-3,-4,9\n");
  const std::string output = TestPath("y.npy");
  const CommandResult result = RunMillrace(
      {"run", TinyFile(), "--input", "x=@" + input + ":1-2", "--output", "y=@" + output});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(BitEqual(Load(output), Expected()));
}

TEST(Run, SymbolsSetTheShape) {
  const std::string output = TestPath("y.npy");
  const CommandResult result = RunMillrace(
      {"run", TinyFile(), "--set", "N=1", "--input", "x=1x2xf32=1 1", "--output", "y=@" + output});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(BitEqual(Load(output), Tensor::Of<float>({1, 2}, {4, 6})));
}

TEST(Run, RandomInputsRepeatBySeed) {
  auto run = [](const std::string& seed) {
    const std::string output = TestPath("rand" + seed + ".npy");
    EXPECT_EQ(
        RunMillrace({"run", TinyFile(), "--input", "*=rand:" + seed, "--output", "y=@" + output})
            .exit_code,
        0);
    return Load(output);
  };
  const Tensor first = run("1");
  EXPECT_TRUE(BitEqual(first, run("1")));
  EXPECT_FALSE(BitEqual(first, run("2")));
}

TEST(Run, ExpectThatHolds) {
  const CommandResult result =
      RunMillrace({"run", TinyFile(), "--input", kInput, "--expect", "y=2x2xf32=7 10.0001 0 0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("as expected"));
}

TEST(Run, ExpectThatFailsExits1WithTheWorstElement) {
  const CommandResult result =
      RunMillrace({"run", TinyFile(), "--input", kInput, "--expect", "y=2x2xf32=7 11 0 0.5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("2 of 4 elements not as expected"));
  EXPECT_THAT(result.err, HasSubstr("worst at [1,1]: expected 0.5, found 0"));
}

TEST(Run, TolerancesAreTheUsers) {
  const std::vector<std::string> run = {
      "run", TinyFile(), "--input", kInput, "--expect", "y=2x2xf32=7 11 0 0.5", "--rtol", "0"};
  auto with = [&](const std::string& atol) {
    std::vector<std::string> arguments = run;
    arguments.insert(arguments.end(), {"--atol", atol});
    return RunMillrace(arguments).exit_code;
  };
  EXPECT_EQ(with("1"), 0);
  EXPECT_EQ(with("0.99"), 1);
}

TEST(Run, ParamsCanBeReadBack) {
  const CommandResult result =
      RunMillrace({"run", TinyFile(), "--input", kInput, "--expect", "w=2x2xf32=1 2 3 4"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(Run, JsonHoldsTheReport) {
  const CommandResult result =
      RunMillrace({"run", TinyFile(), "--input", kInput, "--iterations", "5", "--warmup", "2",
                   "--profile", "--expect", "y=2x2xf32=7 10 0 0", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = result.Json();
  ASSERT_TRUE(report.is_object()) << result.out;
  EXPECT_EQ(report["format"], "millrace-run");
  EXPECT_EQ(report["step_us"]["all"].size(), 5u);
  EXPECT_EQ(report["outputs"][0]["name"], "y");
  EXPECT_EQ(report["outputs"][0]["max"], 10);
  EXPECT_EQ(report["outputs"][0]["mean"], 4.25);
  EXPECT_EQ(report["expects"][0]["ok"], true);
  EXPECT_EQ(report["expects"][0]["max_absolute_error"], 0);
  EXPECT_GT(report["device_bytes"]["cpu:0"], 0);
  std::vector<std::string> nodes;
  double share = 0;
  for (const nlohmann::json& node : report["profile"]) {
    nodes.push_back(node["node"]);
    share += node["share"].get<double>();
    EXPECT_EQ(node["runs"], 5) << node;  // warm-up is not counted
  }
  EXPECT_THAT(nodes, testing::UnorderedElementsAre("mm", "act"));
  EXPECT_NEAR(share, 1, 1e-9);
}

TEST(Run, TraceIsAChromeTrace) {
  const std::string trace = TestPath("trace.json");
  const CommandResult result =
      RunMillrace({"run", TinyFile(), "--input", kInput, "--trace", trace});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json document = nlohmann::json::parse(ReadTestFile(trace), nullptr, false);
  const nlohmann::json& events = document.is_array() ? document : document["traceEvents"];
  int complete = 0;
  for (const nlohmann::json& event : events) complete += event["ph"] == "X";
  EXPECT_EQ(complete, 2);  // mm and act
}

TEST(Run, ASavedPlanGivesTheSameBits) {
  const std::string plan = TestPath("plan.json"), from_plan = TestPath("a.npy"),
                    from_graph = TestPath("b.npy");
  ASSERT_EQ(RunMillrace({"plan", TinyFile(), "-o", plan}).exit_code, 0);
  const CommandResult result =
      RunMillrace({"run", plan, "--input", "x=rand:3", "--output", "y=@" + from_plan});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ASSERT_EQ(RunMillrace({"run", TinyFile(), "--input", "x=rand:3", "--output", "y=@" + from_graph})
                .exit_code,
            0);
  EXPECT_TRUE(BitEqual(Load(from_plan), Load(from_graph)));
}

TEST(Run, APlanRefusesWhatIsSettledInIt) {
  const std::string plan = TestPath("plan.json");
  ASSERT_EQ(RunMillrace({"plan", TinyFile(), "-o", plan}).exit_code, 0);
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--set", "N=4"},
                                                        {"--device", "cpu:0"},
                                                        {"--threads", "1"},
                                                        {"--schedule", "memory"},
                                                        {"--streams", "2"}}) {
    const CommandResult result = RunMillrace({"run", plan, "--input", "x=rand", option, value});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(option));
  }
}

TEST(Run, AnUnwritableOutputIsAnError) {
  const CommandResult result = RunMillrace(
      {"run", TinyFile(), "--input", kInput, "--output", "y=@" + TestPath("no-folder/y.npy")});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("no-folder"));
}

TEST(Run, CtrlCEndsCleanlyWith130) {
  const std::string output = TestPath("interrupted.npy");
  RunningMillrace running({"run", TinyFile(), "--input", kInput, "--iterations", "10000000",
                           "--output", "y=@" + output});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_EQ(kill(running.pid(), SIGINT), 0);
  const CommandResult result = running.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_FALSE(std::filesystem::exists(output));
}

}  // namespace
}  // namespace millrace
