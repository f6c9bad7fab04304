// Golden tests of rewrite passes: each tests/golden/*.txt holds cases of the form
//
//   # RUN: pass,pass
//   # what the case shows
//   <graph text>
//   ---
//   <graph text expected>
//   # applied rule [nodes]: result
//
// separated by lines of "====". Input is inferred and verified first; the passes are run twice, and
// the second run must change nothing. MILLRACE_REWRITE_GOLDEN=1 rewrites the expectations in place:
// read the diff before committing it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/files.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "passes/analytic_target.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

constexpr char kCaseLine[] = "====\n";
constexpr char kExpectedLine[] = "---\n";
constexpr absl::string_view kRun = "# RUN: ";

struct Case {
  std::string input;  // up to and without the "---" line
  std::string expected;
};

std::vector<Case> ParseCases(const std::string& text) {
  std::vector<Case> cases;
  for (const absl::string_view part : absl::StrSplit(text, kCaseLine)) {
    std::pair<std::string, std::string> sides =
        absl::StrSplit(part, absl::MaxSplits(kExpectedLine, 1));
    cases.push_back({sides.first, sides.second});
  }
  return cases;
}

absl::StatusOr<std::vector<Pass>> PassesOf(const Case& c) {
  std::vector<Pass> passes;
  for (absl::string_view line : absl::StrSplit(c.input, '\n')) {
    if (!absl::ConsumePrefix(&line, kRun)) continue;
    for (absl::string_view name : absl::StrSplit(line, ',')) {
      const Pass* pass = FindPass(StdView(absl::StripAsciiWhitespace(name)));
      if (pass == nullptr) return UsageError(StrCat("no pass '", name, "'"));
      passes.push_back(*pass);
    }
  }
  if (passes.empty()) return UsageError("no '# RUN: ' line");
  return passes;
}

std::string RecordText(const RewriteRecord& r) {
  return StrCat("# ", r.applied ? "applied " : "refused ", r.rule, " [",
                absl::StrJoin(r.nodes, ", "), "]: ", r.result, "\n");
}

absl::StatusOr<std::string> RunCase(const Case& c) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Pass> passes, PassesOf(c));
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, ParseGraphText(c.input));
  MILLRACE_RETURN_IF_ERROR(InferTypes(graph));
  MILLRACE_RETURN_IF_ERROR(VerifyGraphAfter(graph, "parse"));
  RunPassesOptions options;
  options.catch_lies = true;
  const AnalyticTarget target("cpu");
  PassContext context;
  context.target = &target;
  MILLRACE_RETURN_IF_ERROR(RunPasses(passes, graph, context, options).status());
  std::string result = ToText(graph);
  for (const RewriteRecord& record : context.records) result += RecordText(record);

  PassContext again;
  again.target = &target;
  MILLRACE_ASSIGN_OR_RETURN(const bool changed, RunPasses(passes, graph, again, options));
  if (changed) return InternalError(StrCat("not idempotent; the second run gave\n", ToText(graph)));
  return result;
}

std::vector<std::string> GoldenFiles() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(MILLRACE_SOURCE_DIR "/tests/golden")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().stem().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, Matches) {
  const std::string path = StrCat(MILLRACE_SOURCE_DIR "/tests/golden/", GetParam(), ".txt");
  const auto text = ReadFile(path);
  ASSERT_TRUE(text.ok()) << text.status();
  std::vector<std::string> rewritten;
  for (const Case& c : ParseCases(*text)) {
    const auto result = RunCase(c);
    ASSERT_TRUE(result.ok()) << c.input << result.status();
    EXPECT_EQ(*result, c.expected) << c.input;
    rewritten.push_back(c.input + kExpectedLine + *result);
  }
  if (std::getenv("MILLRACE_REWRITE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomically(path, absl::StrJoin(rewritten, kCaseLine)).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, testing::ValuesIn(GoldenFiles()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace millrace
