// Every case of the suite passes, or stands in not_passing.txt with the reason. A case that stands
// there and passes fails the test as well, so that the list only shrinks.
//
//   build/release/tests/onnx_test --gtest_filter='Conformance.*'
//   MILLRACE_ONNX_CASES='node/test_pad*'   ... runs these only, and shows what is wrong with each
//   MILLRACE_REWRITE_CONFORMANCE=1         ... rewrites the list and the table of tests/README.md
#include "tests/onnx/conformance.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "graph/files.h"
#include "graph/strings.h"

namespace millrace {
namespace {

const std::string kListPath = StrCat(MILLRACE_SOURCE_DIR, "/tests/onnx/not_passing.txt");
const std::string kReadmePath = StrCat(MILLRACE_SOURCE_DIR, "/tests/README.md");

constexpr std::string_view kListHeader =
    "# Cases of ONNX's conformance suite that do not pass: case | reason\n"
    "# Made by: MILLRACE_REWRITE_CONFORMANCE=1 onnx_test --gtest_filter='Conformance.*'\n";
constexpr std::string_view kTableBegin = "<!-- conformance table: begin -->\n";
constexpr std::string_view kTableEnd = "<!-- conformance table: end -->\n";

// "out of scope: strings"
std::string ReasonOf(const CaseResult& result) {
  switch (result.outcome) {
    case CaseOutcome::kPassed:
      return "passes";
    case CaseOutcome::kOutOfScope:
      return StrCat("out of scope: ", result.reason);
    case CaseOutcome::kUnsupported:
      return StrCat("not supported yet: ", result.reason);
    case CaseOutcome::kFailed:
      return "fails";
  }
  return "";
}

// By case: its reason.
std::map<std::string, std::string> ReadList() {
  constexpr std::string_view kSeparator = " | ";
  std::map<std::string, std::string> list;
  std::ifstream in(kListPath);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(kSeparator);
    if (line.starts_with("#") || at == std::string::npos) continue;
    list[line.substr(0, at)] = line.substr(at + kSeparator.size());
  }
  return list;
}

// "not supported yet": what else a case lacks may change before it passes.
std::string KindOf(const std::string& reason) { return reason.substr(0, reason.find(':')); }

void WriteList(const std::vector<CaseResult>& results) {
  std::string text(kListHeader);
  for (const CaseResult& result : results) {
    if (result.outcome == CaseOutcome::kPassed) continue;
    StrAppend(&text, result.name, " | ", ReasonOf(result), "\n");
  }
  ASSERT_TRUE(WriteFileAtomically(kListPath, text).ok());
}

std::string Table(const std::vector<CaseResult>& results) {
  std::map<std::string, std::map<CaseOutcome, int>> rows;
  std::map<CaseOutcome, int> total;
  for (const CaseResult& result : results) {
    ++rows[result.row][result.outcome];
    ++total[result.outcome];
  }
  std::string text =
      "| Operator | Passed | Out of scope | Not supported yet | Failing |\n"
      "| --- | ---: | ---: | ---: | ---: |\n";
  const auto append = [&](const std::string& name, std::map<CaseOutcome, int>& counts) {
    StrAppend(&text, "| ", name);
    for (const CaseOutcome outcome : {CaseOutcome::kPassed, CaseOutcome::kOutOfScope,
                                      CaseOutcome::kUnsupported, CaseOutcome::kFailed}) {
      StrAppend(&text, " | ", counts[outcome] == 0 ? "" : StrCat(counts[outcome]));
    }
    StrAppend(&text, " |\n");
  };
  for (auto& [name, counts] : rows) append(name, counts);
  append("**all**", total);
  return text;
}

void WriteTable(const std::vector<CaseResult>& results) {
  const absl::StatusOr<std::string> readme = ReadFile(kReadmePath);
  ASSERT_TRUE(readme.ok());
  const size_t begin = readme->find(kTableBegin), end = readme->find(kTableEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string text =
      StrCat(readme->substr(0, begin + kTableBegin.size()), Table(results), readme->substr(end));
  ASSERT_TRUE(WriteFileAtomically(kReadmePath, text).ok());
}

TEST(Conformance, CasesPassOrAreListedWithTheReason) {
  const char* pattern = std::getenv("MILLRACE_ONNX_CASES");
  const std::vector<std::string> names = ConformanceCases(pattern != nullptr ? pattern : "*");
  if (names.empty()) GTEST_SKIP() << "no cases: install Debian's libonnx-testdata";
  std::vector<CaseResult> results;
  for (const std::string& name : names) results.push_back(RunConformanceCase(name));
  if (std::getenv("MILLRACE_REWRITE_CONFORMANCE") != nullptr && pattern == nullptr) {
    WriteList(results);
    WriteTable(results);
  }
  const std::map<std::string, std::string> list = ReadList();
  int passed = 0;
  for (const CaseResult& result : results) {
    passed += result.outcome == CaseOutcome::kPassed;
    const auto listed = list.find(result.name);
    const std::string expected = listed == list.end() ? "passes" : listed->second;
    EXPECT_EQ(KindOf(ReasonOf(result)), KindOf(expected)) << result.name << ": " << result.message;
    if (pattern != nullptr) {
      std::cout << result.name << ": " << ReasonOf(result) << " " << result.message << "\n";
    }
  }
  std::cout << passed << " of " << results.size() << " cases pass\n";
}

// A list of cases that are not there would grow unseen.
TEST(Conformance, TheListNamesCasesOfTheSuite) {
  const std::vector<std::string> names = ConformanceCases();
  if (names.empty()) GTEST_SKIP() << "no cases: install Debian's libonnx-testdata";
  for (const auto& [name, reason] : ReadList()) {
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), name)) << name;
  }
}

}  // namespace
}  // namespace millrace
