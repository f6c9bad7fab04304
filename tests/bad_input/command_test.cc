// A slice of the corpus through the real `millrace`: the exit code, the message on standard error,
// nothing on standard output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "graph/files.h"
#include "graph/strings.h"
#include "tests/bad_input/bad_case.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

constexpr size_t kEvery = 8;  // one case in so many

constexpr std::string_view kGoodGraph = R"({"format": "millrace-graph", "version": "1.0",
 "inputs": [{"name": "x", "type": {"dtype": "f32", "shape": [2]}}],
 "nodes": [{"name": "n", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]})";

// The arguments that make `millrace` read the file of a case; empty where no subcommand does.
std::string ArgumentsFor(const BadCase& c) {
  const std::string file = MainFile(c);
  if (c.format == "graph" || c.format == "plan" || c.format == "onnx") {
    std::string arguments = StrCat("check ", file);
    for (const auto& [name, value] : c.symbols) StrAppend(&arguments, " --set ", name, "=", value);
    return arguments;
  }
  if (c.format == "machine") return StrCat("devices --machine ", file);
  if (c.format == "npy") return StrCat("run good.json --input x=@", file);
  if (c.format == "csv") return StrCat("run good.json --input x=@", file, ":0-1");
  return "";
}

void ExpectRefused(const BadCase& c) {
  SCOPED_TRACE(StrCat(c.format, c.title));
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteBadFiles(c, folder.path()).ok());
  ASSERT_TRUE(WriteFileAtomically(folder.File("good.json"), kGoodGraph).ok());
  const std::string command = StrCat("cd ", folder.path(), " && " MILLRACE_COMMAND " ",
                                     ArgumentsFor(c), " > out.txt 2> err.txt");
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status)) << "a signal ended it";
  EXPECT_THAT(WEXITSTATUS(status), testing::AnyOf(2, 3));
  EXPECT_EQ(*ReadFile(folder.File("out.txt")), "");
  EXPECT_EQ(*ReadFile(folder.File("err.txt")), StrCat("millrace: ", c.expected, "\n"));
}

class BadInputCommand : public testing::TestWithParam<const char*> {};

TEST_P(BadInputCommand, SaysWhatTheLibrarySays) {
  const auto text = ReadFile(StrCat(MILLRACE_SOURCE_DIR "/tests/bad_input/", GetParam(), ".txt"));
  ASSERT_TRUE(text.ok()) << text.status();
  const auto cases = ParseBadCases(*text);
  ASSERT_TRUE(cases.ok()) << cases.status();
  for (size_t i = kEvery / 2; i < cases->size(); i += kEvery) ExpectRefused((*cases)[i]);
}

INSTANTIATE_TEST_SUITE_P(Files, BadInputCommand,
                         testing::Values("csv", "graph_data", "graph_names", "graph_nodes",
                                         "graph_shapes", "graph_syntax", "graph_types", "machine",
                                         "npy", "plan"
#ifdef MILLRACE_HAVE_ONNX
                                         ,
                                         "onnx"
#endif
                                         ),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace millrace
