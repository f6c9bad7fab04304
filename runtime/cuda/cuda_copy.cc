#include "runtime/cuda/cuda_copy.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {
namespace {

// The driver's limit on pitches (CU_DEVICE_ATTRIBUTE_MAX_PITCH is this on every GPU so far).
constexpr int64_t kMaxPitchBytes = (int64_t{1} << 31) - 1;

CUdeviceptr Address(const std::byte* p) { return reinterpret_cast<CUdeviceptr>(p); }

bool IsContiguous(const CopyRegion& r) {
  return r.rows == 1 || (r.to_pitch_bytes == r.row_bytes && r.from_pitch_bytes == r.row_bytes);
}

// A pitch of the driver's 2-D copies holds at least a row; a smaller one (a broadcast source has
// 0) or a huge one takes a copy a row.
bool IsDriverPitch(int64_t pitch, int64_t row_bytes) {
  return pitch >= row_bytes && pitch <= kMaxPitchBytes;
}

CUresult Issue1D(const CudaContext& context, CUstream stream, std::byte* to, const std::byte* from,
                 int64_t size_bytes) {
  return context.driver().MemcpyAsync(Address(to), Address(from), static_cast<size_t>(size_bytes),
                                      stream);
}

CUresult Issue2D(const CudaContext& context, CUstream stream, const CopyRegion& r) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = Address(r.from);
  copy.srcPitch = static_cast<size_t>(r.from_pitch_bytes);
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = Address(r.to);
  copy.dstPitch = static_cast<size_t>(r.to_pitch_bytes);
  copy.WidthInBytes = static_cast<size_t>(r.row_bytes);
  copy.Height = static_cast<size_t>(r.rows);
  return context.driver().Memcpy2DAsync(&copy, stream);
}

CUresult IssueRows(const CudaContext& context, CUstream stream, const CopyRegion& r) {
  for (int64_t row = 0; row < r.rows; ++row) {
    CUresult result = Issue1D(context, stream, r.to + row * r.to_pitch_bytes,
                              r.from + row * r.from_pitch_bytes, r.row_bytes);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// The pair of copies of `piece` by way of `staging`, where its rows lie densely.
absl::Status EmitPair(const CopyRegion& piece, std::byte* staging,
                      absl::FunctionRef<absl::Status(const CopyRegion&)> emit) {
  CopyRegion in = piece, out = piece;
  in.to = staging;
  in.to_space = MemorySpace::kHost;
  in.to_pitch_bytes = piece.row_bytes;
  out.from = staging;
  out.from_space = MemorySpace::kHost;
  out.from_pitch_bytes = piece.row_bytes;
  MILLRACE_RETURN_IF_ERROR(emit(in));
  return emit(out);
}

absl::StatusOr<bool> GpuReaches(const CudaContext& context, MemorySpace space,
                                const std::byte* address) {
  if (space != MemorySpace::kHost) return space == MemorySpace::kDevice;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  unsigned type = 0;  // stays 0 for memory that the driver does not know
  void* values[] = {&type};
  const CUresult r = context.driver().PointerGetAttributes(1, &attribute, values, Address(address));
  if (r != CUDA_SUCCESS) return context.Error(r, "asking what kind of memory a copy is of");
  return type != 0;
}

}  // namespace

absl::StatusOr<Reach> ReachOf(const CudaContext& context, const CopyRegion& region) {
  Reach reach;
  MILLRACE_ASSIGN_OR_RETURN(reach.to, GpuReaches(context, region.to_space, region.to));
  MILLRACE_ASSIGN_OR_RETURN(reach.from, GpuReaches(context, region.from_space, region.from));
  return reach;
}

absl::Status IssueCopy(const CudaContext& context, CUstream stream, const CopyRegion& region) {
  CUresult result;
  if (IsContiguous(region)) {
    result = Issue1D(context, stream, region.to, region.from, region.row_bytes * region.rows);
  } else if (IsDriverPitch(region.to_pitch_bytes, region.row_bytes) &&
             IsDriverPitch(region.from_pitch_bytes, region.row_bytes)) {
    result = Issue2D(context, stream, region);
  } else {
    result = IssueRows(context, stream, region);
  }
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return context.Error(result, StrCat("copying ", region.rows, " x ", region.row_bytes,
                                      " bytes from ", MemorySpaceName(region.from_space), " to ",
                                      MemorySpaceName(region.to_space), " memory"));
}

absl::Status SplitThroughStaging(const CopyRegion& region, std::byte* staging,
                                 int64_t staging_bytes,
                                 absl::FunctionRef<absl::Status(const CopyRegion&)> emit) {
  CopyRegion whole = region;
  if (IsContiguous(region)) {  // rows do not matter: cut as fits the staging
    whole.row_bytes = region.row_bytes * region.rows;
    whole.rows = 1;
  }
  const int64_t column_bytes = std::min(whole.row_bytes, staging_bytes);
  const int64_t rows_at_once = column_bytes < whole.row_bytes ? 1 : staging_bytes / column_bytes;
  for (int64_t row = 0; row < whole.rows; row += rows_at_once) {
    for (int64_t column = 0; column < whole.row_bytes; column += column_bytes) {
      CopyRegion piece = whole;
      piece.to += row * whole.to_pitch_bytes + column;
      piece.from += row * whole.from_pitch_bytes + column;
      piece.rows = std::min(rows_at_once, whole.rows - row);
      piece.row_bytes = std::min(column_bytes, whole.row_bytes - column);
      MILLRACE_RETURN_IF_ERROR(EmitPair(piece, staging, emit));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
