// A node is made in one of two ways. Elementwise ops take what values there are, of any type that
// their signature allows and that broadcasts. All others are drawn from the op cases of tests/ops
// (attributes and operands that fit together), with the floats in one of the op's types; where a
// value of an operand's type is there it is read, and half of the time one of another shape is
// tried as the first operand, which inference may take. Operands that are not floats (positions,
// labels, lengths) keep the data of the case. What is read by nobody becomes an output, and some of
// the rest.
#include "tests/random_graph/random_graph.h"

#include <algorithm>
#include <random>
#include <set>

#include "graph/builder.h"
#include "graph/strings.h"
#include "graph/verify.h"
#include "ops/broadcast.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "ops/signature.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"
#include "tools/differential.h"

namespace millrace {
namespace {

using optest::OpCase;

constexpr int64_t kMaxElements = 4096;
constexpr DType kFloats[] = {DType::kF32, DType::kF32, DType::kF16, DType::kBF16, DType::kF64};

bool Jumps(std::string_view op) {
  static const auto& ops = *new std::set<std::string_view>{
      "Acos",    "Acosh",        "ArgMax",  "ArgMin", "Asin", "Atanh",          "Cast",
      "Ceil",    "Equal",        "Floor",   "IsNaN",  "Less", "LessOrEqual",    "Greater",
      "Log",     "MaxPool",      "NonZero", "Pow",    "Not",  "GreaterOrEqual", "Round",
      "Sign",    "ReduceLogSum", "Sqrt",    "TopK",   "Tan",  "grad.MaxPool",   "OneHot",
      "Dropout", "Reciprocal",   "Div"};
  return ops.contains(op);
}

bool IsElementwise(const OpDef& op) {
  return op.fusion == FusionClass::kElementwise && op.outputs.size() == 1 &&
         op.traits.host_inputs.empty() && op.name != "PRelu" && op.name != "Where" &&
         op.name != "Clip";
}

const std::map<std::string, std::vector<OpCase>>& CasesByOp() {
  static const auto& cases = *[] {
    auto* by_op = new std::map<std::string, std::vector<OpCase>>;
    for (OpCase& c : optest::OpCases()) (*by_op)[c.op].push_back(std::move(c));
    return by_op;
  }();
  return cases;
}

class GraphMaker {
 public:
  GraphMaker(uint64_t seed, int nodes) : random_(seed), nodes_(nodes), builder_("random") {}

  RandomGraph Make() {
    for (int i = 0; i < 3; ++i) Fresh(RandomTensor(AnyDType(), AnyShape(0, 4)), true);
    const std::vector<std::string> ops = RandomGraphOps();
    for (int made = 0, tries = 0; made < nodes_ && tries < 20 * nodes_; ++tries) {
      made += AddNode(ops[Below(ops.size())]);
    }
    ChooseOutputs();
    RandomGraph result{std::move(builder_).Build(), std::move(inputs_)};
    MILLRACE_CHECK(InferTypes(result.graph).ok());
    MILLRACE_CHECK(VerifyGraphAfter(result.graph, "random graph").ok());
    return result;
  }

 private:
  // --- Choices ---------------------------------------------------------------------------------
  size_t Below(size_t n) { return random_() % n; }
  bool OneIn(size_t n) { return Below(n) == 0; }
  DType AnyDType() { return static_cast<DType>(Below(kNumDTypes)); }
  Shape AnyShape(int min_rank, int max_rank) {
    constexpr int64_t kDims[] = {1, 2, 3, 4, 6, 7, 17};
    Shape shape;
    const int rank = min_rank + static_cast<int>(Below(max_rank - min_rank + 1));
    for (int d = 0; d < rank; ++d) shape.push_back(OneIn(24) ? 0 : kDims[Below(7)]);
    return shape;
  }
  Tensor RandomTensor(DType dtype, const Shape& shape) {
    const bool is_signed = IsSigned(dtype);
    return optest::RandomTensor({dtype, shape}, random_(), is_signed ? -2 : 0,
                                dtype == DType::kBool ? 2 : 3);
  }

  // --- Values ----------------------------------------------------------------------------------
  const TensorType& TypeOf(ValueId id) const { return builder_.graph().value(id).type; }

  // `variable`: an input; else an input, a param or a constant.
  ValueId Fresh(Tensor tensor, bool variable = false) {
    const size_t kind = variable ? 0 : Below(4);
    ValueId id;
    if (kind < 2) {
      id = builder_.Input("x", tensor.type());
      inputs_[builder_.graph().value(id).name] = tensor;
    } else if (kind == 2) {
      id = builder_.Param("w", tensor.type(), InlineData(tensor));
    } else {
      id = builder_.Constant("c", tensor);
    }
    Note(id, false, true);
    return id;
  }

  void Note(ValueId id, bool differs, bool in_pool) {
    differs_.resize(builder_.graph().values.size(), false);
    differs_[id.index] = differs;
    if (in_pool) pool_.push_back(id);
  }

  // One of the values for which `fits` holds, or none.
  template <typename Fits>
  ValueId Pick(std::string_view op, const Fits& fits) {
    std::vector<ValueId> found;
    for (const ValueId id : pool_) {
      if (!(Jumps(op) && differs_[id.index]) && fits(TypeOf(id))) found.push_back(id);
    }
    return found.empty() ? ValueId() : found[Below(found.size())];
  }

  // --- Nodes -----------------------------------------------------------------------------------
  bool AddNode(const std::string& name) {
    if (name == "If") return AddIf();
    if (name == "Loop") return AddLoop();
    const OpDef& op = *FindOp(name);
    return IsElementwise(op) && !OneIn(4) ? AddElementwise(op) : AddCase(op);
  }

  bool AddElementwise(const OpDef& op) {
    const auto allowed = [&](int i, DType dtype) {
      const std::vector<DType>& dtypes = OperandAt(op.inputs, i)->dtypes;
      return dtypes.empty() || std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
    };
    const ValueId first = Pick(op.name, [&](const TensorType& t) { return allowed(0, t.dtype); });
    if (!first.valid()) return false;
    std::vector<ValueId> operands = {first};
    size_t count = op.inputs.size();
    if (op.inputs.back().variadic) count = 1 + Below(3);
    for (size_t i = 1; i < count; ++i) {
      const ValueId id = Pick(op.name, [&](const TensorType& t) {
        return t.dtype == TypeOf(first).dtype && BroadcastShapes(t.shape, TypeOf(first).shape).ok();
      });
      operands.push_back(id.valid() && !OneIn(4)
                             ? id
                             : Fresh(RandomTensor(TypeOf(first).dtype, TypeOf(first).shape)));
    }
    Attrs attrs;
    if (op.name == "Cast") attrs.Set("to", std::string(DTypeName(AnyDType())));
    return Append(op, operands, attrs, 1);
  }

  bool AddCase(const OpDef& op) {
    const auto cases = CasesByOp().find(op.name);
    if (cases == CasesByOp().end()) return false;
    const OpCase& c = cases->second[Below(cases->second.size())];
    const DType floats = kFloats[Below(std::size(kFloats))];
    const bool other_shape = OneIn(2);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < c.inputs.size(); ++i)
      operands.push_back(Operand(op, c, i, floats, other_shape));
    return Append(op, operands, c.attrs, c.num_outputs);
  }

  ValueId Operand(const OpDef& op, const OpCase& c, size_t i, DType floats, bool other_shape) {
    const Tensor& data = c.inputs[i];
    if (!data.has_data()) return ValueId();
    const std::vector<int>& host = op.traits.host_inputs;
    if (std::find(host.begin(), host.end(), static_cast<int>(i)) != host.end()) {
      return builder_.Constant("k", data);
    }
    if (data.dtype() != DType::kF64) return Fresh(data);
    const TensorType wanted{floats, data.shape()};
    const ValueId id = Pick(op.name, [&](const TensorType& t) {
      return t == wanted || (other_shape && i == 0 && t.dtype == floats);
    });
    return id.valid() && !OneIn(8) ? id : Fresh(optest::Converted(data, floats));
  }

  // False, and nothing but unread values is added, when the op does not take the operands.
  bool Append(const OpDef& op, const std::vector<ValueId>& operands, const Attrs& attrs,
              int num_outputs) {
    NodeQuery query{op.name, attrs, {}, {}};
    std::vector<Tensor> constants;
    for (const ValueId id : operands) {
      query.inputs.push_back(id.valid() ? std::optional(TypeOf(id)) : std::nullopt);
      const std::optional<Tensor> known =
          id.valid() ? ConstantTensor(builder_.graph(), id) : std::nullopt;
      constants.push_back(known.value_or(Tensor()));
    }
    query.outputs.assign(num_outputs, TensorType());
    const auto types = InferOutputs(query, constants);
    if (!types.ok()) return false;
    for (const TensorType& type : *types) {
      if (NumElements(type.shape) > kMaxElements) return false;
    }
    Finish(builder_.AddNode(op.name, operands, attrs, "", num_outputs), *types,
           !op.traits.host_call);
    return true;
  }

  void Finish(const Node& node, const std::vector<TensorType>& types, bool in_pool) {
    const std::vector<ValueId> inputs = node.inputs, outputs = node.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      builder_.graph().value(outputs[i]).type = types[i];
      builder_.graph().value(outputs[i]).typed = true;
    }
    bool differs = !IsExact(builder_.graph(), builder_.graph().nodes.back());
    differs_.resize(builder_.graph().values.size(), false);
    for (const ValueId id : inputs) differs = differs || (id.valid() && differs_[id.index]);
    for (const ValueId id : outputs) Note(id, differs, in_pool);
  }

  // --- Nested graphs ---------------------------------------------------------------------------
  static bool IsPlainFloat(const TensorType& type) { return IsFloat(type.dtype); }

  // body(v: T) -> T: a few functions one after another.
  ValueId Chain(GraphBuilder& body, ValueId value) {
    constexpr std::string_view kFunctions[] = {"Relu", "Tanh", "Neg", "Sigmoid", "Abs"};
    for (size_t i = Below(4) + 1; i > 0; --i) {
      value = OneIn(3) ? body.Op("Add", {value, value}) : body.Op(kFunctions[Below(5)], {value});
    }
    return value;
  }

  bool AddIf() {
    const ValueId x = Pick("If", IsPlainFloat);
    if (!x.valid()) return false;
    const TensorType type = TypeOf(x);
    const ValueId condition = Fresh(RandomTensor(DType::kBool, {}));
    Node& node = builder_.AddNode("If", {condition, x});
    for (const char* name : {"then_branch", "else_branch"}) {
      GraphBuilder body;
      body.Output(Chain(body, body.Input("v", type)));
      node.subgraphs.push_back({name, std::move(body).Build()});
    }
    return FinishNested(type);
  }

  bool AddLoop() {
    const ValueId x = Pick("Loop", IsPlainFloat);
    if (!x.valid()) return false;
    const TensorType type = TypeOf(x);
    const ValueId trips = Fresh(Tensor::Scalar(static_cast<int64_t>(Below(4))));
    Attrs attrs;
    attrs.Set("max_trips", int64_t{3});
    Node& node = builder_.AddNode("Loop", {trips, ValueId(), x}, attrs);
    GraphBuilder body;
    body.Input("trip", {DType::kI64, {}});
    const ValueId condition = body.Input("condition", {DType::kBool, {}});
    const ValueId carried = body.Input("v", type);
    body.Output(body.Op("Identity", {condition}));
    body.Output(Chain(body, carried));
    node.subgraphs.push_back({"body", std::move(body).Build()});
    return FinishNested(type);
  }

  bool FinishNested(const TensorType& type) {
    Node& node = builder_.graph().nodes.back();
    for (Subgraph& sub : node.subgraphs) MILLRACE_CHECK(InferTypes(sub.graph).ok());
    Finish(node, {type}, true);
    return true;
  }

  void ChooseOutputs() {
    const std::vector<std::vector<NodeId>> readers = ConsumersOf(builder_.graph());
    for (const Node& node : builder_.graph().nodes) {
      for (const ValueId id : node.outputs) {
        if (readers[id.index].empty() || OneIn(4)) outputs_.push_back(id);
      }
    }
    for (const ValueId id : outputs_) builder_.Output(id);
  }

  std::mt19937_64 random_;
  int nodes_;
  GraphBuilder builder_;
  std::map<std::string, Tensor> inputs_;
  std::vector<ValueId> pool_, outputs_;
  std::vector<bool> differs_;  // by value
};

}  // namespace

std::vector<std::string> RandomGraphOps() {
  std::vector<std::string> names;
  for (const OpDef& op : AllOps()) {
    const bool nested = op.name == "If" || op.name == "Loop";
    if (op.name == "fused.Prepack") continue;  // makes bytes that only its reader understands
    if (op.tier == 1 && (op.reference != nullptr || nested)) names.push_back(op.name);
  }
  return names;
}

RandomGraph MakeRandomGraph(uint64_t seed, int nodes) { return GraphMaker(seed, nodes).Make(); }

}  // namespace millrace
