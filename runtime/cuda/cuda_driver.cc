#include "runtime/cuda/cuda_driver.h"

#include <dlfcn.h>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

absl::Status Resolve(PFN_cuGetProcAddress_v12000 get, const char* symbol, int version, void** to) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  CUresult result = get(symbol, to, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
  if (result == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS && *to != nullptr) {
    return absl::OkStatus();
  }
  return DeviceError(StrCat("the NVIDIA driver is too old: it lacks ", symbol, " as of CUDA ",
                            version / 1000, ".", version % 1000 / 10,
                            "; update it to a driver for CUDA 12 or later"));
}

absl::StatusOr<CudaDriver> OpenDriver() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // stays open: the table points into it
  if (library == nullptr) {
    const char* reason = dlerror();
    return DeviceError(
        StrCat("no NVIDIA driver on this machine: ", reason != nullptr ? reason : kLibrary,
               "; install the driver, or use a cpu device"));
  }
  auto get = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    return DeviceError(StrCat("the NVIDIA driver is too old: ", kLibrary,
                              " lacks cuGetProcAddress_v2; update it to a driver for CUDA 12 or "
                              "later"));
  }
  MILLRACE_ASSIGN_OR_RETURN(CudaDriver driver, ResolveCudaDriver(get));
  if (CUresult r = driver.Init(0); r != CUDA_SUCCESS) {
    return CudaError(driver, r, "initializing the NVIDIA driver");
  }
  return driver;
}

absl::StatusOr<CudaDeviceInfo> DescribeDevice(const CudaDriver& driver, int ordinal) {
  CudaDeviceInfo info;
  info.ordinal = ordinal;
  CUdevice device = 0;
  char name[256] = "", bus_id[32] = "";
  size_t memory = 0;
  int major = 0, minor = 0;
  CUresult r = driver.DeviceGet(&device, ordinal);
  if (r == CUDA_SUCCESS) r = driver.DeviceGetName(name, sizeof(name), device);
  if (r == CUDA_SUCCESS) r = driver.DeviceGetPCIBusId(bus_id, sizeof(bus_id), device);
  if (r == CUDA_SUCCESS) r = driver.DeviceTotalMem(&memory, device);
  auto attribute = [&](CUdevice_attribute which, int* value) {
    if (r == CUDA_SUCCESS) r = driver.DeviceGetAttribute(value, which, device);
  };
  attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major);
  attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor);
  attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info.multiprocessors);
  if (r != CUDA_SUCCESS) return CudaError(driver, r, StrCat("asking about GPU ", ordinal));
  info.name = name;
  info.bus_id = bus_id;
  info.memory_bytes = static_cast<int64_t>(memory);
  info.sm_version = 10 * major + minor;
  return info;
}

}  // namespace

absl::StatusOr<CudaDriver> ResolveCudaDriver(PFN_cuGetProcAddress_v12000 get) {
  CudaDriver driver;
#define MILLRACE_CUDA_RESOLVE(field, symbol, version) \
  MILLRACE_RETURN_IF_ERROR(Resolve(get, #symbol, version, reinterpret_cast<void**>(&driver.field)));
  MILLRACE_CUDA_ENTRY_POINTS(MILLRACE_CUDA_RESOLVE)
#undef MILLRACE_CUDA_RESOLVE
  return driver;
}

absl::StatusOr<const CudaDriver*> LoadCudaDriver() {
  static const auto* opened = new absl::StatusOr<CudaDriver>(OpenDriver());
  if (!opened->ok()) return opened->status();
  return &opened->value();
}

bool IsStickyCudaError(CUresult result) {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
#if CUDA_VERSION >= 12080
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
#endif
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

absl::Status CudaError(const CudaDriver& driver, CUresult result, std::string_view doing) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "CUDA error";
  if (driver.GetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "no text";
  std::string message = StrCat(doing, ": ", name, " (", static_cast<int>(result), "): ", text);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return OutOfMemoryError(message);
  if (IsStickyCudaError(result)) {
    StrAppend(&message,
              "; work issued earlier may have caused it, and the GPU's context is lost: "
              "every later call on it fails until the process ends");
  }
  return DeviceError(message);
}

absl::StatusOr<std::vector<CudaDeviceInfo>> ListCudaDevices(const CudaDriver& driver) {
  int count = 0;
  if (CUresult r = driver.DeviceGetCount(&count); r != CUDA_SUCCESS) {
    return CudaError(driver, r, "counting GPUs");
  }
  std::vector<CudaDeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    MILLRACE_ASSIGN_OR_RETURN(CudaDeviceInfo info, DescribeDevice(driver, ordinal));
    devices.push_back(std::move(info));
  }
  return devices;
}

}  // namespace millrace
