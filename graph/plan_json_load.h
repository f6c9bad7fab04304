// Parts of the plan file's reader: references, scalars, and the reader of one instruction
// (plan_json_instruction.cc). Private to graph/plan_json_*.cc.
#ifndef MILLRACE_GRAPH_PLAN_JSON_LOAD_H_
#define MILLRACE_GRAPH_PLAN_JSON_LOAD_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/json_document.h"
#include "graph/plan.h"

namespace millrace::plan_json {

inline constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// The names of one kind of thing, and the indices they stand for.
class References {
 public:
  explicit References(std::string what) : what_(std::move(what)) {}  // for messages: "buffer"

  void Add(std::string name);
  // A name, or an index where `by_index`; -1 after an error.
  int32_t Resolve(const JsonReader& reader, bool by_index = true) const;
  int32_t Resolve(const std::optional<JsonReader>& reader, bool by_index = true) const {
    return reader ? Resolve(*reader, by_index) : -1;
  }

 private:
  std::string what_;
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, int32_t> index_;  // kAmbiguous: the name was added twice
};

// Nodes and values of one of the bundle's graphs.
struct GraphNames {
  References nodes{"node"}, values{"value"};
};

// All that an instruction of one program can refer to.
struct Names {
  Mesh mesh;
  std::vector<GraphNames> graphs;
  References programs{"program"};
  // Of the program being read.
  References buffers{"buffer"}, streams{"stream"}, events{"event"}, segments{"segment"};
  int64_t num_slices = 0;
};

// --- Members: each takes nullopt for "an error was given already" and then gives a default
// -------- `member` of `object`, with an error when it is absent.
std::optional<JsonReader> Need(const JsonReader& object, const std::optional<JsonReader>& member,
                               std::string_view key);
int64_t ReadInt(const std::optional<JsonReader>& reader, int64_t min, int64_t max);
std::string ReadString(const std::optional<JsonReader>& reader, bool allow_empty = true);
// A number, or an expression as graph/expr.h writes it.
LinearExpr ReadExpr(const std::optional<JsonReader>& reader, const Mesh& mesh);
int32_t ReadGraphIndex(const std::optional<JsonReader>& reader, const Names& names,
                       int32_t otherwise);
SliceId ReadSliceId(const std::optional<JsonReader>& reader, const Names& names);
// An index in `choices`.
int ReadChoice(const std::optional<JsonReader>& reader, const std::vector<std::string>& choices);

// Visits the elements; an absent list is an empty one.
template <typename F>
void ForEach(const std::optional<JsonReader>& list, F visit) {
  if (list) list->ForEachElement([&](JsonReader item) { visit(item); });
}

// Splits [first, second]; false (with an error naming `expected`) for anything else.
bool ReadPair(const JsonReader& reader, std::string_view expected,
              std::optional<JsonReader> (&pair)[2]);

Instruction ReadInstruction(const JsonReader& reader, int32_t segment_graph, const Names& names);

}  // namespace millrace::plan_json

#endif  // MILLRACE_GRAPH_PLAN_JSON_LOAD_H_
