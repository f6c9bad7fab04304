#include "ops/gradient.h"

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/known_values.h"
#include "ops/signature.h"

namespace millrace {

Term Apply(std::string_view op, const std::vector<Term>& operands, Attrs attrs) {
  std::vector<ValueId> ids;
  for (const Term& term : operands) ids.push_back(term.id);
  GraphBuilder* builder = operands[0].builder;
  return {builder, builder->Op(op, std::move(ids), std::move(attrs)), operands[0].dtype};
}

Term Scalar(const Term& like, double value) {
  Tensor tensor = Tensor::Zeros({like.dtype, {}});
  tensor.Set(0, value);
  return {like.builder, like.builder->Constant("scalar", std::move(tensor)), like.dtype};
}

Term Ints(GraphBuilder& builder, std::span<const int64_t> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return {&builder, builder.Constant("ints", Tensor::FromSpan(shape, values)), DType::kI64};
}

Term Select(const Term& condition, const Term& a, const Term& b) {
  Term result = Apply("Where", {condition, a, b});
  result.dtype = a.dtype;
  return result;
}

Term Compare(std::string_view op, const Term& a, const Term& b) {
  Term result = Apply(op, {a, b});
  result.dtype = DType::kBool;
  return result;
}

Term CastTo(const Term& x, DType dtype) {
  if (x.dtype == dtype) return x;
  Attrs attrs;
  attrs.Set("to", std::string(DTypeName(dtype)));
  Term result = Apply("Cast", {x}, std::move(attrs));
  result.dtype = dtype;
  return result;
}

Term ExpandTo(const Term& x, const Shape& shape) {
  return Apply("Expand", {x, Ints(*x.builder, shape.dims())});
}

Term Zeros(GraphBuilder& builder, const TensorType& type) {
  return ExpandTo(Scalar({&builder, {}, type.dtype}, 0), type.shape);
}

Attrs AxisAttr(int64_t axis) {
  Attrs attrs;
  attrs.Set("axis", axis);
  return attrs;
}

Term Sum(const Term& x, std::span<const int64_t> axes, bool keep) {
  Attrs attrs;
  attrs.Set("keepdims", keep);
  attrs.Set("noop_with_empty_axes", true);
  return Apply("ReduceSum", {x, Ints(*x.builder, axes)}, std::move(attrs));
}

Term Reshape(const Term& x, const Shape& shape) {
  Attrs attrs;
  attrs.Set("allowzero", true);
  return Apply("Reshape", {x, Ints(*x.builder, shape.dims())}, std::move(attrs));
}

Term Transpose(const Term& x, std::span<const int64_t> perm) {
  Attrs attrs;
  attrs.Set("perm", std::vector<int64_t>(perm.begin(), perm.end()));
  return Apply("Transpose", {x}, std::move(attrs));
}

Term SwapLastDims(const Term& x, int rank) {
  std::vector<int64_t> perm(rank);
  for (int d = 0; d < rank; ++d) perm[d] = d;
  std::swap(perm[rank - 2], perm[rank - 1]);
  return Transpose(x, perm);
}

Term SumTo(const Term& x, const Shape& from, const Shape& to) {
  const int added = from.rank() - to.rank();
  std::vector<int64_t> axes;
  for (int d = 0; d < from.rank(); ++d) {
    if (d < added || (to[d - added] == 1 && from[d] != 1)) axes.push_back(d);
  }
  if (axes.empty()) return x;
  const Term sum = Sum(x, axes, /*keep=*/true);
  return added == 0 ? sum : Reshape(sum, to);
}

Term ProductSlope(const Term& is_zero, const Term& rest, const Term& product, const Term& zeros) {
  const Term zero = Scalar(rest, 0);
  return Select(is_zero, Select(EqualTo(zeros, 1), product, zero),
                Select(EqualTo(zeros, 0), product / rest, zero));
}

absl::Status ZeroGradient(GradientContext& context) {
  Forward sizes_the_result(context);
  return absl::OkStatus();
}

Forward::Forward(GradientContext& context) : context_(context) {
  const Graph& graph = context.builder.graph();
  const Node& node = graph.node(context.node);
  inputs_ = node.inputs;
  outputs_ = node.outputs;
  for (ValueId id : inputs_)
    input_types_.push_back(id.valid() ? graph.value(id).type : TensorType{});
  for (ValueId id : outputs_) {
    output_types_.push_back(id.valid() ? graph.value(id).type : TensorType{});
  }
  const OpDef* op = FindOp(node.op);
  MILLRACE_CHECK(op != nullptr);
  Attrs storage;
  attrs_ = WithDefaults(*op, node.attrs, storage);
  context.input_grads.assign(inputs_.size(), ValueId());
}

absl::StatusOr<std::vector<int64_t>> Forward::KnownInts(int i) const {
  KnownValues known(context_.builder.graph());
  const std::optional<Tensor> tensor = known.Of(inputs_[i]);
  if (tensor.has_value()) return IntsOf(*tensor);
  const Node& node = context_.builder.graph().node(context_.node);
  return BadInputError(StrCat("the gradient of '", node.name, "' needs operand ", i, ", but ",
                              known.WhyUnknown(inputs_[i])));
}

Term Forward::ToTerm(ValueId id) const {
  return {&context_.builder, id, context_.builder.graph().value(id).type.dtype};
}

}  // namespace millrace
