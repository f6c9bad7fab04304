// A file of the cache is the SHA-256 of the image in hex, then the image.
#include "ops/cuda/cuda_compiler.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "graph/files.h"
#include "graph/strings.h"
#include "ops/cuda/device_headers.h"

namespace millrace {
namespace {

constexpr size_t kHashDigits = 64;
constexpr int64_t kMaxImageBytes = int64_t{64} << 20;

class DiskCache final : public CudaCompiler {
 public:
  DiskCache(std::unique_ptr<CudaCompiler> compiler, std::string folder)
      : compiler_(std::move(compiler)), folder_(std::move(folder)) {}

  absl::StatusOr<std::string> Compile(const CudaLaunch& launch, int sm) override {
    const std::string path = StrCat(folder_, "/", KeyOf(launch, sm), ".cubin");
    const absl::StatusOr<std::string> file = ReadFile(path, kMaxImageBytes);
    if (file.ok() && file->size() > kHashDigits &&
        Sha256Hex(std::string_view(*file).substr(kHashDigits)) == file->substr(0, kHashDigits)) {
      return file->substr(kHashDigits);
    }
    MILLRACE_ASSIGN_OR_RETURN(std::string image, compiler_->Compile(launch, sm));
    std::error_code ignored;
    std::filesystem::create_directories(folder_, ignored);
    WriteFileAtomically(path, StrCat(Sha256Hex(image), image)).IgnoreError();
    return image;
  }

  std::string name() const override { return compiler_->name(); }

 private:
  std::string KeyOf(const CudaLaunch& launch, int sm) const {
    std::string all = StrCat(compiler_->name(), "\n", sm, "\n", launch.source);
    for (const DeviceHeader& header : DeviceHeaders()) StrAppend(&all, "\n", header.text);
    return Sha256Hex(all);
  }

  const std::unique_ptr<CudaCompiler> compiler_;
  const std::string folder_;
};

}  // namespace

std::unique_ptr<CudaCompiler> CacheOnDisk(std::unique_ptr<CudaCompiler> compiler,
                                          std::string folder) {
  return std::make_unique<DiskCache>(std::move(compiler), std::move(folder));
}

std::string KernelCacheFolder() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::string(value) : std::string();
  };
  if (const std::string own = set("MILLRACE_CACHE"); !own.empty()) return StrCat(own, "/kernels");
  if (const std::string xdg = set("XDG_CACHE_HOME"); !xdg.empty()) {
    return StrCat(xdg, "/millrace/kernels");
  }
  const std::string home = set("HOME");
  return home.empty() ? "" : StrCat(home, "/.cache/millrace/kernels");
}

}  // namespace millrace
