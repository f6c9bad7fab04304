// The networks of Checkmate's comparison: Keras' VGG19, ResNet-50 and MobileNet at 224 x 224, and
// U-Net, FCN8 and SegNet of keras_segmentation, with its plain encoder, at 416 x 608.
#include <array>

#include "bench/checkmate/layer_net.h"

namespace millrace {
namespace {

using Kernel = LayerNet::Kernel;

constexpr int64_t kImage = 224, kHeight = 416, kWidth = 608, kClasses = 1000, kLabels = 12;

LayerNet Vgg19() {
  LayerNet net(kImage, kImage);
  int32_t x = 0;
  constexpr std::array<std::pair<int, int64_t>, 5> kStages = {
      {{2, 64}, {2, 128}, {4, 256}, {4, 512}, {4, 512}}};
  for (const auto& [layers, channels] : kStages) {
    for (int i = 0; i < layers; ++i) x = net.Conv(x, channels, {.relu = true});
    x = net.MaxPool(x, 2, 2);
  }
  x = net.Dense(x, 4096, /*relu=*/true);
  x = net.Dense(x, 4096, /*relu=*/true);
  net.Softmax(net.Dense(x, kClasses, /*relu=*/false));
  return net;
}

int32_t Bottleneck(LayerNet& net, int32_t x, int64_t channels, int64_t stride, bool project) {
  const auto conv = [&](int32_t in, int64_t to, const Kernel& kernel) {
    return net.BatchNorm(net.Conv(in, to, kernel));
  };
  int32_t shortcut = x;
  if (project) shortcut = conv(x, 4 * channels, {.size = 1, .stride = stride});
  x = net.Relu(conv(x, channels, {.size = 1, .stride = stride}));
  x = net.Relu(conv(x, channels, {}));
  x = conv(x, 4 * channels, {.size = 1});
  return net.Relu(net.Add(x, shortcut));
}

LayerNet ResNet50() {
  LayerNet net(kImage, kImage);
  int32_t x = net.Conv(net.ZeroPad(0, 3), 64, {.size = 7, .stride = 2, .pads = false});
  x = net.ZeroPad(net.Relu(net.BatchNorm(x)), 1);
  x = net.MaxPool(x, 3, 2);
  constexpr std::array<std::pair<int, int64_t>, 4> kStages = {
      {{3, 64}, {4, 128}, {6, 256}, {3, 512}}};
  for (size_t s = 0; s < kStages.size(); ++s) {
    for (int i = 0; i < kStages[s].first; ++i) {
      x = Bottleneck(net, x, kStages[s].second, s > 0 && i == 0 ? 2 : 1, i == 0);
    }
  }
  net.Softmax(net.Dense(net.PoolAll(x), kClasses, /*relu=*/false));
  return net;
}

LayerNet MobileNet() {
  LayerNet net(kImage, kImage);
  const auto norm = [&](int32_t x) { return net.Relu(net.BatchNorm(x)); };
  int32_t x = norm(net.Conv(0, 32, {.stride = 2, .bias = false}));
  constexpr std::array<std::pair<int64_t, int64_t>, 13> kBlocks = {{{64, 1},
                                                                    {128, 2},
                                                                    {128, 1},
                                                                    {256, 2},
                                                                    {256, 1},
                                                                    {512, 2},
                                                                    {512, 1},
                                                                    {512, 1},
                                                                    {512, 1},
                                                                    {512, 1},
                                                                    {512, 1},
                                                                    {1024, 2},
                                                                    {1024, 1}}};
  for (const auto& [channels, stride] : kBlocks) {
    const int64_t in = net.layers()[x].channels;
    x = norm(net.Conv(x, in, {.stride = stride, .bias = false, .depthwise = true}));
    x = norm(net.Conv(x, channels, {.size = 1, .bias = false}));
  }
  net.Softmax(net.Dense(net.PoolAll(x), kClasses, /*relu=*/false));
  return net;
}

int32_t PaddedConv(LayerNet& net, int32_t x, int64_t channels) {
  return net.BatchNorm(net.Conv(net.ZeroPad(x, 1), channels, {.pads = false}));
}

// The results of its first levels.
std::vector<int32_t> Encoder(LayerNet& net, size_t num_levels) {
  std::vector<int32_t> levels;
  int32_t x = 0;
  constexpr std::array<int64_t, 5> kChannels = {64, 128, 256, 256, 256};
  for (size_t i = 0; i < num_levels; ++i) {
    x = net.MaxPool(net.Relu(PaddedConv(net, x, kChannels[i])), 2, 2);
    levels.push_back(x);
  }
  return levels;
}

LayerNet UNet() {
  LayerNet net(kHeight, kWidth);
  const std::vector<int32_t> levels = Encoder(net, 4);
  int32_t x = PaddedConv(net, levels[3], 512);
  constexpr std::array<int64_t, 3> kChannels = {256, 128, 64};
  for (size_t i = 0; i < kChannels.size(); ++i) {
    x = PaddedConv(net, net.Concat(net.UpSample(x), levels[2 - i]), kChannels[i]);
  }
  net.Softmax(net.Conv(x, kLabels, {}));
  return net;
}

LayerNet SegNet() {
  LayerNet net(kHeight, kWidth);
  const std::vector<int32_t> levels = Encoder(net, 4);
  int32_t x = PaddedConv(net, levels[3], 512);
  for (const int64_t channels : {256, 128, 64}) x = PaddedConv(net, net.UpSample(x), channels);
  net.Softmax(net.Conv(x, kLabels, {}));
  return net;
}

LayerNet Fcn8() {
  LayerNet net(kHeight, kWidth);
  const std::vector<int32_t> levels = Encoder(net, 5);
  int32_t x = net.Conv(levels[4], 4096, {.size = 7, .relu = true});
  x = net.Conv(x, 4096, {.size = 1, .relu = true});
  x = net.Conv(x, kLabels, {.size = 1});
  // Up by two, cut to the size of the level, and added to its own labels.
  for (const int level : {3, 2}) {
    x = net.Deconv(x, kLabels, 4, 2);
    const int32_t own = net.Conv(levels[level], kLabels, {.size = 1});
    const NetLayer& to = net.layers()[own];
    x = net.Add(net.Crop(x, to.height, to.width), own);
  }
  net.Softmax(net.Deconv(x, kLabels, 16, 8));
  return net;
}

}  // namespace

std::span<const NamedNet> CheckmateNets() {
  static constexpr int kNets = 6;
  static const std::array<NamedNet, kNets> nets = {{{"VGG19", 289, Vgg19},
                                                    {"U-Net", 57, UNet},
                                                    {"FCN8", 60, Fcn8},
                                                    {"SegNet", 62, SegNet},
                                                    {"ResNet-50", 193, ResNet50},
                                                    {"MobileNet", 1105, MobileNet}}};
  return nets;
}

}  // namespace millrace
