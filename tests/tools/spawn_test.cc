// Plans run by several processes of the real binary: the same results as in one, and whatever goes
// wrong with a rank ends all of them soon, with exit code 7, the rank's number and what it did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "graph/builder.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "ops/infer.h"
#include "tests/plan/hand_written_plan.h"
#include "tests/plan/program_writer.h"
#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

double NowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Each of `devices` cpu devices reduces x over all of them, then what came of it once more.
std::string WriteAllReducePlan(int devices, int64_t count) {
  PlanBundle plan;
  plan.name = "reduce";
  plan.machine = "this";
  plan.mesh.axes = {{"data", devices}};
  GraphBuilder b("reduce");
  const ValueId x = b.Input("x", {DType::kF32, {count}});
  Attrs attrs;
  attrs.Set("axis", std::vector<std::string>{"data"});
  const ValueId once = b.Op("comm.AllReduce", {x}, attrs, "once");
  const ValueId half = b.Op("Sqrt", {once}, {}, "root");
  b.Output(b.Op("comm.AllReduce", {half}, attrs, "twice"));
  plan.graph = std::move(b).Build();
  plan.graph.mesh = plan.mesh;
  EXPECT_TRUE(InferTypes(plan.graph).ok());

  ProgramWriter p(plan.graph, "all", "cpu", 0);
  const int64_t bytes = (count * 4 + 255) / 256 * 256;
  const BufferId arena = p.AddBuffer("arena", MemorySpace::kDevice, 4 * bytes);
  const SliceId sx = p.AddSlice("x", arena, 0);
  const SliceId s1 = p.AddSlice("once", arena, bytes);
  const SliceId s2 = p.AddSlice("root", arena, 2 * bytes);
  const SliceId s3 = p.AddSlice("twice", arena, 3 * bytes);
  p.Inputs({sx});
  p.Outputs({s3});
  const StreamId main = p.AddStream("main", StreamKind::kCompute);
  const SegmentId step = p.BeginSegment("step");
  p.Collective(main, "once", {sx}, {s1});
  p.Launch(main, "root", {s1}, {s2});
  p.Collective(main, "twice", {s2}, {s3});
  p.Schedule(Section::kStep, {{step, 0}});
  Program program = std::move(p).Build();
  program.device_index.terms.push_back({.variable = 0, .scale = 1});
  plan.programs.push_back(std::move(program));
  const std::string path = TestPath(StrCat("reduce", devices, "_", count, ".json"));
  EXPECT_TRUE(SavePlan(plan, path).ok());
  return path;
}

// The processes that `parent` started, by rank.
std::map<int, pid_t> Children(pid_t parent) {
  std::map<int, pid_t> children;
  std::ifstream list(StrCat("/proc/", parent, "/task/", parent, "/children"));
  for (pid_t child = 0; list >> child;) {
    std::ifstream file(StrCat("/proc/", child, "/environ"));
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const size_t at = text.find("RANK=");
    if (at != std::string::npos) children[std::atoi(text.c_str() + at + 5)] = child;
  }
  return children;
}

// Waits until all ranks have run steps for a while; their processes.
std::map<int, pid_t> WaitForRanks(const RunningMillrace& running, size_t ranks) {
  std::map<int, pid_t> children;
  for (const double start_s = NowS(); NowS() - start_s < 20 && children.size() < ranks;) {
    children = Children(running.pid());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(children.size(), ranks);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  return children;
}

TEST(SpawnTest, AHandWrittenPlanGivesTheSameBitsInOneProcessAndInTwo) {
  const std::string plan = TestPath("hand.json");
  ASSERT_TRUE(SavePlan(HandWrittenPlan(), plan).ok());
  for (const std::string ranks : {"1", "2"}) {
    std::vector<std::string> arguments = {"run",     plan,  "--input",      "*=rand:3",
                                          "--spawn", ranks, "--iterations", "5"};
    for (const char* name : {"y", "nz", "dr", "b0", "w2"}) {
      arguments.push_back("--output");
      arguments.push_back(StrCat(name, "=@", TestPath(StrCat(name, ranks, ".npy"))));
    }
    const CommandResult result = RunMillrace(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  for (const char* name : {"y", "nz", "dr", "b0", "w2"}) {
    const std::string one = ReadTestFile(TestPath(StrCat(name, "1.npy")));
    EXPECT_FALSE(one.empty());
    EXPECT_EQ(one, ReadTestFile(TestPath(StrCat(name, "2.npy")))) << name;
  }
}

TEST(SpawnTest, CollectivesOfFourProcessesAndOfTwoWithTwoDevicesEach) {
  const std::string plan = WriteAllReducePlan(4, 5);
  for (const char* ranks : {"1", "2", "4"}) {
    // 4 * sqrt(4 * x)
    const CommandResult result =
        RunMillrace({"run", plan, "--input", "x=5xf32=1 4 9 0 0.25", "--expect",
                     "twice=5xf32=8 16 24 0 4", "--spawn", ranks, "--iterations", "50"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("twice"));
  }
}

TEST(SpawnTest, OnlyRankZeroTalks) {
  const std::string plan = WriteAllReducePlan(4, 5);
  const CommandResult result =
      RunMillrace({"run", plan, "--input", "x=rand:1", "--spawn", "4", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.Json().is_object()) << result.out;  // one document
  EXPECT_EQ(result.err, "");

  const CommandResult wrong = RunMillrace({"run", plan, "--input", "z=rand:1", "--spawn", "4"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err.find("millrace: "), wrong.err.rfind("millrace: ")) << wrong.err;
}

TEST(SpawnTest, DevicesThatCannotBeSharedEvenlyAreRefused) {
  const CommandResult result =
      RunMillrace({"run", WriteAllReducePlan(4, 5), "--input", "x=rand:1", "--spawn", "3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("uses 4 devices, which 3 processes cannot share evenly"));
}

TEST(SpawnTest, ARankThatIsKilledEndsTheJob) {
  const std::string plan = WriteAllReducePlan(4, 1000);
  for (const int victim : {0, 2}) {
    RunningMillrace running({"run", plan, "--input", "x=rand:1", "--spawn", "4", "--iterations",
                             "10000000", "--timeout", "5"});
    const std::map<int, pid_t> ranks = WaitForRanks(running, 4);
    const double start_s = NowS();
    kill(ranks.at(victim), SIGKILL);
    const CommandResult result = running.Wait();
    EXPECT_LT(NowS() - start_s, 10);
    EXPECT_EQ(result.exit_code, 7) << result.err;
    EXPECT_THAT(result.err, HasSubstr(StrCat("rank ", victim, " was killed by signal 9")));
    if (victim == 0) continue;
    EXPECT_THAT(result.err, AllOf(HasSubstr("rank 2 died; it was at: program 'all' at data=2"),
                                  HasSubstr("comm.AllReduce")));
  }
}

TEST(SpawnTest, ARankThatIsStuckEndsTheJobWithinTheTimeout) {
  const std::string plan = WriteAllReducePlan(4, 1000);
  for (const int victim : {0, 3}) {
    RunningMillrace running({"run", plan, "--input", "x=rand:1", "--spawn", "4", "--iterations",
                             "10000000", "--timeout", "2"});
    const std::map<int, pid_t> ranks = WaitForRanks(running, 4);
    const double start_s = NowS();
    kill(ranks.at(victim), SIGSTOP);
    const CommandResult result = running.Wait();
    EXPECT_LT(NowS() - start_s, 2 + 5);
    EXPECT_EQ(result.exit_code, 7) << result.err;
    if (victim == 0) continue;
    EXPECT_THAT(result.err, AllOf(HasSubstr("not heard of any more: rank 3; it was at: program"),
                                  HasSubstr("comm.AllReduce")));
  }
}

// A command line that a shell runs.
CommandResult RunShell(const std::string& line) {
  const std::string out = TestPath("shell.out"), err = TestPath("shell.err");
  const int status = std::system(StrCat("(", line, ") > ", out, " 2> ", err).c_str());
  return {WEXITSTATUS(status), ReadTestFile(out), ReadTestFile(err)};
}

TEST(SpawnTest, LaunchersOfOtherKinds) {
  const std::string run =
      StrCat(MILLRACE_COMMAND, " run ", WriteAllReducePlan(2, 5), " --input x=rand:1 --json");
  const std::string port = StrCat(20000 + getpid() % 20000);
  const std::string job =
      StrCat("export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=", port, "; ");
  const CommandResult variables =
      RunShell(StrCat(job, "RANK=1 ", run, " & RANK=0 ", run, "; code=$?; wait; exit $code"));
  EXPECT_EQ(variables.exit_code, 0) << variables.err;
  EXPECT_TRUE(variables.Json().is_object()) << variables.out;

  const CommandResult lost = RunShell(StrCat(job, "RANK=0 ", run, " --timeout 1"));
  EXPECT_EQ(lost.exit_code, 7);
  EXPECT_THAT(lost.err, HasSubstr("rank 1 did not join within 1 s"));

  const CommandResult wrong = RunShell(StrCat(job, "RANK=2 ", run));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("environment variable RANK is '2'"));

  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun";
  const CommandResult mpi =
      RunShell(StrCat("mpirun --allow-run-as-root --oversubscribe -n 2 ", run));
  EXPECT_EQ(mpi.exit_code, 0) << mpi.err;
  EXPECT_TRUE(mpi.Json().is_object()) << mpi.out;
}

TEST(SpawnTest, RanksWithDifferentPlansDoNotRun) {
  const std::string job =
      StrCat("export WORLD_SIZE=2 MILLRACE_MASTER=@millrace-test-", getpid(), "; ");
  const auto run = [](const std::string& plan) {
    return StrCat(MILLRACE_COMMAND, " run ", plan, " --input x=rand:1");
  };
  const CommandResult result =
      RunShell(StrCat(job, "RANK=1 ", run(WriteAllReducePlan(2, 6)), " & RANK=0 ",
                      run(WriteAllReducePlan(2, 5)), "; code=$?; wait; exit $code"));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.err, HasSubstr("rank 1 has another plan than rank 0"));
}

std::vector<std::string> TrainArguments(const std::string& ranks, const std::string& epochs,
                                        const std::string& folder, const std::string& save) {
  return {"train",
          SourceFile("tests/data/digits/untrained.json"),
          "--data",
          SourceFile("tests/data/digits/digits.csv.gz"),
          "--loss",
          "softmax-cross-entropy",
          "--mesh",
          "data=2,tensor=2",
          "--eval",
          "0.2",
          "--spawn",
          ranks,
          "--epochs",
          epochs,
          "--checkpoint",
          folder,
          "--resume",
          "--save",
          save};
}

TEST(SpawnTest, TrainingGivesTheSameWeightsAndGoesOnWithAnotherNumberOfRanks) {
  const std::string whole = TestPath("whole.json"), resumed = TestPath("resumed.json");
  CommandResult result = RunMillrace(TrainArguments("1", "2", TestPath("a"), whole));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  result = RunMillrace(TrainArguments("4", "1", TestPath("b"), resumed));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  result = RunMillrace(TrainArguments("2", "2", TestPath("b"), resumed));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("going on after step 45"));
  EXPECT_EQ(ReadTestFile(TestPath("whole.safetensors")),
            ReadTestFile(TestPath("resumed.safetensors")));
}

}  // namespace
}  // namespace millrace
