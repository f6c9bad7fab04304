#include "tools/rewrite_options.h"

#include <filesystem>
#include <map>

#include "absl/strings/str_split.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {

const char* RewriteOptions::Given() const {
  if (level >= 0) return "-O";
  if (!passes.empty()) return "--passes";
  if (!without.empty()) return "--disable-pass";
  if (!precision.empty()) return "--precision";
  if (fast_math) return "--fast-math";
  if (!dumps.empty()) return "--dump-after";
  return verify_each ? "--verify-each" : nullptr;
}

void AddRewriteOptions(OptionList& list, RewriteOptions& options) {
  list.Count(
      "-O", options.level, 0, kMaxLevel,
      StrCat("Rewrite what plans need (0), what always pays (1), what the cost model favours "
             "(2), also what takes long to find (3) [",
             kDefaultLevel, "]"));
  list.Text("--passes", "A,B", options.passes, "Run these passes instead");
  list.Text("--disable-pass", "A,B", options.without, "Run all but these passes");
  list.Text("--precision", "f32|bf16|f16", options.precision,
            "bf16, f16: compute matrix products and convolutions of f32 in it, with sums in f32");
  list.Flag("--fast-math", options.fast_math,
            "Compute as real numbers allow: other roundings, NaN and infinities not kept");
  list.Pairs("--dump-after", "PASS|all DIR", options.dumps,
             "Write the graph after a pass, or each of them, to a folder");
  list.Flag("--verify-each", options.verify_each,
            "Also catch passes that change a graph and do not say so");
  list.AtMostOne({"-O", "--passes"});
}

namespace {

std::vector<std::string> Names(const std::string& list) {
  if (list.empty()) return {};
  return absl::StrSplit(list, ',');
}

// One graph as text: 03-merge-moves.txt.
absl::Status Dump(const Graph& graph, const std::string& folder, int number,
                  std::string_view name) {
  const std::string digits = StrCat(number < 10 ? "0" : "", number);
  const std::string path = StrCat(folder, "/", digits, "-", name, ".txt");
  return Annotate(WriteFileAtomically(path, ToText(graph)), "--dump-after");
}

absl::Status AddDumps(const RewriteOptions& options, const Graph& input, CompileOptions& compile) {
  std::multimap<std::string, std::string> folders;  // by pass
  for (size_t i = 0; i + 1 < options.dumps.size(); i += 2) {
    const std::string &pass = options.dumps[i], &folder = options.dumps[i + 1];
    if (pass != "all") {
      MILLRACE_RETURN_IF_ERROR(Annotate(SelectPasses({.only = {pass}}).status(), "--dump-after"));
    }
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return UsageError(StrCat("--dump-after: ", folder, ": ", error.message()));
    if (pass == "all") MILLRACE_RETURN_IF_ERROR(Dump(input, folder, 0, "input"));
    folders.emplace(pass, folder);
  }
  if (folders.empty()) return absl::OkStatus();
  int number = 0;
  compile.running.after = [folders, number](const Pass& pass, const Graph& graph,
                                            bool) mutable -> absl::Status {
    ++number;
    for (const std::string& name : {std::string("all"), pass.name}) {
      const auto [begin, end] = folders.equal_range(name);
      for (auto folder = begin; folder != end; ++folder) {
        MILLRACE_RETURN_IF_ERROR(Dump(graph, folder->second, number, pass.name));
      }
    }
    return absl::OkStatus();
  };
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyRewriteOptions(const RewriteOptions& options, const Graph& input,
                                 CompileOptions& compile) {
  if (options.level >= 0) compile.passes.level = options.level;
  compile.passes.only = Names(options.passes);
  compile.passes.without = Names(options.without);
  if (options.precision == "bf16" || options.precision == "f16") {
    compile.passes.also.push_back(StrCat("lower-to-", options.precision));
  } else if (!options.precision.empty() && options.precision != "f32") {
    return UsageError(StrCat("--precision is f32, bf16 or f16, not '", options.precision, "'"));
  }
  if (options.fast_math) compile.passes.also.push_back("relax-algebra");
  MILLRACE_RETURN_IF_ERROR(SelectPasses(compile.passes).status());
  compile.running.catch_lies = options.verify_each;
  return AddDumps(options, input, compile);
}

absl::Status CheckPrecision(const RewriteOptions& options,
                            const std::vector<RewriteRecord>& records) {
  const RewriteRecord* refused = nullptr;
  for (const RewriteRecord& record : records) {
    if (record.pass != StrCat("lower-to-", options.precision)) continue;
    if (record.applied) return absl::OkStatus();
    if (refused == nullptr) refused = &record;
  }
  if (refused == nullptr) return absl::OkStatus();
  return UsageError(StrCat("--precision ", options.precision, ": nothing can be computed in it; '",
                           refused->nodes[0], "': ", refused->result));
}

std::string RewriteSummary(const std::vector<RewriteRecord>& records) {
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> counts;
  for (const RewriteRecord& record : records) {
    auto& [applied, refused] = counts[{record.pass, record.rule}];
    ++(record.applied ? applied : refused);
  }
  if (counts.empty()) return "";
  Table table({"rewrite", "rule", ">applied", ">refused"});
  for (const auto& [rule, count] : counts) {
    table.Row({rule.first, rule.second, FormatCount(count.first), FormatCount(count.second)});
  }
  return "\n" + table.ToString("  ");
}

Json RewritesToJson(const std::vector<RewriteRecord>& records) {
  Json list = Json::array();
  for (const RewriteRecord& record : records) {
    list.push_back({{"pass", record.pass},
                    {"rule", record.rule},
                    {"nodes", record.nodes},
                    {"result", record.result},
                    {"applied", record.applied}});
  }
  return list;
}

}  // namespace millrace
