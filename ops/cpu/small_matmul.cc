// f32 MatMul and Gemm of few multiply-adds, where starting a library primitive would cost more than
// the product. Nothing is packed. Two loops:
//   B as [k, n]: a tile of the result (rows x vectors of columns) stays in registers while k runs;
//                each step loads vectors of B and spreads one element of A per row;
//   B as [n, k]: four dot products along k at a time.
// Sums are f32 in registers, so the error against the exact product is at most about
// k * 2^-24 * sum |a b|, and in practice far less.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/small_matmul.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/small_product.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// out = alpha sum + beta c for `width` columns, at most a vector, at (row, column).
template <class D>
HWY_INLINE void Finish(D d, const SmallProduct& p, int64_t row, int64_t column, size_t width,
                       hn::Vec<D> sum) {
  const bool whole = width == hn::Lanes(d);
  sum = hn::Mul(sum, hn::Set(d, p.alpha));
  if (p.c != nullptr) {
    const float* c = p.c + row * p.c_row_stride + column * p.c_column_stride;
    const auto values = p.c_column_stride == 0 ? hn::Set(d, *c)
                        : whole                ? hn::LoadU(d, c)
                                               : LoadFirst(d, c, width);
    sum = hn::MulAdd(values, hn::Set(d, p.beta), sum);
  }
  float* out = p.out + row * p.n + column;
  if (whole) {
    hn::StoreU(sum, d, out);
  } else {
    StoreFirst(sum, d, out, width);
  }
}

// kRows x 2 vectors of the result.
template <size_t kRows>
HWY_INLINE void WideTile(const SmallProduct& p, int64_t row, int64_t column) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00,
       s31 = s00;
  const float* a = p.a + row * p.a_row_stride;
  const float* b = p.b + column;
  for (int64_t l = 0; l < p.k; ++l, a += p.a_k_stride, b += p.n) {
    const auto b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
    const auto a0 = hn::Set(d, a[0]);
    s00 = hn::MulAdd(a0, b0, s00);
    s01 = hn::MulAdd(a0, b1, s01);
    if (kRows > 1) {
      const auto a1 = hn::Set(d, a[p.a_row_stride]);
      const auto a2 = hn::Set(d, a[2 * p.a_row_stride]);
      const auto a3 = hn::Set(d, a[3 * p.a_row_stride]);
      s10 = hn::MulAdd(a1, b0, s10);
      s11 = hn::MulAdd(a1, b1, s11);
      s20 = hn::MulAdd(a2, b0, s20);
      s21 = hn::MulAdd(a2, b1, s21);
      s30 = hn::MulAdd(a3, b0, s30);
      s31 = hn::MulAdd(a3, b1, s31);
    }
  }
  const int64_t next = column + static_cast<int64_t>(lanes);
  Finish(d, p, row, column, lanes, s00);
  Finish(d, p, row, next, lanes, s01);
  if (kRows == 1) return;
  Finish(d, p, row + 1, column, lanes, s10);
  Finish(d, p, row + 1, next, lanes, s11);
  Finish(d, p, row + 2, column, lanes, s20);
  Finish(d, p, row + 2, next, lanes, s21);
  Finish(d, p, row + 3, column, lanes, s30);
  Finish(d, p, row + 3, next, lanes, s31);
}

// kRows x at most one vector.
template <size_t kRows>
HWY_INLINE void NarrowTile(const SmallProduct& p, int64_t row, int64_t column, size_t width) {
  const hn::ScalableTag<float> d;
  const bool whole = width == hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  const float* a = p.a + row * p.a_row_stride;
  const float* b = p.b + column;
  for (int64_t l = 0; l < p.k; ++l, a += p.a_k_stride, b += p.n) {
    const auto b0 = whole ? hn::LoadU(d, b) : LoadFirst(d, b, width);
    s0 = hn::MulAdd(hn::Set(d, a[0]), b0, s0);
    if (kRows > 1) {
      s1 = hn::MulAdd(hn::Set(d, a[p.a_row_stride]), b0, s1);
      s2 = hn::MulAdd(hn::Set(d, a[2 * p.a_row_stride]), b0, s2);
      s3 = hn::MulAdd(hn::Set(d, a[3 * p.a_row_stride]), b0, s3);
    }
  }
  Finish(d, p, row, column, width, s0);
  if (kRows == 1) return;
  Finish(d, p, row + 1, column, width, s1);
  Finish(d, p, row + 2, column, width, s2);
  Finish(d, p, row + 3, column, width, s3);
}

template <size_t kRows>
HWY_INLINE void TileRows(const SmallProduct& p, int64_t row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t column = 0;
  for (; column + 2 * lanes <= p.n; column += 2 * lanes) WideTile<kRows>(p, row, column);
  for (; column < p.n; column += lanes) {
    NarrowTile<kRows>(p, row, column, static_cast<size_t>(HWY_MIN(lanes, p.n - column)));
  }
}

// Dot products of row `a` with kColumns rows of `b`, `b_stride` apart.
template <size_t kColumns>
HWY_INLINE void Dots(const float* a, const float* b, int64_t b_stride, size_t k, float* sums) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  const auto step = [&](size_t i, auto load) HWY_ATTR {
    const auto x = load(a + i);
    s0 = hn::MulAdd(x, load(b + i), s0);
    if (kColumns > 1) {
      s1 = hn::MulAdd(x, load(b + b_stride + i), s1);
      s2 = hn::MulAdd(x, load(b + 2 * b_stride + i), s2);
      s3 = hn::MulAdd(x, load(b + 3 * b_stride + i), s3);
    }
  };
  size_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    step(i, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); });
  }
  if (i < k) step(i, [&](const float* p) HWY_ATTR { return LoadFirst(d, p, k - i); });
  sums[0] = hn::GetLane(hn::SumOfLanes(d, s0));
  if (kColumns == 1) return;
  sums[1] = hn::GetLane(hn::SumOfLanes(d, s1));
  sums[2] = hn::GetLane(hn::SumOfLanes(d, s2));
  sums[3] = hn::GetLane(hn::SumOfLanes(d, s3));
}

HWY_INLINE void DotRow(const SmallProduct& p, int64_t row) {
  const float* a = p.a + row * p.a_row_stride;
  float* out = p.out + row * p.n;
  for (int64_t column = 0; column < p.n;) {
    const int64_t columns = p.n - column >= 4 ? 4 : 1;
    const float* b = p.b + column * p.k;
    float sums[4];
    if (columns == 4) {
      Dots<4>(a, b, p.k, static_cast<size_t>(p.k), sums);
    } else {
      Dots<1>(a, b, p.k, static_cast<size_t>(p.k), sums);
    }
    for (int64_t j = 0; j < columns; ++j, ++column) {
      float value = p.alpha * sums[j];
      if (p.c != nullptr) {
        value += p.beta * p.c[row * p.c_row_stride + column * p.c_column_stride];
      }
      out[column] = value;
    }
  }
}

void Multiply(const SmallProduct& p) {
  int64_t row = 0;
  if (p.transpose_b) {
    for (; row < p.m; ++row) DotRow(p, row);
    return;
  }
  for (; row + 4 <= p.m; row += 4) TileRows<4>(p, row);
  for (; row < p.m; ++row) TileRows<1>(p, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/cpu/kernel_families.h"
#include "ops/matmul_spec.h"
#include "ops/cpu/simd_dispatch.h"

namespace millrace {
namespace {

HWY_EXPORT(Multiply);

// Beyond this many multiply-adds oneDNN wins (bench/cpu_kernels_bench.cc, MatMul).
constexpr double kMaxMultiplyAdds = 65536;

class SmallMatMulKernel final : public Kernel {
 public:
  explicit SmallMatMulKernel(const MatMulSpec& spec) : function_(FindSmallProduct()), spec_(spec) {
    product_.m = spec.m;
    product_.k = spec.k;
    product_.n = spec.n;
    product_.a_row_stride = spec.transpose_a ? 1 : spec.k;
    product_.a_k_stride = spec.transpose_a ? spec.m : 1;
    product_.c_row_stride = spec.c_row_stride;
    product_.c_column_stride = spec.c_column_stride;
    product_.alpha = spec.alpha;
    product_.beta = spec.beta;
    product_.transpose_b = spec.transpose_b;
    batches_ = NumElements(spec.batch);
  }

  absl::Status Run(const KernelArgs& args) override {
    SmallProduct p = product_;
    p.c = spec_.has_c ? static_cast<const float*>(args.inputs[2]) : nullptr;
    for (int64_t i = 0; i < batches_; ++i) {
      p.a =
          static_cast<const float*>(args.inputs[0]) + spec_.MatrixOf(spec_.batch_a, i) * p.m * p.k;
      p.b =
          static_cast<const float*>(args.inputs[1]) + spec_.MatrixOf(spec_.batch_b, i) * p.k * p.n;
      p.out = static_cast<float*>(args.outputs[0]) + i * p.m * p.n;
      function_(p);
    }
    return absl::OkStatus();
  }

 private:
  const SmallProductFn function_;
  const MatMulSpec spec_;
  SmallProduct product_;  // all but the addresses
  int64_t batches_ = 1;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  const std::optional<MatMulSpec> spec = MatMulSpecOf(query);
  if (!spec.has_value() || !AllOf(query, DType::kF32)) return std::nullopt;
  if (spec->multiply_adds() > kMaxMultiplyAdds) return std::nullopt;
  if (spec->transpose_a && spec->transpose_b) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<SmallMatMulKernel>(*MatMulSpecOf(request.query));
}

}  // namespace

SmallProductFn FindSmallProduct() { return MILLRACE_SIMD_FUNCTION(Multiply); }

KernelFamily SmallMatMulFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
