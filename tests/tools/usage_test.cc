// The command line itself: help, and what is said about mistakes in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Usage, HelpNamesEverySubcommand) {
  const CommandResult result = RunMillrace({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, IsEmpty());
  for (const char* command : {"run", "plan", "inspect", "check", "ops", "devices"}) {
    EXPECT_THAT(result.out, HasSubstr(std::string("\n  ") + command + " "));
    const CommandResult help = RunMillrace({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("--json")) << command;
  }
}

TEST(Usage, NothingAtAllPrintsHelp) {
  EXPECT_THAT(RunMillrace({}).out, HasSubstr("inspect"));
  EXPECT_EQ(RunMillrace({}).exit_code, 0);
}

TEST(Usage, Version) {
  const CommandResult result = RunMillrace({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, testing::MatchesRegex("millrace [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

struct Mistake {
  const char* what;
  std::vector<std::string> arguments;
  std::string message;  // part of it
};

class UsageMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(UsageMistakes, Exit2AndSayWhat) {
  const CommandResult result = RunMillrace(GetParam().arguments);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(testing::StartsWith("millrace: "), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, UsageMistakes,
    testing::Values(
        Mistake{
            "command", {"inspct", "g.json"}, "unknown command 'inspct'; did you mean 'inspect'?"},
        Mistake{"far_command", {"zzzzzz"}, "unknown command 'zzzzzz'; see millrace --help"},
        Mistake{"option",
                {"run", TinyFile(), "--iteratons", "3"},
                "run: unknown option '--iteratons'; did you mean '--iterations'?"},
        Mistake{"option_with_value",
                {"run", TinyFile(), "--inptu=x=rand"},
                "unknown option '--inptu'; did you mean '--input'?"},
        Mistake{"no_file", {"run"}, "run: file is required"},
        Mistake{
            "extra_argument", {"check", TinyFile(), "other.json"}, "unknown argument 'other.json'"},
        Mistake{"two_forms", {"inspect", TinyFile(), "--dot", "--text"}, "--text excludes --dot"},
        Mistake{"not_a_number", {"run", TinyFile(), "--iterations", "many"}, "--iterations"},
        Mistake{"no_steps", {"run", TinyFile(), "--iterations", "0"}, "--iterations"},
        Mistake{"symbol", {"inspect", TinyFile(), "--set", "M=3"}, "'M'"},
        Mistake{"symbol_range", {"inspect", TinyFile(), "--set", "N=65"}, "N"},
        Mistake{"symbol_form", {"inspect", TinyFile(), "--set", "N"}, "expected NAME=INTEGER"},
        Mistake{
            "symbol_twice", {"inspect", TinyFile(), "--set", "N=3", "--set", "N=4"}, "set twice"},
        Mistake{"device", {"plan", TinyFile(), "--device", "gpu:0"}, "gpu"},
        Mistake{"device_index", {"plan", TinyFile(), "--device", "cpu:99"}, "cpu:99"},
        Mistake{"op", {"ops", "Rellu"}, "no op is called 'Rellu'; did you mean 'Relu'?"},
        Mistake{"missing_input", {"run", TinyFile()}, "--input is needed for: x (f32[2,2])"},
        Mistake{"input_name",
                {"run", TinyFile(), "--input", "xx=rand"},
                "no input is called that; did you mean 'x'?"},
        Mistake{"input_form", {"run", TinyFile(), "--input", "x"}, "expected NAME="},
        Mistake{"input_spec", {"run", TinyFile(), "--input", "x=random"}, "expected @FILE.npy"},
        Mistake{"input_type",
                {"run", TinyFile(), "--input", "x=3xf32=1 2 3"},
                "expected f32[2,2], found f32[3]"},
        Mistake{"input_count",
                {"run", TinyFile(), "--input", "x=2x2xf32=1 2 3"},
                "expected 4 elements, found 3"},
        Mistake{"input_element",
                {"run", TinyFile(), "--input", "x=2x2xf32=1 2 three 4"},
                "element 2: expected f32, found 'three'"},
        Mistake{"output_name",
                {"run", TinyFile(), "--input", "x=rand", "--output", "z=@z.npy"},
                "there are: y, w"},
        Mistake{"output_form",
                {"run", TinyFile(), "--input", "x=rand", "--output", "y=z.txt"},
                "expected @FILE.npy"},
        Mistake{"labels_without_classes",
                {"run", TinyFile(), "--input", "x=rand", "--labels", "y=3xi64=0 1 1"},
                "expected 2 labels, found 3"},
        Mistake{"held_out",
                {"run", TinyFile(), "--held-out", "5:5", "--labels", "y=rand"},
                "expected EVERY:REMAINDER"}),
    [](const auto& info) { return std::string(info.param.what); });

TEST(Usage, ADeviceWithoutKernelsIsRefusedByName) {
  const CommandResult result = RunMillrace({"plan", TinyFile(), "--device", "cuda:0"});
  EXPECT_THAT(result.exit_code, testing::AnyOf(2, 6)) << result.err;  // no kernels, or no driver
  EXPECT_THAT(result.err, HasSubstr("cuda"));
}

class MissingFiles : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(MissingFiles, Exit3AndNameTheFile) {
  const CommandResult result = RunMillrace(GetParam());
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(HasSubstr("no-such-"), HasSubstr("No such file")));
}

INSTANTIATE_TEST_SUITE_P(
    All, MissingFiles,
    testing::Values(
        std::vector<std::string>{"run", "no-such-graph.json"},
        std::vector<std::string>{"plan", "no-such-graph.json"},
        std::vector<std::string>{"inspect", "no-such-graph.json"},
        std::vector<std::string>{"check", "no-such-graph.json"},
        std::vector<std::string>{"plan", TinyFile(), "--machine", "no-such-machine.json"},
        std::vector<std::string>{"run", TinyFile(), "--input", "x=@no-such-input.npy"},
        std::vector<std::string>{"run", TinyFile(), "--input", "x=@no-such-input.csv:0-1"},
        std::vector<std::string>{"run", TinyFile(), "--input", "x=rand", "--expect",
                                 "y=@no-such-output.npy"}));

TEST(Usage, AFullDiskIsNoticed) {
  // Everything is said, and nothing arrives.
  const std::string command =
      std::string(MILLRACE_COMMAND) + " ops > /dev/full 2> " + TestFolder() + "/full";
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_THAT(ReadTestFile(TestFolder() + "/full"), HasSubstr("standard output"));
}

}  // namespace
}  // namespace millrace
