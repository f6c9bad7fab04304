// `millrace inspect`, `plan`, `check`: what they say about graphs and plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string TinyPlan() {
  const std::string path = TestFolder() + "/tiny.plan.json";
  EXPECT_EQ(RunMillrace({"plan", TinyFile(), "-o", path}).exit_code, 0);
  return path;
}
std::string Digits() { return SourceFile("tests/data/digits/digits.json"); }

// `text` with the first `from` replaced.
std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Inspect, GraphCountsParametersAndFlops) {
  const CommandResult result = RunMillrace({"inspect", Digits(), "--set", "N=10", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = result.Json();
  EXPECT_EQ(summary["nodes"], 11);
  EXPECT_EQ(summary["symbols"]["N"], 10);
  EXPECT_EQ(summary["params"]["count"], 8);
  EXPECT_EQ(summary["params"]["elements"], 38282);
  EXPECT_EQ(summary["params"]["bytes"], 4 * 38282);
  EXPECT_EQ(summary["inputs"][0]["shape"], nlohmann::json({10, 1, 8, 8}));
  double conv = 0;
  for (const nlohmann::json& op : summary["ops"]) {
    if (op["op"] == "Conv") conv = op["flops"];
  }
  // Two convolutions, 2 FLOPs a multiply-add; a bias may count besides.
  const double multiply_adds = 10 * 64 * (16 * 9 + 32 * 16 * 9.0);
  EXPECT_GE(conv, 2 * multiply_adds);
  EXPECT_LE(conv, 2 * multiply_adds + 10 * 64 * (16 + 32));
}

TEST(Inspect, GraphOnOneScreen) {
  const CommandResult result = RunMillrace({"inspect", Digits()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("38,282"), HasSubstr("f32[1797,1,8,8]"), HasSubstr("N = 1,797")));
  EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 30);
}

TEST(Inspect, GraphAsTextAndAsDot) {
  const CommandResult text = RunMillrace({"inspect", TinyFile(), "--text"});
  EXPECT_THAT(text.out, AllOf(StartsWith("graph tiny"), HasSubstr("MatMul(x, w)")));
  const CommandResult dot = RunMillrace({"inspect", TinyFile(), "--dot"});
  EXPECT_THAT(dot.out, AllOf(StartsWith("digraph \"tiny\" {"), HasSubstr("\"mm\\nMatMul\""),
                             HasSubstr("n0 -> n1 [label=\"f32[2,2]\"]"), testing::EndsWith("}\n")));
}

TEST(Inspect, PlanMemoryStreamsAndInstructions) {
  const CommandResult result = RunMillrace({"inspect", TinyPlan(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = result.Json();
  ASSERT_EQ(summary["programs"].size(), 1u);
  const nlohmann::json& program = summary["programs"][0];
  EXPECT_EQ(program["first_devices"], nlohmann::json({"cpu:0"}));
  EXPECT_EQ(program["step_kinds"]["Launch"], 2);
  int64_t params = 0, in_out = 0, results = 0, sizes = 0, instructions = 0;
  for (const nlohmann::json& buffer : program["buffers"]) {
    params += buffer["param_bytes"].get<int64_t>();
    in_out += buffer["input_bytes"].get<int64_t>();
    results += buffer["result_bytes"].get<int64_t>();
    sizes += buffer["size_bytes"].get<int64_t>();
  }
  EXPECT_EQ(params, 16);       // w
  EXPECT_EQ(in_out, 16 + 16);  // x, y
  EXPECT_EQ(results, 16);      // h
  EXPECT_EQ(program["device_bytes"], sizes);
  EXPECT_GE(sizes, 64);
  for (const nlohmann::json& stream : program["streams"]) {
    instructions += stream["instructions"].get<int64_t>();
  }
  EXPECT_EQ(instructions, 2);
}

// x 2x2 is read by mm, its result relu'd in place: x, w and h at the worst moment.
TEST(Inspect, PlanSaysWhatLeastMemoryIsAndWhoNeedsIt) {
  const std::string plan = TinyPlan();
  const nlohmann::json buffer =
      RunMillrace({"inspect", plan, "--json"}).Json()["programs"][0]["buffers"][0];
  EXPECT_EQ(buffer["live_bytes"], 48);
  EXPECT_EQ(buffer["size_bytes"], 3 * 64);
  EXPECT_EQ(buffer["gap"], 3.0);
  EXPECT_EQ(buffer["peak"], "launch 'mm'");
  EXPECT_EQ(buffer["at_peak"].size(), 3u);
  EXPECT_EQ(buffer["at_peak"][0], nlohmann::json({{"name", "x"}, {"bytes", 16}}));
  EXPECT_THAT(RunMillrace({"inspect", plan}).out,
              HasSubstr("arena is fullest at launch 'mm': x 16 B, w 16 B, "));
}

TEST(Inspect, PlanAsTextAndAsDot) {
  const std::string plan = TinyPlan();
  EXPECT_THAT(RunMillrace({"inspect", plan, "--text"}).out,
              AllOf(HasSubstr("launch mm"), HasSubstr("launch act")));
  EXPECT_THAT(RunMillrace({"inspect", plan, "--dot"}).out,
              AllOf(StartsWith("digraph"), HasSubstr("p0_0 -> p0_1;")));
  EXPECT_THAT(RunMillrace({"inspect", plan}).out,
              AllOf(HasSubstr("on cpu:0"), HasSubstr("2 Launch")));
}

TEST(Inspect, FilesOfOtherFormatsAreNamed) {
  const std::string machine =
      WriteTestFile("machine.json", R"({"format": "millrace-machine", "version": "1.0"})");
  const CommandResult result = RunMillrace({"inspect", machine});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("found \"millrace-machine\""));
}

TEST(Plan, SameInputSameBytes) {
  std::filesystem::create_directories(TestFolder() + "/a");
  std::filesystem::create_directories(TestFolder() + "/b");
  const std::string a = TestFolder() + "/a/plan.json", b = TestFolder() + "/b/plan.json";
  ASSERT_EQ(RunMillrace({"plan", Digits(), "-o", a}).exit_code, 0);
  ASSERT_EQ(RunMillrace({"plan", Digits(), "-o", b}).exit_code, 0);
  EXPECT_EQ(ReadTestFile(a), ReadTestFile(b));
}

TEST(Plan, InAnotherFolderItTakesTheWeightsAlong) {
  const std::string plan = TestFolder() + "/elsewhere.json";
  ASSERT_EQ(RunMillrace({"plan", Digits(), "--set", "N=8", "-o", plan}).exit_code, 0);
  const CommandResult run = RunMillrace({"run", plan, "--input", "image=rand:1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Plan, OneScreenWithTheCheckersVerdict) {
  const CommandResult result = RunMillrace({"plan", Digits()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("buffer"), HasSubstr("stream"), HasSubstr("ok: ")));
  EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 40);
}

TEST(Plan, ThreadsAreThoseAskedFor) {
  const CommandResult result = RunMillrace({"plan", TinyFile(), "--threads", "1", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.Json()["programs"][0]["streams"][0]["threads"], 1);
}

TEST(Plan, ScheduleIsTheOneAskedFor) {
  const CommandResult result = RunMillrace({"plan", TinyFile(), "--schedule", "memory"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("schedule +memory"));
  const CommandResult wrong = RunMillrace({"plan", TinyFile(), "--schedule", "speed"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--schedule: 'speed' is no schedule"));
}

TEST(Plan, MoreMemoryThanThereIsExits4WithTheBytes) {
  // 64 * 2 inputs of 2^30 rows would be 16 GiB in x alone.
  const std::string graph =
      WriteTestFile("large.json", Replaced(std::string(kTinyGraph), "\"max\": 64, \"default\": 2",
                                           "\"max\": 4398046511104, \"default\": 274877906944"));
  const CommandResult result = RunMillrace({"plan", graph});
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the smallest budget that works is 4398046511168 bytes"));
}

TEST(Check, GoodGraphAndGoodPlan) {
  const CommandResult graph = RunMillrace({"check", TinyFile()});
  EXPECT_EQ(graph.exit_code, 0) << graph.err;
  EXPECT_EQ(graph.out, "ok: graph of 2 nodes, 4 values\n");
  const CommandResult plan = RunMillrace({"check", TinyPlan()});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, StartsWith("ok"));
}

TEST(Check, EveryErrorOfAGraphAtOnceWithItsPlace) {
  std::string text(kTinyGraph);
  text = Replaced(text, "\"Relu\"", "\"Rellu\"");
  text = Replaced(text, "\"MatMul\"", "\"MatMull\"");
  const CommandResult result = RunMillrace({"check", WriteTestFile("bad.json", text)});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(HasSubstr("bad.json:8:"), HasSubstr("did you mean 'MatMul'?"),
                                HasSubstr("bad.json:9:"), HasSubstr("did you mean 'Relu'?")));
}

TEST(Check, AGraphsErrorsAsJson) {
  const std::string path =
      WriteTestFile("bad.json", Replaced(std::string(kTinyGraph), "\"Relu\"", "\"Rellu\""));
  const CommandResult result = RunMillrace({"check", path, "--json"});
  EXPECT_EQ(result.exit_code, 3);
  const nlohmann::json report = result.Json();
  ASSERT_TRUE(report.is_object()) << result.out;
  EXPECT_EQ(report["ok"], false);
  ASSERT_EQ(report["errors"].size(), 1u);
  EXPECT_THAT(report["errors"][0].get<std::string>(), HasSubstr("Rellu"));
}

TEST(Check, AWrongPlanExits1) {
  // The two launches in the other order: act then reads what nobody has written.
  nlohmann::json plan = nlohmann::json::parse(ReadTestFile(TinyPlan()));
  bool swapped = false;
  for (nlohmann::json& segment : plan["programs"][0]["segments"]) {
    if (segment["instructions"].size() != 2) continue;
    std::swap(segment["instructions"][0], segment["instructions"][1]);
    swapped = true;
  }
  ASSERT_TRUE(swapped) << plan["programs"][0]["segments"];
  const std::string path = WriteTestFile("wrong.plan.json", plan.dump());
  const CommandResult check = RunMillrace({"check", path});
  EXPECT_EQ(check.exit_code, 1);
  EXPECT_THAT(check.err, AllOf(HasSubstr("stale"), HasSubstr("act")));
  // It does not run either.
  const CommandResult run = RunMillrace({"run", path, "--input", "x=rand"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("plan refused"));
}

TEST(Check, APlanThatOutgrowsTheMachine) {
  const std::string machine = WriteTestFile("small.json", R"({
    "format": "millrace-machine", "version": "1.0", "name": "small",
    "devices": [{"name": "core", "kind": "cpu", "memory_bytes": 8, "memory_bandwidth": 1e9,
                 "peak_flops": {"f32": 1e9}}],
    "nodes": [{"count": 1, "devices": [{"name": "core"}], "host_memory_bytes": 8,
               "host_memory_bandwidth": 1e9}]
  })");
  const CommandResult result = RunMillrace({"check", TinyPlan(), "--machine", machine});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("capacity"));
}

}  // namespace
}  // namespace millrace
