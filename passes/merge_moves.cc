// Merging of moves: of two ops in a row that only move elements, or only convert them, the second
// reads what the first reads and does the work of both.
//
//   Transpose, Transpose  one Transpose by the permutations' product
//   Reshape, Reshape      one Reshape (or Flatten, Squeeze, Unsqueeze) to the last shape
//   Cast, Cast            one Cast, where the first loses nothing
//
// The first goes once nobody reads it (eliminate-dead-nodes); no work is added where others do.
// O(nodes).
#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "graph/builder.h"
#include "graph/strings.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

constexpr size_t kMaxPassed = 64;  // nodes at once; the rest in the next round

bool IsReshape(const Node& node) {
  constexpr std::string_view kOps[] = {"Flatten", "Reshape", "Squeeze", "Unsqueeze"};
  return std::ranges::find(kOps, node.op) != std::end(kOps);
}

std::vector<int64_t> PermOf(const Node& node, int rank) {
  std::vector<int64_t> perm = node.attrs.Ints("perm");
  if (perm.empty()) {
    for (int d = rank - 1; d >= 0; --d) perm.push_back(d);
  }
  return perm;
}

// Sign and significant bits, and that exponents fit.
struct Digits {
  int bits = 0, exponent = 0;
  bool is_signed = false, is_float = false;
};
Digits DigitsOf(DType dtype) {
  const int size = static_cast<int>(SizeOf(dtype)) * 8;
  switch (dtype) {
    case DType::kBool:
      return {1, 0, false, false};
    case DType::kBF16:
      return {8, 8, true, true};
    case DType::kF16:
      return {11, 5, true, true};
    case DType::kF32:
      return {24, 8, true, true};
    case DType::kF64:
      return {53, 11, true, true};
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return {size - 1, 0, true, false};
    default:
      return {size, 0, false, false};
  }
}

// Every value of `from` is one of `to`. f16's exponents reach no integer of 16 bits or more.
bool LosesNothing(DType from, DType to) {
  const Digits a = DigitsOf(from), b = DigitsOf(to);
  if (a.is_float != b.is_float) return b.is_float && to != DType::kBool && a.bits <= b.bits;
  return a.bits <= b.bits && a.exponent <= b.exponent && (b.is_signed || !a.is_signed);
}

class Merger {
 public:
  Merger(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  bool Run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (Subgraph& body : graph_.nodes[n].subgraphs) {
        changed_ |= Merger(body.graph, context_).Run();
      }
      Merge(graph_.nodes[n]);
    }
    return changed_;
  }

 private:
  // The node before, where both have known sizes and nothing else is between them.
  const Node* Before(const Node& node) const {
    if (node.inputs.empty() || !node.inputs[0].valid() || !node.outputs[0].valid()) return nullptr;
    const Value& between = graph_.value(node.inputs[0]);
    if (between.kind != ValueKind::kResult || between.bounded) return nullptr;
    const Node& before = graph_.node(between.producer);
    if (before.inputs.empty() || !before.inputs[0].valid() || before.device != node.device ||
        before.stream != node.stream || graph_.value(before.inputs[0]).bounded) {
      return nullptr;
    }
    return &before;
  }

  bool OnlyReshapesRead(const Node& node) {
    if (consumers_.empty()) {
      consumers_ = ConsumersOf(graph_);
      is_kept_ = OutputMask(graph_);
      for (const Update& update : graph_.updates) is_kept_[update.value.index] = 1;
    }
    const ValueId out = node.outputs[0];
    return is_kept_[out.index] == 0 &&
           std::ranges::all_of(consumers_[out.index], [&](NodeId reader) {
             return IsReshape(graph_.node(reader)) && graph_.node(reader).inputs[0] == out &&
                    Before(graph_.node(reader)) == &node;
           });
  }

  void Merge(Node& node) {
    const Node* const before = Before(node);
    if (before == nullptr) return;
    if (node.op == "Transpose" && before->op == "Transpose") {
      MergeTransposes(*before, node);
    } else if (IsReshape(node) && IsReshape(*before)) {
      MergeReshapes(*before, node);
    } else if (node.op == "Cast" && before->op == "Cast") {
      MergeCasts(*before, node);
    }
  }

  void MergeTransposes(const Node& before, Node& node) {
    const int rank = graph_.value(node.outputs[0]).type.shape.rank();
    const std::vector<int64_t> first = PermOf(before, rank);
    std::vector<int64_t> perm = PermOf(node, rank);
    for (int64_t& dim : perm) dim = first[dim];
    node.attrs.Set("perm", perm);
    ReadPast("merge-transposes", {&before}, node);
  }

  // All of them in a row, by the last: shapes of those between need not be known. Those with dims
  // of size 0 would need `allowzero`.
  void MergeReshapes(const Node& last_before, Node& node) {
    if (OnlyReshapesRead(node)) return;
    std::vector<const Node*> passed;  // the nearest first
    for (const Node* next = &last_before; next != nullptr && IsReshape(*next);
         next = Before(*next)) {
      if (passed.size() == kMaxPassed) break;
      passed.push_back(next);
    }
    const Shape shape = graph_.value(node.outputs[0]).type.shape;
    if (std::ranges::find(shape, 0) != shape.end()) return;
    const std::span<const int64_t> dims = shape.dims();
    node.op = "Reshape";
    node.attrs = Attrs();
    node.inputs.resize(1);
    node.inputs.push_back(AddShapeConstant(StrCat(node.name, ".shape"), dims));
    ReadPast("merge-reshapes", passed, node);
  }

  // Integers wrap around to integers, but floats do not.
  void MergeCasts(const Node& before, Node& node) {
    const DType from = graph_.value(before.inputs[0]).type.dtype;
    const DType between = graph_.value(node.inputs[0]).type.dtype;
    const DType to = graph_.value(node.outputs[0]).type.dtype;
    if (!LosesNothing(from, between)) {
      context_.Refused("merge-casts", {before.name, node.name},
                       "the first rounds, or cuts values off");
      return;
    }
    if (IsFloat(between) && !IsFloat(from) && !IsFloat(to) && to != DType::kBool) {
      context_.Refused("merge-casts", {before.name, node.name},
                       "integers from floats are cut off, those from integers wrap around");
      return;
    }
    ReadPast("merge-casts", {&before}, node);
  }

  ValueId AddShapeConstant(const std::string& name, std::span<const int64_t> dims) {
    if (value_names_.empty()) {
      for (const Value& value : graph_.values) value_names_.insert(value.name);
    }
    Value value;
    value.name = name;
    for (int i = 1; !value_names_.insert(value.name).second; ++i) value.name = StrCat(name, "_", i);
    Tensor tensor = Tensor::FromSpan<int64_t>({std::ssize(dims)}, dims);
    value.kind = ValueKind::kConstant;
    value.type = tensor.type();
    value.typed = true;
    value.data = static_cast<int32_t>(graph_.data.size());
    graph_.data.push_back(InlineData(std::move(tensor)));
    graph_.values.push_back(std::move(value));
    graph_.constants.push_back(ValueId(graph_.values.size() - 1));
    return graph_.constants.back();
  }

  void ReadPast(std::string_view rule, const std::vector<const Node*>& passed, Node& node) {
    node.inputs[0] = passed.back()->inputs[0];
    std::vector<std::string> names, origin;
    for (auto each = passed.rbegin(); each != passed.rend(); ++each) {
      names.push_back((*each)->name);
      if (origin.size() < kMaxPassed) AppendOrigin(**each, origin);
    }
    names.push_back(node.name);
    AppendOrigin(node, origin);
    if (origin.size() > kMaxPassed)
      origin.resize(kMaxPassed);  // as many as tell a reader something
    node.origin = std::move(origin);
    context_.Applied(
        rule, std::move(names),
        StrCat("'", node.name, "' now reads '", graph_.value(node.inputs[0]).name, "'"));
    changed_ = true;
  }

  Graph& graph_;
  PassContext& context_;
  absl::flat_hash_set<std::string> value_names_;
  std::vector<std::vector<NodeId>> consumers_;  // when first needed: of the graph as it was
  std::vector<uint8_t> is_kept_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> MergeMoves(Graph& graph, PassContext& context) {
  return Merger(graph, context).Run();
}

}  // namespace millrace
