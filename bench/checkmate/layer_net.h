// Networks as Checkmate's authors take them (Jain et al. 2020): layers as Keras has them, with how
// much each computes and gives, and their training step as a budget problem.
#ifndef MILLRACE_BENCH_CHECKMATE_LAYER_NET_H_
#define MILLRACE_BENCH_CHECKMATE_LAYER_NET_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "passes/budget/budget_problem.h"

namespace millrace {

struct NetLayer {
  std::vector<int32_t> inputs = {};
  int64_t channels = 0, height = 1, width = 1;  // of the output
  double macs = 0;                              // of one sample
  int64_t params = 0;
  // What its gradient reads besides that of its output.
  bool reads_input = false, reads_output = false;
  int64_t elements() const { return channels * height * width; }
};

// Layer 0 is the image. Layers are appended; each function returns the index of the last.
class LayerNet {
 public:
  LayerNet(int64_t height, int64_t width);

  struct Kernel {
    int64_t size = 3;
    int64_t stride = 1;
    bool pads = true;   // to ceil(size / stride); otherwise only where it fits
    bool relu = false;  // part of the layer
    bool bias = true;
    bool depthwise = false;
  };
  int32_t Conv(int32_t x, int64_t channels, const Kernel& kernel);
  int32_t Deconv(int32_t x, int64_t channels, int64_t size, int64_t stride);
  int32_t ZeroPad(int32_t x, int64_t pad);
  int32_t BatchNorm(int32_t x);
  int32_t Relu(int32_t x);
  int32_t MaxPool(int32_t x, int64_t size, int64_t stride);
  int32_t UpSample(int32_t x);
  int32_t PoolAll(int32_t x);
  int32_t Concat(int32_t a, int32_t b);
  int32_t Add(int32_t a, int32_t b);
  int32_t Crop(int32_t x, int64_t height, int64_t width);
  int32_t Dense(int32_t x, int64_t channels, bool relu);
  int32_t Softmax(int32_t x);

  std::span<const NetLayer> layers() const { return layers_; }

 private:
  int32_t Append(NetLayer layer);
  std::vector<NetLayer> layers_;
};

struct NamedNet {
  std::string name;
  int64_t published_batch = 0;  // Checkmate's largest
  LayerNet (*build)() = nullptr;
};
std::span<const NamedNet> CheckmateNets();

// Forward, then backward, last layer first. Four bytes an element; time in millions of
// multiply-adds; twice as much backward. Fixed: parameters and their gradients. The image is no
// layer's output and does not count.
BudgetProblem TrainingProblem(const LayerNet& net, int64_t batch);
double ForwardTime(const LayerNet& net, int64_t batch);

}  // namespace millrace

#endif  // MILLRACE_BENCH_CHECKMATE_LAYER_NET_H_
