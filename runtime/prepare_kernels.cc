#include "graph/strings.h"
#include "graph/target.h"
#include "runtime/prepare.h"

namespace millrace {
std::vector<OperandLayout> LayoutsOf(const Program& program, std::span<const SliceId> ids) {
  std::vector<OperandLayout> layouts;
  layouts.reserve(ids.size());
  for (SliceId id : ids) {
    if (!id.valid()) {
      layouts.emplace_back();
      continue;
    }
    const Slice& slice = program.slices[id.index];
    layouts.push_back(
        {.layout = slice.layout, .strides = slice.strides, .size_bytes = slice.size_bytes});
  }
  return layouts;
}

namespace {

class KernelPreparer {
 public:
  KernelPreparer(const PreparedPlan& prepared, const Lane& lane)
      : prepared_(prepared), bound_(prepared.programs[lane.program]) {}

  // Null for instructions that run no kernel.
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const Instruction& instruction) {
    if (const auto* launch = std::get_if<Launch>(&instruction.body)) {
      KernelRequest request = RequestFor(instruction, *launch);
      request.variant = launch->variant;
      if (launch->scratch.valid()) {
        request.scratch_bytes = bound_.slice(launch->scratch).size_bytes;
      }
      return Ask(bound_.binding.kernels, request);
    }
    if (const auto* call = std::get_if<HostCall>(&instruction.body)) {
      KernelRequest request = RequestFor(instruction, *call);
      request.variant = "reference";  // a HostCall names none: hosts have the one
      request.true_shapes = AnyBounded(call->inputs) || AnyBounded(call->outputs);
      return Ask(bound_.binding.host_kernels, request);
    }
    return nullptr;
  }

 private:
  template <typename LaunchOrHostCall>
  KernelRequest RequestFor(const Instruction& instruction, const LaunchOrHostCall& body) const {
    const Program& program = *bound_.program;
    KernelRequest request;
    request.query = QueryFor(prepared_.graph(body.graph), body.node);
    request.inputs = LayoutsOf(program, body.inputs);
    request.outputs = LayoutsOf(program, body.outputs);
    request.threads = program.streams[instruction.stream.index].threads;
    request.device = &bound_.device();
    return request;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> Ask(KernelLibrary* library,
                                              const KernelRequest& request) const {
    if (library == nullptr) {
      return UsageError(
          StrCat("no kernel library is bound to ", bound_.device_name, " for ", request.query.op));
    }
    return library->Prepare(request);
  }

  bool AnyBounded(const std::vector<SliceId>& ids) const {
    for (SliceId id : ids) {
      if (id.valid() && prepared_.value(bound_.slice(id).value).bounded) return true;
    }
    return false;
  }

  const PreparedPlan& prepared_;
  const BoundProgram& bound_;
};

bool UsesStream(const Lane& lane, StreamId stream) {
  for (StreamId id : lane.streams) {
    if (id == stream) return true;
  }
  return false;
}

}  // namespace

absl::Status PrepareKernels(PreparedPlan& prepared, const Lane& lane) {
  const BoundProgram& bound = prepared.programs[lane.program];
  auto& kernels = prepared.states[lane.program].kernels;
  KernelPreparer preparer(prepared, lane);
  return ForEachInstruction(
      *bound.program,
      [&](SegmentId segment, int32_t index, const Instruction& instruction) -> absl::Status {
        if (!UsesStream(lane, instruction.stream)) return absl::OkStatus();
        absl::StatusOr<std::unique_ptr<Kernel>> kernel = preparer.Prepare(instruction);
        if (!kernel.ok()) {
          return Annotate(kernel.status(), DescribeStep(prepared, lane, instruction));
        }
        kernels[segment.index][index] = *std::move(kernel);
        return absl::OkStatus();
      });
}

}  // namespace millrace
