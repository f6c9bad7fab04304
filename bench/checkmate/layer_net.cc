#include "bench/checkmate/layer_net.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

constexpr int64_t kElementBytes = 4;
constexpr double kMacsPerUnit = 1e6;

}  // namespace

LayerNet::LayerNet(int64_t height, int64_t width) {
  layers_.push_back({.channels = 3, .height = height, .width = width});
}

int32_t LayerNet::Append(NetLayer layer) {
  layers_.push_back(std::move(layer));
  return static_cast<int32_t>(layers_.size()) - 1;
}

int32_t LayerNet::Conv(int32_t x, int64_t channels, const Kernel& kernel) {
  const NetLayer& in = layers_[x];
  const auto reduced = [&](int64_t size) {
    return kernel.pads ? (size + kernel.stride - 1) / kernel.stride
                       : (size - kernel.size) / kernel.stride + 1;
  };
  NetLayer layer{.inputs = {x},
                 .channels = channels,
                 .height = reduced(in.height),
                 .width = reduced(in.width),
                 .reads_input = true,
                 .reads_output = kernel.relu};
  const int64_t weights =
      kernel.size * kernel.size * channels * (kernel.depthwise ? 1 : in.channels);
  layer.params = weights + (kernel.bias ? channels : 0);
  layer.macs = static_cast<double>(weights * layer.height * layer.width);
  return Append(std::move(layer));
}

int32_t LayerNet::Deconv(int32_t x, int64_t channels, int64_t size, int64_t stride) {
  const NetLayer& in = layers_[x];
  const int64_t weights = size * size * channels * in.channels;
  return Append({.inputs = {x},
                 .channels = channels,
                 .height = (in.height - 1) * stride + size,
                 .width = (in.width - 1) * stride + size,
                 .macs = static_cast<double>(weights * in.height * in.width),
                 .params = weights,
                 .reads_input = true});
}

int32_t LayerNet::ZeroPad(int32_t x, int64_t pad) {
  const NetLayer& in = layers_[x];
  return Append({.inputs = {x},
                 .channels = in.channels,
                 .height = in.height + 2 * pad,
                 .width = in.width + 2 * pad});
}

int32_t LayerNet::BatchNorm(int32_t x) {
  NetLayer layer = layers_[x];
  layer.inputs = {x};
  layer.macs = 4.0 * static_cast<double>(layer.elements());
  layer.params = 4 * layer.channels;
  layer.reads_input = true;
  layer.reads_output = false;
  return Append(std::move(layer));
}

int32_t LayerNet::Relu(int32_t x) {
  NetLayer layer = layers_[x];
  layer.inputs = {x};
  layer.macs = static_cast<double>(layer.elements());
  layer.params = 0;
  layer.reads_input = false;
  layer.reads_output = true;
  return Append(std::move(layer));
}

int32_t LayerNet::MaxPool(int32_t x, int64_t size, int64_t stride) {
  const NetLayer& in = layers_[x];
  return Append({.inputs = {x},
                 .channels = in.channels,
                 .height = (in.height - size) / stride + 1,
                 .width = (in.width - size) / stride + 1,
                 .reads_input = true,
                 .reads_output = true});
}

int32_t LayerNet::UpSample(int32_t x) {
  const NetLayer& in = layers_[x];
  return Append(
      {.inputs = {x}, .channels = in.channels, .height = 2 * in.height, .width = 2 * in.width});
}

int32_t LayerNet::PoolAll(int32_t x) {
  return Append({.inputs = {x}, .channels = layers_[x].channels});
}

int32_t LayerNet::Concat(int32_t a, int32_t b) {
  NetLayer layer{.inputs = {a, b}, .height = layers_[a].height, .width = layers_[a].width};
  layer.channels = layers_[a].channels + layers_[b].channels;
  return Append(std::move(layer));
}

int32_t LayerNet::Add(int32_t a, int32_t b) {
  NetLayer layer{.inputs = {a, b}};
  layer.channels = layers_[a].channels;
  layer.height = layers_[a].height;
  layer.width = layers_[a].width;
  layer.macs = static_cast<double>(layer.elements());
  return Append(std::move(layer));
}

int32_t LayerNet::Crop(int32_t x, int64_t height, int64_t width) {
  return Append({.inputs = {x}, .channels = layers_[x].channels, .height = height, .width = width});
}

int32_t LayerNet::Dense(int32_t x, int64_t channels, bool relu) {
  const int64_t weights = layers_[x].elements() * channels;
  return Append({.inputs = {x},
                 .channels = channels,
                 .macs = static_cast<double>(weights),
                 .params = weights + channels,
                 .reads_input = true,
                 .reads_output = relu});
}

int32_t LayerNet::Softmax(int32_t x) {
  NetLayer layer = layers_[x];
  layer.inputs = {x};
  layer.macs = static_cast<double>(layer.elements());
  layer.params = 0;
  layer.reads_input = false;
  layer.reads_output = true;
  return Append(std::move(layer));
}

double ForwardTime(const LayerNet& net, int64_t batch) {
  double macs = 0;
  for (const NetLayer& layer : net.layers()) macs += layer.macs;
  return macs * static_cast<double>(batch) / kMacsPerUnit;
}

BudgetProblem TrainingProblem(const LayerNet& net, int64_t batch) {
  BudgetProblem problem;
  const std::span<const NetLayer> layers = net.layers();
  const auto append = [&](int64_t elements, size_t producer) {
    problem.tensors.push_back({.size_bytes = elements * kElementBytes * batch,
                               .producer = static_cast<int32_t>(producer)});
    return static_cast<int32_t>(problem.tensors.size()) - 1;
  };
  const auto time_of = [&](const NetLayer& layer) {
    return layer.macs * static_cast<double>(batch) / kMacsPerUnit;
  };
  std::vector<int32_t> activation(layers.size()), gradient(layers.size(), -1);
  problem.tensors.push_back({.size_bytes = 0});  // the image is nobody's output
  for (size_t i = 1; i < layers.size(); ++i) {
    problem.fixed_bytes += 2 * kElementBytes * layers[i].params;
    BudgetOp op{.time_us = time_of(layers[i])};
    for (const int32_t in : layers[i].inputs) op.reads.push_back(activation[in]);
    activation[i] = append(layers[i].elements(), problem.ops.size());
    op.writes = {activation[i]};
    problem.ops.push_back(std::move(op));
  }
  // The loss.
  gradient.back() = append(layers.back().elements(), problem.ops.size());
  problem.ops.push_back({.reads = {activation.back()}, .writes = {gradient.back()}});
  for (size_t i = layers.size() - 1; i > 0; --i) {
    BudgetOp op{.time_us = 2 * time_of(layers[i]), .reads = {gradient[i]}};
    for (const int32_t in : layers[i].inputs) {
      if (layers[i].reads_input) op.reads.push_back(activation[in]);
      if (in == 0) continue;
      // A second reader's share is added to the first one's.
      const int32_t before = gradient[in];
      gradient[in] = append(layers[in].elements(), problem.ops.size());
      op.writes.push_back(gradient[in]);
      if (before < 0) continue;
      op.reads.push_back(before);
      op.in_place.push_back({gradient[in], before});
    }
    if (layers[i].reads_output) op.reads.push_back(activation[i]);
    problem.ops.push_back(std::move(op));
  }
  return problem;
}

}  // namespace millrace
