// The names of one graph's values while its file is read: who defined what, and what is meant.
#ifndef MILLRACE_GRAPH_GRAPH_JSON_NAMES_H_
#define MILLRACE_GRAPH_GRAPH_JSON_NAMES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/graph.h"
#include "graph/json_document.h"

namespace millrace {

// A string of 1 to 1024 bytes, in place, or an error.
std::optional<std::string_view> ReadName(const JsonReader& reader);

class ValueNames {
 public:
  // `outer` has the names of the graph around a nested one; null for the outermost. The graph, the
  // document that is read and `outer` must outlive this.
  ValueNames(Graph& graph, const ValueNames* outer) : g_(graph), outer_(outer) {}

  void Reserve(size_t count);

  // Adds a value. An error if the name is taken, but a value all the same, so that what follows has
  // something to refer to.
  ValueId Define(std::string_view name, const JsonReader& reader, ValueKind kind);

  // The value that `reader` names, or an error with the nearest name.
  std::optional<ValueId> Use(const JsonReader& reader);
  // The value called `name`, the key of `member`.
  std::optional<ValueId> UseKey(std::string_view name, const JsonReader& member);

 private:
  void Undefined(std::string_view name, const JsonReader& reader);

  Graph& g_;
  const ValueNames* const outer_;
  absl::flat_hash_map<absl::string_view, ValueId> ids_;  // the names lie in the document
  std::vector<std::string> known_;                       // for hints, once there is a fault
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_GRAPH_JSON_NAMES_H_
