// The table of ops and their kernels in ops/cuda/README.md is what the target says of all op cases.
// MILLRACE_REWRITE_GOLDEN=1 writes it anew.
#include <cstdlib>
#include <map>
#include <set>

#include "graph/files.h"
#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/cuda/cuda_family.h"
#include "tests/cuda_simt/simt_cases.h"

namespace millrace {
namespace {

constexpr char kReadme[] = MILLRACE_SOURCE_DIR "/ops/cuda/README.md";
constexpr std::string_view kBegin = "<!-- Written by cuda_simt_test. -->\n";
constexpr std::string_view kEnd = "<!-- End of what is written by cuda_simt_test. -->\n";

// "program" or "cudnn, tiles; some host": what the cases of an op get, best first.
std::string KernelsOf(const std::vector<NodeQuery>& queries) {
  std::set<std::string> names;
  bool on_host = false;
  for (const NodeQuery& query : queries) {
    const std::vector<KernelVariant> variants = CudaTarget().Variants(query);
    on_host = on_host || variants[0].on_host;
    for (const KernelVariant& variant : variants) {
      if (!variant.on_host) names.insert(variant.name);
    }
  }
  std::string text;
  for (const CudaFamily& family : CudaFamilies()) {
    const std::string name(family.name);
    if (name == "empty" || !names.contains(name)) continue;
    StrAppend(&text, text.empty() ? "" : ", ", name);
  }
  if (text.empty()) return "host";
  return on_host ? StrCat(text, "; some types or forms: host") : text;
}

std::string TableOfOps() {
  std::map<std::string, std::vector<NodeQuery>> queries;
  for (SimtCase& c : SimtCases()) queries[c.query.op].push_back(std::move(c.query));
  std::map<std::string, std::vector<std::string>> ops_by_kernels;
  for (const auto& [op, of_op] : queries) ops_by_kernels[KernelsOf(of_op)].push_back(op);
  std::string table = "| Kernels, best first | Ops |\n|---|---|\n";
  for (const auto& [kernels, ops] : ops_by_kernels) {
    StrAppend(&table, "| ", kernels, " | ");
    for (size_t i = 0; i < ops.size(); ++i) StrAppend(&table, i == 0 ? "" : ", ", ops[i]);
    StrAppend(&table, " |\n");
  }
  return table;
}

TEST(CudaReadme, TableIsWhatTheTargetOffers) {
  const absl::StatusOr<std::string> readme = ReadFile(kReadme);
  ASSERT_TRUE(readme.ok()) << readme.status();
  const size_t begin = readme->find(kBegin), end = readme->find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  const size_t from = begin + kBegin.size();
  const std::string table = TableOfOps();
  if (std::getenv("MILLRACE_REWRITE_GOLDEN") != nullptr) {
    const std::string text = StrCat(readme->substr(0, from), table, readme->substr(end));
    ASSERT_TRUE(WriteFileAtomically(kReadme, text).ok());
    return;
  }
  EXPECT_EQ(readme->substr(from, end - from), table);
}

}  // namespace
}  // namespace millrace
