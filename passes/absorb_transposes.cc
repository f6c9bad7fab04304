// Products that read a transposed matrix: Gemm takes either factor as it lies, so the Transpose
// before it need not be done. MatMul of matrices becomes Gemm; so does one whose first factor has
// batches that share the second (its rows, all together, are a matrix). Gradients of products are
// full of these.
//
// What is transposed once and for all, when a plan is loaded, stays so: kernels like their weights
// best the way they are read. O(nodes).
#include <optional>

#include "graph/builder.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "passes/frozen_values.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

// One factor of a product.
struct GemmFactor {
  ValueId value;
  NodeId transpose;  // that was before it; !valid(): none
};

class TransposeAbsorber {
 public:
  TransposeAbsorber(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  absl::StatusOr<bool> Run() {
    bool changed = false;
    std::vector<NodeId> with_rows;  // of more dims than two: these need Reshapes
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      Node& node = graph_.nodes[n];
      if ((node.op != "MatMul" && node.op != "Gemm") || !node.outputs[0].valid()) continue;
      if (!IsFloat(graph_.value(node.outputs[0]).type.dtype)) continue;  // Gemm's types
      const GemmFactor a = FactorAt(node, 0), b = FactorAt(node, 1);
      if (!a.transpose.valid() && !b.transpose.valid()) continue;
      if (RankOf(a.value) == 2 && RankOf(b.value) == 2) {
        BecomeGemm(NodeId(n), a, b);
        changed = true;
      } else if (RankOf(a.value) > 2 && HasKnownRows(node)) {
        with_rows.push_back(NodeId(n));
      }
    }
    if (with_rows.empty()) return changed;
    GraphBuilder builder(std::move(graph_));
    for (const NodeId id : with_rows) MultiplyRows(builder, id);
    graph_ = std::move(builder).Build();
    if (!SortNodes(graph_).empty()) return InternalError("absorbed into a cycle");
    return true;
  }

 private:
  int RankOf(ValueId id) const { return graph_.value(id).type.shape.rank(); }

  // What a transposed matrix is of, if it is transposed in every step.
  GemmFactor FactorAt(const Node& reader, size_t input) {
    const ValueId id = reader.inputs[input];
    const Value& value = graph_.value(id);
    const GemmFactor as_it_is{id, NodeId()};
    if (value.kind != ValueKind::kResult || value.bounded) return as_it_is;
    const Node& node = graph_.node(value.producer);
    if (node.op != "Transpose" || RankOf(id) != 2 || node.device != reader.device ||
        node.stream != reader.stream) {
      return as_it_is;
    }
    const std::vector<int64_t> perm = node.attrs.Ints("perm");
    if (!perm.empty() && perm[0] == 0) return as_it_is;
    if (frozen_.empty()) frozen_ = FrozenValues(graph_);
    if (frozen_[id.index] != 0) return as_it_is;
    return {node.inputs[0], value.producer};
  }

  bool HasKnownRows(const Node& node) const {
    const Shape& shape = graph_.value(node.outputs[0]).type.shape;
    return !graph_.value(node.inputs[0]).bounded && NumElements(shape) > 0;
  }

  void BecomeGemm(NodeId id, const GemmFactor& a, const GemmFactor& b) {
    Node& node = graph_.node(id);
    std::vector<std::string> names, origin;
    for (const GemmFactor* factor : {&a, &b}) {
      if (!factor->transpose.valid()) continue;
      if (factor == &b && b.transpose == a.transpose) continue;
      names.push_back(graph_.node(factor->transpose).name);
      AppendOrigin(graph_.node(factor->transpose), origin);
    }
    names.push_back(node.name);
    AppendOrigin(node, origin);
    node.op = "Gemm";
    node.inputs[0] = a.value;
    node.inputs[1] = b.value;
    if (a.transpose.valid()) node.attrs.Set("transA", !node.attrs.Bool("transA", false));
    if (b.transpose.valid()) node.attrs.Set("transB", !node.attrs.Bool("transB", false));
    node.origin = std::move(origin);
    context_.Applied("absorb-transpose", std::move(names),
                     StrCat("'", node.name, "' is a Gemm of what was transposed"));
  }

  // [..., k] times a transposed matrix.
  void MultiplyRows(GraphBuilder& builder, NodeId id) {
    Node node = builder.graph().node(id);
    const Value& transposed = builder.graph().value(node.inputs[1]);
    const Node transpose = builder.graph().node(transposed.producer);
    const ValueId result = node.outputs[0];
    const Shape shape = builder.graph().value(result).type.shape;
    const int64_t n = shape[shape.rank() - 1], rows = NumElements(shape) / n;
    const TensorType& type = builder.graph().value(node.inputs[0]).type;
    const int64_t k = type.shape[type.shape.rank() - 1];

    const auto add = [&](std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                         std::string_view suffix) {
      Node& added =
          builder.AddNode(op, std::move(inputs), std::move(attrs), StrCat(node.name, ".", suffix));
      added.device = node.device;
      added.stream = node.stream;
      added.scope = node.scope;
      AppendOrigin(transpose, added.origin);
      AppendOrigin(node, added.origin);
      return added.outputs[0];
    };
    const auto dims = [&](const std::vector<int64_t>& values) {
      return builder.Constant(StrCat(node.name, ".shape"),
                              Tensor::FromSpan<int64_t>({std::ssize(values)}, values));
    };
    const ValueId matrix = add("Reshape", {node.inputs[0], dims({rows, k})}, {}, "rows");
    Attrs attrs;
    attrs.Set("transB", true);
    const ValueId product = add("Gemm", {matrix, transpose.inputs[0]}, std::move(attrs), "product");
    const ValueId to = dims({shape.begin(), shape.end()});
    Node& original = builder.graph().node(id);
    original.op = "Reshape";
    original.inputs = {product, to};
    original.origin.clear();
    AppendOrigin(transpose, original.origin);
    AppendOrigin(node, original.origin);
    context_.Applied("absorb-transpose", {transpose.name, node.name},
                     StrCat("'", node.name, "' is a Gemm of its rows and what was transposed"));
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<uint8_t> frozen_;  // by value, when first asked
};

}  // namespace

absl::StatusOr<bool> AbsorbTransposes(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes) {
    for (Subgraph& body : node.subgraphs) {
      MILLRACE_ASSIGN_OR_RETURN(const bool inner, AbsorbTransposes(body.graph, context));
      changed |= inner;
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool outer, TransposeAbsorber(graph, context).Run());
  return changed || outer;
}

}  // namespace millrace
