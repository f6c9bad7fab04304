// Slice, Tile, Expand and Pad of any element type, as copies of runs of bytes. Each dim of the
// result is runs of positions of the operand's (ops/dim_maps.h). Dims at the end that are whole
// merge into the element; then, for every position of the dims before, the runs of the last dim are
// copied: whole where positions follow each other, element by element where they do not, and filled
// where there is nothing to copy. Maps are made when the kernel is prepared, so operands that
// decide them must be known then; otherwise the reference serves.
#include <algorithm>
#include <cstring>

#include "ops/cpu/copy_rows.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"
#include "ops/dim_maps.h"

namespace millrace {
namespace {

struct MapPlan {
  std::vector<DimMap> maps;
  std::vector<int64_t> in_strides, out_strides;  // bytes, per map
  int64_t element_bytes = 1;                     // of an element and the whole dims after the maps
  int64_t fill_bytes = 0;                        // of one element of the type
  int fill_input = -1;                           // Pad's constant; -1: zeros
};

// Expand's shapes say all there is to know.
std::optional<std::vector<DimMap>> ExpandMaps(const NodeQuery& query) {
  const Shape &from = query.inputs[0]->shape, &to = query.outputs[0]->shape;
  std::vector<DimMap> maps;
  for (int d = 0; d < to.rank(); ++d) {
    const int own = d - (to.rank() - from.rank());
    const bool repeats = own < 0 || from[own] == 1;
    if (!repeats && from[own] != to[d]) return std::nullopt;
    maps.push_back({.runs = {{0, repeats ? 0 : 1, to[d]}}});
  }
  return maps;
}

std::optional<std::vector<DimMap>> MapsOf(const NodeQuery& query) {
  if (query.op == "Slice") return SliceMaps(query);
  if (query.op == "Tile") return TileMaps(query);
  if (query.op == "Expand") return ExpandMaps(query);
  if (query.op == "Pad") return PadMaps(query);
  return std::nullopt;
}

std::optional<MapPlan> MakePlan(const NodeQuery& query) {
  if (query.inputs.empty() || !HasInput(query, 0) || !HasOutput(query, 0)) return std::nullopt;
  std::optional<std::vector<DimMap>> maps = MapsOf(query);
  const TensorType &in = *query.inputs[0], &out = *query.outputs[0];
  if (!maps.has_value() || in.dtype != out.dtype) return std::nullopt;
  if (static_cast<int>(maps->size()) != out.shape.rank()) return std::nullopt;
  if (in.shape.rank() > out.shape.rank()) return std::nullopt;
  for (int d = 0; d < out.shape.rank(); ++d) {
    if (CountOf((*maps)[d]) != out.shape[d]) return std::nullopt;
  }
  Shape aligned;  // the operand's, with dims of 1 in front
  for (int d = in.shape.rank(); d < out.shape.rank(); ++d) aligned.push_back(1);
  for (int64_t d : in.shape) aligned.push_back(d);

  MapPlan plan;
  plan.fill_bytes = plan.element_bytes = SizeOf(in.dtype);
  if (query.op == "Pad" && HasInput(query, 2)) plan.fill_input = 2;
  while (!maps->empty() && IsWhole(maps->back(), aligned[static_cast<int>(maps->size()) - 1])) {
    plan.element_bytes *= out.shape[static_cast<int>(maps->size()) - 1];
    maps->pop_back();
  }
  plan.maps = *std::move(maps);
  plan.in_strides.resize(plan.maps.size());
  plan.out_strides.resize(plan.maps.size());
  int64_t in_stride = plan.element_bytes, out_stride = plan.element_bytes;
  for (int d = static_cast<int>(plan.maps.size()) - 1; d >= 0; --d) {
    plan.in_strides[d] = in_stride;
    plan.out_strides[d] = out_stride;
    in_stride *= aligned[d];
    out_stride *= out.shape[d];
  }
  return plan;
}

// Elements of `size` bytes, all alike, up to `bytes` in total.
void Fill(std::byte* to, const std::byte* element, int64_t size, int64_t bytes) {
  if (element == nullptr) {
    std::memset(to, 0, bytes);
    return;
  }
  for (int64_t at = 0; at < bytes; at += size) std::memcpy(to + at, element, size);
}

class MapCopyKernel final : public Kernel {
 public:
  MapCopyKernel(MapPlan plan, int64_t out_bytes, int threads)
      : plan_(std::move(plan)), out_bytes_(out_bytes), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const std::byte*>(args.inputs[0]);
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    const auto* fill = plan_.fill_input < 0
                           ? nullptr
                           : static_cast<const std::byte*>(args.inputs[plan_.fill_input]);
    if (plan_.maps.empty()) {
      std::memcpy(to, from, static_cast<size_t>(out_bytes_));
      return absl::OkStatus();
    }
    const int64_t positions = out_bytes_ / plan_.out_strides[0];
    ParallelFor(threads_, positions, out_bytes_ / 4, 1, [&](int64_t begin, int64_t end) {
      Write(0, from, to + begin * plan_.out_strides[0], fill, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  // Positions [begin, end) of dim d of the result, for one position of the operand in the dims
  // before.
  void Write(size_t d, const std::byte* from, std::byte* to, const std::byte* fill, int64_t begin,
             int64_t end) const {
    const DimMap& map = plan_.maps[d];
    const int64_t count = CountOf(map) / map.times;
    for (int64_t at = begin / count * count; at < end; at += count) {
      int64_t start = at;
      for (const DimRun& run : map.runs) {
        const int64_t first = std::max<int64_t>(begin - start, 0);
        const int64_t last = std::min(end - start, run.count);
        if (first < last) {
          WriteRun(d, {run.start + first * run.step, run.step, last - first}, run.start == kFill,
                   from, to + (start + first - begin) * plan_.out_strides[d], fill);
        }
        start += run.count;
      }
    }
  }

  void WriteRun(size_t d, const DimRun& run, bool fills, const std::byte* from, std::byte* to,
                const std::byte* fill) const {
    const int64_t in_stride = plan_.in_strides[d], out_stride = plan_.out_strides[d];
    if (fills) return Fill(to, fill, plan_.fill_bytes, run.count * out_stride);
    const std::byte* source = from + run.start * in_stride;
    if (d + 1 < plan_.maps.size()) {
      const int64_t inner = out_stride / plan_.out_strides[d + 1];
      for (int64_t i = 0; i < run.count; ++i) {
        Write(d + 1, source + i * run.step * in_stride, to + i * out_stride, fill, 0, inner);
      }
    } else if (run.step == 1) {
      std::memcpy(to, source, static_cast<size_t>(run.count * out_stride));
    } else {
      CopyRows(to, out_stride, source, run.step * in_stride, out_stride, run.count);
    }
  }

  const MapPlan plan_;
  const int64_t out_bytes_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (!MakePlan(query).has_value()) return std::nullopt;
  return DenseVariant(query, "copy");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<MapCopyKernel>(*MakePlan(request.query),
                                         ByteSize(*request.query.outputs[0]), request.threads);
}

}  // namespace

KernelFamily MapCopyFamily() { return {"copy", Match, Prepare}; }

}  // namespace millrace
