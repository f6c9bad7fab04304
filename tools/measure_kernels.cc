#include "tools/measure_kernels.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "graph/query_key.h"
#include "graph/strings.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/op_def.h"
#include "runtime/kernel.h"
#include "runtime/prepare.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostRotated = int64_t{128} << 20;  // bytes that take turns: beyond any cache
constexpr int64_t kMostData = 65536;                  // bytes of a constant worth keeping
constexpr double kBatchUs = 200;                      // long beside the clock's own time
constexpr int kBatches = 5;                           // of which the median counts
constexpr double kMostUs = 1e6;                       // for the batches of one kernel

double ElapsedUs(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

// --- Collecting ---------------------------------------------------------------------------------

struct Sizes {
  int64_t weights = 0, arena = 0;
};

Sizes SizesOf(const PlanBundle& plan, const Program& program) {
  Sizes sizes;
  for (const Binding& load : program.loads) {
    sizes.weights += ByteSize(plan.graph.value(load.value).type);
  }
  sizes.arena = std::max<int64_t>(0, DeviceBytes(program) - sizes.weights);
  return sizes;
}

template <typename Body>
KernelSample SampleOf(const Graph& graph, const Body& body, std::string variant, int threads) {
  KernelSample sample;
  sample.query = QueryFor(graph, body.node);
  sample.key = {QueryKey(sample.query), std::move(variant), threads};
  for (const ValueId id : graph.node(body.node).inputs) {
    const bool loaded = id.valid() && (graph.value(id).kind == ValueKind::kParam ||
                                       graph.value(id).kind == ValueKind::kConstant);
    const bool kept = loaded && graph.value(id).kind == ValueKind::kConstant &&
                      ByteSize(graph.value(id).type) <= kMostData;
    sample.is_weight.push_back(loaded);
    sample.data.push_back(kept ? ConstantTensor(graph, id).value_or(Tensor()) : Tensor());
  }
  return sample;
}

// --- One kernel ---------------------------------------------------------------------------------

// Something to compute with: floats in [-1, 1), zeros of any other type (indices that are in
// range).
void FillWithSmallNumbers(Tensor& tensor) {
  if (tensor.dtype() == DType::kF32) {
    const std::span<float> data = tensor.mutable_data<float>();
    for (size_t i = 0; i < data.size(); ++i) data[i] = 0.01f * static_cast<float>(i % 199) - 1;
  } else {
    std::memset(tensor.mutable_bytes(), 0, static_cast<size_t>(tensor.size_bytes()));
  }
}

// An operand, in several places that take turns.
struct Operand {
  std::vector<Tensor> places;
  void* At(int64_t run) {
    return places.empty() ? nullptr : places[run % std::ssize(places)].mutable_bytes();
  }
};

// What lies in an order of its own is zeros.
absl::StatusOr<Operand> MakeOperand(const std::optional<TensorType>& type,
                                    const OperandLayout& layout, const Tensor& data,
                                    int64_t rotated_bytes) {
  Operand operand;
  if (!type.has_value()) return operand;
  const bool is_plain = layout.layout == Layout::kStrided && layout.strides.empty();
  if (data.has_data() && is_plain) {
    operand.places.push_back(data);
    return operand;
  }
  const TensorType stored =
      is_plain ? *type : TensorType{DType::kU8, {std::max(ByteSize(*type), layout.size_bytes)}};
  const int64_t size = std::max<int64_t>(ByteSize(stored), 1);
  const int64_t places =
      std::clamp<int64_t>(std::min(rotated_bytes, kMostRotated) / size, 1, 1 << 16);
  for (int64_t i = 0; i < places; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(stored));
    FillWithSmallNumbers(tensor);
    operand.places.push_back(std::move(tensor));
  }
  return operand;
}

class KernelTimer {
 public:
  static absl::StatusOr<std::unique_ptr<KernelTimer>> Make(const KernelSample& sample,
                                                           KernelLibrary& library) {
    auto timer = std::unique_ptr<KernelTimer>(new KernelTimer());
    KernelRequest request;
    request.query = sample.query;
    request.variant = sample.key.variant;
    request.threads = sample.key.threads;
    request.scratch_bytes = sample.scratch_bytes;
    request.inputs = sample.inputs;
    request.outputs = sample.outputs;
    request.inputs.resize(sample.query.inputs.size());
    request.outputs.resize(sample.query.outputs.size());
    MILLRACE_ASSIGN_OR_RETURN(timer->kernel_, library.Prepare(request));
    int64_t own_weights = 0;
    for (size_t i = 0; i < sample.query.inputs.size(); ++i) {
      const auto& type = sample.query.inputs[i];
      if (sample.is_weight[i] && type.has_value()) own_weights += ByteSize(*type);
    }
    for (size_t i = 0; i < sample.query.inputs.size(); ++i) {
      // Each weight takes its share of the room.
      const auto& type = sample.query.inputs[i];
      const bool rotates = sample.is_weight[i] && type.has_value() && own_weights > 0;
      const double share =
          rotates ? static_cast<double>(ByteSize(*type)) / static_cast<double>(own_weights) : 0;
      const double room = share * static_cast<double>(sample.weight_bytes);
      MILLRACE_ASSIGN_OR_RETURN(
          Operand operand,
          MakeOperand(type, request.inputs[i], sample.data[i], static_cast<int64_t>(room)));
      timer->inputs_.push_back(std::move(operand));
    }
    for (size_t k = 0; k < sample.query.outputs.size(); ++k) {
      MILLRACE_ASSIGN_OR_RETURN(
          Operand operand,
          MakeOperand(sample.query.outputs[k], request.outputs[k], Tensor(), sample.arena_bytes));
      timer->outputs_.push_back(std::move(operand));
    }
    MILLRACE_ASSIGN_OR_RETURN(timer->scratch_,
                              Tensor::Allocate({DType::kU8, {sample.scratch_bytes}}));
    return timer;
  }

  // The median time of a run, by a few batches of runs; fewer of a kernel that takes very long.
  absl::StatusOr<double> TimeUs() {
    const Clock::time_point begin = Clock::now();
    MILLRACE_RETURN_IF_ERROR(Run(1));  // warm
    int64_t batch = 1;
    double took_us = 0;
    while (true) {
      const Clock::time_point start = Clock::now();
      MILLRACE_RETURN_IF_ERROR(Run(batch));
      took_us = ElapsedUs(start);
      if (took_us >= kBatchUs) break;
      batch = std::max(batch * 2, static_cast<int64_t>(static_cast<double>(batch) * kBatchUs /
                                                       std::max(took_us, 1.0)));
    }
    std::vector<double> times = {took_us / static_cast<double>(batch)};
    while (std::ssize(times) < kBatches && ElapsedUs(begin) < kMostUs) {
      const Clock::time_point start = Clock::now();
      MILLRACE_RETURN_IF_ERROR(Run(batch));
      times.push_back(ElapsedUs(start) / static_cast<double>(batch));
    }
    const auto median = times.begin() + std::ssize(times) / 2;
    std::nth_element(times.begin(), median, times.end());
    return std::max(*median, 1e-4);
  }

 private:
  KernelTimer() = default;

  absl::Status Run(int64_t times) {
    std::vector<void*> in(inputs_.size()), out(outputs_.size());
    const KernelArgs args = {
        .inputs = in.data(), .outputs = out.data(), .scratch = scratch_.mutable_bytes()};
    for (int64_t i = 0; i < times; ++i, ++runs_) {
      for (size_t k = 0; k < in.size(); ++k) in[k] = inputs_[k].At(runs_);
      for (size_t k = 0; k < out.size(); ++k) out[k] = outputs_[k].At(runs_);
      MILLRACE_RETURN_IF_ERROR(kernel_->Run(args));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Kernel> kernel_;
  std::vector<Operand> inputs_, outputs_;
  Tensor scratch_;
  int64_t runs_ = 0;
};

bool HasBounded(const Graph& graph, NodeId node) {
  for (const auto* list : {&graph.node(node).inputs, &graph.node(node).outputs}) {
    for (const ValueId id : *list) {
      if (id.valid() && graph.value(id).bounded) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<KernelSample> KernelsOf(const PlanBundle& plan) {
  const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
  std::vector<KernelSample> samples;
  std::set<KernelKey> seen;
  for (const Program& program : plan.programs) {
    if (program.device_kind != "cpu") continue;
    const Sizes sizes = SizesOf(plan, program);
    const auto add = [&](KernelSample sample) {
      if (!seen.insert(sample.key).second) return;
      sample.weight_bytes = sizes.weights;
      sample.arena_bytes = sizes.arena;
      samples.push_back(std::move(sample));
    };
    for (const Segment& segment : program.segments) {
      for (const Instruction& instruction : segment.instructions) {
        const int threads = program.streams[instruction.stream.index].threads;
        if (const auto* launch = std::get_if<Launch>(&instruction.body)) {
          KernelSample sample = SampleOf(*graphs[launch->graph], *launch, launch->variant, threads);
          sample.inputs = LayoutsOf(program, launch->inputs);
          sample.outputs = LayoutsOf(program, launch->outputs);
          if (launch->scratch.valid()) {
            sample.scratch_bytes = program.slices[launch->scratch.index].size_bytes;
          }
          add(std::move(sample));
        } else if (const auto* call = std::get_if<HostCall>(&instruction.body)) {
          // What true sizes are like is not known.
          const Graph& graph = *graphs[call->graph];
          if (!HasBounded(graph, call->node)) add(SampleOf(graph, *call, "reference", 1));
        }
      }
    }
  }
  return samples;
}

absl::Status MeasureKernels(const std::vector<KernelSample>& samples, const MeasureOptions& options,
                            DeviceCosts& costs) {
  const std::unique_ptr<KernelLibrary> library = CreateCpuKernelLibrary();
  const Clock::time_point start = Clock::now();
  std::vector<double> best_us(samples.size(), std::numeric_limits<double>::infinity());
  const int64_t all = std::ssize(samples) * options.rounds;
  int64_t done = 0;
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < samples.size(); ++i) {
      if (round > 0 && ElapsedUs(start) > options.seconds * 1e6) break;
      absl::StatusOr<std::unique_ptr<KernelTimer>> timer = KernelTimer::Make(samples[i], *library);
      if (!timer.ok()) return Annotate(timer.status(), samples[i].key.query);
      absl::StatusOr<double> time_us = (*timer)->TimeUs();
      if (!time_us.ok()) return Annotate(time_us.status(), samples[i].key.query);
      best_us[i] = std::min(best_us[i], *time_us);
      if (options.progress) options.progress(++done, all);
    }
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const Work work = WorkOf(samples[i].query);
    costs.kernels[samples[i].key] = {
        .time_us = best_us[i], .flops = work.flops, .bytes = work.bytes};
  }
  return absl::OkStatus();
}

}  // namespace millrace
