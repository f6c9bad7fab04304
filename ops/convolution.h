// What Conv and its two gradients share. A convolution joins three tensors, X, W and Y, over the
// same taps; given any two, one op computes the third.
#ifndef MILLRACE_OPS_CONVOLUTION_H_
#define MILLRACE_OPS_CONVOLUTION_H_

#include <span>
#include <string_view>
#include <vector>

#include "ops/gradient.h"
#include "ops/op_def.h"
#include "ops/reference_dispatch.h"
#include "ops/window.h"

namespace millrace {

struct Convolution {
  Window window;
  int64_t batch = 0, group = 1;
  int64_t in_channels = 0, out_channels = 0;  // per group
};

// From the attributes of Conv, X, of [N, group * C, in...], and W, of [group * M, C, kernel...].
absl::StatusOr<Convolution> ConvolutionOf(const Attrs& attrs, const Shape& x, const Shape& w);
// The convolution that ConvTranspose, with operands X and W of [group * C, M, kernel...],
// transposes: its Y is X, and its X is the result.
absl::StatusOr<Convolution> TransposedConvolutionOf(const Attrs& attrs, const Shape& x,
                                                    const Shape& w);
Shape OperandShape(const Convolution& conv);  // of X: [N, group * C, in...]
Shape ResultShape(const Convolution& conv);   // of Y: [N, group * M, out...]
// Rank 3 to 5.
absl::Status CheckConvRank(const Shape& shape, std::string_view name);

// Attribute specs: the window's, `group`, and `shape`.
std::vector<AttrSpec> ConvAttrs(AttrSpec shape);

// One multiply-add per element of Y and of W's channels and taps; taps in the padding count too.
double MultiplyAdds(const Shape& y, const Shape& w);

// One way to cut the three tensors, whichever of them is the result.
struct ConvCut {
  std::string_view note;
  AxisSharding x, w, y;
};

std::vector<ConvCut> ConvCuts(const Shape& x, const Shape& w, const Attrs& attrs);
// Rules of an op with operands X, W and an optional bias B for each channel of its result Y.
std::vector<ShardingRule> ConvRules(const NodeQuery& query, std::span<const ConvCut> cuts);

inline bool IsShard(const AxisSharding& s) { return s.kind == AxisSharding::Kind::kShard; }
// The result's sharding in a cut: as named, or a sum where it is whole but its operands are cut.
AxisSharding ResultOf(const AxisSharding& named);

// The geometry of a node, with automatic padding resolved, as attributes of another one.
Attrs GeometryAttrs(const Convolution& conv);
Term ConvInputGrad(const Convolution& conv, const Term& dy, const Term& w);
Term ConvWeightGrad(const Convolution& conv, const Term& x, const Term& dy);

// f(n, x channel, w row, y channel), with channels counted over all of X, W's [M,C] and Y: each
// combination that Conv joins by its taps.
template <typename F>
void ForEachChannelPair(const Convolution& conv, F&& f) {
  for (int64_t n = 0; n < conv.batch; ++n) {
    for (int64_t m = 0; m < conv.group * conv.out_channels; ++m) {
      const int64_t group = m / conv.out_channels;
      for (int64_t c = 0; c < conv.in_channels; ++c) {
        f((n * conv.group + group) * conv.in_channels + c, m * conv.in_channels + c,
          n * conv.group * conv.out_channels + m);
      }
    }
  }
}

// sums of dX += the transposed convolution of dY.
template <typename T>
void AddInputGrad(const Convolution& conv, const T* dy, const T* w, std::vector<double>& sums) {
  const Window& window = conv.window;
  const int64_t in = Volume(window.in), out = Volume(window.out), kernel = Volume(window.kernel);
  ForEachChannelPair(conv, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
    ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
      sums[x_at * in + i] +=
          static_cast<double>(dy[y_at * out + o]) * static_cast<double>(w[w_at * kernel + k]);
    });
  });
}

// What sums of [N, channels, positions] start from: the channel's element of an optional bias.
template <typename T>
std::vector<double> SumsFromBias(const Tensor& y, const Tensor* bias) {
  std::vector<double> sums(y.num_elements());
  if (bias == nullptr || sums.empty()) return sums;
  const std::span<const T> b = bias->data<T>();
  const int64_t positions = y.num_elements() / (y.shape()[0] * y.shape()[1]);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = static_cast<double>(b[i / positions % b.size()]);
  }
  return sums;
}

template <typename T>
void StoreSums(const std::vector<double>& sums, Tensor& out) {
  const std::span<T> to = out.mutable_data<T>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(sums[i]);
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CONVOLUTION_H_
