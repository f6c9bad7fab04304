// Bringing a node of any opset to the engine's own meaning (ops/README.md: ONNX's, opset 17). What
// changed between opsets is a table of small functions, by op and range of opsets; each of them
// changes the node at hand, and may put nodes before it.
#ifndef MILLRACE_OPS_ONNX_CONVERSION_H_
#define MILLRACE_OPS_ONNX_CONVERSION_H_

#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/status.h"
#include "ops/known_values.h"

namespace millrace {

// A node as the file has it, but for operands that are values of our graph already.
struct OnnxNode {
  std::string op;                    // of ONNX's own domain, or "domain.Op"
  std::string name;                  // may be empty
  int64_t opset = 0;                 // version of its domain
  std::vector<ValueId> inputs;       // !valid(): omitted
  std::vector<std::string> outputs;  // "": not wanted
  Attrs attrs;
  std::map<std::string, Tensor> tensors;  // attributes that are tensors
  std::vector<Subgraph> subgraphs;
  int64_t num_captures = 0;  // how many of the last inputs are captures of the subgraphs
};

// A graph under construction. Types and values are worked out when first asked for, because few
// conversions depend on them.
class TypedBuilder : public GraphBuilder {
 public:
  explicit TypedBuilder(std::string name) : GraphBuilder(std::move(name)), known_(graph()) {}

  // Whether no dim that types give may change later, because a symbol is bound anew.
  bool sizes_hold() const { return sizes_hold_; }
  void SetSizesHold(bool sizes_hold) { sizes_hold_ = sizes_hold; }
  // nullopt when it does not follow from what is known.
  std::optional<TensorType> TypeOf(ValueId value);
  // Of constants, and of what follows from constants and sizes.
  std::optional<Tensor> Known(ValueId value);
  // Turns a param into a constant; others stay what they are.
  void MakeConstant(ValueId value);

 private:
  void InferNode(NodeId node);
  std::optional<Tensor> KnownSoFar(ValueId value);  // without inferring what comes after

  bool sizes_hold_ = true;
  KnownValues known_;
  size_t inferred_ = 0;  // nodes
};

class Conversion {
 public:
  Conversion(OnnxNode onnx_node, TypedBuilder& onto) : node(std::move(onnx_node)), builder(onto) {}

  OnnxNode node;
  TypedBuilder& builder;
  // Set by conversions that need no node (Constant): output i is this value.
  std::vector<ValueId> values;

  bool HasInput(size_t i) const { return i < node.inputs.size() && node.inputs[i].valid(); }
  // Input i as a list of integers, when it is known.
  std::optional<std::vector<int64_t>> KnownInts(size_t i);
  std::optional<int> Rank(size_t input);
  std::optional<DType> ElementType(size_t input);

  void SetInput(size_t i, ValueId value);  // fills up with omitted ones
  ValueId Ints(std::span<const int64_t> values);
  ValueId Constant(Tensor tensor);
  // A node before the one at hand; its only result.
  ValueId Emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});

  // An attribute that became input i (a list of integers, rank 1); absent: stays omitted.
  void IntsToInput(std::string_view attr, size_t i);
  // An input that was an attribute, or is one here. BadInputError when its value is not known.
  absl::Status InputToInts(size_t i, std::string_view attr);
  // An attribute with the number of an element type, as our name for it ("f32").
  absl::Status NumberToTypeName(std::string_view attr);
};

using ConvertFn = absl::Status (*)(Conversion& conversion);

struct ConversionRule {
  std::string_view op;
  int64_t first = 0, last = 0;  // the opsets it is for, both included
  ConvertFn convert = nullptr;
};

inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();  // no last opset

// All rules; the ones that apply to a node run in this order.
std::span<const ConversionRule> ShapeRules();
std::span<const ConversionRule> MathRules();
std::span<const ConversionRule> LayerRules();
std::span<const ConversionRule> LoopRules();

// Applies the rules to `conversion.node`. BadInputError says what the node asks for that Millrace
// cannot do.
absl::Status Convert(Conversion& conversion);

// Later opsets than 21 changed no meaning so far, but added ops, types and attributes, which are
// refused by name.
inline constexpr int64_t kNewestOpset = 24;

}  // namespace millrace

#endif  // MILLRACE_OPS_ONNX_CONVERSION_H_
