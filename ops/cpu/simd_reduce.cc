// f32 reductions over any set of axes: ReduceSum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum,
// and GlobalAveragePool. (ReduceLogSumExp needs each row's maximum first, and is the reference's.)
//
// A reduction is what is made of each element (Map), how two are combined, and what is made of the
// result in the end. The operand's dims are collapsed: dims of size 1 go, and neighbours that are
// both kept or both reduced merge, so kept and reduced dims alternate. The result is filled with
// what combines with nothing; then one of two loops runs for every index of the dims before it and
// combines into its place in the result:
//   ... reduced           a row is reduced (sums: f32 lanes, f64 every 4096 elements);
//   ... reduced, kept     rows are combined column by column, a few vectors of columns at a time.
// A team splits the first kept dim, so that no two threads write the same element and the team's
// size changes no bit.
//
// ReduceSum's axes are an operand: they are read at each run, and the collapse is done again only
// when they have changed.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_reduce.cc"
#include <limits>

#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/reduce_space.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

struct OfSum {
  static constexpr bool kSums = true;
  static constexpr float kNothing = 0;
  template <class D>
  static HWY_INLINE hn::Vec<D> Map(D, hn::Vec<D> x) {
    return x;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> Combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Add(a, b);
  }
};
struct OfSumSquare : OfSum {
  template <class D>
  static HWY_INLINE hn::Vec<D> Map(D, hn::Vec<D> x) {
    return hn::Mul(x, x);
  }
};
struct OfL1 : OfSum {
  template <class D>
  static HWY_INLINE hn::Vec<D> Map(D, hn::Vec<D> x) {
    return hn::Abs(x);
  }
};
struct OfProd {
  static constexpr bool kSums = false;
  static constexpr float kNothing = 1;
  template <class D>
  static HWY_INLINE hn::Vec<D> Map(D, hn::Vec<D> x) {
    return x;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> Combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Mul(a, b);
  }
};
// NaN is never passed over.
struct OfMax : OfProd {
  static constexpr float kNothing = -std::numeric_limits<float>::infinity();
  template <class D>
  static HWY_INLINE hn::Vec<D> Combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
};
struct OfMin : OfProd {
  static constexpr float kNothing = std::numeric_limits<float>::infinity();
  template <class D>
  static HWY_INLINE hn::Vec<D> Combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
};

// out[c] combined with all in[r * stride + c], for kVectors vectors of columns. Rows are combined
// in blocks, so that the error of a sum grows with the number of blocks and not of rows.
template <class R, size_t kVectors>
HWY_INLINE void ReduceColumns(const float* in, int64_t rows, int64_t stride, float* out) {
  static_assert(kVectors == 4);
  constexpr int64_t kBlock = 256;
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto nothing = hn::Set(d, R::kNothing);
  auto t0 = nothing, t1 = nothing, t2 = nothing, t3 = nothing;
  const float* p = in;
  for (int64_t start = 0; start < rows; start += kBlock) {
    const int64_t end = HWY_MIN(rows, start + kBlock);
    auto s0 = nothing, s1 = nothing, s2 = nothing, s3 = nothing;
    for (int64_t r = start; r < end; ++r, p += stride) {
      s0 = R::Combine(d, s0, R::Map(d, hn::LoadU(d, p)));
      s1 = R::Combine(d, s1, R::Map(d, hn::LoadU(d, p + lanes)));
      s2 = R::Combine(d, s2, R::Map(d, hn::LoadU(d, p + 2 * lanes)));
      s3 = R::Combine(d, s3, R::Map(d, hn::LoadU(d, p + 3 * lanes)));
    }
    t0 = R::Combine(d, t0, s0);
    t1 = R::Combine(d, t1, s1);
    t2 = R::Combine(d, t2, s2);
    t3 = R::Combine(d, t3, s3);
  }
  hn::StoreU(R::Combine(d, hn::LoadU(d, out), t0), d, out);
  hn::StoreU(R::Combine(d, hn::LoadU(d, out + lanes), t1), d, out + lanes);
  hn::StoreU(R::Combine(d, hn::LoadU(d, out + 2 * lanes), t2), d, out + 2 * lanes);
  hn::StoreU(R::Combine(d, hn::LoadU(d, out + 3 * lanes), t3), d, out + 3 * lanes);
}

// The same for one vector, whole or partial.
template <class R>
HWY_INLINE void ReduceFewColumns(const float* in, int64_t rows, int64_t stride, size_t width,
                                 float* out) {
  constexpr int64_t kBlock = 256;
  const hn::ScalableTag<float> d;
  const bool whole = width == hn::Lanes(d);
  const auto load = [&](const float* p)
                        HWY_ATTR { return whole ? hn::LoadU(d, p) : LoadFirst(d, p, width); };
  auto total = hn::Set(d, R::kNothing);
  for (int64_t start = 0; start < rows; start += kBlock) {
    const int64_t end = HWY_MIN(rows, start + kBlock);
    auto block = hn::Set(d, R::kNothing);
    for (int64_t r = start; r < end; ++r) {
      block = R::Combine(d, block, R::Map(d, load(in + r * stride)));
    }
    total = R::Combine(d, total, block);
  }
  total = R::Combine(d, load(out), total);
  if (whole) {
    hn::StoreU(total, d, out);
  } else {
    StoreFirst(total, d, out, width);
  }
}

template <class R>
HWY_INLINE void ReduceAllColumns(const float* in, int64_t rows, int64_t stride, int64_t columns,
                                 float* out) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<float>());
  const size_t n = static_cast<size_t>(columns);
  size_t c = 0;
  for (; c + 4 * lanes <= n; c += 4 * lanes) ReduceColumns<R, 4>(in + c, rows, stride, out + c);
  for (; c < n; c += lanes) {
    ReduceFewColumns<R>(in + c, rows, stride, HWY_MIN(lanes, n - c), out + c);
  }
}

// A row of `count` elements combined into `out`.
template <class R>
HWY_INLINE void ReduceRow(const float* in, size_t count, float* out) {
  const hn::ScalableTag<float> d;
  if (R::kSums) {
    *out += static_cast<float>(RowSum(in, count, [&](auto x) HWY_ATTR { return R::Map(d, x); }));
    return;
  }
  const size_t lanes = hn::Lanes(d);
  const auto nothing = hn::Set(d, R::kNothing);
  auto s0 = nothing, s1 = nothing;
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    s0 = R::Combine(d, s0, R::Map(d, hn::LoadU(d, in + i)));
    s1 = R::Combine(d, s1, R::Map(d, hn::LoadU(d, in + i + lanes)));
  }
  for (; i + lanes <= count; i += lanes) s0 = R::Combine(d, s0, R::Map(d, hn::LoadU(d, in + i)));
  if (i < count) {
    const auto last = R::Map(d, LoadFirst(d, in + i, count - i));
    s1 = R::Combine(d, s1, hn::IfThenElse(hn::FirstN(d, count - i), last, nothing));
  }
  HWY_ALIGN float partial[hn::MaxLanes(d)];
  hn::Store(R::Combine(d, s0, s1), d, partial);
  const hn::CappedTag<float, 1> one;
  auto total = hn::Set(one, *out);
  for (size_t k = 0; k < lanes; ++k) total = R::Combine(one, total, hn::Set(one, partial[k]));
  *out = hn::GetLane(total);
}

// Reduces the part of the operand where dim `split` has an index in [begin, end); the whole operand
// when `split` is -1.
template <class R>
HWY_INLINE void Reduce(const ReduceSpace& space, const float* in, float* out, int split,
                       int64_t begin, int64_t end) {
  ReduceDim dims[kMaxRank];
  for (int d = 0; d < space.rank; ++d) dims[d] = space.dims[d];
  if (split >= 0) {
    in += begin * dims[split].in_stride;
    out += begin * dims[split].out_stride;
    dims[split].size = end - begin;
  }
  const ReduceDim last = dims[space.rank - 1];
  const bool columns = last.kept;
  const ReduceDim rows = columns && space.rank > 1 ? dims[space.rank - 2] : ReduceDim();
  const int outer = space.rank - (columns && space.rank > 1 ? 2 : 1);
  int64_t index[kMaxRank] = {};
  while (true) {
    if (columns) {
      ReduceAllColumns<R>(in, rows.size, rows.in_stride, last.size, out);
    } else {
      ReduceRow<R>(in, static_cast<size_t>(last.size), out);
    }
    int d = outer - 1;
    for (; d >= 0; --d) {
      in += dims[d].in_stride;
      out += dims[d].out_stride;
      if (++index[d] < dims[d].size) break;
      in -= dims[d].in_stride * dims[d].size;
      out -= dims[d].out_stride * dims[d].size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

#define MILLRACE_REDUCE(name)                                                                     \
  void name##All(const ReduceSpace& space, const float* in, float* out, int split, int64_t begin, \
                 int64_t end) {                                                                   \
    Reduce<Of##name>(space, in, out, split, begin, end);                                          \
  }
MILLRACE_REDUCE(Sum)
MILLRACE_REDUCE(SumSquare)
MILLRACE_REDUCE(L1)
MILLRACE_REDUCE(Prod)
MILLRACE_REDUCE(Max)
MILLRACE_REDUCE(Min)
#undef MILLRACE_REDUCE

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "graph/strings.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

HWY_EXPORT(SumAll);
HWY_EXPORT(SumSquareAll);
HWY_EXPORT(L1All);
HWY_EXPORT(ProdAll);
HWY_EXPORT(MaxAll);
HWY_EXPORT(MinAll);
using ReduceFn = void (*)(const ReduceSpace& space, const float* in, float* out, int split,
                          int64_t begin, int64_t end);

// What is made of each element of the result in the end.
enum class Finish : uint8_t { kNone, kMean, kRoot, kLog };

struct ReduceKind {
  ReduceFn function = nullptr;
  float nothing = 0;
  Finish finish = Finish::kNone;
};

ReduceKind FindKind(std::string_view op) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (op == "ReduceSum") return {MILLRACE_SIMD_FUNCTION(SumAll)};
  if (op == "ReduceMean" || op == "GlobalAveragePool") {
    return {MILLRACE_SIMD_FUNCTION(SumAll), 0, Finish::kMean};
  }
  if (op == "ReduceSumSquare") return {MILLRACE_SIMD_FUNCTION(SumSquareAll)};
  if (op == "ReduceL2") return {MILLRACE_SIMD_FUNCTION(SumSquareAll), 0, Finish::kRoot};
  if (op == "ReduceL1") return {MILLRACE_SIMD_FUNCTION(L1All)};
  if (op == "ReduceLogSum") return {MILLRACE_SIMD_FUNCTION(SumAll), 0, Finish::kLog};
  if (op == "ReduceProd") return {MILLRACE_SIMD_FUNCTION(ProdAll), 1};
  if (op == "ReduceMax") return {MILLRACE_SIMD_FUNCTION(MaxAll), -kInfinity};
  if (op == "ReduceMin") return {MILLRACE_SIMD_FUNCTION(MinAll), kInfinity};
  return {};
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const NodeQuery& query, int threads)
      : kind_(FindKind(query.op)),
        in_shape_(query.inputs[0]->shape),
        out_shape_(query.outputs[0]->shape),
        keep_dims_(query.attrs.Bool("keepdims", true)),
        no_axes_is_all_(!query.attrs.Bool("noop_with_empty_axes", false)),
        axes_count_(HasInput(query, 1) ? NumElements(query.inputs[1]->shape) : -1),
        threads_(threads) {}

  // The axes, when they are not an operand.
  void SetAxes(uint32_t axes) { space_ = MakeReduceSpace(in_shape_, axes); }

  absl::Status Run(const KernelArgs& args) override {
    if (axes_count_ >= 0) {
      MILLRACE_RETURN_IF_ERROR(ReadAxes(static_cast<const int64_t*>(args.inputs[1])));
    }
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    std::fill_n(out, space_.out_count, kind_.nothing);
    if (space_.row_count > 0 && space_.out_count > 0) Reduce(in, out);
    FinishAll(std::span(out, static_cast<size_t>(space_.out_count)));
    return absl::OkStatus();
  }

 private:
  void Reduce(const float* in, float* out) const {
    const int split = space_.dims[0].kept ? 0 : space_.rank > 1 ? 1 : -1;
    if (split < 0) return kind_.function(space_, in, out, -1, 0, 0);
    const ReduceDim& dim = space_.dims[split];
    const int64_t unit = split == space_.rank - 1 ? 64 : 1;
    ParallelFor(
        threads_, dim.size, space_.out_count * space_.row_count, unit,
        [&](int64_t begin, int64_t end) { kind_.function(space_, in, out, split, begin, end); });
  }

  void FinishAll(std::span<float> out) const {
    const float count = static_cast<float>(space_.row_count);
    switch (kind_.finish) {
      case Finish::kNone:
        break;
      case Finish::kMean:
        for (float& x : out) x /= count;
        break;
      case Finish::kRoot:
        for (float& x : out) x = std::sqrt(x);
        break;
      case Finish::kLog:
        for (float& x : out) x = std::log(x);
        break;
    }
  }

  absl::Status ReadAxes(const int64_t* axes) {
    std::optional<uint32_t> set =
        AxisSet(std::span(axes, static_cast<size_t>(axes_count_)), in_shape_);
    if (set.has_value() && axes_count_ == 0 && no_axes_is_all_) set = AllAxes(in_shape_);
    if (set.has_value() && has_axes_ && *set == space_.axes) return absl::OkStatus();
    if (!set.has_value() || ReducedShape(in_shape_, *set, keep_dims_) != out_shape_) {
      return BadInputError(StrCat("the axes given do not reduce ", ToString(in_shape_), " to ",
                                  ToString(out_shape_)));
    }
    space_ = MakeReduceSpace(in_shape_, *set);
    has_axes_ = true;
    return absl::OkStatus();
  }

  const ReduceKind kind_;
  const Shape in_shape_, out_shape_;
  const bool keep_dims_, no_axes_is_all_;
  const int64_t axes_count_;  // -1: not an operand
  const int threads_;
  bool has_axes_ = false;
  ReduceSpace space_;
};

// The axes a query fixes; nullopt when they are wrong, or an operand.
std::optional<uint32_t> FixedAxes(const NodeQuery& query) {
  const Shape& shape = query.inputs[0]->shape;
  if (query.op == "GlobalAveragePool") return AllAxes(shape) & ~3u;
  if (HasInput(query, 1)) return std::nullopt;
  const std::vector<int64_t> axes = query.attrs.Ints("axes");
  if (axes.empty()) return query.attrs.Bool("noop_with_empty_axes", false) ? 0 : AllAxes(shape);
  return AxisSet(axes, shape);
}

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (FindKind(query.op).function == nullptr) return std::nullopt;
  if (query.inputs[0]->dtype != DType::kF32 || query.outputs[0]->dtype != DType::kF32) {
    return std::nullopt;
  }
  const Shape &in = query.inputs[0]->shape, &out = query.outputs[0]->shape;
  if (HasInput(query, 1)) {  // known at run time; checked then
    if (query.inputs[1]->dtype != DType::kI64) return std::nullopt;
    return DenseVariant(query, "simd");
  }
  const std::optional<uint32_t> axes = FixedAxes(query);
  const bool keep_dims = query.attrs.Bool("keepdims", true);  // GlobalAveragePool has no choice
  if (!axes.has_value() || ReducedShape(in, *axes, keep_dims) != out) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const NodeQuery& query = request.query;
  auto kernel = std::make_unique<ReduceKernel>(query, request.threads);
  if (const auto axes = FixedAxes(query); axes.has_value()) kernel->SetAxes(*axes);
  return kernel;
}

}  // namespace

KernelFamily SimdReduceFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
