// U-Net (Ronneberger et al. 2015): convolutions without padding, so maps on the way down are
// cropped to what comes up.
#include <cmath>
#include <vector>

#include "bench/models/conv_layers.h"
#include "bench/models/model.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int kUnetLevels = 4;

class UnetBuilder {
 public:
  Graph Build(const ModelSettings& settings) && {
    int64_t side = settings["size"], channels = settings["width"];
    FeatureMap x = Image(l_, settings["batch"], 1, side);
    std::vector<FeatureMap> skips;
    std::vector<int64_t> sides;
    for (int level = 0; level < kUnetLevels; ++level, channels *= 2) {
      x = Twice(StrCat("down", level), x, channels, side);
      skips.push_back(x);
      sides.push_back(side);
      x = MaxPool(l_, x, {});
      side /= 2;
    }
    x = Twice("bottom", x, channels, side);
    for (int level = kUnetLevels - 1; level >= 0; --level) {
      channels /= 2;
      const std::string name = StrCat("up", level);
      x = Up(name, x, channels, side);
      x = Concat(l_, {Cropped(name, skips[level], sides[level], side), x});
      x = Twice(name, x, channels, side);
    }
    ConvLayer classes = SameConv(2, 1);
    l_.Output(ConvWithBias(l_, "classes", x, classes).value);
    return std::move(l_).Finish();
  }

 private:
  FeatureMap Twice(std::string_view name, FeatureMap x, int64_t channels, int64_t& side) {
    const LayerBuilder::Scope scope(l_, name);
    const ConvLayer layer = {.channels = channels, .pads = {0, 0}};
    for (const char* each : {"1", "2"}) x = Relu(l_, ConvWithBias(l_, each, x, layer));
    side -= 4;
    return x;
  }

  FeatureMap Up(std::string_view name, FeatureMap x, int64_t channels, int64_t& side) {
    const LayerBuilder::Scope scope(l_, name);
    // Each result has one element of each channel to sum.
    const double deviation = std::sqrt(2 / static_cast<double>(x.channels));
    const ValueId weight = l_.Normal("up/weight", Shape{x.channels, channels, 2, 2}, deviation);
    const ValueId bias = l_.Uniform("up/bias", Shape{channels}, -0.1, 0.1);
    side *= 2;
    return {l_.Op("ConvTranspose", {x.value, weight, bias},
                  MakeAttrs({{"kernel_shape", std::vector<int64_t>{2, 2}},
                             {"strides", std::vector<int64_t>{2, 2}}})),
            channels};
  }

  // The middle of a map.
  FeatureMap Cropped(std::string_view name, FeatureMap x, int64_t from, int64_t to) {
    const LayerBuilder::Scope scope(l_, name);
    const int64_t start = (from - to) / 2;
    return {l_.Op("Slice", {x.value, l_.Ints({start, start}), l_.Ints({start + to, start + to}),
                            l_.Ints({2, 3})}),
            x.channels};
  }

  LayerBuilder l_{"unet"};
};

}  // namespace

Model UnetModel() {
  return {"unet",
          "U-Net (Ronneberger et al. 2015), two classes of each pixel",
          {BatchOption(),
           SizeOption(572, 188),
           {.name = "width", .doc = "channels of the first level", .value = 64, .max = 256}},
          [](const ModelSettings& settings) { return UnetBuilder().Build(settings); }};
}

}  // namespace millrace
