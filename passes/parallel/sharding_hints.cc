#include "passes/parallel/sharding_hints.h"

#include <string>
#include <utility>
#include <vector>

#include "graph/diagnostics.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// Greedy: after a mismatch the last * takes one character more. O(name * pattern).
bool MatchesGlob(std::string_view name, std::string_view pattern) {
  size_t n = 0, p = 0, star = pattern.npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// The same over axes of another order or number.
absl::StatusOr<Sharding> OverMesh(const Sharding& sharding, const Mesh& from, const Mesh& to) {
  return ParseSharding(ToString(sharding, from), to);
}

}  // namespace

absl::Status SetMesh(Graph& graph, std::string_view text) {
  absl::StatusOr<Mesh> mesh = ParseMesh(text);
  if (!mesh.ok()) return mesh.status();
  if (graph.local_types) {
    return UsageError(StrCat("the graph is spread over the mesh ", ToString(graph.mesh),
                             " already; give it the graph as it was before"));
  }
  for (auto& [id, sharding] : graph.shardings) {
    absl::StatusOr<Sharding> over = OverMesh(sharding, graph.mesh, *mesh);
    if (!over.ok()) return Annotate(over.status(), StrCat("'", graph.value(id).name, "'"));
    sharding = *std::move(over);
  }
  graph.mesh = *std::move(mesh);
  return absl::OkStatus();
}

absl::Status AddShardingHint(Graph& graph, std::string_view hint) {
  // The sharding has no '=' in it, names may have.
  const size_t equals = hint.rfind('=');
  if (equals == hint.npos) {
    return UsageError(StrCat("'", hint, "': expected NAME=AXIS:DIM, as in 'w*=tensor:1'"));
  }
  const std::string_view pattern = hint.substr(0, equals);
  absl::StatusOr<Sharding> sharding = ParseSharding(hint.substr(equals + 1), graph.mesh);
  if (!sharding.ok()) return sharding.status();
  const bool is_glob = pattern.find_first_of("*?") != pattern.npos;
  bool found = false;
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    const bool is_given = value.kind == ValueKind::kInput || value.kind == ValueKind::kParam;
    if (is_given) names.push_back(value.name);
    if (is_glob ? !is_given || !MatchesGlob(value.name, pattern) : value.name != pattern) continue;
    if (value.kind == ValueKind::kConstant) {
      return UsageError(StrCat("'", value.name, "' is a constant: each node that reads it takes of ",
                               "it what it needs"));
    }
    graph.shardings[ValueId(i)] = *sharding;
    found = true;
  }
  if (found) return absl::OkStatus();
  const std::string meant = DidYouMean(std::string(pattern), names);
  return UsageError(
      StrCat("no input or param is called '", pattern, "'", meant.empty() ? "" : "; ", meant));
}

}  // namespace millrace
