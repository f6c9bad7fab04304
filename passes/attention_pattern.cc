// Attention is found from its Softmax, backwards to the first product and forwards to the second:
//
//   q' ---- MatMul - [* or / scale]* - [+ mask | Where(mask, _, hidden)]* - Softmax - MatMul - [T]
//   k' ---/                                                                          /
//   v' -----------------------------------------------------------------------------/
//
// q', k', v' are followed back through scalings and Transposes as far as what they come from is
// laid out as [batch, heads, tokens, head] or [batch, tokens, heads, head], which the kernel reads
// as it is: so K's transposition and the splitting of heads go, and a Transpose [T] that puts heads
// back. What lies between must have no other reader and be no output.
//
// A choice of a finite number for what is hidden, of at least 1e30 in size, counts as one added: no
// score is that large, and the sum is that number.
#include "passes/attention_pattern.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/strings.h"
#include "passes/graph_edit.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 8;          // of scalings, masks and moves, one after another
constexpr double kHidden = -1e30;     // added to a score, or instead of it: nothing is left
using HeadPerm = std::array<int, 4>;  // which dim of what is read is an operand's dim
constexpr HeadPerm kAsIs = {0, 1, 2, 3}, kTokensBefore = {0, 2, 1, 3};

class AttentionFinder {
 public:
  explicit AttentionFinder(const Graph& graph)
      : graph_(graph), consumers_(ConsumersOf(graph)), kept_(OutputMask(graph)) {
    for (const Update& update : graph_.updates) kept_[update.value.index] = 1;
  }

  AttentionSearch Run() {
    AttentionSearch search;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& softmax = graph_.nodes[n];
      if (softmax.op != "Softmax" || !softmax.outputs[0].valid()) continue;
      if (!graph_.value(softmax.outputs[0]).typed || !FeedsProduct(softmax.outputs[0])) continue;
      why_ = "its scores are no product";
      if (auto match = Match(NodeId(n)); match.has_value()) {
        search.found.push_back(*std::move(match));
      } else {
        search.missed.push_back({NodeId(n), why_});
      }
    }
    return search;
  }

 private:
  const Node* ProducerOf(ValueId value) const {
    const Value& v = graph_.value(value);
    return v.kind == ValueKind::kResult && v.typed && !v.bounded ? &graph_.node(v.producer)
                                                                 : nullptr;
  }
  const Shape& ShapeOf(ValueId value) const { return graph_.value(value).type.shape; }

  // Only one node reads it, and that is all there is to it; else says why not.
  bool IsBetween(ValueId value) {
    const std::string& name = graph_.value(value).name;
    if (kept_[value.index] != 0) {
      why_ = StrCat("'", name, "' is an output");
    } else if (consumers_[value.index].size() != 1) {
      why_ = StrCat("'", name, "' has ", consumers_[value.index].size(), " readers");
    } else if (graph_.shardings.contains(value)) {
      why_ = StrCat("a sharding is asked for '", name, "'");
    } else {
      return true;
    }
    return false;
  }

  // The one element of a constant.
  std::optional<double> ScalarOf(ValueId value) const {
    const Value& v = graph_.value(value);
    if (v.kind != ValueKind::kConstant || NumElements(v.type.shape) != 1) return std::nullopt;
    const std::optional<Tensor> tensor = ConstantTensor(graph_, value);
    if (!tensor.has_value() || !IsFloat(tensor->dtype())) return std::nullopt;
    return tensor->AsDouble(0);
  }

  // x of x * c, c * x, x / c for a number c, which is put into `factor`.
  std::optional<ValueId> ScaledBy(const Node& node, double& factor) const {
    for (const int x : {0, 1}) {
      if (node.op != "Mul" && (node.op != "Div" || x == 1)) continue;
      const std::optional<double> number = ScalarOf(node.inputs[1 - x]);
      if (!number.has_value() || ShapeOf(node.inputs[x]) != ShapeOf(node.outputs[0])) continue;
      factor = node.op == "Mul" ? *number : 1 / *number;
      if (std::isfinite(factor)) return node.inputs[x];
    }
    return std::nullopt;
  }

  std::optional<AttentionScores> Descend(ValueId value, int depth = 0) {
    const Node* node = ProducerOf(value);
    if (node == nullptr || depth > kMaxDepth || !IsBetween(value)) return std::nullopt;
    const NodeId id = graph_.value(value).producer;
    std::optional<AttentionScores> scores;
    double factor = 1;
    if (node->op == "MatMul") {
      scores.emplace().product = id;
    } else if (const auto scaled = ScaledBy(*node, factor); scaled.has_value()) {
      scores = Descend(*scaled, depth + 1);
      if (scores.has_value() && !(scores->added.empty() && scores->chosen.empty())) {
        why_ = StrCat("'", node->name, "' scales the mask as well");
        return std::nullopt;
      }
      if (scores.has_value()) scores->scale *= factor;
    } else if (node->op == "Add") {
      for (int x = 0; x < 2 && !scores.has_value(); ++x) {
        if (ShapeOf(node->inputs[x]) != ShapeOf(value)) continue;
        scores = Descend(node->inputs[x], depth + 1);
        if (scores.has_value()) scores->added.push_back(node->inputs[1 - x]);
      }
    } else if (node->op == "Where") {
      scores = DescendWhere(*node, depth);
    }
    if (scores.has_value()) scores->nodes.push_back(id);
    return scores;
  }

  std::optional<AttentionScores> DescendWhere(const Node& node, int depth) {
    for (const int x : {1, 2}) {
      const std::optional<double> hidden = ScalarOf(node.inputs[3 - x]);
      if (!hidden.has_value() || ShapeOf(node.inputs[x]) != ShapeOf(node.outputs[0])) continue;
      std::optional<AttentionScores> scores = Descend(node.inputs[x], depth + 1);
      if (!scores.has_value()) continue;
      if (!(*hidden <= kHidden)) {
        why_ = StrCat("'", node.name, "' gives ", *hidden, " for what is hidden, not -inf");
        return std::nullopt;
      }
      scores->chosen.push_back({node.inputs[0], x == 1, *hidden});
      return scores;
    }
    return std::nullopt;
  }

  // Back from `value`, of rank 2 to 4, to what it is a scaled transposition of. `swapped`: its last
  // two dims are head and tokens.
  std::optional<HeadOperand> OperandOf(ValueId value, bool swapped, bool may_scale) const {
    const int rank = ShapeOf(value).rank(), added = 4 - rank;
    HeadPerm perm = kAsIs;
    double scale = 1;
    if (swapped) std::swap(perm[2], perm[3]);
    std::optional<HeadOperand> found;
    for (int depth = 0; depth <= kMaxDepth; ++depth) {
      if (perm == kAsIs) found = {value, std::string(kHeadsFirst), scale};
      if (perm == kTokensBefore) found = {value, std::string(kTokensFirst), scale};
      const Node* node = ProducerOf(value);
      if (node == nullptr) break;
      double factor = 1;
      if (node->op == "Transpose") {
        std::vector<int64_t> moves = node->attrs.Ints("perm");
        for (int d = rank; moves.empty() && d-- > 0;) moves.push_back(d);
        if (node->attrs.Find("perm") == nullptr) {
          for (int d = 0; d < rank; ++d) moves[d] = rank - 1 - d;
        }
        for (int& dim : perm) {
          if (dim >= added) dim = added + static_cast<int>(moves[dim - added]);
        }
        value = node->inputs[0];
      } else if (const auto scaled = ScaledBy(*node, factor); may_scale && scaled.has_value()) {
        scale *= factor;
        value = *scaled;
      } else {
        break;
      }
    }
    return found;
  }

  // The node that reads `value` alone, if it is a `op` of it.
  const Node* OnlyReader(ValueId value, std::string_view op) const {
    if (kept_[value.index] != 0 || consumers_[value.index].size() != 1) return nullptr;
    const Node& node = graph_.node(consumers_[value.index][0]);
    return node.op == op && node.inputs[0] == value ? &node : nullptr;
  }

  // [batch, heads, tokens, head] -> [batch, tokens, heads, head].
  void TakeTransposeAfter(AttentionPattern& match) const {
    const ValueId result = graph_.node(match.nodes.back()).outputs[0];
    const Node* after = OnlyReader(result, "Transpose");
    if (after == nullptr) return;
    const int rank = ShapeOf(result).rank();
    const std::vector<int64_t> perm = after->attrs.Ints("perm");
    const std::vector<int64_t> swap =
        rank == 4 ? std::vector<int64_t>{0, 2, 1, 3} : std::vector<int64_t>{1, 0, 2};
    if (rank < 3 || perm != swap) return;
    match.y_layout = kTokensFirst;
    match.nodes.push_back(consumers_[result.index][0]);
  }

  // Constant masks that say j <= i for query i and key j.
  void DropCausalMask(AttentionPattern& match) const {
    AttentionScores& s = match.scores;
    const Shape& shape = ShapeOf(graph_.node(s.product).outputs[0]);
    const auto is_causal = [&](ValueId mask, auto seen) {
      const Value& value = graph_.value(mask);
      const int64_t queries = shape[shape.rank() - 2], keys = shape[shape.rank() - 1];
      if (value.kind != ValueKind::kConstant || value.type.shape.rank() < 2) return false;
      if (NumElements(value.type.shape) != queries * keys ||
          value.type.shape[value.type.shape.rank() - 1] != keys) {
        return false;
      }
      const std::optional<Tensor> tensor = ConstantTensor(graph_, mask);
      if (!tensor.has_value()) return false;
      for (int64_t at = 0; at < queries * keys; ++at) {
        const std::optional<bool> sees = seen(*tensor, at);
        if (sees != std::optional(at % keys <= at / keys)) return false;
      }
      return true;
    };
    const size_t before = s.added.size() + s.chosen.size();
    std::erase_if(s.added, [&](ValueId mask) {
      return is_causal(mask, [](const Tensor& t, int64_t at) -> std::optional<bool> {
        const double x = t.AsDouble(at);
        if (x == 0) return true;
        return x <= kHidden ? std::optional(false) : std::nullopt;
      });
    });
    std::erase_if(s.chosen, [&](const HiddenScores& choice) {
      return is_causal(choice.condition, [&](const Tensor& t, int64_t at) {
        return std::optional((t.AsInt64(at) != 0) == choice.shows);
      });
    });
    match.causal = s.added.size() + s.chosen.size() < before;
  }

  // Whether the weights are multiplied with something: whoever spells that means attention.
  bool FeedsProduct(ValueId weights) const {
    return std::ranges::any_of(consumers_[weights.index], [&](NodeId id) {
      const Node& node = graph_.node(id);
      if (node.op == "MatMul") return node.inputs[0] == weights;
      return node.op == "Dropout" && OnlyReader(node.outputs[0], "MatMul") != nullptr;
    });
  }

  std::optional<AttentionPattern> Match(NodeId softmax_id) {
    const Node& softmax = graph_.node(softmax_id);
    const ValueId weights = softmax.outputs[0];
    const int rank = ShapeOf(weights).rank();
    const int64_t axis = softmax.attrs.Int("axis", -1);
    if (axis != -1 && axis != rank - 1) {
      why_ = StrCat("Softmax goes along axis ", axis, ", not the last");
      return std::nullopt;
    }
    std::optional<AttentionScores> scores = Descend(softmax.inputs[0]);
    if (!scores.has_value() || !IsBetween(weights)) return std::nullopt;
    const NodeId product_id = consumers_[weights.index][0];
    const Node& product = graph_.node(product_id);
    if (product.op != "MatMul" || product.inputs[0] != weights) {
      why_ = StrCat("its weights are read by '", product.name, "', ", product.op, ", not MatMul");
      return std::nullopt;
    }
    const Node& first = graph_.node(scores->product);
    for (ValueId value : {first.inputs[0], first.inputs[1], product.inputs[1]}) {
      const int own = ShapeOf(value).rank();
      if (own == rank && own >= 2 && own <= 4 && product.inputs[1] != weights) continue;
      why_ = StrCat("'", graph_.value(value).name, "' has ", own, " dims, the scores ", rank);
      return std::nullopt;
    }
    AttentionPattern match;
    const std::optional<HeadOperand> k =
        OperandOf(first.inputs[1], /*swapped=*/true, /*may_scale=*/true);
    if (!k.has_value()) {
      why_ = StrCat("'", graph_.value(first.inputs[1]).name, "' is no transposed K");
      return std::nullopt;
    }
    match.q = *OperandOf(first.inputs[0], /*swapped=*/false, /*may_scale=*/true);
    match.k = *k;
    match.v = *OperandOf(product.inputs[1], /*swapped=*/false, /*may_scale=*/false);
    match.nodes = scores->nodes;
    match.nodes.push_back(softmax_id);
    match.nodes.push_back(product_id);
    match.scores = *std::move(scores);
    TakeTransposeAfter(match);
    DropCausalMask(match);
    return match;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<uint8_t> kept_;  // by value: an output or an update
  std::string why_;            // the last match failed
};

}  // namespace

AttentionSearch FindAttention(const Graph& graph) { return AttentionFinder(graph).Run(); }

}  // namespace millrace
