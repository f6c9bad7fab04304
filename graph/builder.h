// GraphBuilder: makes graphs in code. Keeps names unique and values dense; leaves types of results
// to inference (ops/infer.h), checks nothing else (graph/verify.h does). The public way to write a
// model in C++; loaders and passes use it too.
#ifndef MILLRACE_GRAPH_BUILDER_H_
#define MILLRACE_GRAPH_BUILDER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/graph.h"

namespace millrace {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "");
  // Continues an existing graph: new nodes come after its last one.
  explicit GraphBuilder(Graph graph);

  // Names already taken get the suffix "_1", "_2", ...; an empty name becomes the op's, lower case.
  ValueId Input(std::string_view name, const TensorType& type);
  ValueId Param(std::string_view name, const TensorType& type, DataSource data,
                bool trainable = true);
  ValueId Constant(std::string_view name, Tensor tensor);

  // Appends a node with `num_outputs` fresh results named after it ("fc", "fc.1", ...). The
  // reference stays valid until the next call.
  Node& AddNode(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                std::string_view name = "", int num_outputs = 1);
  // AddNode's first output.
  ValueId Op(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
             std::string_view name = "");

  void Output(ValueId value);
  void AddUpdate(ValueId param, ValueId value);

  // A fresh, untyped result value, for callers that fill nodes themselves.
  ValueId NewResult(std::string_view name);
  std::string UniqueValueName(std::string_view name);
  std::string UniqueNodeName(std::string_view name);

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  Graph Build() && { return std::move(graph_); }

 private:
  ValueId AddValue(std::string_view name, ValueKind kind);

  Graph graph_;
  absl::flat_hash_set<std::string> value_names_, node_names_;
  absl::flat_hash_map<std::string, int64_t> next_suffix_;
};

DataSource InlineData(Tensor tensor);
DataSource InitData(const Init& init);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_BUILDER_H_
