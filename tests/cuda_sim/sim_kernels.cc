// There is one simulated GPU function, "reference". Its only parameter, by value, is a key of what
// was prepared (op, types, strides) and the operands' addresses: what a real kernel gets, too. When
// it runs, it gathers its inputs into dense tensors, calls the op's reference kernel, and scatters
// the results. It declares exactly the rows of its operands, since neighbours may interleave.
#include "tests/cuda_sim/sim_kernels.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "graph/assert.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "ops/signature.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_driver.h"
#include "runtime/device.h"
#include "runtime/strided_copy.h"

namespace millrace {
namespace {

constexpr char kFunctionName[] = "reference";
constexpr size_t kMaxOperands = 128;

struct Params {
  uint64_t key = 0;
  std::array<CUdeviceptr, kMaxOperands> operands{};  // inputs, then outputs; 0: not there
};

struct Operand {
  std::optional<TensorType> type;  // nullopt: not there
  std::vector<int64_t> strides;    // elements; empty: dense
};

struct Prepared {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<Operand> inputs, outputs;
};

std::byte* AsPointer(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }
CUdeviceptr AsAddress(const std::byte* p) { return reinterpret_cast<CUdeviceptr>(p); }

// Calls row(device address, bytes, dense) for each contiguous run of bytes; `dense` is its place in
// a dense copy that begins at `dense_begin`.
template <typename Row>
void ForEachRow(const Operand& operand, CUdeviceptr address, std::byte* dense_begin, Row&& row) {
  const StridedPlace dense{.data = dense_begin};
  const StridedPlace device{.data = AsPointer(address), .strides = operand.strides};
  ForEachRegion(PlanStridedCopy(*operand.type, dense, device), [&](const CopyRegion& r) {
    for (int64_t i = 0; i < r.rows; ++i) {
      row(AsAddress(r.from + i * r.from_pitch_bytes), r.row_bytes, r.to + i * r.to_pitch_bytes);
    }
    return absl::OkStatus();
  }).IgnoreError();
}

void AppendAccesses(const Operand& operand, CUdeviceptr address, bool write,
                    std::vector<SimAccess>& to) {
  if (!operand.type.has_value()) return;
  ForEachRow(operand, address, AsPointer(address), [&](CUdeviceptr row, int64_t bytes, std::byte*) {
    const bool adjacent = !to.empty() && to.back().write == write &&
                          to.back().address + static_cast<uint64_t>(to.back().size_bytes) == row;
    if (adjacent) {
      to.back().size_bytes += bytes;
    } else {
      to.push_back({row, bytes, write});
    }
  });
}

absl::StatusOr<Tensor> Gather(const SimLaunch& launch, const Operand& operand,
                              CUdeviceptr address) {
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(*operand.type));
  absl::Status status;
  std::byte* begin = tensor.mutable_bytes();
  ForEachRow(operand, address, begin, [&](CUdeviceptr row, int64_t bytes, std::byte* to) {
    const std::byte* from = launch.Read(row, bytes);
    if (from == nullptr) {
      status = InternalError("undeclared read");
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  });
  if (!status.ok()) return status;
  return tensor;
}

absl::Status Scatter(const SimLaunch& launch, const Operand& operand, CUdeviceptr address,
                     Tensor& tensor) {
  absl::Status status;
  std::byte* begin = tensor.mutable_bytes();
  ForEachRow(operand, address, begin, [&](CUdeviceptr row, int64_t bytes, std::byte* from) {
    std::byte* to = launch.Write(row, bytes);
    if (to == nullptr) {
      status = InternalError("undeclared write");
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  });
  return status;
}

std::vector<SimAccess> AccessesOf(const Prepared& prepared, const Params& params) {
  std::vector<SimAccess> accesses;
  size_t next = 0;
  for (const Operand& o : prepared.inputs) {
    AppendAccesses(o, params.operands[next++], false, accesses);
  }
  for (const Operand& o : prepared.outputs) {
    AppendAccesses(o, params.operands[next++], true, accesses);
  }
  return accesses;
}

absl::Status RunReference(const Prepared& prepared, const Params& params, const SimLaunch& launch) {
  std::vector<Tensor> inputs, outputs;
  size_t next = 0;
  for (const Operand& o : prepared.inputs) {
    const CUdeviceptr address = params.operands[next++];
    if (!o.type.has_value()) {
      inputs.emplace_back();
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(Tensor input, Gather(launch, o, address));
    inputs.push_back(std::move(input));
  }
  for (const Operand& o : prepared.outputs) {
    outputs.push_back(o.type.has_value() ? Tensor::Zeros(*o.type) : Tensor());
  }
  MILLRACE_RETURN_IF_ERROR(prepared.op->reference({prepared.attrs, inputs, outputs}));
  for (size_t i = 0; i < outputs.size(); ++i, ++next) {
    const Operand& o = prepared.outputs[i];
    if (!o.type.has_value()) continue;
    MILLRACE_RETURN_IF_ERROR(Scatter(launch, o, params.operands[next], outputs[i]));
  }
  return absl::OkStatus();
}

// What was prepared, by key. Launches look it up from the simulator's thread.
class Registry {
 public:
  uint64_t Add(Prepared prepared) {
    std::lock_guard lock(mutex_);
    prepared_.push_back(std::make_shared<Prepared>(std::move(prepared)));
    return prepared_.size() - 1;
  }
  std::shared_ptr<const Prepared> Get(uint64_t key) const {
    std::lock_guard lock(mutex_);
    return prepared_.at(key);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Prepared>> prepared_;
};

// A module of one device, with the function in it.
class ReferenceModule {
 public:
  static absl::StatusOr<std::shared_ptr<ReferenceModule>> Load(const CudaDriver& driver,
                                                               Device& device) {
    MILLRACE_RETURN_IF_ERROR(MakeCudaDeviceCurrent(device));
    std::shared_ptr<ReferenceModule> loaded(new ReferenceModule(driver, device));
    CUresult r = driver.ModuleLoadData(&loaded->module_, CudaSim::ModuleImage());
    if (r == CUDA_SUCCESS) {
      r = driver.ModuleGetFunction(&loaded->function_, loaded->module_, kFunctionName);
    }
    if (r != CUDA_SUCCESS) return CudaError(driver, r, "loading the reference kernels");
    return loaded;
  }
  ~ReferenceModule() {
    if (module_ != nullptr && MakeCudaDeviceCurrent(device_).ok()) driver_.ModuleUnload(module_);
  }
  const CudaDriver& driver() const { return driver_; }
  CUfunction function() const { return function_; }

 private:
  ReferenceModule(const CudaDriver& driver, Device& device) : driver_(driver), device_(device) {}
  const CudaDriver& driver_;
  Device& device_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

class SimReferenceKernel final : public Kernel {
 public:
  SimReferenceKernel(std::shared_ptr<ReferenceModule> module, uint64_t key, size_t num_inputs,
                     size_t num_outputs)
      : module_(std::move(module)), num_inputs_(num_inputs), num_outputs_(num_outputs) {
    params_.key = key;
  }

  absl::Status Run(const KernelArgs& args) override {
    for (size_t i = 0; i < num_inputs_; ++i) {
      params_.operands[i] = reinterpret_cast<CUdeviceptr>(args.inputs[i]);
    }
    for (size_t i = 0; i < num_outputs_; ++i) {
      params_.operands[num_inputs_ + i] = reinterpret_cast<CUdeviceptr>(args.outputs[i]);
    }
    void* values[] = {&params_};
    const CUresult r =
        module_->driver().LaunchKernel(module_->function(), 1, 1, 1, 1, 1, 1, 0,
                                       static_cast<CUstream>(args.native_stream), values, nullptr);
    if (r == CUDA_SUCCESS) return absl::OkStatus();
    return CudaError(module_->driver(), r, "launching a reference kernel");
  }

 private:
  const std::shared_ptr<ReferenceModule> module_;
  const size_t num_inputs_, num_outputs_;
  Params params_;
};

class SimKernelLibrary final : public KernelLibrary {
 public:
  explicit SimKernelLibrary(CudaSim& sim) : driver_(sim.driver()) {
    SimKernel kernel;
    kernel.param_bytes = {sizeof(Params)};
    kernel.accesses = [registry = registry_](const SimLaunch& launch) {
      const auto params = launch.Param<Params>(0);
      return AccessesOf(*registry->Get(params.key), params);
    };
    kernel.run = [registry = registry_](const SimLaunch& launch) {
      const auto params = launch.Param<Params>(0);
      const std::shared_ptr<const Prepared> prepared = registry->Get(params.key);
      const absl::Status status = RunReference(*prepared, params, launch);
      if (status.ok()) return CUDA_SUCCESS;
      std::fprintf(stderr, "%s: device-side assertion: %s\n", prepared->op->name.c_str(),
                   status.ToString().c_str());
      return CUDA_ERROR_ASSERT;
    };
    sim.RegisterKernel(kFunctionName, std::move(kernel));
  }

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    const NodeQuery& query = request.query;
    if (request.variant != kFunctionName || SimTarget().Variants(query).empty() ||
        SimTarget().Variants(query)[0].on_host) {
      return InternalError(StrCat("no simulated kernel '", request.variant, "' for ", query.op));
    }
    MILLRACE_CHECK(request.device != nullptr && request.device->kind() == "cuda");
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<ReferenceModule> module,
                              ReferenceModule::Load(driver_, *request.device));
    const OpDef* op = FindOp(query.op);
    Attrs storage;
    Prepared prepared{op, WithDefaults(*op, query.attrs, storage), {}, {}};
    Describe(query.inputs, request.inputs, prepared.inputs);
    Describe(query.outputs, request.outputs, prepared.outputs);
    const uint64_t key = registry_->Add(std::move(prepared));
    return std::make_unique<SimReferenceKernel>(std::move(module), key, query.inputs.size(),
                                                query.outputs.size());
  }

 private:
  static void Describe(const std::vector<std::optional<TensorType>>& types,
                       const std::vector<OperandLayout>& layouts, std::vector<Operand>& to) {
    for (size_t i = 0; i < types.size(); ++i) {
      to.push_back({types[i], i < layouts.size() ? layouts[i].strides : std::vector<int64_t>()});
    }
  }

  const CudaDriver& driver_;
  const std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
};

}  // namespace

std::unique_ptr<KernelLibrary> CreateSimKernelLibrary(CudaSim& sim) {
  return std::make_unique<SimKernelLibrary>(sim);
}

std::vector<KernelVariant> SimTarget::Variants(const NodeQuery& query) const {
  const OpDef* op = FindOp(query.op);
  const bool fits = query.inputs.size() + query.outputs.size() <= kMaxOperands;
  if (op == nullptr || op->reference == nullptr || !fits) return {};
  const Work work = WorkOf(query);
  KernelVariant variant;
  variant.name = kFunctionName;
  variant.in_layouts.assign(query.inputs.size(), Layout::kStrided);
  variant.out_layouts.assign(query.outputs.size(), Layout::kStrided);
  variant.on_host = op->traits.host_call;
  variant.strided = !variant.on_host;
  variant.capturable = !variant.on_host;
  variant.deterministic = op->traits.deterministic;
  variant.flops = work.flops;
  variant.bytes = work.bytes;
  return {std::move(variant)};
}

}  // namespace millrace
