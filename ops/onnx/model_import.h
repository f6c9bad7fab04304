// What all parts of one import share: the model, where messages go, and what was seen so far.
#ifndef MILLRACE_OPS_ONNX_MODEL_IMPORT_H_
#define MILLRACE_OPS_ONNX_MODEL_IMPORT_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/diagnostics.h"
#include "graph/graph.h"
#include "ops/onnx/onnx.h"
#include "ops/onnx/proto.h"
#include "ops/onnx/tensor_proto.h"
#include "ops/onnx/wire.h"

namespace millrace {

// A place in a model: the way from the outermost message, as a list that grows inwards.
struct OnnxPlace {
  const OnnxPlace* outer = nullptr;
  const char* field = "";  // its name; "" for the model itself
  WireStep step;
  bool repeated = false;
};

// A function of the model. What is younger than the schema we build with comes from its unknown
// fields.
struct OnnxFunction {
  int index = 0;
  const onnx::FunctionProto* proto = nullptr;
  std::vector<onnx::AttributeProto> defaults;  // of attributes
  std::map<std::string, int64_t> opsets;       // empty: the model's
};

struct UnsupportedOp {
  int64_t count = 0;
  std::string first_node;  // its name
  int64_t offset = -1;     // of the first
};

struct ModelImport {
  ModelImport(onnx::ModelProto& the_model, std::string_view the_bytes, const std::string& the_file,
              const OnnxImportOptions& the_options, Diagnostics& the_diagnostics);

  onnx::ModelProto& model;
  const std::string_view bytes;
  const std::string& file;
  const OnnxImportOptions& options;
  Diagnostics& diagnostics;
  ExternalData external;
  std::map<std::string, int64_t> opsets;          // by domain; "" is ONNX's
  std::map<std::string, OnnxFunction> functions;  // by FunctionKey
  std::vector<Symbol> symbols;
  std::map<std::string, UnsupportedOp> unsupported;
  int64_t nodes_left;  // that functions may still be expanded to

  void Report(const OnnxPlace& place, std::string message, std::string hint = "");
  int64_t OffsetOf(const OnnxPlace& place) const;

  // The symbol of that name, bound to its value; new ones are added.
  Symbol& SymbolFor(std::string_view name);
  // The dynamic dims of a type are those of `shape`, but for what the caller said of them.
  void BindDims(const onnx::TypeProto& type, const std::string& input, const Shape& shape);
  bool HasOpenSymbols() const;

 private:
  std::map<std::string, size_t> symbol_index_;
};

// Domain, name and overload, which together name a function.
std::string FunctionKey(const onnx::NodeProto& call);
std::string FunctionKey(const onnx::FunctionProto& function);

// By domain; "" is ONNX's own, which has the name "ai.onnx" too.
std::map<std::string, int64_t> ReadOpsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& entries);

// A type as inputs declare it. nullopt, reported, for what is no tensor or has no rank. `name` is
// the input's. `dims` gets the dims as written when one of them is a symbol.
std::optional<TensorType> ReadOnnxType(ModelImport& import, const onnx::TypeProto& type,
                                       const std::string& name, const OnnxPlace& place,
                                       std::vector<std::string>* dims);

}  // namespace millrace

#endif  // MILLRACE_OPS_ONNX_MODEL_IMPORT_H_
