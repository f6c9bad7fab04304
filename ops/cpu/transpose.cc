// Transpose of any element type. The permutation is collapsed first: dims of size 1 go, and dims
// that stay neighbours merge. What is left is either a copy of whole rows (the last dim stays
// last), or many small matrix transposes between the operand's last dim and the result's, done in
// square tiles so that both sides are read and written a cache line at a time.
#include <algorithm>
#include <cstring>

#include "ops/cpu/copy_rows.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

struct TransposePlan {
  int64_t element_bytes = 1;  // of an element, or of a whole row when the last dim stays last
  int rank = 0;               // of the loops, over the result's dims
  int64_t dims[kMaxRank] = {};
  int64_t in_strides[kMaxRank] = {};   // in elements
  int64_t out_strides[kMaxRank] = {};  // in elements
};

TransposePlan MakePlan(const TensorType& in, std::span<const int64_t> perm) {
  TransposePlan plan;
  plan.element_bytes = SizeOf(in.dtype);
  const Shape strides = DenseStrides(in.shape);
  for (int64_t from : perm) {
    const int64_t size = in.shape[static_cast<int>(from)];
    const int64_t stride = strides[static_cast<int>(from)];
    if (size == 1) continue;
    const int last = plan.rank - 1;
    if (plan.rank > 0 && plan.in_strides[last] == stride * size) {
      plan.dims[last] *= size;
      plan.in_strides[last] = stride;
      continue;
    }
    plan.dims[plan.rank] = size;
    plan.in_strides[plan.rank++] = stride;
  }
  if (plan.rank > 0 && plan.in_strides[plan.rank - 1] == 1) {  // whole rows
    const int64_t row = plan.dims[--plan.rank];
    plan.element_bytes *= row;
    for (int d = 0; d < plan.rank; ++d) plan.in_strides[d] /= row;
  }
  int64_t out_stride = 1;
  for (int d = plan.rank - 1; d >= 0; --d) {
    plan.out_strides[d] = out_stride;
    out_stride *= plan.dims[d];
  }
  return plan;
}

// to[r * to_pitch + c] = from[c * from_pitch + r] in elements of kBytes; pitches in bytes. Elements
// of a row of `from` are contiguous along r, of `to` along c.
template <int64_t kBytes>
void TransposeTiles(const std::byte* from, int64_t from_pitch, std::byte* to, int64_t to_pitch,
                    int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) {
          std::memcpy(to + r * to_pitch + c * kBytes, from + c * from_pitch + r * kBytes, kBytes);
        }
      }
    }
  }
}

// Runs body(in_offset, out_offset) for every index of the plan's dims but those in `inner`, a bit
// set, with dim `split` restricted to [begin, end).
template <typename Body>
void WalkOuter(const TransposePlan& plan, uint32_t inner, int split, int64_t begin, int64_t end,
               Body&& body) {
  int64_t index[kMaxRank] = {}, sizes[kMaxRank];
  int order[kMaxRank], rank = 0;
  int64_t in = 0, out = 0;
  for (int d = 0; d < plan.rank; ++d) {
    sizes[d] = d == split ? end - begin : plan.dims[d];
    if (d == split) {
      in += begin * plan.in_strides[d];
      out += begin * plan.out_strides[d];
    }
    if ((inner >> d & 1) == 0) order[rank++] = d;
  }
  while (true) {
    body(in, out);
    int i = rank - 1;
    for (; i >= 0; --i) {
      const int d = order[i];
      in += plan.in_strides[d];
      out += plan.out_strides[d];
      if (++index[d] < sizes[d]) break;
      in -= plan.in_strides[d] * sizes[d];
      out -= plan.out_strides[d] * sizes[d];
      index[d] = 0;
    }
    if (i < 0) return;
  }
}

class TransposeKernel final : public Kernel {
 public:
  TransposeKernel(const TransposePlan& plan, int64_t size_bytes, int threads)
      : plan_(plan), size_bytes_(size_bytes), threads_(threads) {
    for (int d = 0; d < plan_.rank; ++d) {
      if (plan_.in_strides[d] == 1) contiguous_in_ = d;
    }
  }

  absl::Status Run(const KernelArgs& args) override {
    if (size_bytes_ == 0) return absl::OkStatus();
    const auto* in = static_cast<const std::byte*>(args.inputs[0]);
    auto* out = static_cast<std::byte*>(args.outputs[0]);
    if (plan_.rank == 0) {
      std::memcpy(out, in, static_cast<size_t>(size_bytes_));
      return absl::OkStatus();
    }
    ParallelFor(threads_, plan_.dims[0], size_bytes_ / 4, 1,
                [&](int64_t begin, int64_t end) { RunPart(in, out, begin, end); });
    return absl::OkStatus();
  }

 private:
  // The part of the result with index [begin, end) in its first dim.
  void RunPart(const std::byte* in, std::byte* out, int64_t begin, int64_t end) const {
    const bool swap = contiguous_in_ >= 0 && contiguous_in_ != plan_.rank - 1;
    if (swap) {
      switch (plan_.element_bytes) {
        case 1:
          return Swap<1>(in, out, begin, end);
        case 2:
          return Swap<2>(in, out, begin, end);
        case 4:
          return Swap<4>(in, out, begin, end);
        case 8:
          return Swap<8>(in, out, begin, end);
        default:
          break;
      }
    }
    const int last = plan_.rank - 1;
    const int64_t bytes = plan_.element_bytes;
    const int64_t rows = last == 0 ? end - begin : plan_.dims[last];
    WalkOuter(plan_, 1u << last, 0, begin, end, [&](int64_t from, int64_t to) {
      CopyRows(out + to * bytes, bytes, in + from * bytes, plan_.in_strides[last] * bytes, bytes,
               rows);
    });
  }

  template <int64_t kBytes>
  void Swap(const std::byte* in, std::byte* out, int64_t begin, int64_t end) const {
    const int r = contiguous_in_, c = plan_.rank - 1;
    const int64_t rows = r == 0 ? end - begin : plan_.dims[r];
    WalkOuter(plan_, 1u << r | 1u << c, 0, begin, end, [&](int64_t from, int64_t to) {
      TransposeTiles<kBytes>(in + from * kBytes, plan_.in_strides[c] * kBytes, out + to * kBytes,
                             plan_.out_strides[r] * kBytes, rows, plan_.dims[c]);
    });
  }

  const TransposePlan plan_;
  const int64_t size_bytes_;
  const int threads_;
  int contiguous_in_ = -1;  // the result's dim along which the operand is contiguous
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (query.op != "Transpose" || !HasOutput(query, 0)) return std::nullopt;
  return DenseVariant(query, "copy");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const TensorType& in = *request.query.inputs[0];
  std::vector<int64_t> perm = request.query.attrs.Ints("perm");
  if (request.query.attrs.Find("perm") == nullptr) {
    for (int d = in.shape.rank(); d-- > 0;) perm.push_back(d);
  }
  const int64_t size_bytes = ByteSize(in);
  const TransposePlan plan = size_bytes == 0 ? TransposePlan() : MakePlan(in, perm);
  return std::make_unique<TransposeKernel>(plan, size_bytes, request.threads);
}

}  // namespace

KernelFamily TransposeFamily() { return {"copy", Match, Prepare}; }

}  // namespace millrace
