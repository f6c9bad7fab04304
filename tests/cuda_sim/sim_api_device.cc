// Entry points for devices, contexts and error names.
#include <algorithm>
#include <cstdio>

#include "tests/cuda_sim/sim_state.h"

namespace millrace::sim {
namespace {

#define MILLRACE_SIM_ERRORS(X)                                                                    \
  X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                 \
  X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                    \
  X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                           \
  X(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                             \
  X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                   \
  X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                          \
  X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                   \
  X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                         \
  X(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered")                          \
  X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                         \
  X(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in this state")                  \
  X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                               \
  X(CUDA_ERROR_NOT_READY, "device not ready")                                                     \
  X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                       \
  X(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")                         \
  X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")                     \
  X(CUDA_ERROR_ASSERT, "device-side assert triggered")                                            \
  X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                       \
  X(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                          \
  X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                          \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted while capturing")             \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,                                                        \
    "operation failed due to a previous error during capture")                                    \
  X(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate captures")    \
  X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the stream in which it began") \
  X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                     \
  X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,                                                          \
    "dependency created on uncaptured work in another stream")                                    \
  X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a capture from another thread") \
  X(CUDA_ERROR_CAPTURED_EVENT,                                                                    \
    "operation not permitted on an event last recorded in a capturing stream")

CUresult GetErrorName(CUresult error, const char** text) {
  return Enter("GetErrorName", [&](State&, Scheduler::Lock&) {
#define MILLRACE_SIM_NAME(code, description) \
  if (error == code) return *text = #code, CUDA_SUCCESS;
    MILLRACE_SIM_ERRORS(MILLRACE_SIM_NAME)
#undef MILLRACE_SIM_NAME
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult GetErrorString(CUresult error, const char** text) {
  return Enter("GetErrorString", [&](State&, Scheduler::Lock&) {
#define MILLRACE_SIM_TEXT(code, description) \
  if (error == code) return *text = description, CUDA_SUCCESS;
    MILLRACE_SIM_ERRORS(MILLRACE_SIM_TEXT)
#undef MILLRACE_SIM_TEXT
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult Init(unsigned) {
  return Enter("Init", [](State&, Scheduler::Lock&) { return CUDA_SUCCESS; });
}

CUresult DriverGetVersion(int* version) {
  return Enter("DriverGetVersion", [&](State&, Scheduler::Lock&) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
  });
}

CUresult DeviceGetCount(int* count) {
  return Enter("DeviceGetCount", [&](State& state, Scheduler::Lock&) {
    *count = state.options.devices;
    return CUDA_SUCCESS;
  });
}

// The frame of entry points about a device, which is its own handle.
template <typename Body>
CUresult EnterDevice(std::string_view entry, CUdevice device, Body body, bool frees = false) {
  return Enter(
      entry,
      [&](State& state, Scheduler::Lock&) {
        if (device < 0 || device >= state.options.devices) {
          return state.Violate(CUDA_ERROR_INVALID_DEVICE,
                               StrCat("invalid handle: ", entry, " of device ", device));
        }
        return body(state);
      },
      frees);
}

CUresult DeviceGet(CUdevice* device, int ordinal) {
  return EnterDevice("DeviceGet", ordinal, [&](State&) {
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult DeviceGetName(char* name, int size, CUdevice device) {
  return EnterDevice("DeviceGetName", device, [&](State&) {
    std::snprintf(name, static_cast<size_t>(size), "Simulated GPU");
    return CUDA_SUCCESS;
  });
}

CUresult DeviceGetPCIBusId(char* id, int size, CUdevice device) {
  return EnterDevice("DeviceGetPCIBusId", device, [&](State&) {
    std::snprintf(id, static_cast<size_t>(size), "0000:%02x:00.0", 0x10 + device);
    return CUDA_SUCCESS;
  });
}

CUresult DeviceTotalMem(size_t* bytes, CUdevice device) {
  return EnterDevice("DeviceTotalMem", device, [&](State& state) {
    *bytes = static_cast<size_t>(state.memory.capacity_bytes());
    return CUDA_SUCCESS;
  });
}

CUresult DeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return EnterDevice("DeviceGetAttribute", device, [&](State& state) {
    switch (attribute) {
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 0;
        break;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 132;
        break;
      case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        *value = 1;
        break;
      default:
        return state.Violate(
            CUDA_ERROR_INVALID_VALUE,
            StrCat("attribute ", static_cast<int>(attribute), " is not simulated"));
    }
    return CUDA_SUCCESS;
  });
}

CUresult DevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return EnterDevice("DevicePrimaryCtxRetain", device, [&](State& state) {
    Context& c = state.contexts[static_cast<size_t>(device)];
    if (state.scheduler.lost(device) != CUDA_SUCCESS) return state.scheduler.lost(device);
    ++c.retained;
    *context = c.handle;
    return CUDA_SUCCESS;
  });
}

CUresult DevicePrimaryCtxRelease(CUdevice device) {
  return EnterDevice(
      "DevicePrimaryCtxRelease", device,
      [&](State& state) {
        Context& c = state.contexts[static_cast<size_t>(device)];
        if (c.retained == 0) {
          return state.Violate(CUDA_ERROR_INVALID_CONTEXT,
                               "invalid handle: a primary context was released too often");
        }
        if (--c.retained == 0) c.peers.clear();
        return CUDA_SUCCESS;
      },
      /*frees=*/true);
}

CUresult CtxSetCurrent(CUcontext context) {
  return Enter("CtxSetCurrent", [&](State& state, Scheduler::Lock&) {
    const CUcontext before = std::exchange(ThreadContext(), context);
    if (context == nullptr || state.CurrentDevice().has_value()) return CUDA_SUCCESS;
    ThreadContext() = before;
    return state.Violate(CUDA_ERROR_INVALID_CONTEXT,
                         "invalid handle: CtxSetCurrent of a context that nobody retains");
  });
}

CUresult CtxGetStreamPriorityRange(int* least, int* greatest) {
  return EnterContext("CtxGetStreamPriorityRange", [&](State&, Scheduler::Lock&, int) {
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult DeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return EnterDevice("DeviceCanAccessPeer", device, [&](State& state) {
    *can = state.options.peer_access && device != peer ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult CtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return EnterContext("CtxEnablePeerAccess", [&](State& state, Scheduler::Lock&, int device) {
    Context& own = state.contexts[static_cast<size_t>(device)];
    const bool known = std::any_of(
        state.contexts.begin(), state.contexts.end(),
        [&](const Context& c) { return c.handle == peer && c.retained > 0 && peer != own.handle; });
    if (!known || flags != 0) {
      return state.Violate(CUDA_ERROR_INVALID_CONTEXT, "invalid handle: peer access to no peer");
    }
    if (!state.options.peer_access) return CUDA_ERROR_NOT_SUPPORTED;
    return own.peers.insert(peer).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

}  // namespace

void AddDeviceEntries(CudaDriver& driver) {
  driver.Init = Init;
  driver.DriverGetVersion = DriverGetVersion;
  driver.GetErrorName = GetErrorName;
  driver.GetErrorString = GetErrorString;
  driver.DeviceGetCount = DeviceGetCount;
  driver.DeviceGet = DeviceGet;
  driver.DeviceGetName = DeviceGetName;
  driver.DeviceTotalMem = DeviceTotalMem;
  driver.DeviceGetAttribute = DeviceGetAttribute;
  driver.DeviceGetPCIBusId = DeviceGetPCIBusId;
  driver.DevicePrimaryCtxRetain = DevicePrimaryCtxRetain;
  driver.DevicePrimaryCtxRelease = DevicePrimaryCtxRelease;
  driver.CtxSetCurrent = CtxSetCurrent;
  driver.CtxGetStreamPriorityRange = CtxGetStreamPriorityRange;
  driver.DeviceCanAccessPeer = DeviceCanAccessPeer;
  driver.CtxEnablePeerAccess = CtxEnablePeerAccess;
}

}  // namespace millrace::sim
