#include "tools/measure_machine.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "graph/builder.h"
#include "graph/check/check.h"
#include "graph/strings.h"
#include "ops/cpu/machine_rates.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "passes/analytic_target.h"
#include "passes/pipeline.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_machine.h"
#include "runtime/null/null_device.h"
#include "runtime/session.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTries = 7;

template <typename Work>
double SecondsOf(Work work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename Work>
double LeastSeconds(int tries, Work work) {
  double least = SecondsOf(work);
  for (int i = 1; i < tries; ++i) least = std::min(least, SecondsOf(work));
  return least;
}

// --- The run loop -------------------------------------------------------------------------------

// A session of `nodes` kernels, one after another, that do nothing.
struct IdleSession {
  std::unique_ptr<Device> device;
  NullKernelLibrary kernels;
  std::unique_ptr<Session> session;
};

absl::Status Make(int nodes, IdleSession& idle) {
  GraphBuilder builder("idle");
  const TensorType type{DType::kF32, Shape{8}};
  ValueId x = builder.Input("x", type);
  for (int i = 0; i < nodes; ++i) x = builder.Op("Relu", {x});
  builder.Output(x);
  Graph graph = std::move(builder).Build();
  MILLRACE_RETURN_IF_ERROR(InferTypes(graph));
  const MachineSpec machine = DetectHostMachine(/*cpu_devices=*/1, /*threads_per_device=*/1);
  MILLRACE_ASSIGN_OR_RETURN(CompileResult compiled,
                            Compile(std::move(graph), machine, AnalyticTarget("cpu")));
  MILLRACE_ASSIGN_OR_RETURN(CheckedPlan plan,
                            CheckedPlan::Check(std::move(compiled.plan), AllOpTraits(), &machine));
  idle.device = CreateCpuDevice({.name = "cpu:0", .memory_bytes = 0, .offload_directory = ""});
  const DeviceTable table = {
      {"cpu:0",
       {.device = idle.device.get(), .kernels = &idle.kernels, .host_kernels = &idle.kernels}}};
  MILLRACE_ASSIGN_OR_RETURN(idle.session, Session::Create(std::move(plan), table));
  return idle.session->SetInput("x", Tensor::Zeros(type));
}

// --- The disk -----------------------------------------------------------------------------------

// A file that is gone when this is.
class DiskFile {
 public:
  static absl::StatusOr<std::unique_ptr<DiskFile>> Make(const std::string& folder) {
    std::string path = StrCat(folder, "/millrace-profile-XXXXXX");
    const int fd = mkstemp(path.data());
    if (fd < 0) {
      return UsageError(StrCat("cannot write to folder '", folder, "': ", std::strerror(errno)));
    }
    unlink(path.c_str());
    return std::unique_ptr<DiskFile>(new DiskFile(fd));
  }
  ~DiskFile() { close(fd_); }

  bool Write(const std::vector<char>& block, int blocks) {
    for (int i = 0; i < blocks; ++i) {
      if (write(fd_, block.data(), block.size()) != std::ssize(block)) return false;
    }
    return fdatasync(fd_) == 0;
  }
  // From the disk, as far as the system lets its own copy go.
  bool Read(std::vector<char>& block, int blocks) {
    posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    if (lseek(fd_, 0, SEEK_SET) != 0) return false;
    for (int i = 0; i < blocks; ++i) {
      if (read(fd_, block.data(), block.size()) != std::ssize(block)) return false;
    }
    return true;
  }

 private:
  explicit DiskFile(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace

double MeasureMemoryBandwidth(int threads) {
  constexpr int64_t kFloats = int64_t{48} << 20;  // 192 MiB an array: beyond any cache
  std::vector<float> from(kFloats, 1), to(kFloats, 0);
  const double seconds =
      LeastSeconds(kTries, [&] { StreamFloats(from.data(), to.data(), kFloats, threads); });
  return 2.0 * sizeof(float) * kFloats / seconds;
}

double MeasurePeakFlops(DType dtype, int threads) {
  constexpr int64_t kRounds = 1 << 20;  // some 5 ms
  double flops = 0;
  const double seconds = LeastSeconds(kTries, [&] { flops = BurnFlops(dtype, kRounds, threads); });
  return flops / seconds;
}

absl::StatusOr<double> MeasureLaunchOverheadUs() {
  // What a step costs apart from its kernels falls out of the difference.
  constexpr int kFew = 1000, kMany = 5000;
  double least_us[2] = {};
  for (const bool many : {false, true}) {
    IdleSession idle;
    MILLRACE_RETURN_IF_ERROR(Make(many ? kMany : kFew, idle));
    absl::Status status;
    least_us[many] = 1e6 * LeastSeconds(200, [&] { status.Update(idle.session->Run()); });
    MILLRACE_RETURN_IF_ERROR(status);
  }
  return std::max(0.0, (least_us[1] - least_us[0]) / (kMany - kFew));
}

absl::StatusOr<double> MeasureFileBandwidth(const std::string& folder) {
  constexpr int kBlocks = 16;
  std::vector<char> block(8 << 20, 'x');
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file, DiskFile::Make(folder));
  bool ok = true;
  const double write_seconds = SecondsOf([&] { ok &= file->Write(block, kBlocks); });
  const double read_seconds = SecondsOf([&] { ok &= file->Read(block, kBlocks); });
  if (!ok) {
    return UsageError(StrCat("cannot write to folder '", folder, "': ", std::strerror(errno)));
  }
  return static_cast<double>(block.size()) * kBlocks / std::max(write_seconds, read_seconds);
}

absl::StatusOr<MachineSpec> MeasureMachine(const MeasureMachineOptions& options) {
  MachineSpec machine = DetectHostMachine(/*cpu_devices=*/1, options.threads);
  DeviceSpec& device = machine.devices[0];
  NodeSpec& node = machine.nodes[0];
  device.memory_bandwidth = MeasureMemoryBandwidth(device.threads);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    device.peak_flops[dtype] = MeasurePeakFlops(dtype, device.threads);
  }
  MILLRACE_ASSIGN_OR_RETURN(device.launch_overhead_us, MeasureLaunchOverheadUs());
  node.host_memory_bandwidth = device.memory_bandwidth;
  // Copies within one memory read and write it.
  node.host_link.bandwidth = node.peer_link.bandwidth = device.memory_bandwidth / 2;
  std::error_code error;
  const std::string folder = options.folder.empty()
                                 ? std::filesystem::temp_directory_path(error).string()
                                 : options.folder;
  MILLRACE_ASSIGN_OR_RETURN(machine.file_bandwidth, MeasureFileBandwidth(folder));
  return machine;
}

}  // namespace millrace
