// MobileNet-v2 (Sandler et al. 2018): inverted residuals around depthwise convolutions, Relu6 as
// Clip.
#include "bench/models/conv_layers.h"
#include "bench/models/model.h"
#include "graph/strings.h"

namespace millrace {
namespace {

struct InvertedResiduals {
  int64_t expansion, channels, blocks, stride;
};

constexpr InvertedResiduals kMobileNetV2Stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2},
                                                    {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
                                                    {6, 320, 1, 1}};
constexpr double kResidualScale = 0.3;  // as in resnet.cc

FeatureMap ConvNormRelu6(LayerBuilder& l, std::string_view name, FeatureMap x,
                         const ConvLayer& layer) {
  const LayerBuilder::Scope scope(l, name);
  x = BatchNorm(l, "bn", Conv(l, "conv", x, layer));
  return {l.Op("Clip", {x.value, l.Float(0), l.Float(6)}), x.channels};
}

FeatureMap InvertedResidual(LayerBuilder& l, FeatureMap x, int64_t expansion, int64_t channels,
                            int64_t stride) {
  const bool residual = stride == 1 && x.channels == channels;
  const FeatureMap input = x;
  if (expansion != 1) {
    ConvLayer expand = SameConv(x.channels * expansion, 1);
    expand.gain = 1;  // what comes in went through no Relu
    x = ConvNormRelu6(l, "expand", x, expand);
  }
  ConvLayer depthwise = SameConv(x.channels, 3, stride);
  depthwise.groups = x.channels;
  x = ConvNormRelu6(l, "depthwise", x, depthwise);
  x = Conv(l, "project/conv", x, SameConv(channels, 1));
  x = BatchNorm(l, "project/bn", x, residual ? kResidualScale : 1);
  return residual ? FeatureMap{l.Op("Add", {input.value, x.value}), channels} : x;
}

Graph BuildMobileNetV2(const ModelSettings& settings) {
  LayerBuilder l("mobilenet-v2");
  FeatureMap x = Image(l, settings["batch"], 3, settings["size"]);
  x = ConvNormRelu6(l, "stem", x, SameConv(32, 3, 2));
  int number = 0;
  for (const auto& [expansion, channels, blocks, stride] : kMobileNetV2Stages) {
    for (int64_t block = 0; block < blocks; ++block) {
      const LayerBuilder::Scope scope(l, StrCat("block", ++number));
      x = InvertedResidual(l, x, expansion, channels, block == 0 ? stride : 1);
    }
  }
  ConvLayer head = SameConv(1280, 1);
  head.gain = 1;
  x = ConvNormRelu6(l, "head", x, head);
  l.Output(l.Gemm("classifier", PoolAll(l, x), x.channels, 1000, 1));
  return std::move(l).Finish();
}

}  // namespace

Model MobileNetV2Model() {
  return {"mobilenet-v2",
          "MobileNet-v2 (Sandler et al. 2018), width 1",
          {BatchOption(), SizeOption(224, 32)},
          BuildMobileNetV2};
}

}  // namespace millrace
