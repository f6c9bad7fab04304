// `millrace machine`, and `millrace plan --mesh auto`, as users call them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::HasSubstr;

std::string GptFile(const std::string& size, const std::string& batch) {
  const std::string file = TestPath("gpt-" + size + ".json");
  const CommandResult wrote = RunMillrace({"model", "gpt", "--set", "parameters=" + size, "--set",
                                           "batch=" + batch, "--set", "tokens=2048", "-o", file});
  EXPECT_EQ(wrote.exit_code, 0) << wrote.err;
  return file;
}

TEST(MachineCommand, ListsAndPrintsMachinesByName) {
  const CommandResult list = RunMillrace({"machine"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("dgx-h100-pod           4,096"));
  const CommandResult one = RunMillrace({"machine", "infiniband-4x4"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("16 cuda"));
  EXPECT_THAT(one.out, HasSubstr("network of a node: 5 GB/s"));
  const CommandResult json = RunMillrace({"machine", "dgx1", "--json"});
  EXPECT_EQ(json.Json()["format"], "millrace-machine") << json.out;
}

TEST(MachineCommand, RefusesWhatIsNoMachine) {
  EXPECT_EQ(RunMillrace({"machine", "no-such-machine"}).exit_code, 3);
  const std::string bad = WriteTestFile("bad_machine.json", R"({"format": "millrace-machine"})");
  const CommandResult result = RunMillrace({"machine", bad});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("bad_machine.json"));
}

// Its weights would take 700 GB.
TEST(AutoMeshCommand, PlansGpt175bOn1024Gpus) {
  const CommandResult page =
      RunMillrace({"plan", GptFile("175b", "1536"), "--machine", "dgx-a100-pod", "--devices",
                   "1024", "--mesh", "auto", "--precision", "bf16"});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("175 Gparameters"));
  EXPECT_THAT(page.out, HasSubstr("a prediction"));
  EXPECT_THAT(page.out, HasSubstr("split output features"));
  EXPECT_THAT(page.out, HasSubstr("other mesh"));
}

TEST(AutoMeshCommand, FixedAxesStayAndJsonSaysSo) {
  const CommandResult result =
      RunMillrace({"plan", GptFile("1.7b", "512"), "--machine", "dgx-a100-pod", "--devices", "32",
                   "--mesh", "auto,tensor=4,pipeline=2", "--precision", "bf16", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json plan = result.Json()["plan"];
  EXPECT_EQ(plan["mesh"], "pipeline=2,data=4,tensor=4");
  EXPECT_EQ(plan["stages"].size(), 2);
  EXPECT_LE(plan["peak_bytes"].get<double>(), result.Json()["memory_limit_bytes"].get<double>());
  EXPECT_TRUE(result.Json()["runners_up"].empty());
}

TEST(AutoMeshCommand, NothingThatFitsIsExit4) {
  const CommandResult result =
      RunMillrace({"plan", GptFile("175b", "8"), "--machine", "dgx1", "--mesh", "auto"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("are missing"));
}

TEST(AutoMeshCommand, RefusesWhatItCannotHonour) {
  const std::string file = GptFile("tiny", "4");
  const auto refused = [&](const std::vector<std::string>& more, const char* why) {
    std::vector<std::string> command = {"plan", file};
    command.insert(command.end(), more.begin(), more.end());
    const CommandResult result = RunMillrace(command);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({"--mesh", "auto", "--threads", "1"}, "--threads does not go with --mesh auto");
  refused({"--mesh", "auto,depth=2"}, "no axis 'depth'");
  refused({"--mesh", "automatic"}, "not a mesh to search for");
  refused({"--samples", "2"}, "need --mesh auto");
}

// What is found runs on cpu devices, and computes what one device does.
TEST(AutoMeshCommand, RunsOnCpuDevicesAsOnOne) {
  const std::string file = TestPath("gpt-run.json");
  ASSERT_EQ(RunMillrace({"model", "gpt", "--set", "batch=4", "--set", "tokens=8", "--set",
                         "vocabulary=64", "-o", file})
                .exit_code,
            0);
  const std::string spread = TestPath("spread.npy");
  for (const char* devices : {"2", "4"}) {
    for (const char* mesh : {"auto", "auto,data=1"}) {
      const CommandResult wrote =
          RunMillrace({"run", file, "--input", "*=rand:1", "--cpu-devices", devices, "--mesh", mesh,
                       "--output", "reshape_1=@" + spread});
      EXPECT_EQ(wrote.exit_code, 0) << devices << " " << mesh << ": " << wrote.err;
      const CommandResult alone =
          RunMillrace({"run", file, "--input", "*=rand:1", "--expect", "reshape_1=@" + spread});
      EXPECT_EQ(alone.exit_code, 0) << devices << " " << mesh << ": " << alone.err;
    }
  }
}

}  // namespace
}  // namespace millrace
