#include "tests/cuda_simt/simt_module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "graph/assert.h"
#include "graph/files.h"
#include "graph/strings.h"

namespace millrace {
namespace {

std::string SourceOf(std::span<const CudaLaunch> launches) {
  std::string text = "#include \"tests/cuda_simt/simt.h\"\n";
  std::set<std::string> functions;
  for (const CudaLaunch& launch : launches) {
    if (!functions.insert(launch.function).second) continue;
    StrAppend(&text, launch.source, "extern \"C\" void simt_", launch.function,
              "(void* const* params) { simt_call(", launch.function, ", params); }\n");
  }
  return text;
}

absl::Status Compile(const std::string& source, const std::string& library) {
  const std::string log = StrCat(library, ".log");
  const std::string command =
      StrCat("'" MILLRACE_HOST_COMPILER
             "' -std=c++20 -O1 -w -shared -fPIC -fno-strict-aliasing "
             "-I'" MILLRACE_SOURCE_DIR "' -I'" MILLRACE_SOURCE_DIR "/ops/cuda/device' -o '",
             library, "' '", source, "' > '", log, "' 2>&1");
  if (std::system(command.c_str()) == 0) return absl::OkStatus();
  const absl::StatusOr<std::string> messages = ReadFile(log, size_t{1} << 20);
  return InternalError(StrCat("compiling ", source, ":\n",
                              messages.ok() ? messages->substr(0, 4000) : "no messages"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SimtModule>> SimtModule::Build(
    std::span<const CudaLaunch> launches) {
  const std::string text = SourceOf(launches);
  // The name covers what the sources include, too.
  std::string all = text;
  for (const auto& entry :
       std::filesystem::directory_iterator(MILLRACE_SOURCE_DIR "/ops/cuda/device")) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string header,
                              ReadFile(entry.path().string(), size_t{1} << 20));
    all += header;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string shim,
                            ReadFile(MILLRACE_SOURCE_DIR "/tests/cuda_simt/simt.h", 1 << 20));
  all += shim;
  const std::filesystem::path folder = MILLRACE_BINARY_DIR "/simt_cache";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / StrCat(NamedLaunch("kernels", all).function, ".so")).string();
  if (!std::filesystem::exists(path)) {
    const std::string own = StrCat(path, ".", getpid());
    MILLRACE_RETURN_IF_ERROR(WriteFileAtomically(StrCat(own, ".cc"), text));
    MILLRACE_RETURN_IF_ERROR(Compile(StrCat(own, ".cc"), own));
    std::filesystem::rename(own, path);
    for (const char* rest : {".cc", ".log"}) std::filesystem::remove(StrCat(own, rest));
  }
  std::unique_ptr<SimtModule> module(new SimtModule());
  MILLRACE_RETURN_IF_ERROR(module->Load(path, launches));
  return module;
}

absl::Status SimtModule::Load(const std::string& path, std::span<const CudaLaunch> launches) {
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return InternalError(dlerror());
  const auto bind = reinterpret_cast<void (*)(const SimtApi*)>(dlsym(library_, "simt_bind"));
  MILLRACE_CHECK(bind != nullptr);
  bind(&SimtRuntime());
  for (const CudaLaunch& launch : launches) {
    void* symbol = dlsym(library_, StrCat("simt_", launch.function).c_str());
    if (symbol == nullptr) return InternalError(StrCat("no function ", launch.function));
    functions_[launch.function] = reinterpret_cast<Trampoline>(symbol);
  }
  return absl::OkStatus();
}

SimtModule::~SimtModule() {
  if (library_ != nullptr) dlclose(library_);
}

absl::Status SimtModule::Run(const CudaLaunch& launch, std::span<void* const> params,
                             SimtOrder order) const {
  const auto function = functions_.find(launch.function);
  MILLRACE_CHECK(function != functions_.end() && params.size() == launch.params.size());
  return RunSimtGrid(launch.blocks, launch.threads, order,
                     [&] { function->second(params.data()); });
}

}  // namespace millrace
