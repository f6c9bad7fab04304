// Reads the nodes of one graph: of the model's own, of a body, of a function that is expanded.
#ifndef MILLRACE_OPS_ONNX_GRAPH_IMPORTER_H_
#define MILLRACE_OPS_ONNX_GRAPH_IMPORTER_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ops/onnx/conversion.h"
#include "ops/onnx/model_import.h"

namespace millrace {

// The names that nodes of one graph may use. A function's names are its own; a body sees those
// around it too, and what it uses from there becomes an input of its own (a capture).
struct OnnxScope {
  OnnxScope* around = nullptr;      // of a body: the names outside
  TypedBuilder* builder = nullptr;  // where nodes are added; a function's is its caller's
  bool in_body = false;             // that graph is nested in another
  absl::flat_hash_map<std::string, ValueId> values;       // !valid(): an operand the caller omitted
  absl::flat_hash_map<std::string, Tensor> initializers;  // become values when first used
  std::vector<std::pair<ValueId, ValueId>> captures;      // (outside, inside)

  // Of a function: what its attributes were set to, and how its names appear in the graph.
  std::map<std::string, const onnx::AttributeProto*> attributes;
  std::string prefix;                          // "call/"
  std::map<std::string, std::string> renamed;  // its results, as the caller names them
  const std::map<std::string, int64_t>* opsets = nullptr;
};

class GraphImporter {
 public:
  // `depth` counts graphs around this one; `calls` has the functions being expanded.
  GraphImporter(ModelImport& import, OnnxScope& scope, int depth,
                std::vector<const OnnxFunction*>& calls)
      : import_(import), scope_(scope), depth_(depth), calls_(calls) {}

  void ReadInitializers(onnx::GraphProto& graph, const OnnxPlace& place);
  // `field`: the number of `nodes` in the graph or function at `place`. False, reported, when they
  // wait for each other.
  bool ReadNodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int field,
                 const OnnxPlace& place);
  void ReadOutputs(const onnx::GraphProto& graph, const OnnxPlace& place);
  void Define(const std::string& name, ValueId value, const OnnxPlace& place);

 private:
  void ReadNode(onnx::NodeProto& node, const OnnxPlace& place);
  void ReadOperands(const onnx::NodeProto& node, const OnnxPlace& place, OnnxNode& result);
  void ReadAttributes(onnx::NodeProto& node, const OnnxPlace& place, OnnxNode& result);
  void ReadAttribute(const std::string& name, onnx::AttributeProto& attribute,
                     const OnnxPlace& place, OnnxNode& result);
  void ReadBody(const std::string& name, onnx::GraphProto& graph, const OnnxPlace& place,
                OnnxNode& result);
  bool ReadBranch(onnx::NodeProto& proto, const OnnxNode& node, const OnnxPlace& place);
  void ExpandBranch(const std::string& name, onnx::GraphProto& graph,
                    const std::vector<std::string>& outputs, const OnnxPlace& place);
  void PassCaptures(OnnxNode& node);
  void AddNode(OnnxNode node, const onnx::NodeProto& proto, const OnnxPlace& place);
  void Expand(const OnnxFunction& function, const onnx::NodeProto& call, OnnxNode node,
              const OnnxPlace& place);
  std::string NameOfCall(const onnx::NodeProto& call) const;
  bool CanExpand(const OnnxFunction& function, const onnx::NodeProto& call, const OnnxNode& node,
                 const OnnxPlace& place);
  OnnxScope ScopeOfCall(const OnnxFunction& function, const onnx::NodeProto& call,
                        const OnnxNode& node) const;

  std::optional<ValueId> Use(const std::string& name, const OnnxPlace& place);
  std::optional<ValueId> Find(OnnxScope& scope, const std::string& name);
  ValueId Materialize(OnnxScope& scope, const std::string& name, Tensor tensor);
  std::string VisibleName(const std::string& name) const;

  ModelImport& import_;
  OnnxScope& scope_;
  const int depth_;
  std::vector<const OnnxFunction*>& calls_;
  // Of the node at hand: its bodies' captures, by body.
  std::vector<std::vector<std::pair<ValueId, ValueId>>> body_captures_;
};

}  // namespace millrace

#endif  // MILLRACE_OPS_ONNX_GRAPH_IMPORTER_H_
