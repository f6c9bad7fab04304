// A value is known when it is a constant, or a result of an op that is pure and has all the data it
// reads. Find walks back from the value asked for, depth first with a stack of its own (chains may
// be longer than any call stack), until it meets what is known or cannot be; nodes are then
// computed on the way forward, each once, by their reference kernels. A producer always comes
// before its reader in the node list: the walk only goes to smaller ids, so it ends even in a graph
// that is no graph.
//
// Bounds: a value above `value_bytes` is never entered, so activations end the walk at once; what
// is kept and what is computed is charged to budgets that grow with the graph, so a file pays for
// what it makes us do. O(nodes + edges) for all questions together.
#include "ops/known_values.h"

#include <algorithm>

#include "graph/strings.h"
#include "ops/evaluate.h"

namespace millrace {
namespace {

KnownValuesLimits ForInference(const Graph& graph) {
  KnownValuesLimits limits;
  const auto nodes = static_cast<int64_t>(graph.nodes.size());
  limits.total_bytes += nodes << 10;
  limits.steps += static_cast<double>(nodes << 10);
  return limits;
}

// Stands for an operand of which only the type is read.
Tensor TypeOnly(const TensorType& type) {
  static constexpr std::byte kNothing{};
  return Tensor::Wrap(type, std::shared_ptr<const std::byte>(std::shared_ptr<void>(), &kNothing));
}

}  // namespace

bool IsComputable(const OpDef& op) {
  const OpTraits& traits = op.traits;
  return op.reference != nullptr && traits.deterministic && !traits.has_effects &&
         traits.comm == CommKind::kNone && traits.control_flow == ControlFlow::kNone;
}

bool IsTypeOnly(const OpDef& op, int i) {
  const std::vector<int>& list = op.type_only_inputs;
  return std::find(list.begin(), list.end(), i) != list.end();
}

std::vector<ValueId> CapturesOf(const CallForm& form, const Node& node) {
  std::vector<ValueId> captures;
  for (const BodyPort& port : form.inputs) {
    const bool same = port.kind == PortKind::kSame && port.operand >= 0;
    captures.push_back(same ? node.inputs[port.operand] : ValueId());
  }
  return captures;
}

KnownValues::KnownValues(const Graph& graph) : KnownValues(graph, ForInference(graph)) {}

KnownValues::KnownValues(const Graph& graph, const KnownValuesLimits& limits)
    : graph_(graph),
      limits_(limits),
      bytes_left_(limits.total_bytes),
      steps_left_(limits.steps),
      weights_(graph) {}

KnownValues::KnownValues(const Graph& body, KnownValues& outer, std::span<const ValueId> captures)
    : graph_(body),
      outer_(&outer),
      limits_(outer.limits_),
      bytes_left_(limits_.total_bytes),
      steps_left_(limits_.steps),
      weights_(body) {
  for (size_t i = 0; i < captures.size() && i < body.inputs.size(); ++i) {
    if (captures[i].valid()) captured_.emplace(body.inputs[i], captures[i]);
  }
}

std::optional<Tensor> KnownValues::Of(ValueId id) {
  const Entry& entry = Find(id);
  return entry.why == Why::kKnown ? std::optional(entry.tensor) : std::nullopt;
}

std::string KnownValues::WhyUnknown(ValueId id) {
  const Entry& entry = Find(id);
  const ValueId cause = entry.cause;
  if (entry.why == Why::kKnown) return "it is known";
  const Value& value = graph_.value(cause);
  switch (entry.why) {
    case Why::kKnown:
      break;
    case Why::kUntyped:
      return StrCat("it depends on '", value.name, "', which has no type");
    case Why::kInput: {
      const auto captured = captured_.find(cause);
      return captured != captured_.end() ? outer_->WhyUnknown(captured->second)
                                         : StrCat("it depends on input '", value.name, "'");
    }
    case Why::kParam:
      return StrCat("it depends on param '", value.name, "'");
    case Why::kTooLarge:
      return StrCat("'", value.name, "', ", ToString(value.type), ", has more than the ",
                    limits_.value_bytes, " bytes up to which values are computed while planning");
    case Why::kNotComputable:
      return StrCat("'", value.name, "' is a result of ", graph_.node(value.producer).op,
                    ", which is not computed while planning");
    case Why::kFailed:
      return StrCat("'", value.name, "' cannot be had: ", failures_[cause]);
    case Why::kTooMuchWork:
      return StrCat("'", value.name, "' is more work than is done while planning");
  }
  return "";
}

const KnownValues::Entry& KnownValues::Find(ValueId id) {
  if (const auto found = entries_.find(id); found != entries_.end()) return found->second;
  std::vector<ValueId> pending = {id};
  while (!pending.empty()) {
    const ValueId at = pending.back();
    if (entries_.contains(at)) {
      pending.pop_back();
      continue;
    }
    if (std::optional<Entry> entry = WithoutInputs(at); entry.has_value()) {
      entries_.emplace(at, *std::move(entry));
      continue;
    }
    const NodeId producer = graph_.value(at).producer;
    const Node& node = graph_.node(producer);
    const OpDef& op = *FindOp(node.op);
    const size_t before = pending.size();
    std::optional<Entry> unknown;
    // Constants last: their data may lie in a file that need not be opened.
    for (const bool constants : {false, true}) {
      if (unknown.has_value() || pending.size() > before) break;
      for (size_t i = 0; i < node.inputs.size() && !unknown.has_value(); ++i) {
        const ValueId input = node.inputs[i];
        if (!input.valid() || IsTypeOnly(op, static_cast<int>(i))) continue;
        if ((graph_.value(input).kind == ValueKind::kConstant) != constants) continue;
        const auto found = entries_.find(input);
        if (found == entries_.end()) {
          pending.push_back(input);
        } else if (found->second.why != Why::kKnown) {
          unknown = found->second;
        }
      }
    }
    if (unknown.has_value()) {
      pending.resize(before);
      entries_.emplace(at, *unknown);
    } else if (pending.size() == before) {
      Compute(producer);
    }
  }
  return entries_.find(id)->second;
}

// What can be said of a value without looking at what its producer reads.
std::optional<KnownValues::Entry> KnownValues::WithoutInputs(ValueId id) {
  const Value& value = graph_.value(id);
  if (!value.typed) return Entry{Why::kUntyped, id, {}};
  if (!Fits(value.type)) return Entry{Why::kTooLarge, id, {}};
  switch (value.kind) {
    case ValueKind::kParam:
      return Entry{Why::kParam, id, {}};
    case ValueKind::kConstant:
      return OfConstant(id);
    case ValueKind::kInput: {
      const auto captured = captured_.find(id);
      if (captured == captured_.end()) return Entry{Why::kInput, id, {}};
      std::optional<Tensor> tensor = outer_->Of(captured->second);
      if (!tensor.has_value()) return Entry{Why::kInput, id, {}};
      return Entry{Why::kKnown, id, *std::move(tensor)};
    }
    case ValueKind::kResult:
      break;
  }
  const Node& node = graph_.node(value.producer);
  const OpDef* op = FindOp(node.op);
  bool computable = op != nullptr && IsComputable(*op) && !value.bounded;
  for (size_t i = 0; i < node.inputs.size() && computable; ++i) {
    const ValueId input = node.inputs[i];
    if (!input.valid()) continue;
    const Value& read = graph_.value(input);
    const bool earlier = read.kind != ValueKind::kResult || read.producer < value.producer;
    const bool has_type = read.typed && !read.bounded;
    computable = earlier && (has_type || !IsTypeOnly(*op, static_cast<int>(i)));
  }
  if (!computable) return Entry{Why::kNotComputable, id, {}};
  return std::nullopt;
}

KnownValues::Entry KnownValues::OfConstant(ValueId id) {
  if (GlobalType(graph_, id) != graph_.value(id).type) {  // each device holds another part
    return {Why::kNotComputable, id, {}};
  }
  absl::StatusOr<Tensor> tensor = weights_.Get(id);
  if (tensor.ok()) return {Why::kKnown, id, *std::move(tensor)};
  failures_.emplace(id, StdView(tensor.status().message()));
  return {Why::kFailed, id, {}};
}

// Enters the results of a node all of whose data are known. A node whose inference failed may be
// here too, when the file declares its results' types: nothing is taken for granted.
void KnownValues::Compute(NodeId id) {
  const Node& node = graph_.node(id);
  const std::vector<Tensor> inputs = DataRead(node);
  absl::StatusOr<NodeQuery> query = ResolveQuery(QueryFor(graph_, id), inputs);
  if (query.ok() && !TakeFromBudget(*query)) return EnterAll(node, Why::kTooMuchWork);
  absl::StatusOr<std::vector<Tensor>> results =
      query.ok() ? RunReference(*query, inputs) : query.status();
  if (!results.ok()) {
    for (ValueId out : node.outputs) failures_.emplace(out, StdView(results.status().message()));
    return EnterAll(node, Why::kFailed);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId out = node.outputs[i];
    if (!out.valid() || !(*results)[i].has_data()) continue;
    if ((*results)[i].type() != graph_.value(out).type) continue;
    entries_.emplace(out, Entry{Why::kKnown, out, std::move((*results)[i])});
  }
  EnterAll(node, Why::kNotComputable);  // the others
}

// Enters the results that have no entry yet.
void KnownValues::EnterAll(const Node& node, Why why) {
  for (ValueId out : node.outputs) {
    if (out.valid()) entries_.emplace(out, Entry{why, out, {}});
  }
}

std::vector<Tensor> KnownValues::DataRead(const Node& node) const {
  const OpDef& op = *FindOp(node.op);
  std::vector<Tensor> inputs(node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (!input.valid()) continue;
    inputs[i] = IsTypeOnly(op, static_cast<int>(i)) ? TypeOnly(graph_.value(input).type)
                                                    : entries_.find(input)->second.tensor;
  }
  return inputs;
}

bool KnownValues::TakeFromBudget(const NodeQuery& query) {
  int64_t bytes = 0;
  for (const std::optional<TensorType>& type : query.outputs) {
    if (!type.has_value()) continue;
    if (!Fits(*type)) return false;
    bytes += ByteSize(*type);
  }
  const double steps = WorkOf(query).flops + static_cast<double>(bytes);
  if (bytes > bytes_left_ || steps > steps_left_) return false;
  bytes_left_ -= bytes;
  steps_left_ -= steps;
  return true;
}

bool KnownValues::Fits(const TensorType& type) const {
  const std::optional<int64_t> size = CheckedByteSize(type);
  return size.has_value() && *size <= limits_.value_bytes;
}

}  // namespace millrace
