// `millrace simulate`, `millrace profile`, predictions of `millrace run`, and the machines that
// come with the project.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/cost_table.h"
#include "graph/machine.h"
#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// One core of 1e3 FLOP and 1e3 bytes a microsecond; 100 us to launch a kernel.
constexpr char kSlowMachine[] = R"({
  "format": "millrace-machine", "version": "1.0", "name": "slow",
  "devices": [{"name": "core", "kind": "cpu", "memory_bytes": 4096, "memory_bandwidth": 1e9,
               "peak_flops": {"f32": 1e9}, "launch_overhead_us": 100}],
  "nodes": [{"devices": [{"name": "core"}]}]
})";

nlohmann::json Simulate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "simulate");
  arguments.push_back("--json");
  const CommandResult result = RunMillrace(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.Json();
}

// x[2,2] w[2,2]: 16 FLOP, 48 bytes; relu: 4 FLOP, 32 bytes. Memory is the limit of both: 0.048 us
// and 0.032 us. Then two launches; and before, x's 16 bytes are read and written.
TEST(Simulate, ByRoofline) {
  const std::string machine = WriteTestFile("slow.json", kSlowMachine);
  const nlohmann::json report = Simulate({TinyFile(), "--machine", machine});
  EXPECT_EQ(report["format"], "millrace-simulation");
  EXPECT_NEAR(report["step_us"].get<double>(), 200 + 0.048 + 0.032 + 0.032, 1e-6);
  EXPECT_NEAR(report["inputs_us"].get<double>(), 0.032, 1e-6);
  EXPECT_EQ(report["kernels"]["roofline"], 2);
  EXPECT_EQ(report["memory"]["fits"], true);
  EXPECT_EQ(report["copies"][0]["device"], "cpu:0");
  EXPECT_EQ(report["critical_path"].size(), 2u);
}

TEST(Simulate, ByMeasuredCostsBesideTheMachine) {
  const std::string machine = WriteTestFile("slow.json", kSlowMachine);
  WriteTestFile("slow.costs.json", R"json({
    "format": "millrace-costs", "version": "1.0",
    "devices": [{"name": "core",
      "rates": [{"class": "elementwise", "overhead_us": 7}],
      "kernels": [{"query": "MatMul{}(f32[2,2],f32[2,2],)->(f32[2,2],)", "variant": "simd",
                   "threads": 1, "time_us": 50}]}]})json");
  const nlohmann::json report = Simulate({TinyFile(), "--machine", machine});
  EXPECT_EQ(report["kernels"]["measured"], 1);
  EXPECT_EQ(report["kernels"]["fitted"], 1);
  EXPECT_NEAR(report["step_us"].get<double>(), 200 + 50 + 7.032 + 0.032, 1e-6);
  std::filesystem::remove(TestPath("slow.costs.json"));
}

TEST(Simulate, WhatIfIsOneTable) {
  const std::string machine = WriteTestFile("slow.json", kSlowMachine);
  const nlohmann::json report =
      Simulate({TinyFile(), "--machine", machine, "--what-if", "launch=0us", "--what-if",
                "memory=64B,launch=50us", "--what-if", "bandwidth=1GB/s"});
  ASSERT_EQ(report["what_if"].size(), 3u);
  EXPECT_EQ(report["what_if"][0]["what"], "launch=0us");
  EXPECT_NEAR(report["what_if"][0]["step_us"].get<double>(), 0.112, 1e-6);
  EXPECT_EQ(report["what_if"][0]["limit"], "memory");
  EXPECT_NEAR(report["what_if"][1]["step_us"].get<double>(), 100.112, 1e-6);
  EXPECT_EQ(report["what_if"][1]["memory"]["fits"], false);
  EXPECT_NEAR(report["what_if"][2]["step_us"].get<double>(), 200.112, 1e-6);
  const CommandResult text = RunMillrace({"simulate", TinyFile(), "--machine", machine, "--what-if",
                                          "launch=0us", "--what-if", "memory=64B"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("(as it is)"), HasSubstr("launch=0us"),
                              HasSubstr("does not fit"), HasSubstr("limited by")));
}

TEST(Simulate, AGraphThatDoesNotFitIsSimulatedAllTheSame) {
  std::string small = kSlowMachine;
  small.replace(small.find("4096"), 4, "64");
  const std::string machine = WriteTestFile("small.json", small);
  EXPECT_EQ(RunMillrace({"plan", TinyFile(), "--machine", machine}).exit_code, 4);
  const nlohmann::json report =
      Simulate({TinyFile(), "--machine", machine, "--what-if", "memory=1GiB"});
  EXPECT_EQ(report["memory"]["fits"], false);
  EXPECT_EQ(report["memory"]["memory_bytes"], 64);
  EXPECT_EQ(report["what_if"][0]["memory"]["fits"], true);
}

TEST(Simulate, APlanGivesTheSameAsItsGraph) {
  const std::string machine = WriteTestFile("slow.json", kSlowMachine),
                    plan = TestPath("plan.json");
  ASSERT_EQ(RunMillrace({"plan", TinyFile(), "--machine", machine, "-o", plan}).exit_code, 0);
  EXPECT_EQ(Simulate({plan, "--machine", machine})["step_us"],
            Simulate({TinyFile(), "--machine", machine})["step_us"]);
}

// Of an H100 there is no kernel here, but its rates are known.
TEST(Simulate, AGpuThatIsNotThere) {
  const nlohmann::json report =
      Simulate({TinyFile(), "--machine", SourceFile("tools/machines/h100.json")});
  EXPECT_EQ(report["copies"][0]["device"], "cuda:0");
  EXPECT_EQ(report["limits"][0]["limit"], "launching");
}

TEST(Simulate, TheTimelineIsAChromeTrace) {
  const std::string trace = TestPath("sim_trace.json");
  const std::string machine = WriteTestFile("slow.json", kSlowMachine);
  Simulate({TinyFile(), "--machine", machine, "--trace", trace});
  const nlohmann::json document = nlohmann::json::parse(ReadTestFile(trace), nullptr, false);
  double end_us = 0;
  int complete = 0;
  for (const nlohmann::json& event : document["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++complete;
    end_us = std::max(end_us, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(complete, 2);
  EXPECT_NEAR(end_us, 200.08, 1e-3);
}

TEST(Simulate, FaultsAreExplained) {
  const CommandResult key = RunMillrace({"simulate", TinyFile(), "--what-if", "bandwith=2x"});
  EXPECT_EQ(key.exit_code, 2);
  EXPECT_THAT(key.err, HasSubstr("did you mean 'bandwidth'?"));
  EXPECT_EQ(RunMillrace({"simulate", TinyFile(), "--costs", TestPath("none.json")}).exit_code, 3);
  const std::string bad = WriteTestFile("bad.json", "{\"format\": \"millrace-costs\"}");
  const CommandResult costs = RunMillrace({"simulate", TinyFile(), "--costs", bad});
  EXPECT_EQ(costs.exit_code, 3);
  EXPECT_THAT(costs.err, HasSubstr("bad.json:1:1"));
}

// --- run ----------------------------------------------------------------------------------------

TEST(RunPrediction, SaysWhatItIsBasedOn) {
  const CommandResult here = RunMillrace({"run", TinyFile(), "--input", "x=rand:1"});
  EXPECT_THAT(here.out, AllOf(HasSubstr("predicted"), HasSubstr("guessed rates")));
  const std::string machine = WriteTestFile("slow.json", kSlowMachine);
  const CommandResult given =
      RunMillrace({"run", TinyFile(), "--input", "x=rand:1", "--machine", machine});
  ASSERT_EQ(given.exit_code, 0) << given.err;
  EXPECT_THAT(given.out, AllOf(HasSubstr("200 us a step"), HasSubstr("roofline of machine 'slow'"),
                               HasSubstr("what was measured")));
  const nlohmann::json json =
      RunMillrace({"run", TinyFile(), "--input", "x=rand:1", "--machine", machine, "--json"})
          .Json();
  EXPECT_NEAR(json["predicted"]["step_us"].get<double>(), 200.112, 1e-6);
}

// --- profile ------------------------------------------------------------------------------------

// Convolutions whose weights are packed and whose images lie channels-last are measured as they lie.
TEST(Profile, MeasuresKernelsWithTheLayoutsOfThePlan) {
  const std::string model = MILLRACE_SOURCE_DIR "/tests/data/digits/digits.json";
  const CommandResult result =
      RunMillrace({"profile", model, "--set", "N=8", "-o", TestPath("packed_machine.json")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(Profile, WritesAMachineAndCostsThatRunUses) {
  const std::string machine = TestPath("profiled.json"), costs = TestPath("profiled.costs.json");
  const CommandResult result = RunMillrace({"profile", TinyFile(), "-o", machine, "--threads", "1",
                                            "--seconds", "0.1", "--offload", TestFolder()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("2 kernels measured"), HasSubstr("wrote ")));
  const absl::StatusOr<MachineSpec> spec = LoadMachine(machine);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_GT(spec->devices[0].peak_flops.at(DType::kF32), 1e8);
  EXPECT_GT(spec->devices[0].peak_flops.at(DType::kF32),
            spec->devices[0].peak_flops.at(DType::kF64));
  const absl::StatusOr<CostTable> table = LoadCostTable(costs);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->devices.at("host-cpu").kernels.size(), 2u);
  EXPECT_FALSE(table->devices.at("host-cpu").rates.empty());

  const CommandResult run = RunMillrace(
      {"run", TinyFile(), "--input", "x=rand:1", "--machine", machine, "--threads", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 kernels measured"));

  // What is known is not measured again.
  const CommandResult again = RunMillrace(
      {"profile", TinyFile(), "-o", machine, "--threads", "1", "--add", "--offload", TestFolder()});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("0 kernels measured, 2 known"));
}

TEST(Profile, AFolderThatCannotBeWrittenToIsAUsageError) {
  const CommandResult result =
      RunMillrace({"profile", "-o", TestPath("m.json"), "--offload", TestPath("no-such-folder")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no-such-folder"));
  EXPECT_FALSE(std::filesystem::exists(TestPath("m.json")));
}

// --- Machines -----------------------------------------------------------------------------------

TEST(Machines, EachIsWellFormedCanonicalAndInTheReadme) {
  const std::string folder = SourceFile("tools/machines");
  const std::string readme = ReadTestFile(folder + "/README.md");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const absl::StatusOr<MachineSpec> machine = LoadMachine(entry.path());
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_EQ(MachineToJson(*machine), ReadTestFile(entry.path())) << entry.path();
    EXPECT_EQ(machine->name, entry.path().stem());
    EXPECT_THAT(readme, HasSubstr("`" + entry.path().filename().string() + "`"));
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace millrace
