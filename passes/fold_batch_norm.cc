// Batch normalization with given statistics is, for each channel, a factor and a shift:
//   factor = scale / sqrt(variance + epsilon),  Y = X * factor + (B - mean * factor).
// Where X is a convolution's or a product's result, factor goes into its weights and shift into its
// bias:
//   Conv           W * factor, a row of W for each channel
//   ConvTranspose  the same, along W's second dim; of one group only
//   Gemm, MatMul   B * factor, a column for each channel; beta * C becomes the bias
// The new weights are computed by ordinary nodes from frozen operands (frozen_values.h), so a plan
// computes them once, in init. Nobody else may read X, which is then no longer there. Results are
// rounded differently.
#include <algorithm>

#include "graph/builder.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "ops/gradient.h"
#include "passes/frozen_values.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

constexpr std::string_view kRule = "fold-batch-norm";

// What BatchNormalization reads behind X.
enum BatchNormInput { kScale = 1, kShift, kMean, kVariance, kNumBatchNormInputs };

// How an op's weights and bias take a factor for each channel of its result.
struct ChannelForm {
  int64_t channel_dim = -1;  // of the weights; -1: no form
  std::string why_not;
};

ChannelForm ChannelFormOf(const Graph& graph, const Node& node) {
  const auto rank = [&](int i) { return graph.value(node.inputs[i]).type.shape.rank(); };
  if (node.op == "Conv") return {0, ""};
  if (node.op == "ConvTranspose") {
    if (node.attrs.Int("group", 1) == 1) return {1, ""};
    return {-1, "the weights of a ConvTranspose in groups have no dim of its channels"};
  }
  if (node.op == "Gemm") return {node.attrs.Bool("transB", false) ? 0 : 1, ""};
  if (node.op == "MatMul") {
    if (rank(0) == 2 && rank(1) == 2) return {1, ""};
    return {-1, "channels are dim 1, which is no dim of the weights in a product of this rank"};
  }
  return {-1, ""};
}

// A BatchNormalization and the node it normalizes the result of.
struct BatchNormFold {
  NodeId norm, product;
  int64_t channel_dim = 0;  // of the product's weights
};

// Appends what computes the new weights and bias, and lets the product read them.
class BatchNormFolder {
 public:
  BatchNormFolder(GraphBuilder& builder, const BatchNormFold& fold)
      : builder_(builder),
        fold_(fold),
        norm_(builder.graph().node(fold.norm)),
        product_(builder.graph().node(fold.product)) {}

  void Run() {
    const size_t first_added = builder_.graph().nodes.size();
    const Term variance = Of(norm_.inputs[kVariance]);
    const double epsilon = norm_.attrs.Float("epsilon", 1e-5);
    const Term factor = Of(norm_.inputs[kScale]) / Apply("Sqrt", {variance + epsilon});
    const Term weights = Of(product_.inputs[1]) * Along(factor);
    const Term shift = Of(norm_.inputs[kShift]) - Of(norm_.inputs[kMean]) * factor;
    const Term bias = HasBias() ? OldBias() * factor + shift : shift;
    for (size_t n = first_added; n < builder_.graph().nodes.size(); ++n) {
      Node& added = builder_.graph().nodes[n];
      added.scope = norm_.scope;
      added.device = norm_.device;
      added.origin = {norm_.name};
    }
    ReadNew(weights.id, bias.id);
  }

 private:
  Term Of(ValueId id) { return {&builder_, id, builder_.graph().value(id).type.dtype}; }
  bool HasBias() const { return product_.inputs.size() > 2 && product_.inputs[2].valid(); }
  Term OldBias() {
    const double beta = product_.op == "Gemm" ? product_.attrs.Float("beta", 1) : 1;
    return beta == 1 ? Of(product_.inputs[2]) : Of(product_.inputs[2]) * beta;
  }

  // The factor in the shape that multiplies the weights along their channels.
  Term Along(const Term& factor) {
    const Shape& weights = builder_.graph().value(product_.inputs[1]).type.shape;
    if (fold_.channel_dim == weights.rank() - 1) return factor;
    Shape shape;
    for (int d = 0; d < weights.rank(); ++d) {
      shape.push_back(d == fold_.channel_dim ? weights[d] : 1);
    }
    return Reshape(factor, shape);
  }

  void ReadNew(ValueId weights, ValueId bias) {
    Node& product = builder_.graph().node(fold_.product);
    product.inputs.resize(3);
    product.inputs[1] = weights;
    product.inputs[2] = bias;
    if (product.op == "MatMul") product.op = "Gemm";
    if (product.op == "Gemm") product.attrs.Erase("beta");
    if (product.origin.empty()) product.origin.push_back(product.name);
    product.origin.push_back(norm_.name);
    Node& norm = builder_.graph().node(fold_.norm);
    norm.op = "Identity";
    norm.inputs.resize(1);
    norm.outputs.resize(1);
    norm.attrs = Attrs();
  }

  GraphBuilder& builder_;
  const BatchNormFold fold_;
  const Node norm_, product_;  // as they were
};

// Looks for what can be folded.
class BatchNormFinder {
 public:
  BatchNormFinder(const Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        frozen_(FrozenValues(graph)),
        is_output_(OutputMask(graph)),
        consumers_(ConsumersOf(graph)) {}

  std::vector<BatchNormFold> Run() {
    std::vector<BatchNormFold> folds;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& norm = graph_.nodes[n];
      if (norm.op != "BatchNormalization" || norm.attrs.Bool("training_mode", false)) continue;
      const NodeId producer = graph_.value(norm.inputs[0]).producer;
      if (!producer.valid()) continue;
      const Node& product = graph_.node(producer);
      const ChannelForm form = ChannelFormOf(graph_, product);
      if (form.channel_dim < 0 && form.why_not.empty()) continue;  // another op's result
      const std::string why_not = form.why_not.empty() ? WhyNot(norm, product) : form.why_not;
      if (!why_not.empty()) {
        context_.Refused(kRule, {product.name, norm.name}, why_not);
        continue;
      }
      folds.push_back({NodeId(n), producer, form.channel_dim});
      context_.Applied(kRule, {product.name, norm.name},
                       StrCat("factor and shift are in the weights of '", product.name, "'"));
    }
    return folds;
  }

 private:
  std::string WhyNot(const Node& norm, const Node& product) const {
    const ValueId x = norm.inputs[0];
    const std::string& name = graph_.value(x).name;
    if (is_output_[x.index] != 0) return StrCat("'", name, "' is a graph output");
    const bool updates = std::ranges::any_of(
        graph_.updates, [&](const Update& update) { return update.value == x; });
    if (updates || consumers_[x.index].size() > 1) return StrCat("'", name, "' has another reader");
    const DType dtype = graph_.value(x).type.dtype;
    if (dtype != DType::kF32 && dtype != DType::kF64) {
      return StrCat("new weights would be rounded to ", DTypeName(dtype));
    }
    for (int i = kScale; i < kNumBatchNormInputs; ++i) {
      const Value& value = graph_.value(norm.inputs[i]);
      if (!IsFrozen(norm.inputs[i]))
        return StrCat("'", value.name, "' may differ from step to step");
      if (value.type.dtype != dtype) return StrCat("'", value.name, "' is of another type");
    }
    for (size_t i = 1; i < product.inputs.size(); ++i) {
      if (!product.inputs[i].valid() || IsFrozen(product.inputs[i])) continue;
      return StrCat("'", graph_.value(product.inputs[i]).name, "' may differ from step to step");
    }
    return "";
  }

  bool IsFrozen(ValueId id) const { return frozen_[id.index] != 0; }

  const Graph& graph_;
  PassContext& context_;
  const std::vector<uint8_t> frozen_, is_output_;
  const std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

absl::StatusOr<bool> FoldBatchNorm(Graph& graph, PassContext& context) {
  const auto is_norm = [](const Node& node) { return node.op == "BatchNormalization"; };
  if (std::ranges::none_of(graph.nodes, is_norm)) return false;
  const std::vector<BatchNormFold> folds = BatchNormFinder(graph, context).Run();
  if (folds.empty()) return false;
  GraphBuilder builder(std::move(graph));
  for (const BatchNormFold& fold : folds) BatchNormFolder(builder, fold).Run();
  graph = std::move(builder).Build();
  if (!SortNodes(graph).empty()) return InternalError("folded to a cycle");
  return true;
}

}  // namespace millrace
