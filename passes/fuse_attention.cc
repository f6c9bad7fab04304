// Attention, Softmax(scale Q K^T + mask) V as exporters spell it (attention_pattern.h), becomes one
// fused.Attention, which never writes the scores to memory.
//
// Matrices of rank 2 and 3 get dims of 1 in front. Masks become one that is added, made by doing to
// zeros what was done to the scores; a single choice of -inf a bool one; and what hides just the
// keys later than the query the attribute `causal`.
// Sums are taken in another order than by the nodes: results are equal up to rounding. O(nodes).
#include <cmath>
#include <optional>

#include "graph/builder.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/attention.h"
#include "ops/broadcast.h"
#include "ops/gradient.h"
#include "passes/attention_pattern.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"
#include "passes/variant_memo.h"

namespace millrace {
namespace {

class AttentionFuser {
 public:
  AttentionFuser(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), awaited_(AwaitedMask(graph)) {
    if (context.target != nullptr) memo_.emplace(*context.target);
  }

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (Node& node : graph_.nodes) {
      for (Subgraph& body : node.subgraphs) {
        MILLRACE_ASSIGN_OR_RETURN(const bool inner, AttentionFuser(body.graph, context_).Run());
        changed |= inner;
      }
    }
    const AttentionSearch search = FindAttention(graph_);
    for (const AttentionSearch::NearMiss& miss : search.missed) {
      context_.Refused("fuse-attention", {graph_.node(miss.softmax).name}, miss.why);
    }
    std::vector<const AttentionPattern*> fit;
    for (const AttentionPattern& match : search.found) {
      if (const std::string why = WhyUnfit(match); !why.empty()) {
        context_.Refused("fuse-attention", {graph_.node(match.nodes.back()).name}, why);
      } else {
        fit.push_back(&match);
      }
    }
    if (fit.empty()) return changed;
    GraphBuilder builder(std::move(graph_));
    std::vector<uint8_t> keep(builder.graph().nodes.size(), 1);
    for (const AttentionPattern* match : fit) {
      Rewrite(builder, *match);
      for (NodeId id : match->nodes) keep[id.index] = id == match->nodes.back() ? 1 : 0;
    }
    graph_ = std::move(builder).Build();
    keep.resize(graph_.nodes.size(), 1);
    RemoveNodes(graph_, keep);
    if (!SortNodes(graph_).empty()) return InternalError("fused to a cycle");
    return true;
  }

 private:
  const Shape& ShapeOf(ValueId value) const { return graph_.value(value).type.shape; }

  static Shape Padded(const Shape& shape) {
    Shape padded;
    for (int d = shape.rank(); d < 4; ++d) padded.push_back(1);
    for (int64_t size : shape) padded.push_back(size);
    return padded;
  }

  Attrs AttrsOf(const AttentionPattern& match) const {
    Attrs attrs;
    attrs.Set("scale", match.scores.scale * match.q.scale * match.k.scale);
    if (match.causal) attrs.Set("causal", true);
    const auto layout = [&](std::string_view name, const std::string& value) {
      if (value != kHeadsFirst) attrs.Set(name, value);
    };
    layout("q_layout", match.q.layout);
    layout("k_layout", match.k.layout);
    layout("v_layout", match.v.layout);
    layout("y_layout", match.y_layout);
    return attrs;
  }

  // Why the operands do not make a fused.Attention, or "".
  std::string WhyUnfit(const AttentionPattern& match) {
    for (NodeId id : match.nodes) {
      const Node& node = graph_.node(id);
      const Node& last = graph_.node(match.nodes.back());
      if (!node.after.empty()) return StrCat("'", node.name, "' waits for another node");
      if (&node != &last && awaited_[id.index] != 0) {
        return StrCat("another node waits for '", node.name, "'");
      }
      if (node.device != last.device || node.stream != last.stream) {
        return StrCat("'", node.name, "' and '", last.name, "' are asked for in different places");
      }
    }
    NodeQuery query;
    query.op = "fused.Attention";
    query.attrs = AttrsOf(match);
    const ValueId result = graph_.node(match.nodes.back()).outputs[0];
    const DType dtype = graph_.value(result).type.dtype;
    for (const HeadOperand* operand : {&match.q, &match.k, &match.v}) {
      query.inputs.push_back(TensorType{dtype, Padded(ShapeOf(operand->value))});
    }
    const std::optional<TensorType> mask = MaskTypeOf(match.scores.masks, dtype);
    const absl::StatusOr<AttentionForm> form =
        AttentionFormOf(query.attrs, query.inputs[0]->shape, query.inputs[1]->shape,
                        query.inputs[2]->shape, mask.has_value() ? &mask->shape : nullptr);
    if (!form.ok()) return std::string(StdView(form.status().message()));
    if (form->result != Padded(ShapeOf(result))) return "operands are repeated along batch dims";
    if (mask.has_value()) query.inputs.push_back(mask);
    query.outputs.push_back(TensorType{dtype, form->result});
    if (!memo_.has_value() || memo_->HasFastKernel(query)) return "";
    return StrCat("the device has no kernel of fused.Attention for ", DTypeName(dtype));
  }

  // The last node of the match becomes the fused one, or what gives its result the rank it had.
  void Rewrite(GraphBuilder& builder, const AttentionPattern& match) {
    Graph& graph = builder.graph();
    std::vector<std::string> names, origin;
    for (NodeId id : match.nodes) {
      names.push_back(graph.node(id).name);
      AppendOrigin(graph.node(id), origin);
    }
    const NodeId last = match.nodes.back();
    const Shape result = graph.value(graph.node(last).outputs[0]).type.shape;
    const size_t first_added = graph.nodes.size();
    std::vector<ValueId> inputs = {AsHeads(builder, match.q), AsHeads(builder, match.k),
                                   AsHeads(builder, match.v)};
    if (const ValueId mask = MaskOf(builder, match.scores); mask.valid()) inputs.push_back(mask);
    std::string op = "fused.Attention";
    Attrs attrs = AttrsOf(match);
    if (result.rank() < 4) {
      const ValueId y = builder.Op(op, std::move(inputs), std::move(attrs));
      inputs = {y, Ints(builder, result.dims()).id};
      op = "Reshape";
      attrs = Attrs();
    }
    Node& node = graph.node(last);
    node.op = op;
    node.inputs = std::move(inputs);
    node.attrs = std::move(attrs);
    node.origin = std::move(origin);
    for (size_t n = first_added; n < graph.nodes.size(); ++n) {
      Node& added = graph.nodes[n];
      added.device = node.device;
      added.stream = node.stream;
      added.scope = node.scope;
      added.origin = node.origin;
    }
    context_.Applied("fuse-attention", std::move(names),
                     StrCat("'", node.name, "' computes them", match.causal ? ", causal" : ""));
  }

  Term TermOf(GraphBuilder& builder, ValueId value) const {
    return {&builder, value, builder.graph().value(value).type.dtype};
  }

  ValueId AsHeads(GraphBuilder& builder, const HeadOperand& operand) const {
    const Shape shape = builder.graph().value(operand.value).type.shape;
    if (shape.rank() == 4) return operand.value;
    return Reshape(TermOf(builder, operand.value), Padded(shape)).id;
  }

  static bool IsBoolMask(const std::vector<ScoreMask>& masks) {
    return masks.size() == 1 && masks[0].chooses && std::isinf(masks[0].hidden);
  }

  // Of what MaskOf gives.
  std::optional<TensorType> MaskTypeOf(const std::vector<ScoreMask>& masks, DType dtype) const {
    if (masks.empty()) return std::nullopt;
    Shape shape;
    for (const ScoreMask& mask : masks) {
      absl::StatusOr<Shape> together = BroadcastShapes(shape, ShapeOf(mask.mask));
      MILLRACE_CHECK(together.ok());  // each of them broadcasts to the scores
      shape = *std::move(together);
    }
    return TensorType{IsBoolMask(masks) ? DType::kBool : dtype, shape};
  }

  // One mask of all; !valid(): none.
  ValueId MaskOf(GraphBuilder& builder, const AttentionScores& scores) const {
    if (IsBoolMask(scores.masks)) {
      const Term condition = TermOf(builder, scores.masks[0].mask);
      return scores.masks[0].shows ? condition.id : Apply("Not", {condition}).id;
    }
    const ValueId product = builder.graph().node(scores.product).outputs[0];
    std::optional<Term> all;
    for (const ScoreMask& each : scores.masks) {
      const Term mask = TermOf(builder, each.mask);
      if (!each.chooses) {
        all = all.has_value() ? *all + mask : mask;
        continue;
      }
      const Term seen = all.has_value() ? *all : Scalar(TermOf(builder, product), 0);
      const Term hidden = Scalar(seen, each.hidden);
      all = Select(mask, each.shows ? seen : hidden, each.shows ? hidden : seen);
    }
    return all.has_value() ? all->id : ValueId();
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<uint8_t> awaited_;  // by node: another comes `after` it
  std::optional<VariantMemo> memo_;     // of the target, if there is one
};

}  // namespace

absl::StatusOr<bool> FuseAttention(Graph& graph, PassContext& context) {
  return AttentionFuser(graph, context).Run();
}

}  // namespace millrace
