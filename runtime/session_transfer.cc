#include "runtime/session_transfer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "graph/strings.h"
#include "runtime/strided_copy.h"

namespace millrace {
namespace {

constexpr int kPoisonByte = 0xFF;

absl::Status RequireStrided(const BoundProgram& bound, SliceId id) {
  const Layout layout = bound.slice(id).layout;
  if (layout == Layout::kStrided) return absl::OkStatus();
  return UsageError(
      StrCat("the session fills and reads strided slices only; this one is ", LayoutName(layout)));
}

// Row by row through `move`, or on the host where it reaches both sides.
template <typename Move>
absl::Status MoveRows(const StridedCopy& copy, bool on_host, Move move) {
  return ForEachRegion(copy, [&](const CopyRegion& region) -> absl::Status {
    if (on_host) {
      CopyOnHost(region);
      return absl::OkStatus();
    }
    for (int64_t row = 0; row < region.rows; ++row) {
      MILLRACE_RETURN_IF_ERROR(move(region.to + row * region.to_pitch_bytes,
                                    region.from + row * region.from_pitch_bytes, region.row_bytes));
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<TensorType> StackedType(const TensorType& type, int32_t microbatches) {
  TensorType stacked = type;
  if (type.shape.rank() == 0) return stacked;
  if (__builtin_mul_overflow(type.shape[0], int64_t{microbatches}, &stacked.shape[0])) {
    stacked.shape[0] = kMaxBytes + 1;
  }
  if (!CheckedByteSize(stacked)) {
    return UsageError(StrCat(microbatches, " microbatches of ", ToString(type), " are too large"));
  }
  return stacked;
}

absl::Status WriteSlice(const BoundProgram& bound, SliceId slice, int32_t microbatch,
                        const TensorType& type, const std::byte* data,
                        std::span<const int64_t> strides) {
  MILLRACE_RETURN_IF_ERROR(RequireStrided(bound, slice));
  const StridedPlace host{
      .data = const_cast<std::byte*>(data), .space = MemorySpace::kHost, .strides = strides};
  return MoveRows(PlanStridedCopy(type, bound.Place(slice, microbatch), host),
                  bound.HostReaches(slice),
                  [&](std::byte* to, const std::byte* from, int64_t size_bytes) {
                    return bound.device().Write(to, from, size_bytes);
                  });
}

absl::Status ReadSlice(const BoundProgram& bound, SliceId slice, int32_t microbatch,
                       const TensorType& type, std::byte* data, std::span<const int64_t> strides) {
  MILLRACE_RETURN_IF_ERROR(RequireStrided(bound, slice));
  const StridedPlace host{.data = data, .space = MemorySpace::kHost, .strides = strides};
  return MoveRows(PlanStridedCopy(type, host, bound.Place(slice, microbatch)),
                  bound.HostReaches(slice),
                  [&](std::byte* to, const std::byte* from, int64_t size_bytes) {
                    return bound.device().Read(to, from, size_bytes);
                  });
}

absl::Status Poison(const BoundProgram& bound) {
  constexpr int64_t kChunk = 1 << 20;
  const std::vector<std::byte> chunk(kChunk, std::byte{kPoisonByte});
  for (const Buffer& buffer : bound.buffers) {
    if (buffer.space() == MemorySpace::kHost || bound.device().host_accessible()) {
      std::memset(buffer.data(), kPoisonByte, static_cast<size_t>(buffer.size()));
      continue;
    }
    if (buffer.space() == MemorySpace::kFile) continue;  // only Copy can reach it
    for (int64_t at = 0; at < buffer.size(); at += kChunk) {
      MILLRACE_RETURN_IF_ERROR(bound.device().Write(buffer.data() + at, chunk.data(),
                                                    std::min(kChunk, buffer.size() - at)));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
