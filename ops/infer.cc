// Type inference walks the nodes once, in order. For each: look the op up, normalize and check the
// attributes, infer its bodies, check the operands against the signature, let the op's own rule
// give the result types, and store them.
//
// A node with a fault gives its results no types, and a node that reads an untyped value is passed
// over in silence (but for its attributes and operand count), so that one mistake is told once. A
// result whose type the file declares keeps it, and inference goes on from there.
//
// Fast path: nothing is copied or allocated for a node whose attributes are complete or empty and
// whose op asks for no constants; texts are made only for faults. O(operands + results), and what
// known values cost where they are asked for.
#include "ops/infer.h"

#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "graph/control_flow.h"
#include "graph/strings.h"
#include "ops/known_values.h"
#include "ops/op_def.h"
#include "ops/signature.h"

namespace millrace {
namespace {

constexpr int kMaxNesting = 64;       // graphs within graphs, as deep as files may nest
constexpr int kMaxOperandsShown = 8;  // in a diagnostic

struct Result {
  bool wanted = false;
  bool set = false;
  bool bounded = false;
  TensorType type;
};

// "1 input and 2 outputs".
std::string InputsAndOutputs(size_t inputs, size_t outputs) {
  return StrCat(inputs, inputs == 1 ? " input and " : " inputs and ", outputs,
                outputs == 1 ? " output" : " outputs");
}

// The node at hand, as an op's InferFn sees it.
struct NodeContext final : InferContext {
  const Attrs* filled_attrs = nullptr;
  absl::InlinedVector<const TensorType*, 8> inputs;  // nullptr: omitted
  absl::InlinedVector<Result, 4> results;
  // Constants and bodies come from a graph's node, or, when there is none, from `constants`.
  KnownValues* known = nullptr;
  const Node* node = nullptr;
  std::span<const Tensor> constants;

  const Attrs& attrs() const override { return *filled_attrs; }
  int num_inputs() const override { return static_cast<int>(inputs.size()); }
  bool has_input(int i) const override { return i < num_inputs() && inputs[i] != nullptr; }
  const TensorType& input(int i) const override {
    MILLRACE_CHECK(has_input(i));
    return *inputs[i];
  }
  std::optional<Tensor> constant(int i) const override {
    if (!has_input(i)) return std::nullopt;
    if (known != nullptr) return known->Of(node->inputs[i]);
    if (i >= static_cast<int>(constants.size()) || !constants[i].has_data()) return std::nullopt;
    return constants[i];
  }
  std::string why_unknown(int i) const override {
    if (!has_input(i)) return "it is omitted";
    return known != nullptr ? known->WhyUnknown(node->inputs[i]) : "its data are not given";
  }
  int num_outputs() const override { return static_cast<int>(results.size()); }
  bool has_output(int i) const override { return i < num_outputs() && results[i].wanted; }
  void set_output(int i, const TensorType& type, bool bounded) override {
    if (i < num_outputs()) results[i] = {results[i].wanted, true, bounded, type};
  }
  const Graph* subgraph(std::string_view name) const override {
    if (node == nullptr) return nullptr;
    for (const Subgraph& sub : node->subgraphs) {
      if (sub.name == name) return &sub.graph;
    }
    return nullptr;
  }
};

// The op's own rule; the context's results are set and within bounds when it is ok.
absl::Status RunInfer(const OpDef& op, NodeContext& context) {
  MILLRACE_RETURN_IF_ERROR(op.infer(context));
  for (size_t i = 0; i < context.results.size(); ++i) {
    const Result& result = context.results[i];
    if (result.wanted) MILLRACE_CHECK(result.set);  // the op's rule covers each result asked for
    if (!result.set || CheckedByteSize(result.type).has_value()) continue;
    return BadInputError(StrCat("result '", OperandName(op.outputs, static_cast<int>(i)), "' of ",
                                ToString(result.type), " is larger than 2^48 bytes"));
  }
  return absl::OkStatus();
}

class GraphWalk {
 public:
  GraphWalk(Graph& graph, KnownValues known, const std::string& file, std::string pointer,
            int depth, Diagnostics& diagnostics)
      : graph_(graph),
        known_(std::move(known)),
        file_(file),
        pointer_(std::move(pointer)),
        depth_(depth),
        diagnostics_(diagnostics) {}

  void Run() {
    CheckDeclaredTypes();
    for (Node& node : graph_.nodes) InferNode(node);
    CheckUpdates();
  }

 private:
  void CheckDeclaredTypes();
  void CheckUpdates();
  void InferNode(Node& node);
  bool InferBodies(const OpDef& op, Node& node);
  bool InferBody(const Node& node, const CallForm& form, Subgraph& sub);
  bool BindInputs(const Node& node, const CallForm& form, Subgraph& sub);
  bool BindInput(const Node& node, const BodyPort& port, Value& to, const std::string& body_name);
  bool BindCounter(const Node& node, const BodyPort& port, Value& to, const std::string& body_name);
  void Report(const Node& node, SignatureFault fault);
  bool ReportAll(const Node& node);
  void StoreResults(const OpDef& op, Node& node);

  std::string NodePointer(const Node& node) const;
  std::string Source(ValueId id) const;
  std::string OperandList(const Node& node) const;

  Graph& graph_;
  KnownValues known_;
  const std::string& file_;
  const std::string pointer_;  // of this graph in the file; "" for the root
  const int depth_;
  Diagnostics& diagnostics_;
  NodeContext context_;                 // of the node at hand
  std::vector<SignatureFault> faults_;  // likewise
  Attrs storage_;                       // likewise, for attributes with defaults filled in
};

// The ops' rules may count elements of operands, so types that overflow end here.
void GraphWalk::CheckDeclaredTypes() {
  for (Value& value : graph_.values) {
    if (!value.typed || CheckedByteSize(value.type).has_value()) continue;
    value.typed = false;
    diagnostics_.Add({.file = file_,
                      .position = value.position,
                      .pointer = StrCat(pointer_, pointer_.empty() ? "" : "/", value.name),
                      .message = StrCat("'", value.name, "' is too large, or has a negative dim"),
                      .expected = "at most 2^48 bytes",
                      .found = ToString(value.type),
                      .hint = ""});
  }
}

// What a param is updated with has the param's type.
void GraphWalk::CheckUpdates() {
  for (size_t i = 0; i < graph_.updates.size(); ++i) {
    const Value& param = graph_.value(graph_.updates[i].param);
    const Value& value = graph_.value(graph_.updates[i].value);
    if (!param.typed || !value.typed || param.type == value.type) continue;
    diagnostics_.Add(
        {.file = file_,
         .position = param.position,
         .pointer = StrCat("/updates/", i),
         .message = StrCat("param '", param.name, "' is updated with another type"),
         .expected = ToString(param.type),
         .found = StrCat(ToString(value.type), " from ", Source(graph_.updates[i].value)),
         .hint = ""});
  }
}

void GraphWalk::InferNode(Node& node) {
  const OpDef* op = FindOp(node.op);
  if (op == nullptr) {
    return Report(node, {.pointer = "/op",
                         .message = StrCat("unknown op '", node.op, "'"),
                         .hint = diagnostics_.full() ? "" : DidYouMeanOp(node.op)});
  }
  if (!node.attrs.empty() || !op->attrs.empty()) CheckAttrs(*op, node.attrs, faults_);

  context_.inputs.clear();
  bool known = true;  // all operands that are there have types
  static const TensorType kUntyped;
  for (ValueId id : node.inputs) {
    const bool typed = id.valid() && graph_.value(id).typed;
    context_.inputs.push_back(!id.valid() ? nullptr : typed ? &graph_.value(id).type : &kUntyped);
    known &= typed || !id.valid();
  }
  CheckOperandCounts(*op, context_.inputs, static_cast<int>(node.outputs.size()), faults_);
  if (ReportAll(node)) return;
  if (!op->subgraphs.empty() || !node.subgraphs.empty()) known &= InferBodies(*op, node);
  if (!known) return;
  CheckOperandTypes(*op, context_.inputs, faults_);
  if (ReportAll(node)) return;

  context_.results.clear();
  for (ValueId id : node.outputs) context_.results.push_back({.wanted = id.valid(), .type = {}});
  context_.filled_attrs = &WithDefaults(*op, node.attrs, storage_);
  context_.known = &known_;
  context_.node = &node;
  const absl::Status status = RunInfer(*op, context_);
  if (!status.ok()) {
    return Report(node,
                  {.message = std::string(StdView(status.message())), .about_operands = true});
  }
  StoreResults(*op, node);
}

void GraphWalk::StoreResults(const OpDef& op, Node& node) {
  // A result computed from a value of unknown size has an unknown size itself, unless it has no
  // dims or the op knows better. Bodies know for themselves.
  bool reads_bounded = false;
  if (op.traits.control_flow == ControlFlow::kNone && !op.sizes_by_rank) {
    for (ValueId id : node.inputs) reads_bounded |= id.valid() && graph_.value(id).bounded;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const Result& result = context_.results[i];
    Value& value = graph_.value(node.outputs[i]);
    value.bounded = result.bounded || (reads_bounded && result.type.shape.rank() > 0);
    if (value.typed && value.type != result.type) {
      Report(node, {.pointer = StrCat("/outputs/", i),
                    .message = StrCat("result '", value.name, "' has another type than declared"),
                    .expected = ToString(result.type),
                    .found = ToString(value.type)});
      continue;
    }
    value.type = result.type;
    value.typed = true;
  }
}

// Plans tell bodies apart by their number, so they stand in the op's order, whatever the file's.
void OrderBodies(const OpDef& op, Node& node) {
  const auto rank = [&](const Subgraph& sub) {
    return std::find(op.subgraphs.begin(), op.subgraphs.end(), sub.name);
  };
  std::stable_sort(node.subgraphs.begin(), node.subgraphs.end(),
                   [&](const Subgraph& a, const Subgraph& b) { return rank(a) < rank(b); });
}

// False when the types that the bodies give stay unknown.
bool GraphWalk::InferBodies(const OpDef& op, Node& node) {
  const int64_t faults_before = diagnostics_.total();
  for (const Subgraph& sub : node.subgraphs) {
    if (std::find(op.subgraphs.begin(), op.subgraphs.end(), sub.name) != op.subgraphs.end())
      continue;
    Report(node, {.message = StrCat("unknown nested graph '", sub.name, "'"),
                  .hint = DidYouMean(sub.name, op.subgraphs)});
  }
  if (op.subgraphs.empty()) return false;
  OrderBodies(op, node);
  const absl::StatusOr<CallForm> form = FormOf(op.traits.control_flow, node);
  if (!form.ok()) {
    Report(node, {.message = std::string(StdView(form.status().message()))});
    return false;
  }
  bool known = true;
  for (const std::string& name : op.subgraphs) {
    const auto sub = std::find_if(node.subgraphs.begin(), node.subgraphs.end(),
                                  [&](const Subgraph& s) { return s.name == name; });
    if (sub == node.subgraphs.end()) {
      Report(node, {.message = StrCat("nested graph '", name, "' is missing")});
    } else if (depth_ + 1 >= kMaxNesting) {
      Report(node, {.message = StrCat("graphs are nested more than ", kMaxNesting, " deep")});
    } else if (BindInputs(node, *form, *sub)) {
      known &= InferBody(node, *form, *sub);
    }
  }
  return known && diagnostics_.total() == faults_before;
}

// What a loop carries is of unknown size in every trip if it is in one.
bool GraphWalk::InferBody(const Node& node, const CallForm& form, Subgraph& sub) {
  Graph& body = sub.graph;
  const int64_t faults_before = diagnostics_.total();
  for (bool again = true; again && diagnostics_.total() == faults_before;) {
    GraphWalk(body, KnownValues(body, known_, CapturesOf(form, node)), file_,
              StrCat(NodePointer(node), "/graphs/", sub.name), depth_ + 1, diagnostics_)
        .Run();
    again = false;
    for (int i = 0; i < form.num_carried; ++i) {
      Value& in = body.value(body.inputs[form.first_carried_in + i]);
      const Value& out = body.value(body.outputs[form.first_carried_out + i]);
      again |= out.bounded && !in.bounded;
      in.bounded |= out.bounded;
    }
  }
  return std::ranges::all_of(body.outputs, [&](ValueId id) { return body.value(id).typed; });
}

// Gives the body's inputs the types of what the node passes for them.
bool GraphWalk::BindInputs(const Node& node, const CallForm& form, Subgraph& sub) {
  Graph& body = sub.graph;
  if (body.inputs.size() != form.inputs.size() || body.outputs.size() != form.outputs.size()) {
    Report(node, {.message = StrCat("nested graph '", sub.name, "' does not fit the node"),
                  .expected = InputsAndOutputs(form.inputs.size(), form.outputs.size()),
                  .found = InputsAndOutputs(body.inputs.size(), body.outputs.size())});
    return false;
  }
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    if (!BindInput(node, form.inputs[i], body.value(body.inputs[i]), sub.name)) return false;
  }
  return true;
}

bool GraphWalk::BindInput(const Node& node, const BodyPort& port, Value& to,
                          const std::string& body_name) {
  if (port.operand < 0) return BindCounter(node, port, to, body_name);
  const Value& from = graph_.value(node.inputs[port.operand]);
  const std::string pointer = StrCat("/inputs/", port.operand);
  TensorType type = from.type;
  if (port.kind == PortKind::kElement && from.typed) {
    const int axis = ElementAxis(port, type.shape);
    if (axis < 0 || from.bounded) {
      Report(node, {.pointer = pointer,
                    .message = axis < 0 ? StrCat("'", from.name, "' has no axis ", port.axis,
                                                 " to be cut along")
                                        : StrCat("the number of trips over '", from.name,
                                                 "' would be known only at run time"),
                    .expected = axis < 0 ? "" : "a size known while planning",
                    .found = ToString(type)});
      return false;
    }
    type.shape = ElementShape(type.shape, axis);
  }
  to.bounded = from.bounded;
  if (!from.typed) return true;
  if (to.typed && to.type != type) {
    Report(node, {.pointer = pointer,
                  .message = StrCat("input '", to.name, "' of nested graph '", body_name,
                                    "' has another type than the value passed for it"),
                  .expected = ToString(to.type),
                  .found = StrCat(ToString(type),
                                  port.kind == PortKind::kElement ? " an element of " : " from ",
                                  Source(node.inputs[port.operand]))});
    return false;
  }
  to.type = type;
  to.typed = true;
  return true;
}

// The trip's number and its condition come from nowhere outside.
bool GraphWalk::BindCounter(const Node& node, const BodyPort& port, Value& to,
                            const std::string& body_name) {
  const DType dtype = port.kind == PortKind::kTrip ? DType::kI64 : DType::kBool;
  if (!to.typed) {
    to.type = {dtype, {}};
    to.typed = true;
  }
  if (to.type.dtype == dtype && CheckedNumElements(to.type.shape) == 1) return true;
  Report(node,
         {.message = StrCat("input '", to.name, "' of nested graph '", body_name, "' is the ",
                            port.kind == PortKind::kTrip ? "number of the trip" : "condition"),
          .expected = StrCat("one element of ", DTypeName(dtype)),
          .found = ToString(to.type)});
  return false;
}

bool GraphWalk::ReportAll(const Node& node) {
  if (faults_.empty()) return false;
  for (SignatureFault& fault : faults_) Report(node, std::move(fault));
  faults_.clear();
  return true;
}

void GraphWalk::Report(const Node& node, SignatureFault fault) {
  if (diagnostics_.full()) return diagnostics_.Add({});  // counted, not shown
  Diagnostic d;
  d.file = file_;
  d.position = node.position;
  d.pointer = StrCat(NodePointer(node), fault.pointer);
  d.message = StrCat(node.op, " '", node.name, "': ", fault.message);
  d.expected = std::move(fault.expected);
  d.found = fault.about_operands ? OperandList(node) : std::move(fault.found);
  d.hint = std::move(fault.hint);
  diagnostics_.Add(std::move(d));
}

std::string GraphWalk::NodePointer(const Node& node) const {
  if (node.file_index < 0) return pointer_.empty() ? node.name : StrCat(pointer_, "/", node.name);
  return StrCat(pointer_, "/nodes/", node.file_index);
}

// Where a value comes from: "input 'x'", "param 'w'", "MatMul 'fc'", "output 1 of Split 'qkv'".
std::string GraphWalk::Source(ValueId id) const {
  const Value& value = graph_.value(id);
  switch (value.kind) {
    case ValueKind::kInput:
      return StrCat("input '", value.name, "'");
    case ValueKind::kParam:
      return StrCat("param '", value.name, "'");
    case ValueKind::kConstant:
      return StrCat("constant '", value.name, "'");
    case ValueKind::kResult:
      break;
  }
  if (!value.producer.valid()) return StrCat("'", value.name, "'");
  const Node& producer = graph_.node(value.producer);
  const std::string node = StrCat(producer.op, " '", producer.name, "'");
  return value.result_index <= 0 ? node : StrCat("output ", value.result_index, " of ", node);
}

// "A: f32[2,4] from input 'x', B: f32[5,3] from param 'w'".
std::string GraphWalk::OperandList(const Node& node) const {
  const OpDef& op = *FindOp(node.op);
  std::string list;
  const int count = static_cast<int>(node.inputs.size());
  for (int i = 0; i < std::min(count, kMaxOperandsShown); ++i) {
    const ValueId id = node.inputs[i];
    if (!id.valid()) continue;
    StrAppend(&list, list.empty() ? "" : ", ", OperandName(op.inputs, i), ": ",
              graph_.value(id).typed ? ToString(graph_.value(id).type) : "?", " from ", Source(id));
  }
  if (count > kMaxOperandsShown) StrAppend(&list, " and ", count - kMaxOperandsShown, " more");
  return list;
}

}  // namespace

void InferTypes(Graph& graph, Diagnostics& diagnostics) {
  GraphWalk(graph, KnownValues(graph), graph.file, "", 0, diagnostics).Run();
}

absl::Status InferTypes(Graph& graph) {
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  return diagnostics.ToStatus();
}

absl::StatusOr<std::vector<TensorType>> InferOutputs(const NodeQuery& query,
                                                     std::span<const Tensor> constants) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr) {
    return BadInputError(StrCat("unknown op '", query.op, "' ", DidYouMeanOp(query.op)));
  }
  NodeContext context;
  context.constants = constants;
  for (const auto& type : query.inputs) {
    if (type.has_value() && !CheckedByteSize(*type).has_value()) {
      return BadInputError(StrCat(op->name, ": an input of ", ToString(*type), " is too large"));
    }
    context.inputs.push_back(type.has_value() ? &*type : nullptr);
  }
  for (const auto& type : query.outputs) context.results.push_back({type.has_value(), {}, {}, {}});

  Attrs attrs = query.attrs, storage;
  std::vector<SignatureFault> faults;
  CheckAttrs(*op, attrs, faults);
  CheckOperandCounts(*op, context.inputs, context.num_outputs(), faults);
  if (faults.empty()) CheckOperandTypes(*op, context.inputs, faults);
  if (!faults.empty()) return BadInputError(StrCat(op->name, ": ", faults[0].message));

  context.filled_attrs = &WithDefaults(*op, attrs, storage);
  MILLRACE_RETURN_IF_ERROR(Annotate(RunInfer(*op, context), op->name));
  std::vector<TensorType> types;
  for (const Result& result : context.results) types.push_back(result.type);
  return types;
}

}  // namespace millrace
