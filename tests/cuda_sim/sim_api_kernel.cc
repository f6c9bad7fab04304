// Entry points for modules and kernels.
#include <cstring>

#include "tests/cuda_sim/sim_state.h"

namespace millrace::sim {
namespace {

CUresult ModuleLoadData(CUmodule* module, const void* image) {
  constexpr char kEntry[] = "ModuleLoadData";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock&, int device) {
    if (auto forbidden = state.ForbiddenInCapture(kEntry)) return *forbidden;
    const auto* expected = static_cast<const char*>(CudaSim::ModuleImage());
    if (std::strncmp(static_cast<const char*>(image), expected, std::strlen(expected)) != 0) {
      return CUDA_ERROR_INVALID_IMAGE;
    }
    Module loaded;
    loaded.device = device;
    *module = state.modules.Add(std::move(loaded));
    return CUDA_SUCCESS;
  });
}

CUresult ModuleUnload(CUmodule handle) {
  return EnterContext(
      "ModuleUnload",
      [&](State& state, Scheduler::Lock&, int) {
        const Module* module = state.modules.Find(handle);
        if (module == nullptr) {
          return state.Violate(CUDA_ERROR_INVALID_HANDLE,
                               "invalid handle: ModuleUnload of a module that is not loaded");
        }
        for (CUfunction function : module->functions) state.functions.Remove(function);
        state.modules.Remove(handle);
        return CUDA_SUCCESS;
      },
      /*frees=*/true);
}

CUresult ModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return EnterContext("ModuleGetFunction", [&](State& state, Scheduler::Lock&, int) {
    Module* module = state.modules.Find(handle);
    if (module == nullptr) {
      return state.Violate(CUDA_ERROR_INVALID_HANDLE,
                           "invalid handle: ModuleGetFunction of a module that is not loaded");
    }
    auto kernel = state.kernels.find(std::string_view(name));
    if (kernel == state.kernels.end()) return CUDA_ERROR_NOT_FOUND;
    *function = state.functions.Add({module->device, name, &kernel->second});
    module->functions.push_back(*function);
    return CUDA_SUCCESS;
  });
}

// Bytes of another device, which a kernel reaches only after peer access was enabled.
bool IsOutOfReach(const State& state, int device, const SimAccess& access) {
  const Place place = state.memory.Find(
      {access.address, access.address + static_cast<uint64_t>(access.size_bytes)});
  if (place.kind != Place::Kind::kAllocated || place.allocation->device == kPinned ||
      place.allocation->device == device) {
    return false;
  }
  const Context& own = state.contexts[static_cast<size_t>(device)];
  return !own.peers.contains(state.contexts[static_cast<size_t>(place.allocation->device)].handle);
}

CUresult LaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                      CUstream stream_handle, void** params, void** extra) {
  constexpr char kEntry[] = "LaunchKernel";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock& lock, int device) {
    CUresult error = CUDA_SUCCESS;
    Stream* stream = UsableStream(state, kEntry, stream_handle, device, &error);
    if (stream == nullptr) return error;
    const Function* function = state.functions.Find(handle);
    if (function == nullptr || function->device != device) {
      return state.Violate(CUDA_ERROR_INVALID_HANDLE,
                           "invalid handle: LaunchKernel of a function of no loaded module, or of "
                           "another device");
    }
    const uint64_t threads = uint64_t{block_x} * block_y * block_z;
    const bool grid_fits = grid_x != 0 && grid_x < 1u << 31 && grid_y != 0 && grid_y < 1u << 16 &&
                           grid_z != 0 && grid_z < 1u << 16;
    if (!grid_fits || threads == 0 || threads > 1024 || block_z > 64 || extra != nullptr) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE,
                           StrCat("out of bounds: the launch shape of ", function->name));
    }
    std::vector<std::vector<std::byte>> values;
    for (size_t i = 0; i < function->kernel->param_bytes.size(); ++i) {
      const auto* bytes = static_cast<const std::byte*>(params[i]);
      values.emplace_back(bytes, bytes + function->kernel->param_bytes[i]);
    }
    auto launch = std::make_shared<SimLaunch>(std::move(values), &state);
    launch->set_accesses(function->kernel->accesses(*launch));
    Op op;
    op.label = StrCat("kernel ", function->name);
    for (const SimAccess& a : launch->accesses()) {
      if (a.size_bytes == 0) continue;
      if (IsOutOfReach(state, device, a)) {
        state.violations.push_back(
            StrCat("out of bounds: ", op.label, " reaches for another device without peer access"));
      }
      op.accesses.push_back(
          {{a.address, a.address + static_cast<uint64_t>(a.size_bytes)}, a.write});
    }
    op.run = [launch, kernel = function->kernel] { return kernel->run(*launch); };
    return Issue(state, lock, *stream, std::move(op));
  });
}

}  // namespace

void AddKernelEntries(CudaDriver& driver) {
  driver.ModuleLoadData = ModuleLoadData;
  driver.ModuleUnload = ModuleUnload;
  driver.ModuleGetFunction = ModuleGetFunction;
  driver.LaunchKernel = LaunchKernel;
}

}  // namespace millrace::sim
