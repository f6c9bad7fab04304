// f32 ReduceSum, ReduceMean and GlobalAveragePool over any set of axes.
//
// The operand's dims are collapsed: dims of size 1 go, and neighbours that are both kept or both
// summed merge, so kept and summed dims alternate. The result is zeroed; then one of two loops runs
// for every index of the dims before it and adds to its place in the result:
//   ... summed            a row is summed (f32 lanes, f64 every 4096 elements);
//   ... summed, kept      rows are added up column by column, a few vectors of columns at a time.
// ReduceMean divides at the end. A team splits the first kept dim, so that no two threads write the
// same element and the team's size changes no bit.
//
// ReduceSum's axes are an operand: they are read at each run, and the collapse is done again only
// when they have changed.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_reduce.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

#ifndef MILLRACE_OPS_CPU_SIMD_REDUCE_CC_
#define MILLRACE_OPS_CPU_SIMD_REDUCE_CC_
#include "graph/types.h"

namespace millrace {

struct ReduceDim {
  int64_t size = 1;
  int64_t in_stride = 0;
  int64_t out_stride = 0;  // 0: summed
  bool kept = false;
};

struct ReduceSpace {
  uint32_t axes = 0;  // bit d: dim d of the operand is summed
  int rank = 0;
  ReduceDim dims[kMaxRank];
  int64_t out_count = 1;
  int64_t sum_count = 1;  // elements that go into one of the result
};

}  // namespace millrace
#endif  // MILLRACE_OPS_CPU_SIMD_REDUCE_CC_

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// out[c] += sum over r of in[r * stride + c], for columns [0, width), width at most kVectors
// vectors. Rows are added in blocks, so that the error grows with the number of blocks and not of
// rows.
template <size_t kVectors>
HWY_INLINE void AddColumns(const float* in, int64_t rows, int64_t stride, float* out) {
  constexpr int64_t kBlock = 256;
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t v = 0; v < kVectors; v += 4) {
    auto t0 = hn::Zero(d), t1 = t0, t2 = t0, t3 = t0;
    const float* p = in + v * lanes;
    for (int64_t start = 0; start < rows; start += kBlock) {
      const int64_t end = HWY_MIN(rows, start + kBlock);
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for (int64_t r = start; r < end; ++r, p += stride) {
        s0 = hn::Add(s0, hn::LoadU(d, p));
        s1 = hn::Add(s1, hn::LoadU(d, p + lanes));
        s2 = hn::Add(s2, hn::LoadU(d, p + 2 * lanes));
        s3 = hn::Add(s3, hn::LoadU(d, p + 3 * lanes));
      }
      t0 = hn::Add(t0, s0);
      t1 = hn::Add(t1, s1);
      t2 = hn::Add(t2, s2);
      t3 = hn::Add(t3, s3);
    }
    float* to = out + v * lanes;
    hn::StoreU(hn::Add(hn::LoadU(d, to), t0), d, to);
    hn::StoreU(hn::Add(hn::LoadU(d, to + lanes), t1), d, to + lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, to + 2 * lanes), t2), d, to + 2 * lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, to + 3 * lanes), t3), d, to + 3 * lanes);
  }
}

// The same for one vector, whole or partial.
HWY_INLINE void AddFewColumns(const float* in, int64_t rows, int64_t stride, size_t width,
                              float* out) {
  constexpr int64_t kBlock = 256;
  const hn::ScalableTag<float> d;
  const bool whole = width == hn::Lanes(d);
  const auto load = [&](const float* p)
                        HWY_ATTR { return whole ? hn::LoadU(d, p) : LoadFirst(d, p, width); };
  auto total = hn::Zero(d);
  for (int64_t start = 0; start < rows; start += kBlock) {
    const int64_t end = HWY_MIN(rows, start + kBlock);
    auto sum = hn::Zero(d);
    for (int64_t r = start; r < end; ++r) sum = hn::Add(sum, load(in + r * stride));
    total = hn::Add(total, sum);
  }
  total = hn::Add(total, load(out));
  if (whole) {
    hn::StoreU(total, d, out);
  } else {
    StoreFirst(total, d, out, width);
  }
}

HWY_INLINE void AddAllColumns(const float* in, int64_t rows, int64_t stride, int64_t columns,
                              float* out) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<float>());
  const size_t n = static_cast<size_t>(columns);
  size_t c = 0;
  for (; c + 4 * lanes <= n; c += 4 * lanes) AddColumns<4>(in + c, rows, stride, out + c);
  for (; c < n; c += lanes) {
    AddFewColumns(in + c, rows, stride, HWY_MIN(lanes, n - c), out + c);
  }
}

// Adds the part of the operand where dim `split` has an index in [begin, end); the whole operand
// when `split` is -1.
void ReduceAdd(const ReduceSpace& space, const float* in, float* out, int split, int64_t begin,
               int64_t end) {
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
      AddAllColumns(in, rows.size, rows.in_stride, last.size, out);
    } else {
      *out += static_cast<float>(
          RowSum(in, static_cast<size_t>(last.size), [](auto x) HWY_ATTR { return x; }));
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

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>

#include "graph/strings.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

HWY_EXPORT(ReduceAdd);
using ReduceFn = void (*)(const ReduceSpace& space, const float* in, float* out, int split,
                          int64_t begin, int64_t end);

ReduceSpace MakeReduceSpace(const Shape& shape, uint32_t axes) {
  ReduceSpace space;
  space.axes = axes;
  for (int d = 0; d < shape.rank(); ++d) {
    const bool kept = (axes >> d & 1) == 0;
    (kept ? space.out_count : space.sum_count) *= shape[d];
    if (shape[d] == 1) continue;
    if (space.rank > 0 && space.dims[space.rank - 1].kept == kept) {
      space.dims[space.rank - 1].size *= shape[d];
    } else {
      space.dims[space.rank++] = {.size = shape[d], .kept = kept};
    }
  }
  if (space.rank == 0) space.dims[space.rank++] = {.size = 1, .kept = true};
  int64_t in_stride = 1, out_stride = 1;
  for (int d = space.rank - 1; d >= 0; --d) {
    ReduceDim& dim = space.dims[d];
    dim.in_stride = in_stride;
    in_stride *= dim.size;
    if (!dim.kept) continue;
    dim.out_stride = out_stride;
    out_stride *= dim.size;
  }
  return space;
}

uint32_t AllAxes(const Shape& shape) { return (1u << shape.rank()) - 1; }

// Bit set of `axes`; nullopt when one is out of range.
std::optional<uint32_t> AxisSet(std::span<const int64_t> axes, const Shape& shape) {
  uint32_t set = 0;
  for (int64_t axis : axes) {
    if (axis < -shape.rank() || axis >= shape.rank()) return std::nullopt;
    set |= 1u << (axis < 0 ? axis + shape.rank() : axis);
  }
  return set;
}

// The operand's shape without the summed dims, or with 1 in their place.
Shape ReducedShape(const Shape& shape, uint32_t axes, bool keep_dims) {
  Shape out;
  for (int d = 0; d < shape.rank(); ++d) {
    if ((axes >> d & 1) == 0) {
      out.push_back(shape[d]);
    } else if (keep_dims) {
      out.push_back(1);
    }
  }
  return out;
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const NodeQuery& query, bool mean, int threads)
      : function_(MILLRACE_SIMD_FUNCTION(ReduceAdd)),
        in_shape_(query.inputs[0]->shape),
        out_shape_(query.outputs[0]->shape),
        keep_dims_(query.attrs.Bool("keepdims", true)),
        no_axes_is_all_(!query.attrs.Bool("noop_with_empty_axes", false)),
        axes_count_(HasInput(query, 1) ? NumElements(query.inputs[1]->shape) : -1),
        mean_(mean),
        threads_(threads) {}

  // The axes, when they are not an operand.
  void SetAxes(uint32_t axes) { space_ = MakeReduceSpace(in_shape_, axes); }

  absl::Status Run(const KernelArgs& args) override {
    if (axes_count_ >= 0) {
      MILLRACE_RETURN_IF_ERROR(ReadAxes(static_cast<const int64_t*>(args.inputs[1])));
    }
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    std::memset(out, 0, space_.out_count * sizeof(float));
    if (space_.sum_count > 0 && space_.out_count > 0) Sum(in, out);
    if (mean_) {
      const float count = static_cast<float>(space_.sum_count);
      for (int64_t i = 0; i < space_.out_count; ++i) out[i] /= count;
    }
    return absl::OkStatus();
  }

 private:
  void Sum(const float* in, float* out) const {
    const int split = space_.dims[0].kept ? 0 : space_.rank > 1 ? 1 : -1;
    if (split < 0) return function_(space_, in, out, -1, 0, 0);
    const ReduceDim& dim = space_.dims[split];
    const int64_t unit = split == space_.rank - 1 ? 64 : 1;
    ParallelFor(threads_, dim.size, space_.out_count * space_.sum_count, unit,
                [&](int64_t begin, int64_t end) { function_(space_, in, out, split, begin, end); });
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

  const ReduceFn function_;
  const Shape in_shape_, out_shape_;
  const bool keep_dims_, no_axes_is_all_;
  const int64_t axes_count_;  // -1: not an operand
  const bool mean_;
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
  const bool reduce = query.op == "ReduceSum" || query.op == "ReduceMean";
  if (!reduce && query.op != "GlobalAveragePool") return std::nullopt;
  if (query.inputs[0]->dtype != DType::kF32 || query.outputs[0]->dtype != DType::kF32) {
    return std::nullopt;
  }
  const Shape &in = query.inputs[0]->shape, &out = query.outputs[0]->shape;
  if (HasInput(query, 1)) {  // known at run time; checked then
    if (query.inputs[1]->dtype != DType::kI64) return std::nullopt;
    return DenseVariant(query, "simd");
  }
  const std::optional<uint32_t> axes = FixedAxes(query);
  const bool keep_dims = !reduce || query.attrs.Bool("keepdims", true);
  if (!axes.has_value() || ReducedShape(in, *axes, keep_dims) != out) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const NodeQuery& query = request.query;
  auto kernel = std::make_unique<ReduceKernel>(query, query.op != "ReduceSum", request.threads);
  if (const auto axes = FixedAxes(query); axes.has_value()) kernel->SetAxes(*axes);
  return kernel;
}

}  // namespace

KernelFamily SimdReduceFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
