// DenseNet-121 (Huang et al. 2016): in a block each layer sees what all before it made, normalized
// and rectified before each convolution.
#include "bench/models/conv_layers.h"
#include "bench/models/model.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kGrowth = 32, kBottleneckWidth = 4 * kGrowth;
constexpr int kDenseLayers[] = {6, 12, 24, 16};

FeatureMap NormReluConv(LayerBuilder& l, std::string_view name, FeatureMap x,
                        const ConvLayer& layer) {
  const LayerBuilder::Scope scope(l, name);
  return Conv(l, "conv", Relu(l, BatchNorm(l, "bn", x)), layer);
}

FeatureMap DenseBlock(LayerBuilder& l, FeatureMap x, int layers) {
  std::vector<FeatureMap> parts = {x};
  for (int layer = 0; layer < layers; ++layer) {
    const LayerBuilder::Scope scope(l, StrCat("layer", layer));
    FeatureMap y = parts.size() == 1 ? x : Concat(l, parts);
    y = NormReluConv(l, "1", y, SameConv(kBottleneckWidth, 1));
    parts.push_back(NormReluConv(l, "2", y, SameConv(kGrowth, 3)));
  }
  return Concat(l, parts);
}

Graph BuildDenseNet121(const ModelSettings& settings) {
  LayerBuilder l("densenet121");
  FeatureMap x = Image(l, settings["batch"], 3, settings["size"]);
  x = ConvNormRelu(l, "stem", x, SameConv(64, 7, 2));
  x = MaxPool(l, x, {.size = 3, .stride = 2, .pads = 1});
  for (int block = 0; block < 4; ++block) {
    const LayerBuilder::Scope scope(l, StrCat("block", block));
    x = DenseBlock(l, x, kDenseLayers[block]);
    if (block == 3) break;
    x = NormReluConv(l, "transition", x, SameConv(x.channels / 2, 1));
    x = AveragePool(l, x, {});
  }
  x = Relu(l, BatchNorm(l, "final/bn", x));
  l.Output(l.Gemm("classifier", PoolAll(l, x), x.channels, 1000, 1));
  return std::move(l).Finish();
}

}  // namespace

Model DenseNet121Model() {
  return {"densenet121",
          "DenseNet-121 (Huang et al. 2016), growth 32",
          {BatchOption(), SizeOption(224, 32)},
          BuildDenseNet121};
}

}  // namespace millrace
