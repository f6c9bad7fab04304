// Every file of the corpus (bad_case.h) is refused: with exactly the message written beside it,
// exit code 3 or 2, within 512 MB of address space and two seconds of processor time. Each is read
// in a process of its own, so that a crash or a hang is the failure of one case.
// MILLRACE_REWRITE_GOLDEN=1 rewrites the messages in place: read the diff before committing it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "graph/files.h"
#include "graph/strings.h"
#include "tests/bad_input/bad_case.h"
#include "tests/bad_input/limited_process.h"
#include "tests/bad_input/read_input.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

constexpr char kFolder[] = MILLRACE_SOURCE_DIR "/tests/bad_input/";

std::vector<std::string> CorpusFiles() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
#ifndef MILLRACE_HAVE_ONNX
    if (entry.path().stem() == "onnx") continue;
#endif
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<BadCase>> LoadCases(const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(StrCat(kFolder, name, ".txt")));
  return ParseBadCases(text);
}

class BadInput : public testing::TestWithParam<std::string> {};

TEST_P(BadInput, IsRefusedAndExplained) {
  const auto cases = LoadCases(GetParam());
  ASSERT_TRUE(cases.ok()) << cases.status();
  std::vector<std::string> messages;
  for (const BadCase& c : *cases) {
    SCOPED_TRACE(c.title);
    const TemporaryFolder folder;
    ASSERT_TRUE(WriteBadFiles(c, folder.path()).ok());
    const LimitedResult result = RunLimited(folder.path(), [&] { return ReadInput(c); });
    EXPECT_EQ(result.ending, "") << "crashed, or hung";
    EXPECT_THAT(result.exit_code, testing::AnyOf(2, 3));
    EXPECT_LT(result.cpu_seconds, kMostSeconds);
    EXPECT_LT(result.peak_bytes, kMostBytes);
    EXPECT_EQ(result.message, c.expected);
    messages.push_back(result.message);
  }
  if (std::getenv("MILLRACE_REWRITE_GOLDEN") != nullptr) {
    ASSERT_TRUE(
        WriteFileAtomically(StrCat(kFolder, GetParam(), ".txt"), BadCasesText(*cases, messages))
            .ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Files, BadInput, testing::ValuesIn(CorpusFiles()),
                         [](const auto& info) { return info.param; });

TEST(BadInputCorpus, IsLarge) {
  int64_t cases = 0;
  for (const std::string& name : CorpusFiles()) {
    const auto text = ReadFile(StrCat(kFolder, name, ".txt"));
    ASSERT_TRUE(text.ok()) << text.status();
    cases += std::count(text->begin(), text->end(), '#');  // each has a title
  }
  EXPECT_GE(cases, 300);
}

}  // namespace
}  // namespace millrace
