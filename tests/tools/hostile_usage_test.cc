// What users and scripts do to a command line, by mistake or on purpose: values that make no sense,
// places that cannot be written, streams that are closed, signals at any moment.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "graph/strings.h"
#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct Attack {
  const char* name;
  std::vector<std::string> arguments;
  std::string message;  // part of it
};

class HostileArguments : public testing::TestWithParam<Attack> {};

TEST_P(HostileArguments, Exit2AndSayWhat) {
  const CommandResult result = RunMillrace(GetParam().arguments);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(StartsWith("millrace: "), HasSubstr(GetParam().message)));
}

const char kHuge[] = "99999999999999999999999";

INSTANTIATE_TEST_SUITE_P(
    All, HostileArguments,
    testing::Values(
        Attack{"empty_command", {""}, "unknown command ''"},
        Attack{"command_that_clears_the_screen", {"\x1b[2J"}, "'\\x1b[2J'"},
        Attack{"command_in_capitals",
               {"RUN", TinyFile()},
               "unknown command 'RUN'; did you mean 'run'?"},
        Attack{"empty_file", {"run", ""}, "the value is empty"},
        Attack{"empty_device", {"plan", TinyFile(), "--device", ""}, "the value is empty"},
        Attack{"no_value", {"run", TinyFile(), "--input"}, "--input"},
        Attack{"no_count", {"run", TinyFile(), "--iterations"}, "--iterations"},
        Attack{"count_of_letters", {"run", TinyFile(), "--iterations", "ten"}, "--iterations"},
        Attack{"count_with_fraction", {"run", TinyFile(), "--iterations", "1.5"}, "--iterations"},
        Attack{"huge_count", {"run", TinyFile(), "--iterations", kHuge}, "--iterations"},
        Attack{"negative_count", {"run", TinyFile(), "--iterations=-1"}, "--iterations"},
        Attack{"no_threads", {"run", TinyFile(), "--threads", "0"}, "--threads"},
        Attack{"huge_threads", {"run", TinyFile(), "--threads", "1000000"}, "--threads"},
        Attack{"many_devices", {"plan", TinyFile(), "--cpu-devices", kHuge}, "--cpu-devices"},
        Attack{"tolerance_nan", {"run", TinyFile(), "--rtol", "nan"}, "--rtol"},
        Attack{"tolerance_negative", {"run", TinyFile(), "--atol", "-1"}, "--atol"},
        Attack{"option_twice", {"run", TinyFile(), "--trace", "a", "--trace", "b"}, "--trace"},
        Attack{"flag_with_value", {"run", TinyFile(), "--json=maybe"}, "--json"},
        Attack{"device_without_number", {"plan", TinyFile(), "--device", "cpu:"}, "cpu:"},
        Attack{"device_negative", {"plan", TinyFile(), "--device", "cpu:-1"}, "cpu:-1"},
        Attack{"device_huge", {"plan", TinyFile(), "--device", StrCat("cpu:", kHuge)}, "cpu:999"},
        Attack{
            "set_without_value", {"inspect", TinyFile(), "--set", "N="}, "expected NAME=INTEGER"},
        Attack{"set_without_name", {"inspect", TinyFile(), "--set", "=8"}, "expected NAME=INTEGER"},
        Attack{"set_of_letters", {"inspect", TinyFile(), "--set", "N=8x"}, "expected NAME=INTEGER"},
        Attack{"set_of_a_fraction",
               {"inspect", TinyFile(), "--set", "N=8.0"},
               "expected NAME=INTEGER"},
        Attack{"set_huge",
               {"inspect", TinyFile(), "--set", StrCat("N=", kHuge)},
               "expected NAME=INTEGER"},
        Attack{"set_negative", {"inspect", TinyFile(), "--set", "N=-8"}, "out of range"},
        Attack{
            "set_of_a_name_with_a_slip", {"inspect", TinyFile(), "--set", "n=8"}, "no symbol 'n'"},
        Attack{"set_of_a_name_that_clears_the_screen",
               {"inspect", TinyFile(), "--set", "\x1b[2J=8"},
               "\\x1b[2J"},
        Attack{"input_without_value", {"run", TinyFile(), "--input", "x="}, "expected NAME="},
        Attack{"input_of_a_huge_shape",
               {"run", TinyFile(), "--input", "x=99999999x99999999xf32=1"},
               "expected @FILE.npy"},
        Attack{"input_of_a_large_shape",
               {"run", TinyFile(), "--input", "x=1000000x1000000xf32=1"},
               "expected 1000000000000 elements, found 1"},
        Attack{"input_of_nine_dims",
               {"run", TinyFile(), "--input", "x=1x1x1x1x1x1x1x1x1xf32=1"},
               "expected @FILE.npy"},
        Attack{
            "input_of_a_negative_dim", {"run", TinyFile(), "--input", "x=-2x2xf32=1"}, "@FILE.npy"},
        Attack{"input_seed", {"run", TinyFile(), "--input", "x=rand:abc"}, "rand:SEED"},
        Attack{"input_seed_huge",
               {"run", TinyFile(), "--input", StrCat("x=rand:", kHuge)},
               "rand:SEED"},
        Attack{"input_twice",
               {"run", TinyFile(), "--input", "x=rand", "--input", "x=rand"},
               "'x' is given twice"},
        Attack{"columns_backwards",
               {"run", TinyFile(), "--input", "x=@a.csv:5-3"},
               "@FILE.csv:COLUMNS"},
        Attack{
            "columns_huge", {"run", TinyFile(), "--input", StrCat("x=@a.csv:", kHuge)}, "COLUMNS"},
        Attack{"held_out_of_none",
               {"run", TinyFile(), "--labels", "y=2xi64=0 1", "--held-out", "0:0"},
               "expected EVERY:REMAINDER"},
        Attack{"output_without_folder",
               {"run", TinyFile(), "--input", "x=rand", "--output", "y=@no-such-folder/y.npy"},
               "cannot write 'no-such-folder/y.npy': No such file"},
        Attack{"trace_without_folder",
               {"run", TinyFile(), "--input", "x=rand", "--trace", "no-such-folder/t.json"},
               "--trace: cannot write 'no-such-folder/t.json'"},
        Attack{"plan_without_folder",
               {"plan", TinyFile(), "-o", "no-such-folder/p.json"},
               "cannot write 'no-such-folder/p.json'"},
        Attack{"plan_to_a_folder", {"plan", TinyFile(), "-o", "/"}, "Is a directory"},
        Attack{"plan_to_a_full_disk", {"plan", TinyFile(), "-o", "/dev/full"}, "No space left"},
        Attack{"output_in_another_format",
               {"run", TinyFile(), "--input", "x=rand", "--output", "y=@y.txt"},
               "expected @FILE.npy"}),
    [](const auto& info) { return std::string(info.param.name); });

// A million letters are neither echoed whole nor looked up for long.
TEST(HostileUsage, LongWordsAreNoTrouble) {
  const std::string letters(100'000, 'x');
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{letters}, {"run", TinyFile(), "--" + letters}, {"ops", letters}}) {
    EXPECT_EQ(RunMillrace(arguments).exit_code, 2);
  }
}

// --- Streams -------------------------------------------------------------------------------------

// The exit code of `millrace <arguments>` with redirections by the shell; stderr goes to a file.
int RunInShell(const std::string& arguments, std::string* err) {
  const std::string err_path = TestFolder() + "/shell_stderr";
  const int status =
      std::system(StrCat(MILLRACE_COMMAND, " ", arguments, " 2> ", err_path).c_str());
  *err = ReadTestFile(err_path);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(HostileUsage, AFullDiskBehindStandardOutputIsTold) {
  std::string err;
  EXPECT_EQ(RunInShell("ops > /dev/full", &err), 2);
  EXPECT_THAT(err, HasSubstr("cannot write to standard output"));
}

TEST(HostileUsage, AClosedStandardOutputIsTold) {
  std::string err;
  EXPECT_EQ(RunInShell("ops >&-", &err), 2);
  EXPECT_THAT(err, HasSubstr("cannot write to standard output"));
}

// The file would get descriptor 1 otherwise, and the report on top of it.
TEST(HostileUsage, AFileDoesNotTakeThePlaceOfAClosedStandardOutput) {
  const std::string plan = TestFolder() + "/closed.json";
  std::string err;
  EXPECT_EQ(RunInShell(StrCat("plan ", TinyFile(), " -o ", plan, " >&- <&-"), &err), 2);
  EXPECT_THAT(ReadTestFile(plan), AllOf(StartsWith("{"), Not(HasSubstr("ok:"))));
  EXPECT_EQ(RunMillrace({"check", plan}).exit_code, 0);
}

TEST(HostileUsage, AModelMayComeThroughAPipe) {
  std::string err;
  EXPECT_EQ(RunInShell(StrCat("check /dev/stdin < ", TinyFile(), " > /dev/null"), &err), 0) << err;
  const std::string plan = TestFolder() + "/piped.json";
  ASSERT_EQ(RunMillrace({"plan", TinyFile(), "-o", plan}).exit_code, 0);
  for (const std::string& file : {TinyFile(), plan}) {
    const std::string command =
        StrCat("cat ", file, " | ", MILLRACE_COMMAND, " check /dev/stdin > /dev/null");
    EXPECT_EQ(std::system(command.c_str()), 0) << file;
  }
}

// --- Signals -------------------------------------------------------------------------------------

size_t TemporaryFilesIn(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += entry.path().extension() == ".tmp";
  }
  return count;
}

// At whatever moment it comes, the exit code is that of the signal (or of success, when it came too
// late), nothing half-written stays, and what was written is whole.
TEST(HostileUsage, SignalsAtAnyMoment) {
  const std::string folder = TestFolder() + "/signals";
  std::filesystem::create_directory(folder);
  const std::string trace = folder + "/t.json", output = folder + "/y.npy";
  for (int delay_us = 0; delay_us < 60'000; delay_us += 3'000) {
    const int signal = delay_us % 2'000 == 0 ? SIGINT : SIGTERM;
    RunningMillrace running({"run", TinyFile(), "--input", "x=rand", "--iterations", "2000",
                             "--trace", trace, "--output", StrCat("y=@", output)});
    usleep(static_cast<useconds_t>(delay_us));
    kill(running.pid(), signal);
    const CommandResult result = running.Wait();
    EXPECT_THAT(result.exit_code, AnyOf(0, 128 + signal)) << delay_us << result.err;
    EXPECT_EQ(TemporaryFilesIn(folder), 0u) << delay_us;
    const std::string text = ReadTestFile(trace);
    EXPECT_TRUE(text.empty() || nlohmann::json::accept(text)) << delay_us;
  }
}

TEST(HostileUsage, NoMemoryIsExit5) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need terabytes of address space";
#endif
  std::string deep = "[0";
  for (int i = 0; i < 4'000'000; ++i) deep += ",0";
  const std::string file = WriteTestFile("large.json", deep + "]");
  const std::string command = StrCat("ulimit -v 300000; ", MILLRACE_COMMAND, " check ", file,
                                     " 2> ", TestFolder(), "/memory");
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_THAT(ReadTestFile(TestFolder() + "/memory"), HasSubstr("out of memory"));
}

}  // namespace
}  // namespace millrace
