// OpDef: all there is to know about one operator, in one place. An op is one file in ops/defs/ that
// defines one function returning its OpDef, and one line in ops/op_list.cc.
#ifndef MILLRACE_OPS_OP_DEF_H_
#define MILLRACE_OPS_OP_DEF_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/fused_program.h"
#include "graph/graph.h"
#include "graph/op_traits.h"
#include "graph/status.h"
#include "graph/target.h"

namespace millrace {

// --- Signature ----------------------------------------------------------------------------------
enum class AttrKind : uint8_t { kBool, kInt, kFloat, kString, kInts, kFloats, kStrings };
std::string_view AttrKindName(AttrKind kind);

struct AttrSpec {
  std::string name = {};
  AttrKind kind = AttrKind::kInt;
  std::optional<AttrValue> default_value =
      {};  // nullopt, not required: absence has its own meaning
  bool required = false;
  std::vector<std::string> choices = {};  // kString: allowed values; empty: any
  std::string doc = {};
};

struct OperandSpec {
  std::string name = {};
  std::vector<DType> dtypes = {};  // allowed; empty: any
  bool optional = false;
  bool variadic = false;     // last operand only; one or more (zero or more when optional)
  std::string same_as = {};  // "T": operands of one letter have one dtype; "": free
  std::string doc = {};
};

// --- Inference ----------------------------------------------------------------------------------
class InferContext {
 public:
  virtual ~InferContext() = default;
  virtual const Attrs& attrs() const = 0;  // schema defaults filled in, kinds checked
  virtual int num_inputs() const = 0;
  virtual bool has_input(int i) const = 0;  // false: omitted
  virtual const TensorType& input(int i) const = 0;
  // The data of input i when they are known while planning (a shape, axes): a small constant, or
  // computed from such and from types (ops/known_values.h).
  virtual std::optional<Tensor> constant(int i) const = 0;
  // Why they are not: "it depends on input 'x'".
  virtual std::string why_unknown(int i) const = 0;
  virtual int num_outputs() const = 0;
  virtual bool has_output(int i) const = 0;
  // `bounded`: the dims are upper bounds (ops with trait host_call only).
  virtual void set_output(int i, const TensorType& type, bool bounded = false) = 0;
  // Nested graphs, already inferred with the types this node passes in.
  virtual const Graph* subgraph(std::string_view name) const = 0;
};
// Errors: BadInputError whose message starts with what is wrong ("inner sizes differ: 4 and 5");
// the caller adds node, place and operand types.
using InferFn = absl::Status (*)(InferContext& context);

// --- Reference kernel ---------------------------------------------------------------------------
struct ReferenceContext {
  const Attrs& attrs;              // as in inference
  std::span<const Tensor> inputs;  // has_data() false: omitted
  // Preallocated with the inferred types; has_data() false: not wanted. A bounded output comes
  // empty (no data) with its bound as the type, and is assigned a tensor of the true size.
  std::span<Tensor> outputs;
};
// Obvious, slow, right. Floats below f64 are computed in f32 or wider, sums in f64.
using ReferenceFn = absl::Status (*)(const ReferenceContext& context);

// --- Gradient -----------------------------------------------------------------------------------
struct GradientContext {
  GraphBuilder& builder;
  NodeId node;                            // the forward node, in builder.graph()
  std::span<const ValueId> output_grads;  // !valid(): nothing flows back from that output
  std::vector<bool> wanted;               // per input
  std::vector<ValueId> input_grads;       // result: !valid(): no gradient (zero)
};
// Adds ordinary nodes. nullptr: not differentiable, and autodiff says so by name.
using GradientFn = absl::Status (*)(GradientContext& context);

// --- Sharding -----------------------------------------------------------------------------------
// One way to run the op on the devices of one mesh axis: what each operand is along that axis.
struct ShardingRule {
  std::vector<AxisSharding> inputs = {}, outputs = {};  // per operand of the node
  std::string note = {};                                // "split output features"
};
// All legal ways except "replicate everything", which is always legal. nullptr: only that.
using ShardingFn = std::vector<ShardingRule> (*)(const NodeQuery& query);

// --- Scalar meaning -----------------------------------------------------------------------------
// A value of one element in a formula that is written into a FusedProgram (ops/scalar_program.h).
struct ScalarTerm {
  FusedProgram* program = nullptr;
  int32_t value = -1;  // instruction of the program
  DType dtype = DType::kF32;
  bool valid() const { return value >= 0; }
};
// What an element of the result is, of elements of the inputs (omitted ones: not valid), for ops of
// class kElementwise with one output. Inputs have one dtype, f16 and bf16 come as f32. A term that
// is not valid: these attributes have no formula.
using ScalarFn = ScalarTerm (*)(const Attrs& attrs, std::span<const ScalarTerm> inputs);

// For ops of class kReduction: over the index space of input 0, what an element of output 0 is, by
// reductions over `axes`. Inputs are broadcast over that space.
struct RowForm {
  std::vector<int> axes;  // in order
  ScalarTerm result;
};
// nullopt: these types and attributes have no such form. The query is inferred; f16 and bf16 inputs
// come as f32.
using RowFn = std::optional<RowForm> (*)(const NodeQuery& query,
                                         std::span<const ScalarTerm> inputs);

// --- Work ---------------------------------------------------------------------------------------
struct Work {
  double flops = 0;  // a multiply-add counts 2, a transcendental 1
  double bytes = 0;  // each operand moved once
};
using WorkFn = Work (*)(const NodeQuery& query);

enum class FusionClass : uint8_t {
  kNone,         // stands alone
  kElementwise,  // one scalar program per output element, broadcasting inputs
  kReduction,    // rows of a reduction (Softmax, LayerNormalization, ReduceSum)
  kShape,        // moves or renames elements only (Reshape, Transpose, Slice)
  kContraction,  // MatMul, Conv: may take an epilogue
};

struct OpDef {
  std::string name = {};  // ONNX's, or domain-prefixed
  std::string doc = {};   // one line
  int tier = 1;
  std::vector<OperandSpec> inputs = {}, outputs = {};
  std::vector<AttrSpec> attrs = {};
  std::vector<std::string> subgraphs = {};  // names of nested graphs
  OpTraits traits = {};
  // Inputs whose data are never read: their types are all that matters (Shape, CastLike's second).
  std::vector<int> type_only_inputs = {};
  // Results have sizes that follow from ranks and attributes alone (Shape): they are known even
  // where those of the inputs are not.
  bool sizes_by_rank = false;
  FusionClass fusion = FusionClass::kNone;
  // kElementwise with one output: the scalar op, for ops that are just that.
  std::string scalar_op = {};
  ScalarFn scalar = nullptr;  // for those that are several
  RowFn row = nullptr;        // kReduction

  InferFn infer = nullptr;          // never null
  ReferenceFn reference = nullptr;  // null for control flow and comm ops only
  GradientFn gradient = nullptr;
  ShardingFn sharding = nullptr;
  WorkFn work = nullptr;  // null: DefaultWork
};

// The explicit list, sorted by name. Built once.
std::span<const OpDef> AllOps();
const OpDef* FindOp(std::string_view name);
std::string DidYouMeanOp(std::string_view name);  // "did you mean 'Relu'?" or ""

// Traits of all ops, as the plan checker takes them.
const OpTraitsTable& AllOpTraits();

// Bytes: operands once; FLOPs: one per output element for elementwise and reductions, else 0.
Work DefaultWork(const NodeQuery& query);
Work WorkOf(const NodeQuery& query);  // the op's WorkFn or DefaultWork; {} for unknown ops

// The op's rules for a query whose types were inferred; what callers use. Empty for unknown ops.
std::vector<ShardingRule> ShardingRulesOf(const NodeQuery& query);

}  // namespace millrace

#endif  // MILLRACE_OPS_OP_DEF_H_
