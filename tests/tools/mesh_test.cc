// --mesh, --shard and --zero, as a user gives them: planned, checked, simulated, run on several cpu
// devices of this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::HasSubstr;

using Arguments = std::vector<std::string>;

// Losses of f32 over 57 steps, whose gradients are summed in another order.
constexpr double kLossTolerance = 1e-4;

std::string Untrained() { return SourceFile("tests/data/digits/untrained.json"); }
std::string MeshDigits() { return SourceFile("tests/data/digits/digits.json"); }
std::string DigitsData() { return SourceFile("tests/data/digits/digits.csv.gz"); }

// An epoch on the digits; the loss of its last epoch, and the saved weights.
struct Trained {
  double loss = 0, accuracy = 0;
  std::string weights;
};
Trained Train(const std::string& name, const Arguments& more) {
  const std::string saved = TestPath(StrCat(name, ".json"));
  Arguments arguments = {
      "train",       Untrained(), "--data",    DigitsData(), "--loss", "softmax-cross-entropy",
      "--optimizer", "adamw",     "--eval",    "0.2",        "--seed", "1",
      "--save",      saved,       "--threads", "1",          "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult result = RunMillrace(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = result.Json();
  if (!report.is_object()) return {};
  return {report["last_epoch"]["loss"].get<double>(),
          report["last_epoch"]["eval_accuracy"].get<double>(),
          ReadTestFile(TestPath(StrCat(name, ".safetensors")))};
}

TEST(Mesh, TrainsAsOneDeviceDoesAndTheSameEachTime) {
  const Trained one = Train("one", {});
  EXPECT_GT(one.accuracy, 0.5);
  const Arguments meshes[] = {
      {"--mesh", "data=2"},
      {"--mesh", "data=4", "--zero", "2"},
      {"--mesh", "data=2,tensor=2", "--shard", "fc1.weight=tensor:1"},
  };
  for (const Arguments& mesh : meshes) {
    SCOPED_TRACE(mesh[1]);
    const Trained spread = Train("spread", mesh);
    EXPECT_NEAR(spread.loss, one.loss, kLossTolerance);
    EXPECT_NEAR(spread.accuracy, one.accuracy, 0.01);
    EXPECT_EQ(Train("again", mesh).weights, spread.weights);
  }
}

TEST(Mesh, APlanIsWrittenCheckedSimulatedAndRun) {
  const std::string plan = TestPath("spread-plan.json");
  const CommandResult planned = RunMillrace({"plan", MeshDigits(), "--set", "N=8", "--mesh", "data=2",
                                             "--cpu-devices", "2", "--output", plan});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("cpu:0, cpu:1"));
  const CommandResult checked = RunMillrace({"check", plan});
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
  const CommandResult simulated = RunMillrace({"simulate", plan});
  EXPECT_EQ(simulated.exit_code, 0) << simulated.err;
  const CommandResult spread = RunMillrace({"run", plan, "--input", "image=rand:1", "--json"});
  const CommandResult one =
      RunMillrace({"run", MeshDigits(), "--set", "N=8", "--input", "image=rand:1", "--json"});
  ASSERT_EQ(spread.exit_code, 0) << spread.err;
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_NEAR(spread.Json()["outputs"][0]["max"].get<double>(),
              one.Json()["outputs"][0]["max"].get<double>(), 1e-5);
}

TEST(Mesh, WhatCannotBeIsRefusedWithTheReason) {
  const auto fails = [](const Arguments& more, std::string_view message) {
    Arguments arguments = {"plan", MeshDigits(), "--set", "N=8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = RunMillrace(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(std::string(message)));
  };
  fails({"--mesh", "data=3"}, "cannot be cut in 3 equal parts");
  fails({"--mesh", "data=2", "--cpu-devices", "1"}, "the machine has 1 cpu device");
  fails({"--mesh", "data"}, "expected name=size");
  fails({"--shard", "fc1.weight=tensor:1"}, "there is no mesh");
  fails({"--mesh", "tensor=2", "--shard", "fc9.weight=tensor:1"}, "fc1.weight");
  fails({"--zero", "1"}, "give it a mesh");
  fails({"--mesh", "tensor=2", "--shard", "scale=tensor:0"}, "is a constant");
}

TEST(Mesh, AGraphThatIsSpreadAlreadyIsNotSpreadAnew) {
  const std::string lowered = TestPath("lowered.json");
  const CommandResult optimized =
      RunMillrace({"optimize", MeshDigits(), "--set", "N=8", "--mesh", "data=2", "-o", lowered});
  ASSERT_EQ(optimized.exit_code, 0) << optimized.err;
  EXPECT_EQ(RunMillrace({"run", lowered, "--input", "image=rand:1"}).exit_code, 0);
  for (const Arguments& more : {Arguments{"--shard", "fc1.weight=data:0"}, {"--zero", "1"}}) {
    Arguments arguments = {"run", lowered, "--input", "image=rand:1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = RunMillrace(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("of one device of its mesh already")) << result.err;
  }
}

TEST(Mesh, SimulateSplitsThisMachineAsTheMeshTakes) {
  const CommandResult result =
      RunMillrace({"simulate", MeshDigits(), "--set", "N=8", "--mesh", "data=2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace
}  // namespace millrace
