// f32 convolutions with 3 x 3 windows of stride 1 by Winograd's minimal filtering, F(4 x 4, 3 x 3)
// (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"): a tile of 4 x 4 results
// takes 36 products for each pair of channels instead of 144. Operands lie channels-last; weights
// are packed, which is where they are transformed: U = G w G', for each of the 36 points a matrix
// [C, M], in panels of 64 columns.
//
// A block of tiles at a time: their windows are transformed, V = B' d B, 36 matrices [tiles, C];
// multiplied, 36 products [tiles, C] x [C, M]; and transformed back, A' m A, with bias and
// epilogue. Each of the three parts is shared out among the team. V and the products are scratch,
// of a size that stays in a second-level cache.
//
// Results differ from those of a direct convolution by rounding: the transforms add and subtract
// numbers up to 8 times as large as the results' terms (tests/ops/fused_product_test.cc has a bound).
//
// It is offered where an estimate says that it pays: weights are 4 times as large, and have to be
// read for however few tiles there are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/winograd.cc"
#include <algorithm>
#include <array>
#include <type_traits>

#include "ops/cpu/epilogue_plan.h"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"

#ifndef MILLRACE_OPS_CPU_WINOGRAD_CC_
#define MILLRACE_OPS_CPU_WINOGRAD_CC_
namespace millrace {

constexpr int64_t kPoints = 36, kTileOut = 4, kTileIn = 6, kPanel = 64;

struct WinogradPlan {
  int64_t batch = 0, in_channels = 0, out_channels = 0;
  int64_t in_height = 0, in_width = 0, out_height = 0, out_width = 0, pad_top = 0, pad_left = 0;
  int64_t tile_rows = 0, tile_columns = 0;
  int64_t block = 0;                   // tiles at a time
  int64_t v_stride = 0, m_stride = 0;  // elements between points of V and of the products
  bool has_bias = false;
  EpiloguePlan epilogue;
  size_t first_operand = 0;

  int64_t tiles() const { return batch * tile_rows * tile_columns; }
};

// What one run computes with.
struct WinogradArgs {
  const float* x = nullptr;
  const float* weights = nullptr;
  const float* bias = nullptr;
  const float* sum = nullptr;  // what the results are added to
  float* y = nullptr;
  float *v = nullptr, *products = nullptr;
};

// The place of a tile: its image, and its first result.
struct WinogradTile {
  int64_t image, row, column;
};
inline WinogradTile TileAt(const WinogradPlan& p, int64_t tile) {
  const int64_t per_image = p.tile_rows * p.tile_columns;
  const int64_t in_image = tile % per_image;
  return {tile / per_image, in_image / p.tile_columns * kTileOut,
          in_image % p.tile_columns * kTileOut};
}

}  // namespace millrace
#endif  // MILLRACE_OPS_CPU_WINOGRAD_CC_

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

using WinogradTag = hn::CappedTag<float, 16>;
using WinogradVec = hn::Vec<WinogradTag>;

// to = B' from, of six vectors.
HWY_INLINE void TransformIn(const WinogradVec (&d)[kTileIn], WinogradVec (&to)[kTileIn]) {
  const WinogradTag tag;
  const auto two = hn::Set(tag, 2.0f), four = hn::Set(tag, 4.0f), five = hn::Set(tag, 5.0f);
  const auto d42 = hn::NegMulAdd(four, d[2], d[4]);  // d4 - 4 d2
  const auto d31 = hn::NegMulAdd(four, d[1], d[3]);
  const auto e42 = hn::Sub(d[4], d[2]);
  const auto e31 = hn::Mul(two, hn::Sub(d[3], d[1]));
  to[0] = hn::MulAdd(four, d[0], hn::NegMulAdd(five, d[2], d[4]));
  to[1] = hn::Add(d42, d31);
  to[2] = hn::Sub(d42, d31);
  to[3] = hn::Add(e42, e31);
  to[4] = hn::Sub(e42, e31);
  to[5] = hn::MulAdd(four, d[1], hn::NegMulAdd(five, d[3], d[5]));
}

// to = A' from, of six vectors.
HWY_INLINE void TransformOut(const WinogradVec (&m)[kTileIn], WinogradVec (&to)[kTileOut]) {
  const WinogradTag tag;
  const auto two = hn::Set(tag, 2.0f), four = hn::Set(tag, 4.0f), eight = hn::Set(tag, 8.0f);
  const auto s12 = hn::Add(m[1], m[2]), d12 = hn::Sub(m[1], m[2]);
  const auto s34 = hn::Add(m[3], m[4]), d34 = hn::Sub(m[3], m[4]);
  to[0] = hn::Add(hn::Add(m[0], s12), s34);
  to[1] = hn::MulAdd(two, d34, d12);
  to[2] = hn::MulAdd(four, s34, s12);
  to[3] = hn::Add(hn::MulAdd(eight, d34, d12), m[5]);
}

// V of tile `index` of the block, whose tile it is of all is `tile`.
void WinogradIn(const WinogradPlan& p, const WinogradArgs& args, int64_t tile, int64_t index) {
  const WinogradTag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const WinogradTile at = TileAt(p, tile);
  const float* image = args.x + at.image * p.in_height * p.in_width * p.in_channels;
  for (int64_t c = 0; c < p.in_channels; c += lanes) {
    WinogradVec half[kTileIn][kTileIn];  // by column of the window, transformed along rows
    for (int64_t j = 0; j < kTileIn; ++j) {
      const int64_t column = at.column - p.pad_left + j;
      WinogradVec d[kTileIn];
      for (int64_t i = 0; i < kTileIn; ++i) {
        const int64_t row = at.row - p.pad_top + i;
        const bool inside = row >= 0 && row < p.in_height && column >= 0 && column < p.in_width;
        d[i] = inside ? hn::LoadU(tag, image + (row * p.in_width + column) * p.in_channels + c)
                      : hn::Zero(tag);
      }
      TransformIn(d, half[j]);
    }
    for (int64_t i = 0; i < kTileIn; ++i) {
      WinogradVec row[kTileIn], done[kTileIn];
      for (int64_t j = 0; j < kTileIn; ++j) row[j] = half[j][i];
      TransformIn(row, done);
      for (int64_t j = 0; j < kTileIn; ++j) {
        float* to = args.v + (i * kTileIn + j) * p.v_stride + index * p.in_channels + c;
        hn::StoreU(done[j], tag, to);
      }
    }
  }
}

// Sums have to stay in registers: without this the compiler keeps arrays of vectors in memory.
#define MILLRACE_UNROLL _Pragma("GCC unroll 8")

// kRows rows of a product by kVectors vectors of columns.
template <int kRows, int kVectors>
HWY_INLINE void MultiplyBlock(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                              int64_t inner, float* out, int64_t out_stride) {
  const WinogradTag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  WinogradVec sums[kRows][kVectors];
  MILLRACE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(tag);
  }
  for (int64_t k = 0; k < inner; ++k) {
    WinogradVec columns[kVectors];
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(tag, b + k * b_stride + v * lanes);
    MILLRACE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const auto row = hn::Set(tag, a[r * a_stride + k]);
      MILLRACE_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(row, columns[v], sums[r][v]);
    }
  }
  MILLRACE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    MILLRACE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], tag, out + r * out_stride + v * lanes);
    }
  }
}

#undef MILLRACE_UNROLL

// Rows in blocks as equal as can be: a small one at the end would read all columns for few rows.
template <int kVectors>
HWY_INLINE void MultiplyRows(const float* a, int64_t a_stride, int64_t rows, const float* b,
                             int64_t b_stride, int64_t inner, float* out, int64_t out_stride) {
  constexpr int64_t kMost = HWY_TARGET <= HWY_AVX3 ? 6 : 3;  // rows whose sums stay in registers
  const int64_t blocks = (rows + kMost - 1) / kMost;
  int64_t r = 0;
  const auto multiply = [&](auto count) {
    MultiplyBlock<count.value, kVectors>(a + r * a_stride, a_stride, b, b_stride, inner,
                                         out + r * out_stride, out_stride);
    r += count.value;
  };
  for (int64_t i = 0; i < blocks; ++i) {
    switch ((rows - r + blocks - i - 1) / (blocks - i)) {
      case 1:
        multiply(std::integral_constant<int, 1>());
        break;
      case 2:
        multiply(std::integral_constant<int, 2>());
        break;
      case 3:
        multiply(std::integral_constant<int, 3>());
        break;
      case 4:
        multiply(std::integral_constant<int, 4>());
        break;
      case 5:
        multiply(std::integral_constant<int, 5>());
        break;
      default:
        multiply(std::integral_constant<int, 6>());
    }
  }
}

// The product at one point, in one panel of columns, of `tiles` tiles.
void WinogradMultiply(const WinogradPlan& p, const WinogradArgs& args, int64_t point, int64_t panel,
                      int64_t tiles) {
  const WinogradTag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const int64_t first = panel * kPanel, width = std::min(kPanel, p.out_channels - first);
  const float* a = args.v + point * p.v_stride;
  const float* b = args.weights + point * p.in_channels * p.out_channels + first * p.in_channels;
  float* out = args.products + point * p.m_stride + first;
  int64_t n = 0;
  for (; n + 4 * lanes <= width; n += 4 * lanes) {
    MultiplyRows<4>(a, p.in_channels, tiles, b + n, width, p.in_channels, out + n, p.out_channels);
  }
  for (; n < width; n += lanes) {
    MultiplyRows<1>(a, p.in_channels, tiles, b + n, width, p.in_channels, out + n, p.out_channels);
  }
}

// A vector of results, of channels from c on, after the epilogue.
HWY_INLINE WinogradVec ApplyEpilogue(const EpiloguePlan& plan, WinogradVec x, const float* sum) {
  const WinogradTag tag;
  for (const EpilogueStep& step : plan.steps) {
    const auto alpha = hn::Set(tag, step.alpha), beta = hn::Set(tag, step.beta);
    switch (step.op) {
      case EpilogueOp::kSum:
        x = hn::Add(x, hn::LoadU(tag, sum));
        break;
      case EpilogueOp::kLinear:
        x = hn::MulAdd(x, alpha, beta);
        break;
      case EpilogueOp::kRelu:
        x = hn::IfThenElse(hn::Lt(x, hn::Zero(tag)), hn::Mul(x, alpha), x);
        break;
      case EpilogueOp::kClip:
        x = hn::IfThenElse(hn::Lt(x, alpha), alpha, x);
        x = hn::IfThenElse(hn::Lt(beta, x), beta, x);
        break;
      default:
        break;  // not offered
    }
  }
  return x;
}

// The results of tile `index` of the block.
void WinogradOut(const WinogradPlan& p, const WinogradArgs& args, int64_t tile, int64_t index) {
  const WinogradTag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const WinogradTile at = TileAt(p, tile);
  const int64_t image = at.image * p.out_height * p.out_width;
  const int64_t rows = std::min(kTileOut, p.out_height - at.row);
  const int64_t columns = std::min(kTileOut, p.out_width - at.column);
  for (int64_t c = 0; c < p.out_channels; c += lanes) {
    WinogradVec half[kTileIn][kTileOut];  // by column of points, transformed along rows
    for (int64_t j = 0; j < kTileIn; ++j) {
      WinogradVec m[kTileIn];
      for (int64_t i = 0; i < kTileIn; ++i) {
        const float* from = args.products + (i * kTileIn + j) * p.m_stride;
        m[i] = hn::LoadU(tag, from + index * p.out_channels + c);
      }
      TransformOut(m, half[j]);
    }
    const auto bias = p.has_bias ? hn::LoadU(tag, args.bias + c) : hn::Zero(tag);
    for (int64_t i = 0; i < rows; ++i) {
      WinogradVec row[kTileIn], done[kTileOut];
      for (int64_t j = 0; j < kTileIn; ++j) row[j] = half[j][i];
      TransformOut(row, done);
      const int64_t place = image + (at.row + i) * p.out_width + at.column;
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t to = (place + j) * p.out_channels + c;
        const float* sum = args.sum == nullptr ? nullptr : args.sum + to;
        hn::StoreU(ApplyEpilogue(p.epilogue, hn::Add(done[j], bias), sum), tag, args.y + to);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "graph/channels_last.h"
#include "ops/convolution.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"
#include "ops/prepack.h"

namespace millrace {
namespace {

HWY_EXPORT(WinogradIn);
HWY_EXPORT(WinogradMultiply);
HWY_EXPORT(WinogradOut);
using WinogradTileFn = void (*)(const WinogradPlan& p, const WinogradArgs& args, int64_t tile,
                                int64_t index);
using WinogradMultiplyFn = void (*)(const WinogradPlan& p, const WinogradArgs& args, int64_t point,
                                    int64_t panel, int64_t tiles);

constexpr std::string_view kWinograd = "winograd";
constexpr int64_t kChannelStep = 16;         // channels come in whole vectors
constexpr int64_t kScratchTarget = 3 << 19;  // bytes: most of a second-level cache
constexpr int64_t kPointPadding = 16;        // elements: planes are not a power of two apart

bool IsSimple(const EpiloguePlan& plan) {
  return std::ranges::all_of(plan.steps, [](const EpilogueStep& step) {
    return step.op == EpilogueOp::kSum || step.op == EpilogueOp::kLinear ||
           step.op == EpilogueOp::kRelu || step.op == EpilogueOp::kClip;
  });
}

// Microseconds on one core that does 130 multiply-adds and sums in a nanosecond and reads 15 bytes
// of weights, or 30 of scratch; what the two ways were measured to come to on such a one.
bool PaysOff(const WinogradPlan& p) {
  const double pairs = static_cast<double>(p.in_channels) * static_cast<double>(p.out_channels);
  const auto channels = static_cast<double>(p.in_channels + p.out_channels);
  const auto tiles = static_cast<double>(p.tiles());
  const auto results = static_cast<double>(p.batch * p.out_height * p.out_width);
  const double direct_us = 2 * 9 * pairs * results / 130e3;
  const double winograd_us = 2 * kPoints * pairs * tiles / 130e3 + 4 * kPoints * pairs / 15e3 +
                             8 * kPoints * channels * tiles / 30e3;
  return winograd_us < 0.9 * direct_us;
}

std::optional<WinogradPlan> MakeWinogradPlan(const NodeQuery& query) {
  std::optional<FusedProduct> product = FusedProductOf(query);
  if (!product.has_value() || product->plain.op != "Conv" || !AllOf(query, DType::kF32)) {
    return std::nullopt;
  }
  const NodeQuery& plain = product->plain;
  const Shape &x = plain.inputs[0]->shape, &weights = plain.inputs[1]->shape;
  if (x.rank() != 4 || !HasChannelsLast(x)) return std::nullopt;
  const absl::StatusOr<Convolution> conv = ConvolutionOf(plain.attrs, x, weights);
  if (!conv.ok() || conv->group != 1) return std::nullopt;
  const Window& w = conv->window;
  for (int d = 1; d < kMaxSpatial; ++d) {
    if (w.kernel[d] != 3 || w.strides[d] != 1 || w.dilations[d] != 1) return std::nullopt;
  }
  if (conv->in_channels % kChannelStep != 0 || conv->out_channels % kChannelStep != 0) {
    return std::nullopt;
  }
  WinogradPlan plan;
  std::optional<EpiloguePlan> epilogue = PlanEpilogue(*product);
  if (!epilogue.has_value() || !IsSimple(*epilogue)) return std::nullopt;
  plan.epilogue = *std::move(epilogue);
  plan.first_operand = product->first_operand;
  plan.has_bias = HasInput(plain, 2);
  plan.batch = conv->batch;
  plan.in_channels = conv->in_channels;
  plan.out_channels = conv->out_channels;
  plan.in_height = w.in[1];
  plan.in_width = w.in[2];
  plan.out_height = w.out[1];
  plan.out_width = w.out[2];
  plan.pad_top = w.pads_begin[1];
  plan.pad_left = w.pads_begin[2];
  plan.tile_rows = (plan.out_height + kTileOut - 1) / kTileOut;
  plan.tile_columns = (plan.out_width + kTileOut - 1) / kTileOut;
  const int64_t tile_bytes = 4 * kPoints * (plan.in_channels + plan.out_channels);
  plan.block = std::min(plan.tiles(), std::max<int64_t>(24, kScratchTarget / tile_bytes / 6 * 6));
  plan.v_stride = plan.block * plan.in_channels + kPointPadding;
  plan.m_stride = plan.block * plan.out_channels + kPointPadding;
  return plan.tiles() > 0 && PaysOff(plan) ? std::optional(std::move(plan)) : std::nullopt;
}

int64_t PackedBytes(const WinogradPlan& p) { return 4 * kPoints * p.in_channels * p.out_channels; }

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(WinogradPlan plan, int threads)
      : in_(MILLRACE_SIMD_FUNCTION(WinogradIn)),
        multiply_(MILLRACE_SIMD_FUNCTION(WinogradMultiply)),
        out_(MILLRACE_SIMD_FUNCTION(WinogradOut)),
        plan_(std::move(plan)),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const WinogradPlan& p = plan_;
    WinogradArgs w;
    w.x = static_cast<const float*>(args.inputs[0]);
    w.weights = static_cast<const float*>(args.inputs[1]);
    if (p.has_bias) w.bias = static_cast<const float*>(args.inputs[2]);
    if (p.epilogue.sum_operand >= 0) {
      w.sum = static_cast<const float*>(args.inputs[p.first_operand + p.epilogue.sum_operand]);
    }
    w.y = static_cast<float*>(args.outputs[0]);
    w.v = static_cast<float*>(args.scratch);
    w.products = w.v + kPoints * p.v_stride;
    for (int64_t first = 0; first < p.tiles(); first += p.block) {
      RunBlock(w, first, std::min(p.block, p.tiles() - first));
    }
    return absl::OkStatus();
  }

 private:
  void RunBlock(const WinogradArgs& w, int64_t first, int64_t tiles) const {
    const WinogradPlan& p = plan_;
    const int64_t panels = (p.out_channels + kPanel - 1) / kPanel;
    ParallelFor(threads_, tiles, tiles * kPoints * p.in_channels / 4, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t t = begin; t < end; ++t) in_(p, w, first + t, t);
                });
    const int64_t multiplies = kPoints * panels * tiles * p.in_channels * kPanel / 16;
    ParallelFor(threads_, kPoints * panels, multiplies, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) multiply_(p, w, i / panels, i % panels, tiles);
    });
    ParallelFor(threads_, tiles, tiles * kPoints * p.out_channels / 4, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t t = begin; t < end; ++t) out_(p, w, first + t, t);
                });
  }

  const WinogradTileFn in_;
  const WinogradMultiplyFn multiply_;
  const WinogradTileFn out_;
  const WinogradPlan plan_;
  const int threads_;
};

// U = G w G' of one pair of channels, in f64.
std::array<float, kPoints> TransformWeights(const float* w) {
  constexpr double kG[6][3] = {{1.0 / 4, 0, 0},
                               {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                               {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                               {1.0 / 24, 1.0 / 12, 1.0 / 6},
                               {1.0 / 24, -1.0 / 12, 1.0 / 6},
                               {0, 0, 1}};
  std::array<float, kPoints> u{};
  for (int i = 0; i < 6; ++i) {
    double row[3] = {};
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) row[j] += kG[i][k] * static_cast<double>(w[k * 3 + j]);
    }
    for (int j = 0; j < 6; ++j) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += row[k] * kG[j][k];
      u[i * 6 + j] = static_cast<float>(sum);
    }
  }
  return u;
}

class WinogradPacker final : public Kernel {
 public:
  WinogradPacker(int64_t in_channels, int64_t out_channels)
      : in_channels_(in_channels), out_channels_(out_channels) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* weights = static_cast<const float*>(args.inputs[0]);
    auto* packed = static_cast<float*>(args.outputs[0]);
    for (int64_t m = 0; m < out_channels_; ++m) {
      const int64_t first = m / kPanel * kPanel, width = std::min(kPanel, out_channels_ - first);
      for (int64_t c = 0; c < in_channels_; ++c) {
        const auto u = TransformWeights(weights + (m * in_channels_ + c) * 9);
        float* to = packed + first * in_channels_ + c * width + m - first;
        for (int64_t point = 0; point < kPoints; ++point) {
          to[point * in_channels_ * out_channels_] = u[point];
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const int64_t in_channels_, out_channels_;
};

// The convolution whose weights a fused.Prepack packs.
std::optional<WinogradPlan> PackedPlanOf(const NodeQuery& query) {
  if (query.op != kPrepack || query.attrs.Int("input", 0) != 1) return std::nullopt;
  const absl::StatusOr<NodeQuery> reader = ParseQueryJson(query.attrs.String("reader", ""));
  if (!reader.ok()) return std::nullopt;
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(*reader);
  if (!normal.ok() || normal->inputs[1] != query.inputs[0]) return std::nullopt;
  return MakeWinogradPlan(*normal);
}

std::optional<KernelVariant> MatchNoWinograd(const NodeQuery&, int) { return std::nullopt; }

std::vector<KernelVariant> OfferWinograd(const NodeQuery& query, int) {
  KernelVariant variant = DenseVariant(query, std::string(kWinograd));
  if (const std::optional<WinogradPlan> packed = PackedPlanOf(query)) {
    variant.out_layouts[0] = Layout::kPacked;
    variant.packed_bytes = PackedBytes(*packed);
    return {variant};
  }
  const std::optional<WinogradPlan> plan = MakeWinogradPlan(query);
  if (!plan.has_value()) return {};
  variant.in_layouts[0] = variant.out_layouts[0] = Layout::kNHWC;
  variant.in_layouts[1] = Layout::kPacked;
  if (plan->epilogue.sum_operand >= 0) {
    variant.in_layouts[plan->first_operand + plan->epilogue.sum_operand] = Layout::kNHWC;
  }
  variant.packed_bytes = PackedBytes(*plan);
  variant.scratch_bytes = 4 * kPoints * (plan->v_stride + plan->m_stride);
  return {variant};
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareWinograd(const KernelRequest& request) {
  if (const std::optional<WinogradPlan> packed = PackedPlanOf(request.query)) {
    return std::make_unique<WinogradPacker>(packed->in_channels, packed->out_channels);
  }
  return std::make_unique<WinogradKernel>(*MakeWinogradPlan(request.query), request.threads);
}

}  // namespace

KernelFamily WinogradFamily() {
  return {kWinograd, MatchNoWinograd, PrepareWinograd, OfferWinograd};
}

}  // namespace millrace
#endif  // HWY_ONCE
