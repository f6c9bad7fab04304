// Layers of transformers, over activations [batch, tokens, width], spelled as PyTorch's exporter
// does.
#ifndef MILLRACE_BENCH_MODELS_TRANSFORMER_LAYERS_H_
#define MILLRACE_BENCH_MODELS_TRANSFORMER_LAYERS_H_

#include <cstdint>
#include <string_view>

#include "bench/models/layers.h"

namespace millrace {

// Whether layer normalization and Gelu are one op each, or what older opsets make of them.
enum class Spelling : int64_t { kOps = 0, kPrimitive = 1 };

enum class GeluKind { kErf, kTanh };

ValueId LayerNorm(LayerBuilder& l, std::string_view name, ValueId x, int64_t width, double epsilon,
                  Spelling spelling);
ValueId Gelu(LayerBuilder& l, ValueId x, GeluKind kind, Spelling spelling);

// Sizes of an attention.
struct AttentionShape {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, width = 1;
  int64_t per_head() const { return width / heads; }
};

// [batch, tokens, width] -> [batch, heads, tokens, per_head].
ValueId SplitHeads(LayerBuilder& l, ValueId x, int64_t tokens, const AttentionShape& shape);
// [batch, tokens, width] -> [batch, heads, per_head, tokens].
ValueId SplitHeadsTransposed(LayerBuilder& l, ValueId x, int64_t tokens,
                             const AttentionShape& shape);
// [batch, heads, queries, per_head] -> [batch, queries, width].
ValueId MergeHeads(LayerBuilder& l, ValueId x, const AttentionShape& shape);

// A mask of scores [batch, heads, queries, keys]: added, or where it is false nothing is seen.
struct AttentionMask {
  enum class Kind { kNone, kAdded, kSelected };
  Kind kind = Kind::kNone;
  ValueId value = {};
};

// softmax(query key / sqrt(per_head), masked) value; `key` is transposed. [batch, heads, queries,
// per_head].
ValueId AttendTo(LayerBuilder& l, ValueId query, ValueId key, ValueId value,
                 const AttentionMask& mask, const AttentionShape& shape);

}  // namespace millrace

#endif  // MILLRACE_BENCH_MODELS_TRANSFORMER_LAYERS_H_
