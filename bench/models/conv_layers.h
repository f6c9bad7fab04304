// Layers of image models, over feature maps [batch, channels, height, width].
#ifndef MILLRACE_BENCH_MODELS_CONV_LAYERS_H_
#define MILLRACE_BENCH_MODELS_CONV_LAYERS_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/models/layers.h"

namespace millrace {

struct FeatureMap {
  ValueId value;
  int64_t channels = 0;
};

struct ConvLayer {
  int64_t channels = 0;  // of the result
  std::array<int64_t, 2> kernel = {3, 3};
  std::array<int64_t, 2> pads = {1, 1};  // before and after
  int64_t stride = 1;
  int64_t groups = 1;
  double gain = 2;  // LayerBuilder::Gemm
};

struct PoolLayer {
  int64_t size = 2;
  int64_t stride = 2;
  int64_t pads = 0;
};

// Square kernels of an odd size that keep height and width, but for the stride.
ConvLayer SameConv(int64_t channels, int64_t size, int64_t stride = 1);

FeatureMap Image(LayerBuilder& l, int64_t batch, int64_t channels, int64_t size);
// Without bias, as before a normalization.
FeatureMap Conv(LayerBuilder& l, std::string_view name, FeatureMap x, const ConvLayer& layer);
FeatureMap ConvWithBias(LayerBuilder& l, std::string_view name, FeatureMap x,
                        const ConvLayer& layer);
// By running statistics that leave the spread about as it is, times `scale`.
FeatureMap BatchNorm(LayerBuilder& l, std::string_view name, FeatureMap x, double scale = 1,
                     double epsilon = 1e-5);
// Conv, BatchNormalization and Relu.
FeatureMap ConvNormRelu(LayerBuilder& l, std::string_view name, FeatureMap x,
                        const ConvLayer& layer, double epsilon = 1e-5);
FeatureMap Relu(LayerBuilder& l, FeatureMap x);
FeatureMap MaxPool(LayerBuilder& l, FeatureMap x, const PoolLayer& pool);
// Over as many elements at the borders as inside: padding counts.
FeatureMap AveragePool(LayerBuilder& l, FeatureMap x, const PoolLayer& pool);
FeatureMap Concat(LayerBuilder& l, const std::vector<FeatureMap>& parts);
// The mean of each channel, [batch, channels].
ValueId PoolAll(LayerBuilder& l, FeatureMap x);

}  // namespace millrace

#endif  // MILLRACE_BENCH_MODELS_CONV_LAYERS_H_
