#include "ops/cuda/cublaslt_api.h"

#include <dlfcn.h>

#include "graph/strings.h"

namespace millrace {
namespace {

absl::StatusOr<CublasLtApi> ResolveCublasLt() {
  void* library = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return DeviceError(StrCat("no matrix products: ", dlerror()));
  CublasLtApi api;
#define MILLRACE_CUBLASLT_RESOLVE(field, symbol)                              \
  api.field = reinterpret_cast<decltype(&::symbol)>(dlsym(library, #symbol)); \
  if (api.field == nullptr) return DeviceError("cuBLASLt is too old: no " #symbol);
  MILLRACE_CUBLASLT_ENTRY_POINTS(MILLRACE_CUBLASLT_RESOLVE)
#undef MILLRACE_CUBLASLT_RESOLVE
  return api;
}

}  // namespace

absl::StatusOr<const CublasLtApi*> LoadCublasLt() {
  static const absl::StatusOr<CublasLtApi> loaded = ResolveCublasLt();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace millrace
