#include "ops/cuda/cudnn_api.h"

#include <dlfcn.h>

#include "graph/strings.h"

namespace millrace {
namespace {

absl::StatusOr<CudnnApi> ResolveCudnn() {
  void* library = nullptr;
  for (const char* name : {"libcudnn.so.9", "libcudnn.so"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return DeviceError(StrCat("no convolutions: ", dlerror()));
  CudnnApi api;
#define MILLRACE_CUDNN_RESOLVE(symbol)                                         \
  api.symbol = reinterpret_cast<decltype(&::symbol)>(dlsym(library, #symbol)); \
  if (api.symbol == nullptr) return DeviceError("cuDNN does not fit: no " #symbol);
  MILLRACE_CUDNN_ENTRY_POINTS(MILLRACE_CUDNN_RESOLVE)
#undef MILLRACE_CUDNN_RESOLVE
  return api;
}

}  // namespace

absl::StatusOr<const CudnnApi*> LoadCudnn() {
  static const absl::StatusOr<CudnnApi> loaded = ResolveCudnn();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace millrace
