// The form of fused.Attention: sizes and strides, read off its attributes and operands' shapes by
// its definition, its kernels and the pass that makes it.
#ifndef MILLRACE_OPS_ATTENTION_H_
#define MILLRACE_OPS_ATTENTION_H_

#include <string_view>

#include "graph/graph.h"
#include "graph/status.h"
#include "graph/types.h"

namespace millrace {

// How an operand's four dims lie: b batch, h heads, t tokens, d the elements of a head.
inline constexpr std::string_view kHeadsFirst = "bhtd", kTokensFirst = "bthd";

// Elements from one to the next; those of a head are dense.
struct HeadStrides {
  int64_t batch = 0, head = 0, token = 0;
};

struct AttentionForm {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  int64_t head_size = 0, value_size = 0;  // of Q and K; of V and Y
  HeadStrides q, k, v, y;
  // Of the mask; 0 where it is repeated (and everywhere without one).
  int64_t mask_batch = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  bool has_mask = false, causal = false;
  double scale = 1;
  Shape result;

  // Heads in a row share one of K and V.
  int64_t KvHeadOf(int64_t head) const { return head / (heads / kv_heads); }
  double pairs() const {  // of queries and keys, over all heads
    return static_cast<double>(batch) * static_cast<double>(heads) * static_cast<double>(queries) *
           static_cast<double>(keys);
  }
};

// `mask` null: none. BadInputError where the shapes do not fit each other.
absl::StatusOr<AttentionForm> AttentionFormOf(const Attrs& attrs, const Shape& q, const Shape& k,
                                              const Shape& v, const Shape* mask);

// Which dim of an operand in `layout` is the heads', the tokens'.
inline int HeadsDim(std::string_view layout) { return layout == kTokensFirst ? 2 : 1; }
inline int TokensDim(std::string_view layout) { return layout == kTokensFirst ? 1 : 2; }

}  // namespace millrace

#endif  // MILLRACE_OPS_ATTENTION_H_
