// Networks that are one layer after another: MLP, LeNet-5 (LeCun et al. 1998), AlexNet (Krizhevsky
// 2014, "one weird trick") and VGG-16 (Simonyan and Zisserman 2014).
#include "bench/models/conv_layers.h"
#include "bench/models/model.h"
#include "graph/strings.h"

namespace millrace {
namespace {

ValueId Flatten(LayerBuilder& l, FeatureMap x) { return l.Op("Flatten", {x.value}); }

Graph BuildMlp(const ModelSettings& settings) {
  LayerBuilder l("mlp");
  ValueId x = l.Input("x", {DType::kF32, Shape{settings["batch"], 784}});
  x = l.Relu(l.Gemm("fc1", x, 784, 512, 2));
  x = l.Relu(l.Gemm("fc2", x, 512, 512, 2));
  l.Output(l.Op("Softmax", {l.Gemm("fc3", x, 512, 10, 1)}));
  return std::move(l).Finish();
}

Graph BuildLeNet(const ModelSettings& settings) {
  LayerBuilder l("lenet");
  const auto conv = [&](const char* name, FeatureMap x, int64_t channels) {
    x = ConvWithBias(l, name, x, {.channels = channels, .kernel = {5, 5}, .pads = {0, 0}});
    return FeatureMap{l.Op("Tanh", {x.value}), channels};
  };
  FeatureMap x = Image(l, settings["batch"], 1, 32);
  x = AveragePool(l, conv("c1", x, 6), {});
  x = AveragePool(l, conv("c3", x, 16), {});
  const ValueId features = Flatten(l, conv("c5", x, 120));
  const ValueId hidden = l.Op("Tanh", {l.Gemm("f6", features, 120, 84, 2)});
  l.Output(l.Op("Softmax", {l.Gemm("output", hidden, 84, 10, 2)}));
  return std::move(l).Finish();
}

// The two large layers and the classes, after `features` values a sample.
ValueId DenseHead(LayerBuilder& l, FeatureMap x, int64_t features) {
  ValueId y = l.Relu(l.Gemm("fc6", Flatten(l, x), features, 4096, 2));
  y = l.Relu(l.Gemm("fc7", y, 4096, 4096, 2));
  return l.Gemm("fc8", y, 4096, 1000, 1);
}

FeatureMap ConvRelu(LayerBuilder& l, std::string_view name, FeatureMap x, const ConvLayer& layer) {
  return Relu(l, ConvWithBias(l, name, x, layer));
}

Graph BuildAlexNet(const ModelSettings& settings) {
  LayerBuilder l("alexnet");
  constexpr PoolLayer kPool = {.size = 3, .stride = 2};
  const auto pooled = [](int64_t side) { return (side - 3) / 2 + 1; };
  FeatureMap x = Image(l, settings["batch"], 3, settings["size"]);
  x = ConvRelu(l, "conv1", x, {.channels = 64, .kernel = {11, 11}, .pads = {2, 2}, .stride = 4});
  x = ConvRelu(l, "conv2", MaxPool(l, x, kPool), SameConv(192, 5));
  x = ConvRelu(l, "conv3", MaxPool(l, x, kPool), SameConv(384, 3));
  x = ConvRelu(l, "conv4", x, SameConv(256, 3));
  x = ConvRelu(l, "conv5", x, SameConv(256, 3));
  x = MaxPool(l, x, kPool);
  const int64_t side = pooled(pooled(pooled((settings["size"] + 4 - 11) / 4 + 1)));
  l.Output(DenseHead(l, x, side * side * x.channels));
  return std::move(l).Finish();
}

Graph BuildVgg16(const ModelSettings& settings) {
  struct Stage {
    int64_t channels;
    int convs;
  };
  constexpr Stage kStages[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  LayerBuilder l("vgg16");
  int64_t side = settings["size"];
  FeatureMap x = Image(l, settings["batch"], 3, side);
  int number = 0;
  for (const auto& [channels, convs] : kStages) {
    for (int i = 0; i < convs; ++i) {
      x = ConvRelu(l, StrCat("conv", ++number), x, SameConv(channels, 3));
    }
    x = MaxPool(l, x, {});
    side /= 2;
  }
  l.Output(DenseHead(l, x, side * side * x.channels));
  return std::move(l).Finish();
}

}  // namespace

Model MlpModel() {
  return {"mlp", "784-512-512-10 with Relu and Softmax", {BatchOption()}, BuildMlp};
}

Model LeNetModel() {
  return {"lenet", "LeNet-5 (LeCun et al. 1998), 32x32 pixels", {BatchOption()}, BuildLeNet};
}

Model AlexNetModel() {
  return {"alexnet",
          "AlexNet (Krizhevsky 2014); fc6 is as wide as the size makes it",
          {BatchOption(), SizeOption(224, 63)},
          BuildAlexNet};
}

Model Vgg16Model() {
  return {"vgg16",
          "VGG-16 (Simonyan and Zisserman 2014); fc6 is as wide as the size makes it",
          {BatchOption(), SizeOption(224, 32)},
          BuildVgg16};
}

}  // namespace millrace
