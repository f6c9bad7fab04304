// f32 BatchNormalization, in inference and in training, and grad.BatchNormalization.
//
// X is [batch, channels, positions]. A channel is a row of each image: its sums are sums of rows
// (f64 every 4096 elements), and its sweeps over the same rows find them in cache as long as a
// channel fits there. Where a row is a single element ([N,C]), a vector of channels takes its
// place, and sums are kept lane by lane, in f32 blocks of 256 images.
//
// Every element is computed as (x - mean) * (scale * r) + bias.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_batch_norm.cc"
#include <cmath>

#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

#ifndef MILLRACE_OPS_CPU_SIMD_BATCH_NORM_CC_
#define MILLRACE_OPS_CPU_SIMD_BATCH_NORM_CC_
namespace millrace {

struct BatchNormArgs {
  int64_t batch = 0, channels = 0, positions = 0;
  float epsilon = 0, momentum = 0;
  bool training = false;
  const float *x = nullptr, *scale = nullptr, *bias = nullptr;
  const float *mean = nullptr, *variance = nullptr;            // given
  float* y = nullptr;                                          // null: not wanted
  float *running_mean = nullptr, *running_variance = nullptr;  // likewise
};

struct BatchNormGradArgs {
  int64_t batch = 0, channels = 0, positions = 0;
  float epsilon = 0;
  const float *dy = nullptr, *x = nullptr, *scale = nullptr;
  float *dx = nullptr, *d_scale = nullptr, *d_bias = nullptr;  // null: not wanted
};

}  // namespace millrace
#endif  // MILLRACE_OPS_CPU_SIMD_BATCH_NORM_CC_

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// --- A channel of rows ---------------------------------------------------------------------------

template <class Args>
HWY_INLINE int64_t RowAt(const Args& a, int64_t image, int64_t channel) {
  return (image * a.channels + channel) * a.positions;
}

struct ChannelMoments {
  double mean = 0, variance = 0;
};

template <class Args>
HWY_INLINE ChannelMoments MomentsOfChannel(const Args& a, int64_t channel) {
  const size_t n = static_cast<size_t>(a.positions);
  const double count = static_cast<double>(a.batch) * static_cast<double>(a.positions);
  ChannelMoments m;
  for (int64_t i = 0; i < a.batch; ++i) {
    m.mean += RowSum(a.x + RowAt(a, i, channel), n, [](V v) HWY_ATTR { return v; });
  }
  m.mean /= count;
  const V mean = hn::Set(D(), static_cast<float>(m.mean));
  for (int64_t i = 0; i < a.batch; ++i) {
    m.variance += RowSum(a.x + RowAt(a, i, channel), n, [&](V v) HWY_ATTR {
      const V difference = hn::Sub(v, mean);
      return hn::Mul(difference, difference);
    });
  }
  m.variance /= count;
  return m;
}

HWY_INLINE void NormalizeRows(const BatchNormArgs& a, int64_t channel, ChannelMoments m,
                              int64_t first_image, int64_t last_image) {
  const D d;
  const V mean = hn::Set(d, static_cast<float>(m.mean)), bias = hn::Set(d, a.bias[channel]);
  const double r = 1 / std::sqrt(m.variance + a.epsilon);
  const V factor = hn::Set(d, static_cast<float>(a.scale[channel] * r));
  for (int64_t i = first_image; i < last_image; ++i) {
    const int64_t at = RowAt(a, i, channel);
    UnaryRow(a.x + at, a.y + at, static_cast<size_t>(a.positions),
             [&](V v) HWY_ATTR { return hn::MulAdd(hn::Sub(v, mean), factor, bias); });
  }
}

// Channels [begin, end) in training; rows [begin, end) of all images in inference.
void BatchNormRows(const BatchNormArgs& a, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    const int64_t channel = a.training ? k : k % a.channels;
    const ChannelMoments given = {a.mean[channel], a.variance[channel]};
    if (!a.training) {
      const int64_t image = k / a.channels;
      NormalizeRows(a, channel, given, image, image + 1);
      continue;
    }
    const ChannelMoments m = MomentsOfChannel(a, channel);
    const auto moved = [&](double from, double to) {
      return static_cast<float>(from * a.momentum + to * (1.0 - a.momentum));
    };
    if (a.running_mean != nullptr) a.running_mean[channel] = moved(given.mean, m.mean);
    if (a.running_variance != nullptr) {
      a.running_variance[channel] = moved(given.variance, m.variance);
    }
    if (a.y != nullptr) NormalizeRows(a, channel, m, 0, a.batch);
  }
}

// dx = scale r (dy - (sum(dy) + z sum(dy z)) / count), z = (x - mean) r.
void BatchNormGradRows(const BatchNormGradArgs& a, int64_t begin, int64_t end) {
  const D d;
  const size_t n = static_cast<size_t>(a.positions);
  for (int64_t channel = begin; channel < end; ++channel) {
    const ChannelMoments m = MomentsOfChannel(a, channel);
    const double r = 1 / std::sqrt(m.variance + a.epsilon);
    const V mean = hn::Set(d, static_cast<float>(m.mean)),
            inverse = hn::Set(d, static_cast<float>(r));
    double sum = 0, sum_z = 0;
    for (int64_t i = 0; i < a.batch; ++i) {
      const int64_t at = RowAt(a, i, channel);
      sum += RowSum(a.dy + at, n, [](V v) HWY_ATTR { return v; });
      sum_z += RowSum(a.dy + at, a.x + at, n, [&](V g, V x) HWY_ATTR {
        return hn::Mul(g, hn::Mul(hn::Sub(x, mean), inverse));
      });
    }
    if (a.d_scale != nullptr) a.d_scale[channel] = static_cast<float>(sum_z);
    if (a.d_bias != nullptr) a.d_bias[channel] = static_cast<float>(sum);
    if (a.dx == nullptr) continue;
    const double count = static_cast<double>(a.batch) * static_cast<double>(a.positions);
    const V shift = hn::Set(d, static_cast<float>(sum / count));
    const V slope = hn::Set(d, static_cast<float>(sum_z * r / count));
    const V factor = hn::Set(d, static_cast<float>(a.scale[channel] * r));
    for (int64_t i = 0; i < a.batch; ++i) {
      const int64_t at = RowAt(a, i, channel);
      RowMap(a.dy + at, a.x + at, a.dx + at, n, [&](V g, V x) HWY_ATTR {
        const V centered = hn::Sub(hn::Sub(g, shift), hn::Mul(hn::Sub(x, mean), slope));
        return hn::Mul(centered, factor);
      });
    }
  }
}

// --- A vector of channels ------------------------------------------------------------------------

// Channels [first, first + a vector, or fewer) of all images.
struct Columns {
  int64_t first = 0, stride = 0, rows = 0;
  Span span;

  // The sum over the rows of term(element offset).
  template <class Term>
  HWY_INLINE V Sum(Term term) const {
    constexpr int64_t kBlock = 256;
    V total = hn::Zero(D());
    for (int64_t start = 0; start < rows; start += kBlock) {
      V sum = hn::Zero(D());
      for (int64_t i = start; i < HWY_MIN(rows, start + kBlock); ++i) {
        sum = hn::Add(sum, term(i * stride + first));
      }
      total = hn::Add(total, sum);
    }
    return total;
  }
};

struct ColumnMoments {
  V mean, variance;
};

HWY_INLINE ColumnMoments MomentsOfColumns(const Columns& c, const float* x) {
  const V count = hn::Set(D(), static_cast<float>(c.rows));
  const V mean = hn::Div(c.Sum([&](int64_t at) HWY_ATTR { return c.span.Load(x + at); }), count);
  const V squares = c.Sum([&](int64_t at) HWY_ATTR {
    const V difference = hn::Sub(c.span.Load(x + at), mean);
    return hn::Mul(difference, difference);
  });
  return {mean, hn::Div(squares, count)};
}

HWY_INLINE V InverseRootOf(V variance, float epsilon) {
  const D d;
  return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(variance, hn::Set(d, epsilon))));
}

// Vectors of channels [begin, end).
void BatchNormColumns(const BatchNormArgs& a, int64_t begin, int64_t end) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t first = begin * lanes; first < HWY_MIN(end * lanes, a.channels); first += lanes) {
    const Columns c = {
        first, a.channels, a.batch, {static_cast<size_t>(HWY_MIN(lanes, a.channels - first))}};
    ColumnMoments m = {c.span.Load(a.mean + first), c.span.Load(a.variance + first)};
    if (a.training) {
      const ColumnMoments given = m;
      m = MomentsOfColumns(c, a.x);
      const V stays = hn::Set(d, a.momentum), moves = hn::Set(d, 1 - a.momentum);
      const auto moved = [&](V from, V to)
                             HWY_ATTR { return hn::MulAdd(from, stays, hn::Mul(to, moves)); };
      if (a.running_mean != nullptr)
        c.span.Store(moved(given.mean, m.mean), a.running_mean + first);
      if (a.running_variance != nullptr) {
        c.span.Store(moved(given.variance, m.variance), a.running_variance + first);
      }
      if (a.y == nullptr) continue;
    }
    const V factor = hn::Mul(c.span.Load(a.scale + first), InverseRootOf(m.variance, a.epsilon));
    const V bias = c.span.Load(a.bias + first);
    for (int64_t i = 0; i < a.batch; ++i) {
      const int64_t at = i * a.channels + first;
      c.span.Store(hn::MulAdd(hn::Sub(c.span.Load(a.x + at), m.mean), factor, bias), a.y + at);
    }
  }
}

void BatchNormGradColumns(const BatchNormGradArgs& a, int64_t begin, int64_t end) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V count = hn::Set(d, static_cast<float>(a.batch));
  for (int64_t first = begin * lanes; first < HWY_MIN(end * lanes, a.channels); first += lanes) {
    const Columns c = {
        first, a.channels, a.batch, {static_cast<size_t>(HWY_MIN(lanes, a.channels - first))}};
    const ColumnMoments m = MomentsOfColumns(c, a.x);
    const V r = InverseRootOf(m.variance, a.epsilon);
    const V sum = c.Sum([&](int64_t at) HWY_ATTR { return c.span.Load(a.dy + at); });
    const V sum_z = c.Sum([&](int64_t at) HWY_ATTR {
      return hn::Mul(c.span.Load(a.dy + at), hn::Mul(hn::Sub(c.span.Load(a.x + at), m.mean), r));
    });
    if (a.d_scale != nullptr) c.span.Store(sum_z, a.d_scale + first);
    if (a.d_bias != nullptr) c.span.Store(sum, a.d_bias + first);
    if (a.dx == nullptr) continue;
    const V shift = hn::Div(sum, count), slope = hn::Div(hn::Mul(sum_z, r), count);
    const V factor = hn::Mul(c.span.Load(a.scale + first), r);
    for (int64_t i = 0; i < a.batch; ++i) {
      const int64_t at = i * a.channels + first;
      const V z = hn::Mul(hn::Sub(c.span.Load(a.x + at), m.mean), slope);
      c.span.Store(hn::Mul(hn::Sub(hn::Sub(c.span.Load(a.dy + at), shift), z), factor), a.dx + at);
    }
  }
}

int64_t FloatLanes() { return static_cast<int64_t>(hn::Lanes(D())); }

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/axes.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

HWY_EXPORT(BatchNormRows);
HWY_EXPORT(BatchNormColumns);
HWY_EXPORT(BatchNormGradRows);
HWY_EXPORT(BatchNormGradColumns);
HWY_EXPORT(FloatLanes);

// What both kernels do with their arguments: how many units of work there are.
template <typename Args>
int64_t UnitsOf(const Args& args, int64_t lanes, bool by_rows_of_images) {
  if (args.positions == 1) return (args.channels + lanes - 1) / lanes;
  return by_rows_of_images ? args.batch * args.channels : args.channels;
}

template <typename Args>
void SetShape(const Shape& x, Args& args) {
  args.batch = x[0];
  args.channels = x.rank() > 1 ? x[1] : 1;
  args.positions = x.rank() > 2 ? ElementsFrom(x, 2) : 1;
}

const float* Input(const KernelArgs& args, size_t i) {
  return static_cast<const float*>(args.inputs[i]);
}

class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const NodeQuery& query, int threads) : threads_(threads) {
    SetShape(query.inputs[0]->shape, args_);
    args_.training = query.attrs.Bool("training_mode", false);
    args_.epsilon = static_cast<float>(query.attrs.Float("epsilon", 0));
    args_.momentum = static_cast<float>(query.attrs.Float("momentum", 0));
    for (size_t i = 0; i < wants_.size(); ++i) wants_[i] = HasOutput(query, i);
    function_ = args_.positions == 1 ? MILLRACE_SIMD_FUNCTION(BatchNormColumns)
                                     : MILLRACE_SIMD_FUNCTION(BatchNormRows);
    units_ = UnitsOf(args_, MILLRACE_SIMD_FUNCTION(FloatLanes)(), !args_.training);
  }

  absl::Status Run(const KernelArgs& args) override {
    BatchNormArgs a = args_;
    a.x = Input(args, 0);
    a.scale = Input(args, 1);
    a.bias = Input(args, 2);
    a.mean = Input(args, 3);
    a.variance = Input(args, 4);
    float** const results[] = {&a.y, &a.running_mean, &a.running_variance};
    for (size_t i = 0; i < wants_.size(); ++i) {
      if (wants_[i]) *results[i] = static_cast<float*>(args.outputs[i]);
    }
    const int64_t steps = a.batch * a.channels * a.positions;
    ParallelFor(threads_, units_, steps, 1,
                [&](int64_t begin, int64_t end) { function_(a, begin, end); });
    return absl::OkStatus();
  }

 private:
  const int threads_;
  BatchNormArgs args_;  // all but addresses
  std::array<bool, 3> wants_{};
  void (*function_)(const BatchNormArgs&, int64_t, int64_t) = nullptr;
  int64_t units_ = 0;
};

class BatchNormGradKernel final : public Kernel {
 public:
  BatchNormGradKernel(const NodeQuery& query, int threads) : threads_(threads) {
    SetShape(query.inputs[1]->shape, args_);
    args_.epsilon = static_cast<float>(query.attrs.Float("epsilon", 0));
    for (size_t i = 0; i < wants_.size(); ++i) wants_[i] = HasOutput(query, i);
    function_ = args_.positions == 1 ? MILLRACE_SIMD_FUNCTION(BatchNormGradColumns)
                                     : MILLRACE_SIMD_FUNCTION(BatchNormGradRows);
    units_ = UnitsOf(args_, MILLRACE_SIMD_FUNCTION(FloatLanes)(), false);
  }

  absl::Status Run(const KernelArgs& args) override {
    BatchNormGradArgs a = args_;
    a.dy = Input(args, 0);
    a.x = Input(args, 1);
    a.scale = Input(args, 2);
    float** const results[] = {&a.dx, &a.d_scale, &a.d_bias};
    for (size_t i = 0; i < wants_.size(); ++i) {
      if (wants_[i]) *results[i] = static_cast<float*>(args.outputs[i]);
    }
    const int64_t steps = 2 * a.batch * a.channels * a.positions;
    ParallelFor(threads_, units_, steps, 1,
                [&](int64_t begin, int64_t end) { function_(a, begin, end); });
    return absl::OkStatus();
  }

 private:
  const int threads_;
  BatchNormGradArgs args_;  // all but addresses
  std::array<bool, 3> wants_{};
  void (*function_)(const BatchNormGradArgs&, int64_t, int64_t) = nullptr;
  int64_t units_ = 0;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  const bool forward = query.op == "BatchNormalization";
  if (!forward && query.op != "grad.BatchNormalization") return std::nullopt;
  const size_t x = forward ? 0 : 1;
  if (!AllOf(query, DType::kF32) || NumElements(query.inputs[x]->shape) == 0) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  if (request.query.op == "BatchNormalization") {
    return std::make_unique<BatchNormKernel>(request.query, request.threads);
  }
  return std::make_unique<BatchNormGradKernel>(request.query, request.threads);
}

}  // namespace

KernelFamily SimdBatchNormFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
