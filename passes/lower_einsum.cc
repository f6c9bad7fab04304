// Einsum becomes products of matrices, which every backend is fast at. Operands are multiplied in
// one after another, and labels summed over as soon as no later operand and not the result has them
// (ops/einsum.h). Of the labels of a product,
//   batch  are in both factors and stay,
//   rows   are in the first only,
//   columns in the second only,
//   inner  are in both and summed over;
// transposed to [batch, rows, inner] and [batch, inner, columns] it is a MatMul, or, without inner
// labels, a Mul. What is in one factor only and summed over is a ReduceSum before. Sums are taken
// in another order than by Einsum's own kernel: results are equal up to rounding.
//
// Diagonals are left alone, and equations of which a product in between would have too many dims or
// more elements than operands and result together. Nested graphs are lowered too.
#include <algorithm>

#include "graph/builder.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/einsum.h"
#include "ops/gradient.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

using Labels = std::vector<int>;

bool Has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

Labels Joined(std::initializer_list<Labels> parts) {
  Labels all;
  for (const Labels& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A value with one dim for each of its labels.
struct Factor {
  Term term;
  Labels labels;
};

class EinsumLowering {
 public:
  EinsumLowering(GraphBuilder& builder, NodeId node, const EinsumForm& form)
      : builder_(builder), node_(node), form_(form) {}

  Term Run() {
    const std::vector<EinsumStep> steps = EinsumSteps(form_);
    Factor product;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool last = i + 1 == steps.size();
      Factor next = Operand(i);
      Labels missing = product.labels;  // of the product: neither here nor later
      std::erase_if(missing, [&](int l) { return Has(next.labels, l) || Has(steps[i].keep, l); });
      SumOver(missing, product);
      Labels own = next.labels;
      std::erase_if(own, [&](int l) { return Has(product.labels, l) || Has(steps[i].keep, l); });
      SumOver(own, next);
      if (i == 0) {
        product = std::move(next);
      } else if (last && !form_.output.empty() && Has(product.labels, form_.output.back()) &&
                 !Has(next.labels, form_.output.back())) {
        product = Multiply(next, product, steps[i].keep);  // its columns come last in the result
      } else {
        product = Multiply(product, next, steps[i].keep);
      }
    }
    return Ordered(product, form_.output).term;
  }

 private:
  // Without the dims of 1 that stand for any size.
  Factor Operand(size_t i) const {
    const ValueId id = builder_.graph().node(node_).inputs[i];
    const TensorType type = builder_.graph().value(id).type;
    Factor factor{{&builder_, id, type.dtype}, {}};
    Shape shape;
    for (int d = 0; d < type.shape.rank(); ++d) {
      const int label = form_.inputs[i][d];
      if (type.shape[d] != form_.sizes[label]) continue;
      factor.labels.push_back(label);
      shape.push_back(type.shape[d]);
    }
    if (shape != type.shape) factor.term = Reshape(factor.term, shape);
    return factor;
  }

  void SumOver(const Labels& labels, Factor& factor) const {
    if (labels.empty()) return;
    std::vector<int64_t> axes;
    for (size_t d = 0; d < factor.labels.size(); ++d) {
      if (Has(labels, factor.labels[d])) axes.push_back(static_cast<int64_t>(d));
    }
    factor.term = Sum(factor.term, axes, /*keep=*/false);
    std::erase_if(factor.labels, [&](int l) { return Has(labels, l); });
  }

  static Factor Ordered(const Factor& factor, const Labels& order) {
    if (factor.labels == order) return factor;
    std::vector<int64_t> perm;
    for (int label : order) {
      const auto at = std::find(factor.labels.begin(), factor.labels.end(), label);
      perm.push_back(at - factor.labels.begin());
    }
    return {Transpose(factor.term, perm), order};
  }

  int64_t Points(const Labels& labels) const {
    int64_t points = 1;
    for (int label : labels) points *= form_.sizes[label];
    return points;
  }

  Shape ShapeOf(const Labels& labels) const {
    Shape shape;
    for (int label : labels) shape.push_back(form_.sizes[label]);
    return shape;
  }

  static Term Shaped(const Term& term, const Shape& from, const Shape& to) {
    return from == to ? term : Reshape(term, to);
  }

  Factor Multiply(const Factor& a, const Factor& b, const Labels& keep) const {
    Labels batch, rows, columns, inner;
    for (int label : a.labels) {
      (!Has(b.labels, label) ? rows : Has(keep, label) ? batch : inner).push_back(label);
    }
    for (int label : b.labels) {
      if (!Has(a.labels, label)) columns.push_back(label);
    }
    const Factor first = Ordered(a, Joined({batch, rows, inner}));
    const Factor second = Ordered(b, Joined({batch, inner, columns}));
    const Labels result = Joined({batch, rows, columns});
    if (inner.empty() && rows.empty() && columns.empty()) {
      return {first.term * second.term, result};
    }
    // Matrices, in as many batch dims as there are labels, if a shape has room for them.
    Shape dims = ShapeOf(batch.size() + 2 <= kMaxRank ? batch : Labels());
    if (dims.rank() != static_cast<int>(batch.size())) dims.push_back(Points(batch));
    const auto matrix = [&](int64_t height, int64_t width) {
      Shape shape = dims;
      shape.push_back(height);
      shape.push_back(width);
      return shape;
    };
    const int64_t m = Points(rows), k = Points(inner), n = Points(columns);
    const Term x = Shaped(first.term, ShapeOf(first.labels), matrix(m, k));
    const Term y = Shaped(second.term, ShapeOf(second.labels), matrix(k, n));
    const Term product = inner.empty() ? x * y : Apply("MatMul", {x, y});
    return {Shaped(product, matrix(m, n), ShapeOf(result)), result};
  }

  GraphBuilder& builder_;
  const NodeId node_;
  const EinsumForm& form_;
};

// Why the node is left alone, or "".
std::string WhyNot(const Graph& graph, const Node& node, const EinsumForm& form) {
  double elements = NumPoints(form, form.output);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& value = graph.value(node.inputs[i]);
    if (value.bounded) return StrCat("the size of '", value.name, "' is known only at run time");
    elements += static_cast<double>(NumElements(value.type.shape));
    for (int label : form.inputs[i]) {
      if (std::count(form.inputs[i].begin(), form.inputs[i].end(), label) > 1) {
        return StrCat("it takes a diagonal, of ", form.names[label]);
      }
    }
  }
  const std::vector<EinsumStep> steps = EinsumSteps(form);
  for (const EinsumStep& step : steps) {
    if (step.keep.size() <= kMaxRank) continue;
    return StrCat("a product in between would have ", step.keep.size(), " dims");
  }
  return StaysSmall(form, steps, elements)
             ? ""
             : "a product in between would be larger than operands and result";
}

absl::StatusOr<EinsumForm> FormOf(const Graph& graph, const Node& node) {
  std::vector<Shape> shapes;
  for (ValueId input : node.inputs) shapes.push_back(graph.value(input).type.shape);
  return BindEinsum(node.attrs.String("equation", ""), shapes);
}

// The nodes that were added in place of `id` are what it was, for all who ask.
void TakeAfter(Graph& graph, size_t first_added, NodeId id) {
  const Node original = graph.node(id);
  for (size_t n = first_added; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    node.after = original.after;
    node.device = original.device;
    node.stream = original.stream;
    node.scope = original.scope;
    node.origin = original.origin;
    if (node.origin.empty()) node.origin.push_back(original.name);
  }
}

absl::StatusOr<bool> Lower(Graph& graph, PassContext& context) {
  bool changed = false;
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    for (Subgraph& sub : graph.nodes[n].subgraphs) {
      MILLRACE_ASSIGN_OR_RETURN(const bool inner, Lower(sub.graph, context));
      changed |= inner;
    }
    const Node& node = graph.nodes[n];
    if (node.op != "Einsum") continue;
    MILLRACE_ASSIGN_OR_RETURN(const EinsumForm form, FormOf(graph, node));
    if (const std::string why = WhyNot(graph, node, form); !why.empty()) {
      context.Refused("lower-einsum", {node.name}, why);
      continue;
    }
    GraphBuilder builder(std::move(graph));
    const size_t first_added = builder.graph().nodes.size();
    const Term result = EinsumLowering(builder, NodeId(n), form).Run();
    graph = std::move(builder).Build();
    TakeAfter(graph, first_added, NodeId(n));
    Node& lowered = graph.nodes[n];
    lowered.op = "Identity";
    lowered.inputs = {result.id};
    context.Applied("lower-einsum", {lowered.name},
                    StrCat(lowered.attrs.String("equation", ""), " in ",
                           graph.nodes.size() - first_added, " nodes"));
    lowered.attrs = Attrs();
    changed = true;
  }
  if (changed && !SortNodes(graph).empty()) return InternalError("lowered to a cycle");
  return changed;
}

}  // namespace

absl::StatusOr<bool> LowerEinsum(Graph& graph, PassContext& context) {
  return Lower(graph, context);
}

}  // namespace millrace
