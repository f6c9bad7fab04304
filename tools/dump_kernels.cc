#include "tools/dump_kernels.h"

#include <filesystem>
#include <map>
#include <system_error>

#include "graph/control_flow.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "ops/cuda/cuda_target.h"
#include "ops/cuda/device_headers.h"

namespace millrace {
namespace {

class KernelDump {
 public:
  explicit KernelDump(const PlanBundle& plan) : plan_(plan), graphs_(FlattenGraphs(plan.graph)) {
    for (const Program& program : plan.programs) {
      if (program.device_kind != "cuda") continue;
      has_cuda_ = true;
      for (const Segment& segment : program.segments) AddSegment(segment);
    }
  }

  absl::Status Write(const std::string& folder) const {
    if (!has_cuda_) {
      return UsageError("the plan has no cuda device; kernels of others have no source");
    }
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return UsageError(StrCat("cannot make ", folder, ": ", error.message()));
    for (const DeviceHeader& header : DeviceHeaders()) {
      MILLRACE_RETURN_IF_ERROR(WriteText(StrCat(folder, "/", header.name), header.text));
    }
    for (const auto& [function, source] : sources_) {
      MILLRACE_RETURN_IF_ERROR(WriteText(StrCat(folder, "/", function, ".cu"), source));
    }
    return WriteText(StrCat(folder, "/launches.txt"), launches_);
  }

 private:
  static absl::Status WriteText(const std::string& path, std::string_view text) {
    return WriteFileAtomically(path, text);
  }

  void AddSegment(const Segment& segment) {
    for (const Instruction& instruction : segment.instructions) {
      if (const auto* launch = std::get_if<Launch>(&instruction.body)) AddLaunch(*launch);
    }
  }

  void AddLaunch(const Launch& launch) {
    const Graph& graph = *graphs_[static_cast<size_t>(launch.graph)];
    const Node& node = graph.node(launch.node);
    StrAppend(&launches_, node.name, " (", node.op, ", ", launch.variant, ")\n");
    const std::optional<CudaWork> work = CudaWorkFor(QueryFor(graph, launch.node), launch.variant);
    if (!work.has_value()) return;  // of another target
    for (const CudaLaunch& each : work->launches) {
      if (each.matmul.has_value()) {
        StrAppend(&launches_, "  cublasLtMatmul ", each.matmul->m, " x ", each.matmul->k, " x ",
                  each.matmul->n, "\n");
      } else if (each.convolution.has_value()) {
        StrAppend(&launches_, "  cudnn convolution ", ToString(Shape(each.convolution->x)),
                  " with ", ToString(Shape(each.convolution->w)), "\n");
      }
      if (each.is_library_call()) continue;
      StrAppend(&launches_, "  ", each.function, " <<<", each.blocks, ", ", each.threads, ">>>\n");
      sources_.emplace(each.function, each.source);
    }
  }

  const PlanBundle& plan_;
  const std::vector<const Graph*> graphs_;
  bool has_cuda_ = false;
  std::map<std::string, std::string> sources_;  // by function
  std::string launches_;
};

}  // namespace

absl::Status DumpKernels(const PlanBundle& plan, const std::string& folder) {
  return KernelDump(plan).Write(folder);
}

}  // namespace millrace
