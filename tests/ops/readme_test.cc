// The table of ops in ops/README.md is made from the ops' definitions. MILLRACE_REWRITE_OPS_TABLE=1
// writes it anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

constexpr std::string_view kBegin = "<!-- ops: begin -->\n", kEnd = "<!-- ops: end -->\n";

// In the order of the table's rows.
enum class Group {
  kElementwise,
  kProducts,
  kReductions,
  kMoves,
  kOthers,
  kHost,
  kGradients,
  kOptimizers,
};
constexpr const char* kGroupNames[] = {"elementwise",      "products",
                                       "reductions, rows", "moving elements",
                                       "others",           "data-dependent, control, communication",
                                       "gradients",        "optimizers"};

Group GroupOf(const OpDef& op) {
  if (absl::StartsWith(op.name, "grad.")) return Group::kGradients;
  if (absl::StartsWith(op.name, "optim.")) return Group::kOptimizers;
  if (op.traits.control_flow != ControlFlow::kNone || op.traits.comm != CommKind::kNone ||
      op.traits.host_call) {
    return Group::kHost;
  }
  switch (op.fusion) {
    case FusionClass::kElementwise:
      return Group::kElementwise;
    case FusionClass::kReduction:
      return Group::kReductions;
    case FusionClass::kShape:
      return Group::kMoves;
    case FusionClass::kContraction:
      return Group::kProducts;
    case FusionClass::kNone:
      break;
  }
  return Group::kOthers;
}

template <typename Predicate>
std::string NamesOf(Predicate&& is_meant) {
  std::vector<std::string> names;
  for (const OpDef& op : AllOps()) {
    if (is_meant(op)) names.push_back(op.name);
  }
  return absl::StrJoin(names, ", ");
}

std::string OpsTable() {
  std::string text;
  for (const int tier : {1, 2}) {
    StrAppend(&text, "| Tier ", tier, " | ops |\n|---|---|\n");
    for (size_t group = 0; group < std::size(kGroupNames); ++group) {
      const std::string names = NamesOf([&](const OpDef& op) {
        return op.tier == tier && GroupOf(op) == static_cast<Group>(group);
      });
      if (!names.empty()) StrAppend(&text, "| ", kGroupNames[group], " | ", names, " |\n");
    }
    StrAppend(&text, "\n");
  }
  StrAppend(&text, "Tier 1 without a gradient: ",
            NamesOf([](const OpDef& op) { return op.tier == 1 && op.gradient == nullptr; }),
            ".\n\nTier 1 without sharding rules (always replicated): ",
            NamesOf([](const OpDef& op) { return op.tier == 1 && op.sharding == nullptr; }), ".\n");
  return text;
}

TEST(OpsReadme, ListsTheOpsThereAre) {
  const std::string path = StrCat(MILLRACE_SOURCE_DIR, "/ops/README.md");
  const absl::StatusOr<std::string> readme = ReadFile(path);
  ASSERT_TRUE(readme.ok()) << readme.status();
  const size_t begin = readme->find(kBegin), end = readme->find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end);
  const size_t from = begin + kBegin.size();
  if (std::getenv("MILLRACE_REWRITE_OPS_TABLE") != nullptr) {
    const std::string text = readme->substr(0, from) + OpsTable() + readme->substr(end);
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
    return;
  }
  EXPECT_EQ(readme->substr(from, end - from), OpsTable())
      << "MILLRACE_REWRITE_OPS_TABLE=1 ops_test --gtest_filter='OpsReadme.*' writes it anew";
}

// The diff that shows how an op is added is that of the op there is.
TEST(Contributing, ShowsModAsItIs) {
  const absl::StatusOr<std::string> page =
      ReadFile(StrCat(MILLRACE_SOURCE_DIR, "/CONTRIBUTING.md"));
  const absl::StatusOr<std::string> file =
      ReadFile(StrCat(MILLRACE_SOURCE_DIR, "/ops/defs/mod.cc"));
  ASSERT_TRUE(page.ok() && file.ok());
  std::string diff = "+++ b/ops/defs/mod.cc\n";
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(*file, "\n"), '\n')) {
    StrAppend(&diff, "+", StdView(line), "\n");
  }
  EXPECT_NE(page->find(StrCat(diff, "```\n")), std::string::npos) << diff;
}

}  // namespace
}  // namespace millrace
