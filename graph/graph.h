// Graph, Node, Value: a model as a dataflow graph in pure SSA form over logical shapes. Views,
// in-place writes, strides, layouts in memory and streams do not exist here; they are plan data
// (graph/plan.h). Everything is plain data in dense vectors, in deterministic order.
//
// A graph has inputs (given anew each step), params (state that outlives a step, trainable or not),
// constants, outputs, and updates: `param <- value` says which value a param holds after the step.
// Every read of a param inside a step sees its value from before the step.
#ifndef MILLRACE_GRAPH_GRAPH_H_
#define MILLRACE_GRAPH_GRAPH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/diagnostics.h"
#include "graph/ids.h"
#include "graph/mesh.h"
#include "graph/tensor.h"
#include "graph/types.h"

namespace millrace {

// --- Attributes -------------------------------------------------------------------------------
// A JSON `1` is an int and `1.0` a double until inference coerces ints to the float attributes of
// the op's schema. An empty list is std::vector<int64_t>.
using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

// Few per node: a vector sorted by name.
class Attrs {
 public:
  const AttrValue* Find(std::string_view name) const;  // nullptr when absent
  void Set(std::string_view name, AttrValue value);    // replaces
  void Erase(std::string_view name);
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  bool operator==(const Attrs&) const = default;

  // Typed reads with a default. A present attribute of another kind is our bug after inference
  // (which checks kinds against the schema): CHECKs. Float accepts an int.
  int64_t Int(std::string_view name, int64_t otherwise) const;
  double Float(std::string_view name, double otherwise) const;
  bool Bool(std::string_view name, bool otherwise) const;  // accepts int 0/1
  std::string String(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> Ints(std::string_view name) const;  // {} when absent

 private:
  std::vector<std::pair<std::string, AttrValue>> items_;
};

// --- Data of params and constants ---------------------------------------------------------------
enum class InitKind : uint8_t { kZeros, kOnes, kUniform, kNormal, kHeNormal, kXavierUniform };

// Seeded initial data. kUniform: [low, high); kNormal: mean 0, deviation `std`. kHeNormal: deviation
// sqrt(2 / fan_in); kXavierUniform: +-sqrt(6 / (fan_in + fan_out)); fans as PyTorch defines them
// (fan_in = dim 1 * receptive field, fan_out = dim 0 * receptive field; rank 2 is [in, out] here).
struct Init {
  InitKind kind = InitKind::kZeros;
  uint64_t seed = 0;
  double low = 0, high = 1, std = 1;
  bool operator==(const Init&) const = default;
};

// Where a param's or constant's data come from; kept as written so that saving is stable and giant
// models need not be materialized.
struct DataSource {
  enum class Kind : uint8_t { kNone, kFile, kInline, kBase64, kSplat, kInit };
  Kind kind = Kind::kNone;
  std::string file;         // kFile: key into Graph::weight_files
  std::string tensor_name;  // kFile: tensor within that file
  Tensor tensor;            // kInline, kBase64: all of it; kSplat: one element, rank 0
  Init init;                // kInit
};

struct WeightFile {
  std::string key;
  std::string path;    // relative to the graph's folder
  std::string sha256;  // hex, or empty
};

// --- Values and nodes ---------------------------------------------------------------------------
enum class ValueKind : uint8_t { kInput, kParam, kConstant, kResult };

struct Value {
  std::string name;  // unique in its graph
  ValueKind kind = ValueKind::kResult;
  bool trainable = false;       // params only
  bool typed = false;           // `type` is known (declared, or inferred)
  bool bounded = false;         // dims are upper bounds: the true ones are known only at run time
  int32_t result_index = -1;    // kResult: which output of `producer`
  NodeId producer;              // kResult only
  int32_t data = -1;            // kParam, kConstant: index into Graph::data
  TensorType type;
  FilePosition position;        // where it was declared, if loaded from a text file
};

// A key the format does not know ("x-..."), kept as compact JSON.
struct Extension {
  std::string key;
  std::string json;
  bool operator==(const Extension&) const = default;
};

struct Subgraph;

struct Node {
  std::string name;  // unique in its graph; never empty in a verified graph
  std::string op;    // "MatMul", "comm.AllReduce"
  std::vector<ValueId> inputs;   // !valid(): an omitted optional input
  std::vector<ValueId> outputs;  // !valid(): an output nobody asked for
  Attrs attrs;
  // Bodies of If, Loop, Scan, by attribute name. A body is closed: what it uses from outside is
  // passed as explicit inputs of the node (the op says how they map to the body's inputs).
  std::vector<Subgraph> subgraphs;
  std::vector<NodeId> after;        // control dependencies, beyond data
  std::string device;               // placement asked for: "", "cuda:0"
  int32_t stream = -1;              // stream asked for, -1: none
  std::string scope;                // source scope, "encoder/layer.3"
  std::vector<std::string> origin;  // names of the source nodes a rewritten node stands for
  std::vector<Extension> extensions;
  int32_t file_index = -1;          // index in the file's node list
  FilePosition position;
};

// param <- value, at the end of a step.
struct Update {
  ValueId param;
  ValueId value;
  bool operator==(const Update&) const = default;
};

// A free dim name, bound at load time.
struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = kMaxBytes;
  int64_t multiple_of = 1;
  std::optional<int64_t> default_value;
  int64_t value = -1;  // what it was bound to
};

struct Graph {
  std::string name;
  std::string producer;  // compact JSON object, or empty
  std::map<std::string, int64_t> opset;
  std::vector<Symbol> symbols;
  std::vector<WeightFile> weight_files;
  Mesh mesh;  // empty: one device
  // Types are those of one device's part, comm.* nodes move data between devices, and `shardings`
  // of inputs, params, constants and outputs say how the parts make the whole: a global dim is the
  // local one times the sizes of the axes that shard it, the mesh's first axis outermost. Data of
  // params and constants are those of the whole.
  bool local_types = false;

  std::vector<Value> values;
  std::vector<Node> nodes;  // in a topological order
  std::vector<ValueId> inputs, params, constants, outputs;
  std::vector<Update> updates;
  std::vector<DataSource> data;

  // Rare facts about values, by value.
  std::map<ValueId, std::vector<std::string>> symbolic_dims;  // dims as written, one per dim
  std::map<ValueId, Sharding> shardings;                      // asked for, or chosen
  std::map<ValueId, std::string> docs;
  std::vector<Extension> extensions;

  std::string file;       // as the user named it; for messages
  std::string directory;  // where weight files lie; "" when not loaded from a file

  const Value& value(ValueId id) const { return values[id.index]; }
  Value& value(ValueId id) { return values[id.index]; }
  const Node& node(NodeId id) const { return nodes[id.index]; }
  Node& node(NodeId id) { return nodes[id.index]; }
  const DataSource& data_of(ValueId id) const { return data[values[id.index].data]; }
};

struct Subgraph {
  std::string name;  // "then_branch", "else_branch", "body"
  Graph graph;
};

// The type of the whole of a value: its own, unless the graph has local types and shards it. Sizes
// that overflow are kMaxBytes + 1, which no type may have.
TensorType GlobalType(const Graph& graph, ValueId value);

// The tensor of a constant whose data are inline, base64 or splat (expanded); nullopt otherwise,
// and where each device holds another part of it.
std::optional<Tensor> ConstantTensor(const Graph& graph, ValueId value);

// For each value the nodes that read it, in node order, each node once per use. O(nodes + uses).
std::vector<std::vector<NodeId>> ConsumersOf(const Graph& graph);

// The graph of a bundle's graph index: 0 is `root`, then nested graphs in depth-first node order.
std::vector<const Graph*> FlattenGraphs(const Graph& root);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_GRAPH_H_
