#include "bench/models/conv_layers.h"

#include <cmath>
#include <utility>

namespace millrace {
namespace {

using Dims = std::vector<int64_t>;

ValueId ConvNode(LayerBuilder& l, FeatureMap x, const ConvLayer& layer, bool with_bias) {
  const auto [height, width] = layer.kernel;
  const auto [rows, columns] = layer.pads;
  const Shape shape{layer.channels, x.channels / layer.groups, height, width};
  const double fan_in = static_cast<double>(shape[1] * height * width);
  std::vector<ValueId> inputs = {x.value,
                                 l.Normal("weight", shape, std::sqrt(layer.gain / fan_in))};
  if (with_bias) inputs.push_back(l.Uniform("bias", Shape{layer.channels}, -0.1, 0.1));
  return l.Op("Conv", std::move(inputs),
              MakeAttrs({{"dilations", Dims{1, 1}},
                         {"group", layer.groups},
                         {"kernel_shape", Dims{height, width}},
                         {"pads", Dims{rows, columns, rows, columns}},
                         {"strides", Dims{layer.stride, layer.stride}}}));
}

Attrs PoolAttrs(const PoolLayer& pool) {
  return MakeAttrs({{"kernel_shape", Dims{pool.size, pool.size}},
                    {"pads", Dims(4, pool.pads)},
                    {"strides", Dims{pool.stride, pool.stride}}});
}

}  // namespace

ConvLayer SameConv(int64_t channels, int64_t size, int64_t stride) {
  return {
      .channels = channels, .kernel = {size, size}, .pads = {size / 2, size / 2}, .stride = stride};
}

FeatureMap Image(LayerBuilder& l, int64_t batch, int64_t channels, int64_t size) {
  return {l.Input("image", {DType::kF32, Shape{batch, channels, size, size}}), channels};
}

FeatureMap Conv(LayerBuilder& l, std::string_view name, FeatureMap x, const ConvLayer& layer) {
  const LayerBuilder::Scope scope(l, name);
  return {ConvNode(l, x, layer, false), layer.channels};
}

FeatureMap ConvWithBias(LayerBuilder& l, std::string_view name, FeatureMap x,
                        const ConvLayer& layer) {
  const LayerBuilder::Scope scope(l, name);
  return {ConvNode(l, x, layer, true), layer.channels};
}

FeatureMap BatchNorm(LayerBuilder& l, std::string_view name, FeatureMap x, double scale,
                     double epsilon) {
  const LayerBuilder::Scope scope(l, name);
  const Shape shape{x.channels};
  const ValueId weight = l.Uniform("weight", shape, 0.75 * scale, 1.25 * scale);
  const ValueId bias = l.Uniform("bias", shape, -0.1, 0.1);
  const ValueId mean = l.Uniform("running_mean", shape, -0.1, 0.1, /*trainable=*/false);
  const ValueId variance = l.Uniform("running_var", shape, 0.75, 1.25, /*trainable=*/false);
  const ValueId y = l.Op("BatchNormalization", {x.value, weight, bias, mean, variance},
                         MakeAttrs({{"epsilon", epsilon}}));
  return {y, x.channels};
}

FeatureMap ConvNormRelu(LayerBuilder& l, std::string_view name, FeatureMap x,
                        const ConvLayer& layer, double epsilon) {
  const LayerBuilder::Scope scope(l, name);
  return Relu(l, BatchNorm(l, "bn", Conv(l, "conv", x, layer), 1, epsilon));
}

FeatureMap Relu(LayerBuilder& l, FeatureMap x) { return {l.Relu(x.value), x.channels}; }

FeatureMap MaxPool(LayerBuilder& l, FeatureMap x, const PoolLayer& pool) {
  return {l.Op("MaxPool", {x.value}, PoolAttrs(pool)), x.channels};
}

FeatureMap AveragePool(LayerBuilder& l, FeatureMap x, const PoolLayer& pool) {
  Attrs attrs = PoolAttrs(pool);
  attrs.Set("count_include_pad", true);
  return {l.Op("AveragePool", {x.value}, std::move(attrs)), x.channels};
}

FeatureMap Concat(LayerBuilder& l, const std::vector<FeatureMap>& parts) {
  FeatureMap whole;
  std::vector<ValueId> values;
  for (const FeatureMap& part : parts) {
    values.push_back(part.value);
    whole.channels += part.channels;
  }
  whole.value = l.Concat(std::move(values), 1);
  return whole;
}

ValueId PoolAll(LayerBuilder& l, FeatureMap x) {
  return l.Op("Flatten", {l.Op("GlobalAveragePool", {x.value})});
}

}  // namespace millrace
