#include "bench/models/transformer_layers.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace millrace {
namespace {

ValueId MeanOfRows(LayerBuilder& l, ValueId x) {
  return l.Op("ReduceMean", {x}, MakeAttrs({{"axes", std::vector<int64_t>{-1}}}));
}

ValueId SpelledLayerNorm(LayerBuilder& l, ValueId x, ValueId weight, ValueId bias, double epsilon) {
  const ValueId centred = l.Op("Sub", {x, MeanOfRows(l, x)});
  const ValueId variance = MeanOfRows(l, l.Op("Pow", {centred, l.Float(2)}));
  const ValueId shifted = l.Op("Add", {variance, l.Float(static_cast<float>(epsilon))});
  const ValueId normal = l.Op("Div", {centred, l.Op("Sqrt", {shifted})});
  return l.Op("Add", {l.Op("Mul", {normal, weight}), bias});
}

ValueId SpelledErfGelu(LayerBuilder& l, ValueId x) {
  const ValueId scaled = l.Op("Div", {x, l.Float(std::numbers::sqrt2_v<float>)});
  const ValueId doubled = l.Op("Add", {l.Op("Erf", {scaled}), l.Float(1)});
  return l.Op("Mul", {l.Op("Mul", {x, doubled}), l.Float(0.5f)});
}

ValueId SpelledTanhGelu(LayerBuilder& l, ValueId x) {
  const ValueId half = l.Op("Mul", {l.Float(0.5f), x});
  const ValueId cube = l.Op("Mul", {l.Float(0.044715f), l.Op("Pow", {x, l.Float(3)})});
  const float factor = std::sqrt(2 * std::numbers::inv_pi_v<float>);
  const ValueId inner = l.Op("Mul", {l.Float(factor), l.Op("Add", {x, cube})});
  return l.Op("Mul", {half, l.Op("Add", {l.Float(1), l.Op("Tanh", {inner})})});
}

}  // namespace

ValueId LayerNorm(LayerBuilder& l, std::string_view name, ValueId x, int64_t width, double epsilon,
                  Spelling spelling) {
  const LayerBuilder::Scope scope(l, name);
  const ValueId weight = l.Uniform("weight", Shape{width}, 0.75, 1.25);
  const ValueId bias = l.Uniform("bias", Shape{width}, -0.1, 0.1);
  if (spelling == Spelling::kPrimitive) return SpelledLayerNorm(l, x, weight, bias, epsilon);
  return l.Op("LayerNormalization", {x, weight, bias}, MakeAttrs({{"epsilon", epsilon}}));
}

ValueId Gelu(LayerBuilder& l, ValueId x, GeluKind kind, Spelling spelling) {
  if (spelling == Spelling::kPrimitive) {
    return kind == GeluKind::kErf ? SpelledErfGelu(l, x) : SpelledTanhGelu(l, x);
  }
  const std::string approximate = kind == GeluKind::kErf ? "none" : "tanh";
  return l.Op("Gelu", {x}, MakeAttrs({{"approximate", approximate}}));
}

ValueId SplitHeads(LayerBuilder& l, ValueId x, int64_t tokens, const AttentionShape& shape) {
  const ValueId split = l.Reshape(x, {shape.batch, tokens, shape.heads, shape.per_head()});
  return l.Transpose(split, {0, 2, 1, 3});
}

ValueId SplitHeadsTransposed(LayerBuilder& l, ValueId x, int64_t tokens,
                             const AttentionShape& shape) {
  const ValueId split = l.Reshape(x, {shape.batch, tokens, shape.heads, shape.per_head()});
  return l.Transpose(split, {0, 2, 3, 1});
}

ValueId MergeHeads(LayerBuilder& l, ValueId x, const AttentionShape& shape) {
  return l.Reshape(l.Transpose(x, {0, 2, 1, 3}), {shape.batch, shape.queries, shape.width});
}

ValueId AttendTo(LayerBuilder& l, ValueId query, ValueId key, ValueId value,
                 const AttentionMask& mask, const AttentionShape& shape) {
  const float root = std::sqrt(static_cast<float>(shape.per_head()));
  ValueId scores = l.Op("Div", {l.Op("MatMul", {query, key}), l.Float(root)});
  if (mask.kind == AttentionMask::Kind::kAdded) {
    scores = l.Op("Add", {scores, mask.value});
  } else if (mask.kind == AttentionMask::Kind::kSelected) {
    const ValueId least = l.Float(std::numeric_limits<float>::lowest());
    scores = l.Op("Where", {mask.value, scores, least});
  }
  return l.Op("MatMul", {l.Op("Softmax", {scores}, MakeAttrs({{"axis", int64_t{-1}}})), value});
}

}  // namespace millrace
