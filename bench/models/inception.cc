#include "bench/models/inception.h"

#include "bench/models/conv_layers.h"
#include "bench/models/model.h"
#include "graph/strings.h"

namespace millrace {
namespace {

class InceptionBuilder {
 public:
  Graph Build(int64_t batch, int64_t size) && {
    FeatureMap x = Image(l_, batch, 3, size);
    x = Unit(x, 32, {3, 3}, {0, 0}, 2);
    x = Unit(x, 32, {3, 3}, {0, 0});
    x = Halved(Unit(x, 64, {3, 3}, {1, 1}));
    x = One(x, 80);
    x = Halved(Unit(x, 192, {3, 3}, {0, 0}));
    for (const int64_t pooled : {32, 64, 64}) x = BlockA(x, pooled);
    x = ReduceA(x);
    for (const int64_t inner : {128, 160, 160, 192}) x = BlockB(x, inner);
    x = ReduceB(x);
    for (int i = 0; i < 2; ++i) x = BlockC(x);
    l_.Output(l_.Gemm("fc", PoolAll(l_, x), x.channels, 1000, 1));
    return std::move(l_).Finish();
  }

 private:
  using Pair = std::array<int64_t, 2>;

  // Convolution, normalization and Relu, numbered in the order they are made.
  FeatureMap Unit(FeatureMap x, int64_t channels, Pair kernel, Pair pads, int64_t stride = 1) {
    const ConvLayer layer = {
        .channels = channels, .kernel = kernel, .pads = pads, .stride = stride};
    return ConvNormRelu(l_, StrCat("unit", ++units_), x, layer, /*epsilon=*/1e-3);
  }
  FeatureMap One(FeatureMap x, int64_t channels) { return Unit(x, channels, {1, 1}, {0, 0}); }
  FeatureMap Across(FeatureMap x, int64_t channels) { return Unit(x, channels, {1, 7}, {0, 3}); }
  FeatureMap Down(FeatureMap x, int64_t channels) { return Unit(x, channels, {7, 1}, {3, 0}); }
  FeatureMap Halved(FeatureMap x) { return MaxPool(l_, x, {.size = 3, .stride = 2}); }
  FeatureMap Averaged(FeatureMap x) {
    return AveragePool(l_, x, {.size = 3, .stride = 1, .pads = 1});
  }

  FeatureMap BlockA(FeatureMap x, int64_t pooled) {
    const FeatureMap plain = One(x, 64);
    const FeatureMap fives = Unit(One(x, 48), 64, {5, 5}, {2, 2});
    const FeatureMap threes = Unit(Unit(One(x, 64), 96, {3, 3}, {1, 1}), 96, {3, 3}, {1, 1});
    return Concat(l_, {plain, fives, threes, One(Averaged(x), pooled)});
  }

  FeatureMap ReduceA(FeatureMap x) {
    const FeatureMap once = Unit(x, 384, {3, 3}, {0, 0}, 2);
    const FeatureMap twice = Unit(Unit(One(x, 64), 96, {3, 3}, {1, 1}), 96, {3, 3}, {0, 0}, 2);
    return Concat(l_, {once, twice, Halved(x)});
  }

  FeatureMap BlockB(FeatureMap x, int64_t inner) {
    const FeatureMap plain = One(x, 192);
    const FeatureMap once = Down(Across(One(x, inner), inner), 192);
    const FeatureMap twice = Across(Down(Across(Down(One(x, inner), inner), inner), inner), 192);
    return Concat(l_, {plain, once, twice, One(Averaged(x), 192)});
  }

  FeatureMap ReduceB(FeatureMap x) {
    const FeatureMap threes = Unit(One(x, 192), 320, {3, 3}, {0, 0}, 2);
    const FeatureMap sevens = Unit(Down(Across(One(x, 192), 192), 192), 192, {3, 3}, {0, 0}, 2);
    return Concat(l_, {threes, sevens, Halved(x)});
  }

  FeatureMap Fork(FeatureMap x) {
    return Concat(l_, {Unit(x, 384, {1, 3}, {0, 1}), Unit(x, 384, {3, 1}, {1, 0})});
  }

  FeatureMap BlockC(FeatureMap x) {
    const FeatureMap plain = One(x, 320);
    const FeatureMap once = Fork(One(x, 384));
    const FeatureMap twice = Fork(Unit(One(x, 448), 384, {3, 3}, {1, 1}));
    return Concat(l_, {plain, once, twice, One(Averaged(x), 192)});
  }

  LayerBuilder l_{"inception-v3"};
  int units_ = 0;
};

}  // namespace

Graph InceptionV3Graph(int64_t batch, int64_t size) {
  return InceptionBuilder().Build(batch, size);
}

Model InceptionV3Model() {
  return {"inception-v3",
          "Inception-v3 (Szegedy et al. 2015), without the auxiliary classifier",
          {BatchOption(), SizeOption(299, 75)},
          [](const ModelSettings& settings) {
            return InceptionV3Graph(settings["batch"], settings["size"]);
          }};
}

}  // namespace millrace
