// fused.Attention: what attention layers are made of as one op, so that kernels need not write the
// scores, queries x keys of each head, to memory:
//
//   Y = Softmax(scale Q K^T + mask) V        for each head of each batch
//
// Q is [batch, heads, queries, head], K [batch, kv heads, keys, head], V [batch, kv heads, keys,
// value head], Y as Q with V's head; or with heads and tokens the other way round, as products
// leave them, where the operand's layout says "bthd". heads is a multiple of kv heads: heads in a
// row share one of K and V. The mask broadcasts to [batch, heads, queries, keys]; a bool one says
// which keys a query sees. With `causal` query i sees keys 0 to i. What a query does not see counts
// as -inf: a query that sees nothing gives NaN, as Softmax does; without keys Y is 0. Whether a V
// that is not finite shows through a weight of 0 is left open.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/strings.h"
#include "ops/attention.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::Status Infer(InferContext& c) {
  const bool has_mask = c.has_input(3);
  if (has_mask && c.input(3).dtype != DType::kBool && c.input(3).dtype != c.input(0).dtype) {
    return BadInputError(StrCat("'mask' must be bool or ", DTypeName(c.input(0).dtype), ", but is ",
                                DTypeName(c.input(3).dtype)));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const AttentionForm form,
      AttentionFormOf(c.attrs(), c.input(0).shape, c.input(1).shape, c.input(2).shape,
                      has_mask ? &c.input(3).shape : nullptr));
  c.set_output(0, {c.input(0).dtype, form.result});
  return absl::OkStatus();
}

// One query's weights from its scores, in place: Softmax.
void Normalize(std::vector<double>& weights) {
  double largest = -kInfinity, sum = 0;
  for (double w : weights) largest = std::max(largest, w);
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (double& w : weights) w /= sum;
}

template <typename T>
double Dot(const T* a, const T* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// What is added to the score of a pair.
double MaskAt(const Tensor& mask, int64_t at) {
  if (mask.dtype() == DType::kBool) return mask.AsInt64(at) != 0 ? 0 : -kInfinity;
  return mask.AsDouble(at);
}

// The result of one query of one head.
template <typename T>
void Attend(const ReferenceContext& c, const AttentionForm& form, int64_t b, int64_t h, int64_t i,
            std::vector<double>& weights) {
  const int64_t shared = form.KvHeadOf(h);
  const T* q = c.inputs[0].data<T>().data() + b * form.q.batch + h * form.q.head + i * form.q.token;
  const T* k = c.inputs[1].data<T>().data() + b * form.k.batch + shared * form.k.head;
  const T* v = c.inputs[2].data<T>().data() + b * form.v.batch + shared * form.v.head;
  T* y =
      c.outputs[0].mutable_data<T>().data() + b * form.y.batch + h * form.y.head + i * form.y.token;
  const int64_t mask_row = b * form.mask_batch + h * form.mask_head + i * form.mask_query;
  for (int64_t j = 0; j < form.keys; ++j) {
    weights[j] = form.scale * Dot(q, k + j * form.k.token, form.head_size);
    if (form.has_mask) weights[j] += MaskAt(c.inputs[3], mask_row + j * form.mask_key);
    if (form.causal && j > i) weights[j] = -kInfinity;
  }
  Normalize(weights);
  for (int64_t d = 0; d < form.value_size; ++d) {
    double sum = 0;
    for (int64_t j = 0; j < form.keys; ++j) {
      sum += weights[j] * static_cast<double>(v[j * form.v.token + d]);
    }
    y[d] = Narrow<T>(sum);
  }
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  const bool has_mask = c.inputs.size() > 3 && c.inputs[3].has_data();
  MILLRACE_ASSIGN_OR_RETURN(
      const AttentionForm form,
      AttentionFormOf(c.attrs, c.inputs[0].shape(), c.inputs[1].shape(), c.inputs[2].shape(),
                      has_mask ? &c.inputs[3].shape() : nullptr));
  return VisitFloats(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<double> weights(form.keys);
    for (int64_t b = 0; b < form.batch; ++b) {
      for (int64_t h = 0; h < form.heads; ++h) {
        for (int64_t i = 0; i < form.queries; ++i) Attend<T>(c, form, b, h, i, weights);
      }
    }
    return absl::OkStatus();
  });
}

// --- Gradient -----------------------------------------------------------------------------------
// With heads as [kv heads, group] everything broadcasts: operands become
// [batch, kv heads, group or 1, tokens, head].
Shape Grouped(const AttentionForm& form, int64_t group, int64_t tokens, int64_t size) {
  return {form.batch, form.kv_heads, group, tokens, size};
}

Term SwapHeadsAndTokens(const Term& x) {
  constexpr int64_t kPerm[] = {0, 2, 1, 3};
  return Transpose(x, kPerm);
}

Term ToGrouped(const Term& x, std::string_view layout, const Shape& grouped) {
  return Reshape(layout == kTokensFirst ? SwapHeadsAndTokens(x) : x, grouped);
}

Term FromGrouped(const Term& x, std::string_view layout, const Shape& shape) {
  if (layout != kTokensFirst) return Reshape(x, shape);
  return SwapHeadsAndTokens(Reshape(x, {shape[0], shape[2], shape[1], shape[3]}));
}

Shape GroupedMask(const AttentionForm& form, const Shape& mask) {
  Shape padded;
  for (int d = mask.rank(); d < 4; ++d) padded.push_back(1);
  for (int64_t size : mask) padded.push_back(size);
  const bool each_head = padded[1] != 1 || form.heads == 1;
  return {padded[0], each_head ? form.kv_heads : 1, each_head ? form.heads / form.kv_heads : 1,
          padded[2], padded[3]};
}

Term Positions(GraphBuilder& builder, const Shape& shape) {
  std::vector<int64_t> all(NumElements(shape));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  return {&builder, builder.Constant("positions", Tensor::FromSpan<int64_t>(shape, all)),
          DType::kI64};
}

Term Weights(const Forward& f, const AttentionForm& form, const Term& q, const Term& k) {
  Term scores = Apply("MatMul", {q, SwapLastDims(k, 5)}) * form.scale;
  const Term hidden = Scalar(scores, -kInfinity);
  if (form.has_mask) {
    const Term mask = Reshape(f.input(3), GroupedMask(form, f.input_type(3).shape));
    scores = mask.dtype == DType::kBool ? Select(mask, scores, hidden) : scores + mask;
  }
  if (form.causal) {
    const Term later =
        Positions(*q.builder, {1, form.keys}) > Positions(*q.builder, {form.queries, 1});
    scores = Select(later, hidden, scores);
  }
  return Apply("Softmax", {scores});
}

// With P the weights: dV = P^T dY, dP = dY V^T, dS = P (dP - sum(dP P)), and scores are a product.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Shape* mask = f.has_input(3) ? &f.input_type(3).shape : nullptr;
  MILLRACE_ASSIGN_OR_RETURN(const AttentionForm form,
                            AttentionFormOf(f.attrs(), f.input_type(0).shape, f.input_type(1).shape,
                                            f.input_type(2).shape, mask));
  if (form.kv_heads == 0) {  // no element anywhere but in the mask
    for (int i = 0; i < f.num_inputs(); ++i) {
      if (f.wants(i)) f.set_grad(i, Zeros(c.builder, f.input_type(i)));
    }
    return absl::OkStatus();
  }
  const auto layout = [&](std::string_view name) { return f.attrs().String(name, kHeadsFirst); };
  const int64_t group = form.heads / form.kv_heads;
  const Shape of_q = Grouped(form, group, form.queries, form.head_size);
  const Shape of_k = Grouped(form, 1, form.keys, form.head_size);
  const Shape of_v = Grouped(form, 1, form.keys, form.value_size);
  const Shape of_y = Grouped(form, group, form.queries, form.value_size);
  const Shape of_scores = Grouped(form, group, form.queries, form.keys);
  const Term q = ToGrouped(f.input(0), layout("q_layout"), of_q);
  const Term k = ToGrouped(f.input(1), layout("k_layout"), of_k);
  const Term v = ToGrouped(f.input(2), layout("v_layout"), of_v);
  const Term dy = ToGrouped(f.output_grad(0), layout("y_layout"), of_y);
  const Term p = Weights(f, form, q, k);
  const auto set = [&](int i, std::string_view name, const Term& grad) {
    f.set_grad(i, FromGrouped(grad, layout(name), f.input_type(i).shape));
  };
  if (f.wants(2)) {
    const Term dv = Apply("MatMul", {SwapLastDims(p, 5), dy});
    set(2, "v_layout", SumTo(dv, Grouped(form, group, form.keys, form.value_size), of_v));
  }
  const bool wants_mask = f.wants(3) && f.input_type(3).dtype != DType::kBool;
  if (!f.wants(0) && !f.wants(1) && !wants_mask) return absl::OkStatus();
  const Term dp = Apply("MatMul", {dy, SwapLastDims(v, 5)});
  constexpr int64_t kLast = -1;
  const Term ds = p * (dp - Sum(dp * p, {&kLast, 1}, /*keep=*/true));
  if (f.wants(0)) set(0, "q_layout", Apply("MatMul", {ds, k}) * form.scale);
  if (f.wants(1)) {
    const Term dk = Apply("MatMul", {SwapLastDims(ds, 5), q}) * form.scale;
    set(1, "k_layout", SumTo(dk, Grouped(form, group, form.keys, form.head_size), of_k));
  }
  if (wants_mask) {
    const Shape& shape = f.input_type(3).shape;
    f.set_grad(3, Reshape(SumTo(ds, of_scores, GroupedMask(form, shape)), shape));
  }
  return absl::OkStatus();
}

// --- Sharding, work -----------------------------------------------------------------------------
// The mask's dim for dim `d` of the scores, if it is cut with them.
AxisSharding MaskSharding(const Shape& mask, int d, int64_t size) {
  const int own = d - (4 - mask.rank());
  return own >= 0 && mask[own] == size ? ShardDim(own) : Replicate();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const bool has_mask = query.inputs.size() > 3 && query.inputs[3].has_value();
  const absl::StatusOr<AttentionForm> form =
      AttentionFormOf(query.attrs, query.inputs[0]->shape, query.inputs[1]->shape,
                      query.inputs[2]->shape, has_mask ? &query.inputs[3]->shape : nullptr);
  if (!form.ok()) return {};
  const auto layout = [&](std::string_view name) { return query.attrs.String(name, kHeadsFirst); };
  std::vector<ShardingRule> rules;
  const auto add = [&](std::string_view note, AxisSharding q, AxisSharding k, AxisSharding v,
                       AxisSharding y, int scores_dim, int64_t size) {
    ShardingRule rule = ReplicateAll(query, note);
    rule.inputs[0] = q;
    rule.inputs[1] = k;
    rule.inputs[2] = v;
    rule.outputs[0] = y;
    if (has_mask) rule.inputs[3] = MaskSharding(query.inputs[3]->shape, scores_dim, size);
    rules.push_back(std::move(rule));
  };
  const std::string q = layout("q_layout"), y = layout("y_layout");
  if (form->batch > 1) {
    add("split the batch", ShardDim(0), ShardDim(0), ShardDim(0), ShardDim(0), 0, form->batch);
  }
  if (form->heads > 1) {
    const bool cut = form->kv_heads > 1;  // else all share one
    add("split heads", ShardDim(HeadsDim(q)),
        cut ? ShardDim(HeadsDim(layout("k_layout"))) : Replicate(),
        cut ? ShardDim(HeadsDim(layout("v_layout"))) : Replicate(), ShardDim(HeadsDim(y)), 1,
        form->heads);
  }
  if (form->queries > 1 && !form->causal) {  // a causal query's keys depend on where it is
    add("split queries", ShardDim(TokensDim(q)), Replicate(), Replicate(), ShardDim(TokensDim(y)),
        2, form->queries);
  }
  AddPartialRules(query, 2, kLinearReductions, rules);
  return rules;
}

// Two products, and Softmax between them. Causal: half of the pairs.
Work AttentionWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const absl::StatusOr<AttentionForm> form = AttentionFormOf(
      query.attrs, query.inputs[0]->shape, query.inputs[1]->shape, query.inputs[2]->shape, nullptr);
  if (!form.ok()) return work;
  const double each = 2.0 * static_cast<double>(form->head_size + form->value_size) + 5;
  work.flops = form->pairs() * each * (form->causal ? 0.5 : 1);
  return work;
}

AttrSpec LayoutAttr(std::string_view name, std::string_view operand) {
  return {.name = std::string(name),
          .kind = AttrKind::kString,
          .default_value = std::string(kHeadsFirst),
          .choices = {std::string(kHeadsFirst), std::string(kTokensFirst)},
          .doc = StrCat("how ", operand, " lies: b batch, h heads, t tokens, d head")};
}

}  // namespace

OpDef FusedAttentionOp() {
  return {.name = "fused.Attention",
          .doc = "Softmax(scale Q K^T + mask) V for each head",
          .inputs = {{.name = "Q", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "K", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "V", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "mask", .optional = true, .doc = "added; bool: what is seen"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = {{.name = "scale",
                     .kind = AttrKind::kFloat,
                     .doc = "of the products; absent: 1 / sqrt(head)"},
                    {.name = "causal",
                     .kind = AttrKind::kBool,
                     .default_value = false,
                     .doc = "query i sees keys 0 to i"},
                    LayoutAttr("q_layout", "Q"),
                    LayoutAttr("k_layout", "K"),
                    LayoutAttr("v_layout", "V"),
                    LayoutAttr("y_layout", "Y")},
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = AttentionWork};
}

}  // namespace millrace
