// Constant folding: a node whose results depend on constants and types alone (its inputs are
// constants, or were folded, or only their types matter) is computed here, by the op's reference
// kernel, and its results become constants. Models compute shapes, masks and position tables that
// way; operands that must be known while planning thereby stand in the graph as constants. Nested
// graphs are folded too, and know the constants that are passed in.
//
// Bounds: a result is written into the graph, so it must be worth its place there. One of up to a
// megabyte is folded (a mask over 1,024 positions); larger ones are cheap to compute beside what
// reads them, or are weights, better left in their files. All results together may take 64 MB and
// some 2^28 steps of the reference, about a second.
//
// Results that only folded nodes read are not kept, nor constants that only they read. O(nodes +
// uses), and the computations.
#include <algorithm>
#include <cstring>

#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/known_values.h"
#include "ops/op_def.h"
#include "ops/prepack.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

constexpr KnownValuesLimits kLimits = {
    .value_bytes = 1 << 20, .total_bytes = 64 << 20, .steps = 1 << 28};
constexpr int64_t kMaxInlineElements = 64;  // more are written as base64

bool AllAlike(const Tensor& tensor) {
  const int64_t size = SizeOf(tensor.dtype());
  for (int64_t at = size; at < tensor.size_bytes(); at += size) {
    if (std::memcmp(tensor.bytes(), tensor.bytes() + at, size) != 0) return false;
  }
  return true;
}

DataSource DataOf(const Tensor& tensor) {
  DataSource data = InlineData(tensor);
  if (tensor.num_elements() > 1 && AllAlike(tensor)) {
    data.kind = DataSource::Kind::kSplat;
    data.tensor = Tensor::Zeros({tensor.dtype(), Shape{}});
    std::memcpy(data.tensor.mutable_bytes(), tensor.bytes(), SizeOf(tensor.dtype()));
  } else if (tensor.num_elements() > kMaxInlineElements) {
    data.kind = DataSource::Kind::kBase64;
  }
  return data;
}

class Folder {
 public:
  Folder(Graph& graph, KnownValues& known, PassContext& context)
      : graph_(graph), known_(known), context_(context), keep_(graph.nodes.size(), 1) {}

  bool Run() {
    bool folds = false;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      changed_ |= FoldBodies(graph_.nodes[n]);
      if (!IsKnown(graph_.nodes[n])) continue;
      keep_[n] = 0;
      folds = true;
    }
    if (!folds) return changed_;
    const std::vector<uint8_t> read_before = ReadBy(/*kept_only=*/false);
    const std::vector<uint8_t> read = ReadBy(/*kept_only=*/true);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (keep_[n] == 0) MakeConstants(graph_.nodes[n], read);
    }
    std::vector<uint8_t> keep_value(graph_.values.size(), 1);
    for (ValueId id : graph_.constants) {
      keep_value[id.index] = read[id.index] != 0 || read_before[id.index] == 0;
    }
    RemoveConstants(graph_, keep_value);
    RemoveNodes(graph_, keep_);
    return true;
  }

 private:
  bool FoldBodies(Node& node) {
    const OpDef* op = FindOp(node.op);
    if (op == nullptr || node.subgraphs.empty()) return false;
    const absl::StatusOr<CallForm> form = FormOf(op->traits.control_flow, node);
    if (!form.ok()) return false;
    bool changed = false;
    for (Subgraph& sub : node.subgraphs) {
      KnownValues known(sub.graph, known_, CapturesOf(*form, node));
      changed |= Folder(sub.graph, known, context_).Run();
    }
    return changed;
  }

  // All data that the node reads are known. Constants are asked last: their data may lie in a file
  // that need not be opened.
  bool KnowsInputs(const OpDef& op, const Node& node) {
    for (const bool constants : {false, true}) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId input = node.inputs[i];
        if (!input.valid() || IsTypeOnly(op, static_cast<int>(i))) continue;
        const bool constant = graph_.value(input).kind == ValueKind::kConstant;
        if (constant == constants && !known_.Of(input).has_value()) return false;
      }
    }
    return true;
  }

  // All its results are known; where only its inputs are, says why not.
  bool IsKnown(const Node& node) {
    const OpDef* op = FindOp(node.op);
    if (op == nullptr || op->traits.control_flow != ControlFlow::kNone) return false;
    if (node.op == kPrepack) return false;  // its bytes are its reader's business
    if (!KnowsInputs(*op, node)) return false;
    bool any = false;
    for (ValueId out : node.outputs) {
      if (!out.valid()) continue;
      any = true;
      if (known_.Of(out).has_value()) continue;
      context_.Refused("fold", {node.name}, known_.WhyUnknown(out));
      return false;
    }
    return any;
  }

  // By value: an output, an update or a node reads it; only of nodes that stay, where asked.
  std::vector<uint8_t> ReadBy(bool kept_only) const {
    std::vector<uint8_t> read(graph_.values.size(), 0);
    for (ValueId output : graph_.outputs) read[output.index] = 1;
    for (const Update& update : graph_.updates) read[update.value.index] = 1;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (kept_only && keep_[n] == 0) continue;
      for (ValueId input : graph_.nodes[n].inputs) {
        if (input.valid()) read[input.index] = 1;
      }
    }
    return read;
  }

  void MakeConstants(Node& node, const std::vector<uint8_t>& read) {
    std::string names;
    for (ValueId& out : node.outputs) {
      if (!out.valid() || read[out.index] == 0) continue;
      Value& value = graph_.value(out);
      StrAppend(&names, names.empty() ? "" : ", ", "'", value.name, "'");
      value.kind = ValueKind::kConstant;
      value.producer = NodeId();
      value.result_index = -1;
      value.data = static_cast<int32_t>(graph_.data.size());
      graph_.data.push_back(DataOf(*known_.Of(out)));
      graph_.constants.push_back(out);
      out = ValueId();  // it outlives the node
    }
    context_.Applied(
        "fold", {node.name},
        names.empty() ? "only folded nodes read its results" : StrCat("now constant: ", names));
  }

  Graph& graph_;
  KnownValues& known_;
  PassContext& context_;
  std::vector<uint8_t> keep_;  // by node
  bool changed_ = false;       // in a body
};

}  // namespace

absl::StatusOr<bool> FoldConstants(Graph& graph, PassContext& context) {
  KnownValues known(graph, kLimits);
  return Folder(graph, known, context).Run();
}

}  // namespace millrace
