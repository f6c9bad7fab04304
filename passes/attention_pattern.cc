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
// Masks are kept in their order. A finite number that hides, -1e30 at most, takes the score's place
// whether it is added or chosen, because no score is that large; but it is not -inf: in a row that
// sees nothing all the keys that have the number share the weights, and the sum of two of them may
// be -inf. So a constant mask that hides just what comes later is `causal` only if it is of -inf
// and nothing after it puts a finite number in that place, or if all masks are such: then every row
// sees a key.
#include "passes/attention_pattern.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/strings.h"
#include "passes/graph_edit.h"
#include "passes/scalar_constant.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 8;          // of scalings, masks and moves, one after another
constexpr double kHidden = -1e30;     // added to a score, or instead of it: nothing is left
using HeadPerm = std::array<int, 4>;  // which dim of what is read is an operand's dim
constexpr HeadPerm kAsIs = {0, 1, 2, 3}, kTokensBefore = {0, 2, 1, 3};

class AttentionFinder {
 public:
  explicit AttentionFinder(const Graph& graph)
      : graph_(graph),
        consumers_(ConsumersOf(graph)),
        kept_(OutputMask(graph)),
        part_(graph.nodes.size(), Part::kNone) {
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
        for (NodeId id : match->nodes) part_[id.index] = Part::kInner;
        part_[match->nodes.back().index] = Part::kLast;
        search.found.push_back(*std::move(match));
      } else {
        search.missed.push_back({NodeId(n), why_});
      }
    }
    return search;
  }

 private:
  // What a node is of an attention that was found.
  enum class Part : uint8_t { kNone, kInner, kLast };

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

  // x of x * c, c * x, x / c for a number c, which is put into `factor`.
  std::optional<ValueId> ScaledBy(const Node& node, double& factor) const {
    for (const int x : {0, 1}) {
      if (node.op != "Mul" && (node.op != "Div" || x == 1)) continue;
      const std::optional<double> number = ScalarConstantOf(graph_, node.inputs[1 - x]);
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
    if (part_[id.index] != Part::kNone) {
      why_ = StrCat("'", node->name, "' is part of another attention");
      return std::nullopt;
    }
    std::optional<AttentionScores> scores;
    double factor = 1;
    if (node->op == "MatMul") {
      scores.emplace().product = id;
    } else if (const auto scaled = ScaledBy(*node, factor); scaled.has_value()) {
      scores = Descend(*scaled, depth + 1);
      if (scores.has_value() && !scores->masks.empty()) {
        why_ = StrCat("'", node->name, "' scales the mask as well");
        return std::nullopt;
      }
      if (scores.has_value()) scores->scale *= factor;
    } else if (node->op == "Add") {
      for (int x = 0; x < 2 && !scores.has_value(); ++x) {
        if (ShapeOf(node->inputs[x]) != ShapeOf(value)) continue;
        scores = Descend(node->inputs[x], depth + 1);
        if (scores.has_value()) scores->masks.push_back({node->inputs[1 - x]});
      }
    } else if (node->op == "Where") {
      scores = DescendWhere(*node, depth);
    }
    if (scores.has_value()) scores->nodes.push_back(id);
    return scores;
  }

  std::optional<AttentionScores> DescendWhere(const Node& node, int depth) {
    for (const int x : {1, 2}) {
      const std::optional<double> hidden = ScalarConstantOf(graph_, node.inputs[3 - x]);
      if (!hidden.has_value() || ShapeOf(node.inputs[x]) != ShapeOf(node.outputs[0])) continue;
      std::optional<AttentionScores> scores = Descend(node.inputs[x], depth + 1);
      if (!scores.has_value()) continue;
      if (!(*hidden <= kHidden)) {
        why_ = StrCat("'", node.name, "' gives ", *hidden, " for what is hidden, not -inf");
        return std::nullopt;
      }
      scores->masks.push_back({node.inputs[0], /*chooses=*/true, x == 1, *hidden});
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
      const Node* node = ProducerOf(value);
      // What lies inside another attention goes with its nodes.
      if (node != nullptr && part_[graph_.value(value).producer.index] == Part::kInner) break;
      if (perm == kAsIs) found = {value, std::string(kHeadsFirst), scale};
      if (perm == kTokensBefore) found = {value, std::string(kTokensFirst), scale};
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
    if (kept_[value.index] != 0 || consumers_[value.index].size() != 1 ||
        graph_.shardings.contains(value)) {
      return nullptr;
    }
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

  enum class Causality : uint8_t { kOther, kFinite, kInfinite };

  // Whether `mask` is a constant that shows key j to query i just where j <= i, and whether all
  // that it hides it hides by -inf.
  Causality CausalityOf(const ScoreMask& mask, const Shape& scores) const {
    const Value& value = graph_.value(mask.mask);
    const Shape& shape = value.type.shape;
    const int64_t queries = scores[scores.rank() - 2], keys = scores[scores.rank() - 1];
    if (value.kind != ValueKind::kConstant || shape.rank() < 2 ||
        NumElements(shape) != queries * keys || shape[shape.rank() - 1] != keys) {
      return Causality::kOther;
    }
    const std::optional<Tensor> tensor = ConstantTensor(graph_, mask.mask);
    if (!tensor.has_value()) return Causality::kOther;
    bool infinite = true;
    for (int64_t at = 0; at < queries * keys; ++at) {
      const bool seen = at % keys <= at / keys;
      double added = 0;
      if (!mask.chooses) {
        added = tensor->AsDouble(at);
      } else if ((tensor->AsInt64(at) != 0) != mask.shows) {
        added = mask.hidden;
      }
      if (seen ? added != 0 : !(added <= kHidden)) return Causality::kOther;
      infinite &= seen || std::isinf(added);
    }
    return infinite ? Causality::kInfinite : Causality::kFinite;
  }

  // Masks that `causal` can stand for go (see the head of this file).
  void DropCausalMasks(AttentionPattern& match) const {
    std::vector<ScoreMask>& masks = match.scores.masks;
    const Shape& scores = ShapeOf(graph_.node(match.scores.product).outputs[0]);
    std::vector<Causality> causality;
    for (const ScoreMask& mask : masks) causality.push_back(CausalityOf(mask, scores));
    const bool all = std::ranges::count(causality, Causality::kOther) == 0;
    bool overwritten = false;  // by a later choice of a finite number
    for (size_t m = masks.size(); m-- > 0;) {
      const bool finite_choice = masks[m].chooses && std::isfinite(masks[m].hidden);
      if (all || (causality[m] == Causality::kInfinite && !overwritten)) {
        masks.erase(masks.begin() + static_cast<int64_t>(m));
        match.causal = true;
      }
      overwritten |= finite_choice;
    }
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
    DropCausalMasks(match);
    return match;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<uint8_t> kept_;  // by value: an output or an update
  std::vector<Part> part_;     // by node
  std::string why_;            // the last match failed
};

}  // namespace

AttentionSearch FindAttention(const Graph& graph) { return AttentionFinder(graph).Run(); }

}  // namespace millrace
