#include "ops/cuda/nvrtc_compiler.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <charconv>

#include "absl/strings/str_split.h"
#include "graph/strings.h"
#include "ops/cuda/device_headers.h"

namespace millrace {
namespace {

#define MILLRACE_NVRTC_ENTRY_POINTS(X) \
  X(nvrtcGetErrorString)               \
  X(nvrtcVersion)                      \
  X(nvrtcCreateProgram)                \
  X(nvrtcDestroyProgram)               \
  X(nvrtcCompileProgram)               \
  X(nvrtcGetProgramLogSize)            \
  X(nvrtcGetProgramLog)                \
  X(nvrtcGetCUBINSize)                 \
  X(nvrtcGetCUBIN)

struct Nvrtc {
#define MILLRACE_NVRTC_FIELD(symbol) decltype(&::symbol) symbol = nullptr;
  MILLRACE_NVRTC_ENTRY_POINTS(MILLRACE_NVRTC_FIELD)
#undef MILLRACE_NVRTC_FIELD
};

absl::StatusOr<Nvrtc> ResolveNvrtc() {
  void* library = nullptr;
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return DeviceError(
        StrCat("kernels cannot be compiled: ", dlerror(), "; NVRTC is part of the CUDA toolkit"));
  }
  Nvrtc nvrtc;
#define MILLRACE_NVRTC_RESOLVE(symbol)                                           \
  nvrtc.symbol = reinterpret_cast<decltype(&::symbol)>(dlsym(library, #symbol)); \
  if (nvrtc.symbol == nullptr) return DeviceError("NVRTC is too old: no " #symbol);
  MILLRACE_NVRTC_ENTRY_POINTS(MILLRACE_NVRTC_RESOLVE)
#undef MILLRACE_NVRTC_RESOLVE
  return nvrtc;
}

// Loaded once per process, and never unloaded.
absl::StatusOr<const Nvrtc*> LoadNvrtc() {
  static const absl::StatusOr<Nvrtc> loaded = ResolveNvrtc();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

class NvrtcProgram {
 public:
  explicit NvrtcProgram(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}
  ~NvrtcProgram() {
    if (program_ != nullptr) nvrtc_.nvrtcDestroyProgram(&program_);
  }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  absl::Status Compile(const std::string& source, int sm, bool verbose) {
    std::vector<const char*> texts, names;
    for (const DeviceHeader& header : DeviceHeaders()) {
      texts.push_back(header.text);
      names.push_back(header.name);
    }
    MILLRACE_RETURN_IF_ERROR(
        Check(nvrtc_.nvrtcCreateProgram(&program_, source.c_str(), "kernel.cu",
                                        static_cast<int>(names.size()), texts.data(), names.data()),
              "making a program"));
    const std::string arch = StrCat("--gpu-architecture=sm_", sm);
    std::vector<const char*> options = {arch.c_str(), "--std=c++20"};
    if (verbose) options.push_back("--ptxas-options=--verbose");
    const nvrtcResult result =
        nvrtc_.nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
    if (result == NVRTC_SUCCESS) return absl::OkStatus();
    if (result == NVRTC_ERROR_COMPILATION) {
      return InternalError(StrCat("a kernel does not compile for sm_", sm, ":\n", Log()));
    }
    return Check(result, StrCat("compiling for sm_", sm));
  }

  std::string Log() const {
    size_t size = 0;
    if (nvrtc_.nvrtcGetProgramLogSize(program_, &size) != NVRTC_SUCCESS || size < 2) return "";
    std::string log(size, '\0');
    if (nvrtc_.nvrtcGetProgramLog(program_, log.data()) != NVRTC_SUCCESS) return "";
    log.resize(size - 1);
    return log;
  }

  absl::StatusOr<std::string> Image() const {
    size_t size = 0;
    MILLRACE_RETURN_IF_ERROR(Check(nvrtc_.nvrtcGetCUBINSize(program_, &size), "sizing an image"));
    std::string image(size, '\0');
    MILLRACE_RETURN_IF_ERROR(Check(nvrtc_.nvrtcGetCUBIN(program_, image.data()), "an image"));
    return image;
  }

 private:
  absl::Status Check(nvrtcResult result, std::string_view doing) const {
    if (result == NVRTC_SUCCESS) return absl::OkStatus();
    return DeviceError(StrCat("NVRTC: ", doing, ": ", nvrtc_.nvrtcGetErrorString(result)));
  }

  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

class NvrtcCompiler final : public CudaCompiler {
 public:
  explicit NvrtcCompiler(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}

  absl::StatusOr<std::string> Compile(const CudaLaunch& launch, int sm) override {
    NvrtcProgram program(nvrtc_);
    MILLRACE_RETURN_IF_ERROR(program.Compile(launch.source, sm, /*verbose=*/false));
    return program.Image();
  }

  std::string name() const override {
    int major = 0, minor = 0;
    nvrtc_.nvrtcVersion(&major, &minor);
    return StrCat("nvrtc ", major, ".", minor);
  }

 private:
  const Nvrtc& nvrtc_;
};

// The number before `unit` in "ptxas info : 32 bytes stack frame, 0 bytes spill stores, ...".
int64_t NumberBefore(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t number = 0;
  std::from_chars(line.data() + begin, line.data() + at, number);
  return number;
}

InspectedKernels ReadReport(const std::string& log) {
  InspectedKernels report;
  for (const absl::string_view each : absl::StrSplit(log, '\n')) {
    const std::string_view line = StdView(each);
    if (line.find("warning") != std::string_view::npos) StrAppend(&report.warnings, line, "\n");
    constexpr std::string_view kFunction = "Function properties for ";
    if (const size_t at = line.find(kFunction); at != std::string_view::npos) {
      report.functions.push_back({.function = std::string(line.substr(at + kFunction.size()))});
    }
    if (report.functions.empty()) continue;
    KernelResources& last = report.functions.back();
    last.stack_bytes += NumberBefore(line, " bytes stack frame");
    last.spill_store_bytes += NumberBefore(line, " bytes spill stores");
    last.spill_load_bytes += NumberBefore(line, " bytes spill loads");
    last.registers += static_cast<int>(NumberBefore(line, " registers"));
  }
  return report;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCompiler>> CreateNvrtcCompiler() {
  MILLRACE_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, LoadNvrtc());
  return std::make_unique<NvrtcCompiler>(*nvrtc);
}

absl::StatusOr<InspectedKernels> InspectSource(std::string_view source, int sm) {
  MILLRACE_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, LoadNvrtc());
  NvrtcProgram program(*nvrtc);
  MILLRACE_RETURN_IF_ERROR(program.Compile(std::string(source), sm, /*verbose=*/true));
  InspectedKernels inspected = ReadReport(program.Log());
  MILLRACE_ASSIGN_OR_RETURN(inspected.image, program.Image());
  return inspected;
}

}  // namespace millrace
