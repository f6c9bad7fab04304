#include "ops/attention.h"

#include <cmath>

#include "graph/strings.h"
#include "ops/broadcast.h"

namespace millrace {
namespace {

struct Heads {
  int64_t batch = 0, heads = 0, tokens = 0, size = 0;
  HeadStrides strides;
};

absl::StatusOr<Heads> HeadsOf(std::string_view name, const Shape& shape, std::string_view layout) {
  if (shape.rank() != 4) {
    return BadInputError(
        StrCat("'", name, "' must have four dims, ", layout, ", but has ", ToString(shape)));
  }
  const Shape strides = DenseStrides(shape);
  const int heads = HeadsDim(layout), tokens = TokensDim(layout);
  return Heads{shape[0],
               shape[heads],
               shape[tokens],
               shape[3],
               {strides[0], strides[heads], strides[tokens]}};
}

absl::Status Expect(bool holds, std::string_view what, int64_t a, int64_t b) {
  if (holds) return absl::OkStatus();
  return BadInputError(StrCat(what, ": ", a, " and ", b));
}

absl::Status ReadMask(const Shape& mask, AttentionForm& form) {
  const Shape scores = {form.batch, form.heads, form.queries, form.keys};
  const absl::StatusOr<Shape> together = BroadcastShapes(mask, scores);
  if (!together.ok() || *together != scores) {
    return BadInputError(StrCat("'mask' is ", ToString(mask),
                                ", which does not broadcast to [batch, heads, queries, keys], ",
                                ToString(scores)));
  }
  const Shape strides = BroadcastStrides(mask, scores);
  form.has_mask = true;
  form.mask_batch = strides[0];
  form.mask_head = strides[1];
  form.mask_query = strides[2];
  form.mask_key = strides[3];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttentionForm> AttentionFormOf(const Attrs& attrs, const Shape& q, const Shape& k,
                                              const Shape& v, const Shape* mask) {
  const auto layout = [&](std::string_view name) { return attrs.String(name, kHeadsFirst); };
  MILLRACE_ASSIGN_OR_RETURN(const Heads qs, HeadsOf("Q", q, layout("q_layout")));
  MILLRACE_ASSIGN_OR_RETURN(const Heads ks, HeadsOf("K", k, layout("k_layout")));
  MILLRACE_ASSIGN_OR_RETURN(const Heads vs, HeadsOf("V", v, layout("v_layout")));
  MILLRACE_RETURN_IF_ERROR(
      Expect(qs.batch == ks.batch, "batches of Q and K differ", qs.batch, ks.batch));
  MILLRACE_RETURN_IF_ERROR(
      Expect(ks.batch == vs.batch, "batches of K and V differ", ks.batch, vs.batch));
  MILLRACE_RETURN_IF_ERROR(
      Expect(ks.heads == vs.heads, "heads of K and V differ", ks.heads, vs.heads));
  MILLRACE_RETURN_IF_ERROR(
      Expect(ks.tokens == vs.tokens, "tokens of K and V differ", ks.tokens, vs.tokens));
  MILLRACE_RETURN_IF_ERROR(
      Expect(qs.size == ks.size, "heads of Q and K differ in size", qs.size, ks.size));
  const bool groups = ks.heads > 0 ? qs.heads % ks.heads == 0 : qs.heads == 0;
  MILLRACE_RETURN_IF_ERROR(
      Expect(groups, "heads of Q are no multiple of those of K", qs.heads, ks.heads));

  AttentionForm form;
  form.batch = qs.batch;
  form.heads = qs.heads;
  form.kv_heads = ks.heads;
  form.queries = qs.tokens;
  form.keys = ks.tokens;
  form.head_size = qs.size;
  form.value_size = vs.size;
  form.q = qs.strides;
  form.k = ks.strides;
  form.v = vs.strides;
  const std::string y_layout = layout("y_layout");
  form.result = y_layout == kTokensFirst ? Shape{qs.batch, qs.tokens, qs.heads, vs.size}
                                         : Shape{qs.batch, qs.heads, qs.tokens, vs.size};
  MILLRACE_ASSIGN_OR_RETURN(const Heads ys, HeadsOf("Y", form.result, y_layout));
  form.y = ys.strides;
  form.causal = attrs.Bool("causal", false);
  form.scale = attrs.Find("scale") != nullptr ? attrs.Float("scale", 1)
               : qs.size > 0                  ? 1 / std::sqrt(static_cast<double>(qs.size))
                                              : 1;
  if (mask != nullptr) MILLRACE_RETURN_IF_ERROR(ReadMask(*mask, form));
  return form;
}

}  // namespace millrace
