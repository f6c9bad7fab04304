#include "bench/iopddl/instance.h"

#include <zlib.h>

#include <charconv>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "graph/diagnostics.h"
#include "graph/files.h"
#include "graph/json_document.h"
#include "graph/strings.h"
#include "runtime/gzip_status.h"

namespace millrace {
namespace {

constexpr int64_t kMostText = int64_t{1} << 31;

absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  const std::unique_ptr<gzFile_s, Close> file(gzdopen(fd, "rb"));
  if (file == nullptr) return OutOfMemoryError("no memory to read a file with");
  std::string text;
  std::vector<char> chunk(1 << 20);
  while (true) {
    const int size = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()));
    if (size <= 0) break;
    text.append(chunk.data(), static_cast<size_t>(size));
    if (static_cast<int64_t>(text.size()) > kMostText) {
      return BadInputError(StrCat(path, ": more than ", kMostText, " bytes of text"));
    }
  }
  MILLRACE_RETURN_IF_ERROR(GzipStatus(file.get(), path));
  return text;
}

std::vector<int64_t> Int64s(const JsonReader& reader, int64_t max) {
  std::vector<int64_t> numbers;
  reader.ForEachElement(
      [&](JsonReader element) { numbers.push_back(element.Int(0, max).value_or(0)); });
  return numbers;
}

// Lists of lists; `visit` gets the index and the inner list.
template <typename Visit>
size_t ForEachList(const JsonReader& object, std::string_view key, int64_t max, Visit visit) {
  const std::optional<JsonReader> lists = object.Required(key);
  size_t count = 0;
  if (lists) {
    lists->ForEachElement(
        [&](JsonReader element) { visit(element, count++, Int64s(element, max)); });
  }
  return count;
}

void ReadNodes(const JsonReader& nodes, StrategyProblem& problem) {
  ForEachList(nodes, "costs", INT64_MAX, [&](JsonReader, size_t, std::vector<int64_t> costs) {
    problem.nodes.emplace_back().costs = std::move(costs);
  });
  const auto too_many = [](JsonReader list) { list.Error("a list for a node that has no costs"); };
  ForEachList(nodes, "usages", INT64_MAX,
              [&](JsonReader list, size_t i, std::vector<int64_t> usages) {
                if (i >= problem.nodes.size()) return too_many(list);
                problem.nodes[i].usages = std::move(usages);
              });
  ForEachList(nodes, "intervals", INT64_MAX / 2,
              [&](JsonReader list, size_t i, const std::vector<int64_t>& bounds) {
                if (i >= problem.nodes.size()) return too_many(list);
                if (bounds.empty()) return;
                if (bounds.size() != 2) return list.Error("expected two moments");
                problem.nodes[i].begin = bounds[0];
                problem.nodes[i].end = bounds[1];
              });
}

void ReadEdges(const JsonReader& edges, StrategyProblem& problem) {
  ForEachList(edges, "nodes", INT32_MAX,
              [&](JsonReader list, size_t, const std::vector<int64_t>& ends) {
                StrategyEdge& edge = problem.edges.emplace_back();
                if (ends.size() != 2) return list.Error("expected two nodes");
                edge.from = static_cast<int32_t>(ends[0]);
                edge.to = static_cast<int32_t>(ends[1]);
              });
  ForEachList(edges, "costs", INT64_MAX,
              [&](JsonReader list, size_t i, std::vector<int64_t> costs) {
                if (i >= problem.edges.size()) return list.Error("costs of an edge without nodes");
                problem.edges[i].costs = std::move(costs);
              });
}

}  // namespace

absl::StatusOr<StrategyProblem> ParseIopddlInstance(std::string json, const std::string& file) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(std::move(json), file));
  Diagnostics diagnostics;
  StrategyProblem parsed;
  const std::optional<JsonReader> problem = JsonReader(document, diagnostics).Required("problem");
  if (problem) {
    if (const auto nodes = problem->Required("nodes")) ReadNodes(*nodes, parsed);
    if (const auto edges = problem->Required("edges")) ReadEdges(*edges, parsed);
    if (const auto limit = problem->Optional("usage_limit"); limit && !limit->IsNull()) {
      parsed.memory_limit = limit->Int(0, INT64_MAX).value_or(0);
    }
  }
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  MILLRACE_RETURN_IF_ERROR(Annotate(VerifyStrategyProblem(parsed), file));
  return parsed;
}

absl::StatusOr<StrategyProblem> LoadIopddlInstance(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(std::string text, ReadMaybeGzip(path));
  return ParseIopddlInstance(std::move(text), path);
}

absl::StatusOr<std::map<std::string, int64_t>> ParseIopddlResults(std::string_view csv,
                                                                  std::string_view file) {
  std::map<std::string, int64_t> best;
  std::vector<std::string> names;
  for (const auto line :
       absl::StrSplit(AbslView(csv), absl::ByAnyChar("\r\n"), absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, ',');
    if (names.empty()) {
      names = fields;
      continue;
    }
    for (size_t i = 1; i < fields.size() && i < names.size(); ++i) {
      if (fields[i].empty()) continue;
      // Totals of infeasible answers count forbidden pairs, and may not fit 64 bits.
      double cost = 0;
      const char* end = fields[i].data() + fields[i].size();
      if (std::from_chars(fields[i].data(), end, cost).ptr != end || cost < 0) {
        return BadInputError(StrCat(file, ": '", fields[i], "' is no cost"));
      }
      if (cost >= 1e18) continue;
      int64_t& least = best.try_emplace(names[i], INT64_MAX).first->second;
      least = std::min(least, static_cast<int64_t>(cost));
    }
  }
  return best;
}

}  // namespace millrace
