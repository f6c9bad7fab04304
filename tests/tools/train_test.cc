// `millrace train`, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "graph/strings.h"
#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::HasSubstr;

using Arguments = std::vector<std::string>;

std::string Untrained() { return SourceFile("tests/data/digits/untrained.json"); }
std::string Digits() { return SourceFile("tests/data/digits/digits.csv.gz"); }
std::string Licence() { return "/usr/share/common-licenses/GPL-3"; }

Arguments Join(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Arguments DigitsRun(const Arguments& more) {
  return Join({"train", Untrained(), "--data", Digits(), "--loss", "softmax-cross-entropy",
               "--optimizer", "adamw", "--threads", "1"},
              more);
}

std::string WeightsOf(const std::string& graph) {
  std::string path = graph;
  path.replace(path.size() - 5, 5, ".safetensors");
  return ReadTestFile(path);
}

nlohmann::json Succeeds(const Arguments& arguments) {
  const CommandResult result = RunMillrace(Join(arguments, {"--json"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.Json();
}

void Fails(int exit_code, const std::string& message, const Arguments& arguments) {
  const CommandResult result = RunMillrace(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_THAT(result.err, HasSubstr(message));
}

// --- Real data ----------------------------------------------------------------------------------

// The demo's run: every fifth image is held out, as it is for the model of tests/data/digits.
TEST(Train, LearnsTheDigits) {
  const std::string saved = TestPath("digits-trained.json");
  const nlohmann::json report =
      Succeeds(DigitsRun({"--eval", "0.2", "--epochs", "20", "--lr", "3e-3", "--lr-schedule",
                          "cosine", "--weight-decay", "0.05", "--seed", "1", "--save", saved}));
  const double accuracy = report["last_epoch"]["eval_accuracy"].get<double>();
  std::printf("held-out accuracy %.4f after %.1f s\n", accuracy, report["wall_s"].get<double>());
  EXPECT_GE(accuracy, 0.985);
  // The saved model is one to run, with the same accuracy.
  const nlohmann::json run =
      Succeeds({"run", saved, "--input", "image=@" + Digits() + ":0-63", "--labels",
                "probabilities=@" + Digits() + ":64", "--held-out", "5:4"});
  const nlohmann::json& held_out = run["labels"][0]["held_out"];
  EXPECT_EQ(held_out["rows"], 359);
  EXPECT_NEAR(held_out["right"].get<double>() / 359, accuracy, 1e-6);
}

// Bits a character: the text has about 4.6 by the frequencies of its characters alone.
TEST(Train, AnLstmLearnsALicence) {
  const nlohmann::json report =
      Succeeds({"train", SourceFile("tests/data/training/character_lstm.json"), "--data", Licence(),
                "--loss", "softmax-cross-entropy", "--lr", "0.01", "--clip-norm", "1", "--epochs",
                "8", "--eval", "0.1", "--threads", "1"});
  const double loss = report["last_epoch"]["eval_loss"].get<double>() / std::log(2);
  std::printf("LSTM: %.3f bits a character held out\n", loss);
  EXPECT_LT(loss, 3.3);
}

TEST(Train, ATransformerLearnsALicence) {
  const nlohmann::json report =
      Succeeds({"train", SourceFile("tests/data/training/character_transformer.json"), "--data",
                Licence(), "--loss", "softmax-cross-entropy", "--lr", "0.003", "--lr-warmup", "20",
                "--clip-norm", "1", "--epochs", "8", "--eval", "0.1", "--threads", "1"});
  const double loss = report["last_epoch"]["eval_loss"].get<double>() / std::log(2);
  std::printf("transformer: %.3f bits a character held out\n", loss);
  EXPECT_LT(loss, 3.5);
}

// 64 pixels through 8 numbers. Their variance is 18 about each pixel's mean.
TEST(Train, AnAutoencoderLearnsTheDigits) {
  const nlohmann::json report =
      Succeeds({"train", SourceFile("tests/data/training/autoencoder.json"), "--data",
                "image=@" + Digits() + ":0-63", "--target-input", "image", "--loss", "mse",
                "--epochs", "20", "--lr", "0.003", "--eval", "0.2", "--threads", "1"});
  const double loss = report["last_epoch"]["eval_loss"].get<double>();
  std::printf("autoencoder: mean squared error %.3f held out\n", loss);
  EXPECT_LT(loss, 6);
}

// --- Repeating and going on ---------------------------------------------------------------------

const Arguments kShort = {"--epochs", "2", "--batch", "48", "--seed", "3", "--lr", "0.002"};

TEST(Train, RepeatsBitForBit) {
  const std::string a = TestPath("a.json"), b = TestPath("b.json"), c = TestPath("c.json");
  Succeeds(DigitsRun(Join(kShort, {"--save", a})));
  Succeeds(DigitsRun(Join(kShort, {"--save", b})));
  Succeeds(
      DigitsRun({"--epochs", "2", "--batch", "48", "--seed", "4", "--lr", "0.002", "--save", c}));
  EXPECT_EQ(WeightsOf(a), WeightsOf(b));
  EXPECT_NE(WeightsOf(a), WeightsOf(c));  // another order of the samples
}

TEST(Train, InterruptedRunsGoOnBitForBit) {
  const std::string whole = TestPath("whole.json"), parts = TestPath("parts.json");
  Succeeds(DigitsRun(Join(kShort, {"--save", whole})));
  const Arguments resumed = DigitsRun(
      Join(kShort, {"--save", parts, "--checkpoint", TestPath("interrupted"), "--resume"}));
  int interrupts = 0, code = 130;
  for (; interrupts < 20 && code == 130; ++interrupts) {
    RunningMillrace run(resumed);
    if (interrupts < 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      kill(run.pid(), SIGINT);
    }
    const CommandResult result = run.Wait();
    code = result.exit_code;
    ASSERT_TRUE(code == 0 || code == 130) << result.err;
  }
  EXPECT_EQ(code, 0);
  EXPECT_EQ(WeightsOf(whole), WeightsOf(parts));
}

// Killed at random moments, while computing and while writing, it never leaves a checkpoint that
// cannot be read, and ends where it would have. MILLRACE_KILLS=200 for the long run.
TEST(Train, KilledRunsGoOnBitForBit) {
  const char* wanted = std::getenv("MILLRACE_KILLS");
  const int kills_wanted = wanted == nullptr ? 8 : std::atoi(wanted);
  const std::string whole = TestPath("unkilled.json");
  Succeeds(DigitsRun(Join(kShort, {"--save", whole})));
  std::mt19937 random(1);
  int kills = 0;
  for (int round = 0; kills < kills_wanted; ++round) {
    const std::string parts = TestPath(StrCat("killed", round, ".json"));
    const Arguments resumed =
        DigitsRun(Join(kShort, {"--save", parts, "--checkpoint", TestPath(StrCat("kills", round)),
                                "--resume", "--save-every", "2"}));
    for (bool done = false; !done;) {
      RunningMillrace run(resumed);
      const bool last = kills >= kills_wanted;
      std::this_thread::sleep_for(std::chrono::milliseconds(last ? 0 : 100 + random() % 900));
      if (!last) kill(run.pid(), SIGKILL);
      const CommandResult result = run.Wait();
      ASSERT_THAT(result.err, testing::Not(HasSubstr("passed over")));
      ASSERT_TRUE(result.exit_code == 0 || result.exit_code == 128 + SIGKILL)
          << result.exit_code << ": " << result.err;
      done = result.exit_code == 0;
      kills += !done;
    }
    ASSERT_EQ(WeightsOf(whole), WeightsOf(parts));
  }
  std::printf("%d kills\n", kills);
}

TEST(Train, CheckpointsOfOtherRunsAreRefused) {
  const Arguments folder = {"--checkpoint", TestPath("other")};
  Succeeds(DigitsRun(Join(kShort, folder)));
  Fails(2, "pass --resume to go on from there", DigitsRun(Join(kShort, folder)));
  Fails(2, "is of another run",
        DigitsRun(Join(folder, {"--epochs", "2", "--batch", "48", "--seed", "3", "--lr", "0.003",
                                "--resume"})));
}

// A disk that lost a block: the checkpoint before serves.
TEST(Train, SpoiledCheckpointsArePassedOver) {
  const std::string folder = TestPath("spoiled"), whole = TestPath("intact.json"),
                    saved = TestPath("mended.json");
  Succeeds(
      DigitsRun(Join(kShort, {"--checkpoint", folder, "--save-every", "20", "--save", whole})));
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".safetensors") files.push_back(file.path());
  }
  ASSERT_EQ(files.size(), 2u);
  std::string bytes = ReadTestFile(*std::max_element(files.begin(), files.end()));
  bytes.back() ^= 1;
  std::ofstream(*std::max_element(files.begin(), files.end()), std::ios::binary) << bytes;
  const CommandResult result =
      RunMillrace(DigitsRun(Join(kShort, {"--checkpoint", folder, "--resume", "--save", saved})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("its hash differs"));
  EXPECT_EQ(WeightsOf(whole), WeightsOf(saved));
}

TEST(Train, MetricsHaveALineAnEpoch) {
  const std::string metrics = TestPath("metrics.jsonl");
  Succeeds(DigitsRun(Join(kShort, {"--metrics", metrics, "--eval", "0.2"})));
  const std::string text = ReadTestFile(metrics);
  const size_t end = text.find('\n');
  ASSERT_NE(end, std::string::npos);
  const nlohmann::json first = nlohmann::json::parse(text.substr(0, end));
  EXPECT_EQ(first["epoch"], 1);
  EXPECT_EQ(first["step"], 30);  // 1,438 samples in batches of 48
  EXPECT_GT(first["eval_accuracy"].get<double>(), 0.5);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

// The step is a graph that can be run, planned and looked at without any data file.
TEST(Train, AStepIsAGraphLikeAnyOther) {
  const std::string step = TestPath("step.json");
  Succeeds(DigitsRun({"--batch", "64", "--eval", "0.9", "--step-graph", step}));
  const CommandResult text = RunMillrace({"inspect", step, "--text"});
  EXPECT_THAT(text.out, HasSubstr("grad/conv1.weight : f32[16,1,3,3]"));
  EXPECT_THAT(text.out, HasSubstr("update train/step <-"));
  const nlohmann::json run = Succeeds(
      {"run", step, "--input", "image=rand:1", "--input", "labels=rand:1", "--iterations", "3"});
  EXPECT_EQ(run["outputs"][0]["name"], "loss");
  EXPECT_EQ(run["outputs"][1]["name"], "learning_rate");
}

// --- What is refused ----------------------------------------------------------------------------

std::string TinyModel() {
  return WriteTestFile("tiny.json",
                       R"({"format": "millrace-graph", "version": "1.0", "name": "tiny",
    "opset": {"core": 17}, "symbols": {"N": {"default": 4}},
    "inputs": [{"name": "x", "type": {"dtype": "f32", "shape": ["N", 2]}}],
    "params": [{"name": "w", "type": {"dtype": "f32", "shape": [2, 3]}, "data": {"init": "zeros"},
                "trainable": true}],
    "nodes": [{"name": "y", "op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}],
    "outputs": ["y"]})");
}

Arguments Tiny(std::string_view csv, const Arguments& more) {
  return Join({"train", TinyModel(), "--data", WriteTestFile("tiny.csv", csv), "--loss",
               "softmax-cross-entropy", "--batch", "2"},
              more);
}

TEST(Train, BadDataAreExplained) {
  Fails(3, "row 1: label 3 is no class; the model has 3, from 0 to 2", Tiny("1,2,0\n3,4,3\n", {}));
  Fails(3, "row 1: 0.5 is no integer, as input 'labels' needs", Tiny("1,2,0\n3,4,0.5\n", {}));
  Fails(3, "has 4 columns, but 3 are needed: 2 for input 'x', then 1 for 'labels'",
        Tiny("1,2,3,0\n", {}));
  Fails(3, "there is no sample in it",
        {"train", TinyModel(), "--data", "x=@" + WriteTestFile("none.csv", "") + ":0-1", "--data",
         "labels=@" + WriteTestFile("none.csv", "") + ":2", "--loss", "softmax-cross-entropy"});
  Fails(3, "there is no sample in it", Tiny("", {}));
  Fails(3, "tiny-missing.csv",
        {"train", TinyModel(), "--data", TestPath("tiny-missing.csv"), "--loss", "mse"});
}

TEST(Train, WrongOptionsAreExplained) {
  constexpr std::string_view kRows = "1,2,0\n3,4,1\n";
  Fails(2, "--loss is missing", {"train", TinyModel(), "--data", "x.csv"});
  Fails(2, "--data is missing", {"train", TinyModel(), "--loss", "mse"});
  Fails(2, "did you mean 'adam'?", Tiny(kRows, {"--optimizer", "adan"}));
  Fails(2, "--resume needs --checkpoint", Tiny(kRows, {"--resume"}));
  Fails(2, "--lr-schedule step needs --lr-step", Tiny(kRows, {"--lr-schedule", "step"}));
  Fails(2, "of 2 samples is none", Tiny(kRows, {"--eval", "0.1"}));
  Fails(2, "no data for 'labels'",
        {"train", TinyModel(), "--data", "x=@" + WriteTestFile("xs.csv", "1,2\n") + ":0-1",
         "--loss", "softmax-cross-entropy"});
  const std::string plan = TestPath("plan.json");
  ASSERT_EQ(RunMillrace({"plan", TinyModel(), "-o", plan}).exit_code, 0);
  Fails(2, "is a plan", {"train", plan, "--data", "x.csv", "--loss", "mse"});
}

TEST(Train, OptionsThatWouldDoNothingAreRefused) {
  constexpr std::string_view kRows = "1,2,0\n3,4,1\n";
  Fails(2, "--momentum needs --optimizer momentum or nesterov, not adam",
        Tiny(kRows, {"--momentum", "0.5"}));
  Fails(2, "--lr-factor needs --lr-schedule step", Tiny(kRows, {"--lr-factor", "0.5"}));
  Fails(2, "--accumulate 4: there are only 3 steps, so nothing would be trained",
        Tiny(kRows, {"--accumulate", "4", "--epochs", "3"}));
  const CommandResult rest = RunMillrace(Tiny(kRows, {"--accumulate", "2", "--epochs", "3"}));
  EXPECT_EQ(rest.exit_code, 0);
  EXPECT_THAT(rest.err, HasSubstr("note: the last 1 step of 3 make no update"));
}

TEST(Train, SplitsAndOutputsThatCannotBeEvaluatedAreRefused) {
  constexpr std::string_view kRows = "1,2,0\n3,4,1\n";
  Fails(2, "is all: none is left to train on", Tiny(kRows, {"--eval", "0.9999999999999"}));
  const std::string flat = WriteTestFile("flat.json", R"({"format": "millrace-graph",
    "version": "1.0", "name": "flat", "opset": {"core": 17}, "symbols": {"N": {"default": 4}},
    "inputs": [{"name": "x", "type": {"dtype": "f32", "shape": ["N", 2]}}],
    "params": [{"name": "w", "type": {"dtype": "f32", "shape": [2, 2]}, "data": {"init": "zeros"},
                "trainable": true}],
    "constants": [{"name": "s", "type": {"dtype": "i64", "shape": [2]}, "data": {"inline": [1, -1]}}],
    "nodes": [{"name": "z", "op": "MatMul", "inputs": ["x", "w"], "outputs": ["z"]},
              {"name": "y", "op": "Reshape", "inputs": ["z", "s"], "outputs": ["y"]}],
    "outputs": ["y"]})");
  Fails(2, "--eval needs a model output whose dim 0 is the batch, 4, but 'loss' of its samples is",
        {"train", flat, "--data", WriteTestFile("flat.csv", "1,2\n3,4\n5,6\n7,8\n"), "--loss",
         "mse", "--target-input", "x", "--batch", "4", "--eval", "0.5"});
}

TEST(Train, PlacesThatCannotBeWrittenAreRefusedBeforeWork) {
  constexpr std::string_view kRows = "1,2,0\n3,4,1\n";
  Fails(2, "--save", Tiny(kRows, {"--save", TestPath("no/such/folder/x.json")}));
  const std::string file = WriteTestFile("a-file", "");
  Fails(2, "cannot make checkpoint folder", Tiny(kRows, {"--checkpoint", file + "/below"}));
  Fails(2, "/dev/full", Tiny(kRows, {"--metrics", "/dev/full"}));
}

TEST(Train, OneProcessAFolder) {
  const Arguments arguments = DigitsRun({"--epochs", "1000", "--checkpoint", TestPath("held")});
  RunningMillrace first(arguments);
  const std::string lock = TestPath("held/lock");
  while (!std::filesystem::exists(lock)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Fails(2, "another process trains with checkpoint folder", arguments);
  kill(first.pid(), SIGKILL);
  first.Wait();
}

// --- Numbers that are none ----------------------------------------------------------------------

TEST(Train, CheckNumericsNamesTheNode) {
  const std::string model = WriteTestFile("log.json", R"({"format": "millrace-graph",
    "version": "1.0", "name": "log", "opset": {"core": 17}, "symbols": {"N": {"default": 4}},
    "inputs": [{"name": "x", "type": {"dtype": "f32", "shape": ["N", 1]}}],
    "params": [{"name": "w", "type": {"dtype": "f32", "shape": [1, 1]}, "data": {"splat": 1.0},
                "trainable": true}],
    "nodes": [{"name": "scaled", "op": "MatMul", "inputs": ["x", "w"], "outputs": ["scaled"]},
              {"name": "logarithm", "op": "Log", "inputs": ["scaled"], "outputs": ["y"]}],
    "outputs": ["y"]})");
  const Arguments run = {"train",  model, "--data",  WriteTestFile("log.csv", "1,1\n2,1\n-3,1\n"),
                         "--loss", "mse", "--batch", "3"};
  Fails(1, "the loss is nan in step 1", run);
  Fails(1, "step 1: node 'logarithm' (Log) is the first to make a nan, of 'scaled' from -3 to 2",
        Join(run, {"--check-numerics"}));
}

// The last step's own loss is still a number; what it leaves behind is none.
TEST(Train, StatesThatAreNoNumbersAreNotSaved) {
  const std::string saved = TestPath("infinite.json"), folder = TestPath("infinite");
  const std::string rows = "1,2,0\n3,4,1\n";
  Fails(1, "param 'w' has a ", Tiny(rows, {"--optimizer", "sgd", "--lr", "1e39", "--save", saved}));
  EXPECT_FALSE(std::filesystem::exists(saved));
  Fails(1, "after step 1", Tiny(rows, {"--lr", "1e39", "--checkpoint", folder}));
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    EXPECT_NE(file.path().extension(), ".json") << file.path();
  }
}

}  // namespace
}  // namespace millrace
