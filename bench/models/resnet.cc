// ResNet (He et al. 2015), with the stride in the 3x3 convolution of a bottleneck as PyTorch has
// it. The last normalization of a block scales by about 0.2: with fifty blocks in a row, sums of
// branches of equal spread would grow without bound.
#include <array>
#include <cmath>
#include <numeric>

#include "bench/models/conv_layers.h"
#include "bench/models/model.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kBottleneckExpansion = 4;

struct ResNetShape {
  std::string_view name;
  std::array<int, 4> blocks;  // of each stage
  bool bottleneck = true;
  int64_t widening = 1;  // of the convolutions within a bottleneck
};

struct BlockKind {
  bool bottleneck = true;
  int64_t widening = 1;
  double branch_scale = 1;
};

FeatureMap Branch(LayerBuilder& l, FeatureMap x, int64_t channels, int64_t stride,
                  const BlockKind& kind) {
  if (kind.bottleneck) {
    const int64_t inner = channels * kind.widening;
    x = ConvNormRelu(l, "1", x, SameConv(inner, 1));
    x = ConvNormRelu(l, "2", x, SameConv(inner, 3, stride));
    x = Conv(l, "3/conv", x, SameConv(channels * kBottleneckExpansion, 1));
    return BatchNorm(l, "3/bn", x, kind.branch_scale);
  }
  x = ConvNormRelu(l, "1", x, SameConv(channels, 3, stride));
  x = Conv(l, "2/conv", x, SameConv(channels, 3));
  return BatchNorm(l, "2/bn", x, kind.branch_scale);
}

FeatureMap ResNetBlock(LayerBuilder& l, FeatureMap x, int64_t channels, int64_t stride,
                       const BlockKind& kind) {
  const FeatureMap branch = Branch(l, x, channels, stride, kind);
  if (stride != 1 || x.channels != branch.channels) {
    x = Conv(l, "downsample/conv", x, SameConv(branch.channels, 1, stride));
    x = BatchNorm(l, "downsample/bn", x);
  }
  return Relu(l, {l.Op("Add", {branch.value, x.value}), branch.channels});
}

Graph BuildResNet(const ResNetShape& shape, const ModelSettings& settings) {
  const int num_blocks = std::accumulate(shape.blocks.begin(), shape.blocks.end(), 0);
  const BlockKind kind = {shape.bottleneck, shape.widening, 1 / std::sqrt(2.0 * num_blocks)};
  LayerBuilder l(shape.name);
  FeatureMap x = Image(l, settings["batch"], 3, settings["size"]);
  x = ConvNormRelu(l, "stem", x, SameConv(64, 7, 2));
  x = MaxPool(l, x, {.size = 3, .stride = 2, .pads = 1});
  int64_t channels = 64;
  for (size_t stage = 0; stage < shape.blocks.size(); ++stage, channels *= 2) {
    for (int block = 0; block < shape.blocks[stage]; ++block) {
      const LayerBuilder::Scope scope(l, StrCat("layer", stage + 1, "/", block));
      x = ResNetBlock(l, x, channels, stage > 0 && block == 0 ? 2 : 1, kind);
    }
  }
  l.Output(l.Gemm("fc", PoolAll(l, x), x.channels, 1000, 1));
  return std::move(l).Finish();
}

std::vector<ModelOption> ResNetOptions() { return {BatchOption(), SizeOption(224, 32)}; }

}  // namespace

Model ResNet18Model() {
  return {"resnet18", "ResNet-18 (He et al. 2015), basic blocks", ResNetOptions(),
          [](const ModelSettings& settings) {
            return BuildResNet({"resnet18", {2, 2, 2, 2}, false}, settings);
          }};
}

Model ResNet50Model() {
  return {"resnet50", "ResNet-50 (He et al. 2015), bottlenecks", ResNetOptions(),
          [](const ModelSettings& settings) {
            return BuildResNet({"resnet50", {3, 4, 6, 3}}, settings);
          }};
}

Model ResNet152Model() {
  return {"resnet152", "ResNet-152 (He et al. 2015), bottlenecks", ResNetOptions(),
          [](const ModelSettings& settings) {
            return BuildResNet({"resnet152", {3, 8, 36, 3}}, settings);
          }};
}

Model WideResNet50Model() {
  return {"wide-resnet50",
          "Wide ResNet-50-2 (Zagoruyko, Komodakis 2016), bottlenecks twice as wide",
          ResNetOptions(), [](const ModelSettings& settings) {
            return BuildResNet({"wide-resnet50", {3, 4, 6, 3}, true, 2}, settings);
          }};
}

}  // namespace millrace
