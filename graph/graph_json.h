// The graph file, version 1: "millrace-graph" JSON (schema in graph/schema/graph.schema.json).
// Saving then loading gives the same graph; saving then loading then saving the same bytes.
#ifndef MILLRACE_GRAPH_GRAPH_JSON_H_
#define MILLRACE_GRAPH_GRAPH_JSON_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/json_document.h"
#include "graph/status.h"

namespace millrace {

struct GraphLoadOptions {
  std::map<std::string, int64_t> symbols;  // --set batch=8; a name the file lacks is a UsageError
};

// Reads, binds symbols, orders nodes topologically (stable) and verifies. Result types stay open
// unless the file's "types" give them; ops/infer.h fills them. All errors at once, up to 20.
absl::StatusOr<Graph> LoadGraph(const std::string& path, const GraphLoadOptions& options = {});
absl::StatusOr<Graph> ParseGraphJson(std::string json, std::string file,
                                     const GraphLoadOptions& options = {});
absl::StatusOr<Graph> ParseGraphJson(const JsonDocument& document,
                                     const GraphLoadOptions& options = {});

// The graph that is part of a larger document (a plan file). Faults, unbound symbols among them, go
// to the reader's diagnostics; then there is no graph.
std::optional<Graph> ReadGraph(const JsonReader& reader, const GraphLoadOptions& options = {});

// Canonical JSON, one value or node a line. Types of results are written when `with_types`, and
// with them what the symbols were bound to ("bound"), because they hold for that binding only.
std::string GraphToJson(const Graph& graph, bool with_types = false);

// Writes `path` and, beside it, `<stem>.safetensors` with all data that do not come from files
// already and are too large to be inline. Atomic: write, then rename.
absl::Status SaveGraph(const Graph& graph, const std::string& path);

// What SaveGraph does about weights, for graphs inside other documents: writes `<stem>.safetensors`
// beside `path` with the data that cannot be reached from there, and gives the graph that refers to
// it.
absl::StatusOr<Graph> SaveWeightsBeside(const Graph& graph, const std::string& path);

// A dim as written in a file: integer or expression over symbols ("N", "N*4+1", "(N+1)/2"; / is
// exact division, an error when it leaves a remainder).
// `with_hint`: an error for an unknown symbol names the nearest one, in O(symbols).
absl::StatusOr<int64_t> EvaluateDim(std::string_view expression,
                                    const std::map<std::string, int64_t>& symbols,
                                    bool with_hint = true);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_GRAPH_JSON_H_
