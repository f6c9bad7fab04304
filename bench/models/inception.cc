#include "bench/models/inception.h"

#include <string>
#include <utility>
#include <vector>

#include "graph/assert.h"
#include "graph/builder.h"
#include "ops/infer.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

// A feature map and its channels.
struct Map {
  ValueId value;
  int64_t channels = 0;
};

class InceptionBuilder {
 public:
  Graph Build(int64_t batch, int64_t size) {
    Map x = {b_.Input("image", {DType::kF32, Shape{batch, 3, size, size}}), 3};
    x = Conv(x, 32, {3, 3}, {0, 0}, 2);
    x = Conv(x, 32, {3, 3}, {0, 0});
    x = MaxPool(Conv(x, 64, {3, 3}, {1, 1}));
    x = Conv(x, 80, {1, 1}, {0, 0});
    x = MaxPool(Conv(x, 192, {3, 3}, {0, 0}));
    for (const int64_t pooled : {32, 64, 64}) x = BlockA(x, pooled);
    x = ReduceA(x);
    for (const int64_t inner : {128, 160, 160, 192}) x = BlockB(x, inner);
    x = ReduceB(x);
    for (int i = 0; i < 2; ++i) x = BlockC(x);
    const ValueId pooled = b_.Op("Flatten", {b_.Op("GlobalAveragePool", {x.value})});
    b_.Output(b_.Op("Gemm", {pooled, Weight(Shape{x.channels, 1000}), Weight(Shape{1000})}));
    Graph graph = std::move(b_).Build();
    const absl::Status status = InferTypes(graph);
    MILLRACE_CHECK(status.ok());
    return graph;
  }

 private:
  ValueId Weight(const Shape& shape) {
    const Init init = {.kind = InitKind::kUniform, .seed = ++seed_, .low = 0.01, .high = 0.1};
    return b_.Param("w", {DType::kF32, shape}, InitData(init));
  }

  Map Conv(Map x, int64_t channels, Ints kernel, Ints pads, int64_t stride = 1) {
    Attrs attrs;
    attrs.Set("pads", Ints{pads[0], pads[1], pads[0], pads[1]});
    attrs.Set("strides", Ints{stride, stride});
    const ValueId w = Weight(Shape{channels, x.channels, kernel[0], kernel[1]});
    const ValueId y = b_.Op("Conv", {x.value, w}, std::move(attrs));
    const Shape by_channel{channels};
    const ValueId normal = b_.Op("BatchNormalization", {y, Weight(by_channel), Weight(by_channel),
                                                        Weight(by_channel), Weight(by_channel)});
    return {b_.Op("Relu", {normal}), channels};
  }

  Map MaxPool(Map x) {
    Attrs attrs;
    attrs.Set("kernel_shape", Ints{3, 3});
    attrs.Set("strides", Ints{2, 2});
    return {b_.Op("MaxPool", {x.value}, std::move(attrs)), x.channels};
  }

  Map AveragePool(Map x) {
    Attrs attrs;
    attrs.Set("kernel_shape", Ints{3, 3});
    attrs.Set("pads", Ints{1, 1, 1, 1});
    return {b_.Op("AveragePool", {x.value}, std::move(attrs)), x.channels};
  }

  Map Concat(const std::vector<Map>& parts) {
    Map whole;
    std::vector<ValueId> values;
    for (const Map& part : parts) {
      values.push_back(part.value);
      whole.channels += part.channels;
    }
    Attrs attrs;
    attrs.Set("axis", int64_t{1});
    whole.value = b_.Op("Concat", std::move(values), std::move(attrs));
    return whole;
  }

  Map One(Map x, int64_t channels) { return Conv(x, channels, {1, 1}, {0, 0}); }

  Map BlockA(Map x, int64_t pooled) {
    const Map plain = One(x, 64);
    const Map fives = Conv(One(x, 48), 64, {5, 5}, {2, 2});
    const Map threes = Conv(Conv(One(x, 64), 96, {3, 3}, {1, 1}), 96, {3, 3}, {1, 1});
    return Concat({plain, fives, threes, One(AveragePool(x), pooled)});
  }

  Map ReduceA(Map x) {
    const Map once = Conv(x, 384, {3, 3}, {0, 0}, 2);
    const Map twice = Conv(Conv(One(x, 64), 96, {3, 3}, {1, 1}), 96, {3, 3}, {0, 0}, 2);
    return Concat({once, twice, MaxPool(x)});
  }

  Map Across(Map x, int64_t channels) { return Conv(x, channels, {1, 7}, {0, 3}); }
  Map Down(Map x, int64_t channels) { return Conv(x, channels, {7, 1}, {3, 0}); }

  Map BlockB(Map x, int64_t inner) {
    const Map plain = One(x, 192);
    const Map once = Down(Across(One(x, inner), inner), 192);
    const Map twice = Across(Down(Across(Down(One(x, inner), inner), inner), inner), 192);
    return Concat({plain, once, twice, One(AveragePool(x), 192)});
  }

  Map ReduceB(Map x) {
    const Map threes = Conv(One(x, 192), 320, {3, 3}, {0, 0}, 2);
    const Map sevens = Conv(Down(Across(One(x, 192), 192), 192), 192, {3, 3}, {0, 0}, 2);
    return Concat({threes, sevens, MaxPool(x)});
  }

  Map Split(Map x) { return Concat({Conv(x, 384, {1, 3}, {0, 1}), Conv(x, 384, {3, 1}, {1, 0})}); }

  Map BlockC(Map x) {
    const Map plain = One(x, 320);
    const Map once = Split(One(x, 384));
    const Map twice = Split(Conv(One(x, 448), 384, {3, 3}, {1, 1}));
    return Concat({plain, once, twice, One(AveragePool(x), 192)});
  }

  GraphBuilder b_{"inception-v3"};
  uint64_t seed_ = 0;
};

}  // namespace

Graph InceptionV3Graph(int64_t batch, int64_t size) {
  return InceptionBuilder().Build(batch, size);
}

}  // namespace millrace
