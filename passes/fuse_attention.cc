// Attention, Softmax(scale Q K^T + mask) V as exporters spell it (attention_pattern.h), becomes one
// fused.Attention, which never writes the scores to memory.
//
// Matrices of rank 2 and 3 get dims of 1 in front. Masks become one that is added; a choice of -inf
// a bool one; and one that hides just what comes later than the query the attribute `causal`.
// Sums are taken in another order than by the nodes: results are equal up to rounding. O(nodes).
#include <cmath>
#include <optional>

#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/attention.h"
#include "ops/gradient.h"
#include "passes/attention_pattern.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

class AttentionFuser {
 public:
  AttentionFuser(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  absl::StatusOr<bool> Run() {
    bool changed = false, fused = false;
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
    for (const AttentionPattern& match : search.found) {
      if (const std::string why = WhyUnfit(match); !why.empty()) {
        context_.Refused("fuse-attention", {graph_.node(match.nodes.back()).name}, why);
        continue;
      }
      Rewrite(match);
      fused = true;
    }
    if (fused && !SortNodes(graph_).empty()) return InternalError("fused to a cycle");
    return changed || fused;
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
  std::string WhyUnfit(const AttentionPattern& match) const {
    for (NodeId id : match.nodes) {
      const Node& node = graph_.node(id);
      const Node& last = graph_.node(match.nodes.back());
      if (!node.after.empty()) return StrCat("'", node.name, "' waits for another node");
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
    const absl::StatusOr<AttentionForm> form =
        AttentionFormOf(query.attrs, query.inputs[0]->shape, query.inputs[1]->shape,
                        query.inputs[2]->shape, nullptr);
    if (!form.ok()) return std::string(StdView(form.status().message()));
    if (form->result != Padded(ShapeOf(result))) return "operands are repeated along batch dims";
    if (context_.target == nullptr) return "";
    query.outputs.push_back(TensorType{dtype, form->result});
    const std::vector<KernelVariant> variants = context_.target->Variants(query);
    if (!variants.empty() && variants[0].name != "reference") return "";
    return StrCat("the device has no kernel of fused.Attention for ", DTypeName(dtype));
  }

  void Rewrite(const AttentionPattern& match) {
    std::vector<std::string> names, origin;
    for (NodeId id : match.nodes) {
      const Node& node = graph_.node(id);
      names.push_back(node.name);
      if (node.origin.empty()) origin.push_back(node.name);
      origin.insert(origin.end(), node.origin.begin(), node.origin.end());
    }
    const NodeId last = match.nodes.back();
    const Shape result = ShapeOf(graph_.node(last).outputs[0]);
    const size_t first_added = graph_.nodes.size();
    GraphBuilder builder(std::move(graph_));
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
    graph_ = std::move(builder).Build();
    Node& node = graph_.node(last);
    node.op = op;
    node.inputs = std::move(inputs);
    node.attrs = std::move(attrs);
    node.origin = std::move(origin);
    for (size_t n = first_added; n < graph_.nodes.size(); ++n) {
      Node& added = graph_.nodes[n];
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

  // One mask of all; !valid(): none.
  ValueId MaskOf(GraphBuilder& builder, const AttentionScores& scores) const {
    if (scores.added.empty() && scores.chosen.size() == 1 && std::isinf(scores.chosen[0].hidden)) {
      const Term condition = TermOf(builder, scores.chosen[0].condition);
      return scores.chosen[0].shows ? condition.id : Apply("Not", {condition}).id;
    }
    std::optional<Term> sum;
    const auto add = [&](const Term& mask) { sum = sum.has_value() ? *sum + mask : mask; };
    for (ValueId mask : scores.added) add(TermOf(builder, mask));
    const ValueId product = builder.graph().node(scores.product).outputs[0];
    for (const HiddenScores& choice : scores.chosen) {
      const Term zero = Scalar(TermOf(builder, product), 0);
      const Term hidden = Scalar(zero, choice.hidden);
      add(Select(TermOf(builder, choice.condition), choice.shows ? zero : hidden,
                 choice.shows ? hidden : zero));
    }
    return sum.has_value() ? sum->id : ValueId();
  }

  Graph& graph_;
  PassContext& context_;
};

}  // namespace

absl::StatusOr<bool> FuseAttention(Graph& graph, PassContext& context) {
  return AttentionFuser(graph, context).Run();
}

}  // namespace millrace
