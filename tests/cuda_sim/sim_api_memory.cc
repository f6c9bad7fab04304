// Entry points for memory and copies.
#include <algorithm>
#include <cstring>

#include "tests/cuda_sim/sim_state.h"

namespace millrace::sim {
namespace {

// One side of a copy or fill: `rows` rows of `row_bytes`.
struct Side {
  uint64_t address = 0;
  uint64_t pitch = 0;
  uint64_t row_bytes = 0;
  uint64_t rows = 1;

  ByteRange row(uint64_t i) const { return {address + i * pitch, address + i * pitch + row_bytes}; }
};

void AppendAccesses(const Side& side, bool write, std::vector<Access>& to) {
  if (side.rows == 1 || side.pitch == side.row_bytes) {
    to.push_back({{side.address, side.address + side.rows * side.row_bytes}, write});
    return;
  }
  for (uint64_t i = 0; i < side.rows; ++i) to.push_back({side.row(i), write});
}

// The error for bytes that the driver cannot copy; sets `pageable` for those it can copy only by
// holding up the caller.
std::optional<CUresult> CheckAccesses(State& state, std::string_view entry,
                                      const std::vector<Access>& accesses, bool* pageable) {
  for (const Access& access : accesses) {
    const Place::Kind kind = state.memory.Find(access.range).kind;
    if (kind == Place::Kind::kAllocated) continue;
    if (kind == Place::Kind::kPageable) {
      *pageable = true;
      continue;
    }
    return state.Violate(
        CUDA_ERROR_INVALID_VALUE,
        StrCat(kind == Place::Kind::kFreed ? "use after free: " : "out of bounds: ", entry,
               access.write ? " into " : " from ", state.memory.Describe(access.range)));
  }
  return std::nullopt;
}

bool Overlap(const std::vector<Access>& accesses) {
  for (const Access& a : accesses) {
    for (const Access& b : accesses) {
      if (a.write && !b.write && a.range.begin < b.range.end && b.range.begin < a.range.end) {
        return true;
      }
    }
  }
  return false;
}

// Waits for the stream, as the driver does with memory that the GPU does not reach.
CUresult CopyPageable(State& state, Scheduler::Lock& lock, std::string_view entry, Stream& stream,
                      Op op) {
  if (std::optional<CUresult> error = state.ForbiddenInCapture(entry)) return *error;
  const int lane = stream.lane;
  if (!state.scheduler.Idle(lane)) {
    state.violations.push_back(
        StrCat("pageable memory: ", entry, " of memory that is neither the device's nor pinned on ",
               state.scheduler.name(lane),
               ", which has work pending: the driver would hold up the issuing thread"));
  }
  op.pageable_allowed = true;
  state.scheduler.Push(lane, std::move(op));
  return state.scheduler.Drain(lock, lane);
}

CUresult Copy(State& state, Scheduler::Lock& lock, std::string_view entry, int device,
              CUstream handle, const Side& to, const Side& from) {
  CUresult error = CUDA_SUCCESS;
  Stream* stream = UsableStream(state, entry, handle, device, &error);
  if (stream == nullptr) return error;
  Op op;
  op.label = StrCat(entry, " of ", to.rows * to.row_bytes, " bytes");
  AppendAccesses(to, true, op.accesses);
  AppendAccesses(from, false, op.accesses);
  bool pageable = false;
  if (std::optional<CUresult> bad = CheckAccesses(state, entry, op.accesses, &pageable))
    return *bad;
  if (Overlap(op.accesses)) {
    return state.Violate(CUDA_ERROR_INVALID_VALUE,
                         StrCat("out of bounds: ", entry, " between overlapping bytes"));
  }
  op.run = [&memory = state.memory, to, from] {
    for (uint64_t i = 0; i < to.rows; ++i) {
      std::memcpy(memory.Backing(to.row(i).begin), memory.Backing(from.row(i).begin), to.row_bytes);
    }
    return CUDA_SUCCESS;
  };
  if (pageable) return CopyPageable(state, lock, entry, *stream, std::move(op));
  return Issue(state, lock, *stream, std::move(op));
}

CUresult MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  constexpr char kEntry[] = "MemcpyAsync";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock& lock, int device) {
    if (size == 0) return CUDA_SUCCESS;
    return Copy(state, lock, kEntry, device, stream, {to, size, size, 1}, {from, size, size, 1});
  });
}

CUresult Memcpy2DAsync(const CUDA_MEMCPY2D* c, CUstream stream) {
  constexpr char kEntry[] = "Memcpy2DAsync";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock& lock, int device) {
    const bool plain = c->srcXInBytes == 0 && c->srcY == 0 && c->dstXInBytes == 0 && c->dstY == 0 &&
                       c->srcMemoryType == CU_MEMORYTYPE_UNIFIED &&
                       c->dstMemoryType == CU_MEMORYTYPE_UNIFIED;
    if (!plain || c->srcPitch < c->WidthInBytes || c->dstPitch < c->WidthInBytes) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE, StrCat("out of bounds: ", kEntry,
                                                            " with a pitch below the width, or of "
                                                            "a form that is not simulated"));
    }
    return Copy(state, lock, kEntry, device, stream,
                {c->dstDevice, c->dstPitch, c->WidthInBytes, c->Height},
                {c->srcDevice, c->srcPitch, c->WidthInBytes, c->Height});
  });
}

CUresult MemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream handle) {
  constexpr char kEntry[] = "MemsetD8Async";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock& lock, int device) {
    CUresult error = CUDA_SUCCESS;
    Stream* stream = UsableStream(state, kEntry, handle, device, &error);
    if (stream == nullptr) return error;
    Op op;
    op.label = StrCat(kEntry, " of ", size, " bytes");
    op.accesses = {{{to, to + size}, true}};
    bool pageable = false;
    if (auto bad = CheckAccesses(state, kEntry, op.accesses, &pageable)) return *bad;
    if (pageable) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE,
                           StrCat("out of bounds: ", kEntry, " of pageable memory"));
    }
    op.run = [&memory = state.memory, to, value, size] {
      std::memset(memory.Backing(to), value, size);
      return CUDA_SUCCESS;
    };
    return Issue(state, lock, *stream, std::move(op));
  });
}

CUresult PointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                              CUdeviceptr address) {
  constexpr char kEntry[] = "PointerGetAttributes";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock&, int) {
    if (count != 1 || attributes[0] != CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE, "this pointer attribute is not simulated");
    }
    const ByteRange byte{address, address + 1};
    const Place place = state.memory.Find(byte);
    auto* type = static_cast<unsigned*>(values[0]);
    if (place.kind == Place::Kind::kAllocated) {
      *type = place.allocation->device == kPinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    }
    *type = 0;
    if (place.kind == Place::Kind::kPageable) return CUDA_SUCCESS;
    return state.Violate(CUDA_ERROR_INVALID_VALUE,
                         StrCat("use after free: ", kEntry, " of ", state.memory.Describe(byte)));
  });
}

CUresult MemGetInfo(size_t* free, size_t* total) {
  return EnterContext("MemGetInfo", [&](State& state, Scheduler::Lock&, int device) {
    *total = static_cast<size_t>(state.memory.capacity_bytes());
    *free = *total - static_cast<size_t>(state.memory.used_bytes(device));
    return CUDA_SUCCESS;
  });
}

CUresult MemAlloc(CUdeviceptr* data, size_t size) {
  constexpr char kEntry[] = "MemAlloc";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock&, int device) {
    if (auto forbidden = state.ForbiddenInCapture(kEntry)) return *forbidden;
    if (size == 0) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE, "out of bounds: MemAlloc of 0 bytes");
    }
    const Allocation* allocation = state.memory.AllocateDevice(device, size);
    if (allocation == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *data = allocation->range.begin;
    return CUDA_SUCCESS;
  });
}

CUresult MemHostAlloc(void** data, size_t size, unsigned flags) {
  constexpr char kEntry[] = "MemHostAlloc";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock&, int) {
    if (auto forbidden = state.ForbiddenInCapture(kEntry)) return *forbidden;
    constexpr unsigned kNeeded = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    if (size == 0 || (flags & kNeeded) != kNeeded) {
      return state.Violate(
          CUDA_ERROR_INVALID_VALUE,
          "invalid handle: pinned memory that is empty, or not portable and mapped "
          "so that every device reaches it");
    }
    const Allocation* allocation = state.memory.AllocatePinned(size);
    if (allocation == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *data = reinterpret_cast<void*>(allocation->range.begin);
    return CUDA_SUCCESS;
  });
}

// `owner`: the device whose memory may be freed here, or kPinned.
CUresult Free(State& state, Scheduler::Lock& lock, std::string_view entry, uint64_t address,
              int owner) {
  if (auto forbidden = state.ForbiddenInCapture(entry)) return *forbidden;
  state.scheduler.WaitForRunning(lock);
  const Allocation* allocation = state.memory.FindLive(address);
  if (allocation == nullptr || allocation->device != owner) {
    return state.Violate(
        CUDA_ERROR_INVALID_VALUE,
        StrCat("invalid handle: ", entry, " of ", state.memory.Describe({address, address + 1}),
               ", which is not a live allocation of this kind and device"));
  }
  const std::string bytes = state.memory.Describe(allocation->range);
  const std::optional<OpStamp> pending =
      state.memory.Free(*allocation, state.scheduler.host_clock());
  if (pending.has_value() &&
      state.scheduler.lost(state.CurrentDevice().value_or(0)) == CUDA_SUCCESS) {
    state.violations.push_back(StrCat("use after free: ", entry, " of ", bytes,
                                      " although the host has not waited for ", *pending->label));
  }
  return CUDA_SUCCESS;
}

CUresult MemFree(CUdeviceptr data) {
  return EnterContext(
      "MemFree",
      [&](State& state, Scheduler::Lock& lock, int device) {
        return Free(state, lock, "MemFree", data, device);
      },
      /*frees=*/true);
}

CUresult MemFreeHost(void* data) {
  return EnterContext(
      "MemFreeHost",
      [&](State& state, Scheduler::Lock& lock, int) {
        return Free(state, lock, "MemFreeHost", reinterpret_cast<uint64_t>(data), kPinned);
      },
      /*frees=*/true);
}

// Handles of one process: the address itself, which is where the memory is found again.
CUresult IpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr data) {
  constexpr char kEntry[] = "IpcGetMemHandle";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock&, int device) {
    const Allocation* allocation = state.memory.FindLive(data);
    if (allocation == nullptr || allocation->device != device) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE,
                           StrCat("invalid handle: ", kEntry, " of no allocation of the device"));
    }
    std::memset(handle, 0, sizeof(*handle));
    std::memcpy(handle->reserved, &data, sizeof(data));
    return CUDA_SUCCESS;
  });
}

CUresult IpcOpenMemHandle(CUdeviceptr* data, CUipcMemHandle handle, unsigned flags) {
  constexpr char kEntry[] = "IpcOpenMemHandle";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock&, int) {
    CUdeviceptr address = 0;
    std::memcpy(&address, handle.reserved, sizeof(address));
    if (state.memory.FindLive(address) == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
        !state.opened_handles.insert(address).second) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE,
                           StrCat("invalid handle: ", kEntry,
                                  " of memory that was freed or is open, or with wrong flags"));
    }
    *data = address;
    return CUDA_SUCCESS;
  });
}

CUresult IpcCloseMemHandle(CUdeviceptr data) {
  constexpr char kEntry[] = "IpcCloseMemHandle";
  return EnterContext(
      kEntry,
      [&](State& state, Scheduler::Lock&, int) {
        if (state.opened_handles.erase(data) == 1) return CUDA_SUCCESS;
        return state.Violate(CUDA_ERROR_INVALID_VALUE,
                             StrCat("invalid handle: ", kEntry, " of memory that is not open"));
      },
      /*frees=*/true);
}

}  // namespace

void AddMemoryEntries(CudaDriver& driver) {
  driver.PointerGetAttributes = PointerGetAttributes;
  driver.MemGetInfo = MemGetInfo;
  driver.MemAlloc = MemAlloc;
  driver.MemFree = MemFree;
  driver.MemHostAlloc = MemHostAlloc;
  driver.MemFreeHost = MemFreeHost;
  driver.MemcpyAsync = MemcpyAsync;
  driver.Memcpy2DAsync = Memcpy2DAsync;
  driver.MemsetD8Async = MemsetD8Async;
  driver.IpcGetMemHandle = IpcGetMemHandle;
  driver.IpcOpenMemHandle = IpcOpenMemHandle;
  driver.IpcCloseMemHandle = IpcCloseMemHandle;
}

}  // namespace millrace::sim
