#include "runtime/bound_program.h"

#include <optional>

#include "absl/strings/str_join.h"
#include "graph/channels_last.h"
#include "graph/mesh_coordinates.h"
#include "graph/strings.h"

namespace millrace {
namespace {

absl::Status AllocateBuffers(BoundProgram& bound) {
  for (const PlanBuffer& buffer : bound.program->buffers) {
    absl::StatusOr<Buffer> memory = bound.device().Allocate(buffer.space, buffer.size_bytes);
    if (!memory.ok()) {
      return Annotate(memory.status(),
                      StrCat("program '", bound.program->name, "' buffer '", buffer.name, "' (",
                             MemorySpaceName(buffer.space), " memory)"));
    }
    bound.buffers.push_back(*std::move(memory));
  }
  return absl::OkStatus();
}

absl::Status NoSuchDevice(const PlanBundle& plan, const BoundProgram& bound,
                          const DeviceTable& devices) {
  return UsageError(StrCat("plan '", plan.name, "': program '", bound.program->name, "' runs on ",
                           bound.device_name, ", which is not among the devices: ",
                           absl::StrJoin(devices, ", ", [](std::string* out, const auto& entry) {
                             out->append(entry.first);
                           })));
}

// nullopt: it is another process's.
absl::StatusOr<std::optional<BoundProgram>> Bind(const PlanBundle& plan, int32_t program,
                                                 std::vector<int64_t> coordinates,
                                                 const DeviceTable& devices, bool others) {
  BoundProgram bound;
  bound.program = &plan.programs[program];
  const int64_t index = Evaluate(bound.program->device_index, {.coordinates = coordinates});
  bound.endpoint = {program, std::move(coordinates)};
  bound.device_name = StrCat(bound.program->device_kind, ":", index);
  const auto binding = devices.find(bound.device_name);
  if (binding == devices.end()) {
    if (others) return std::nullopt;
    return NoSuchDevice(plan, bound, devices);
  }
  bound.binding = binding->second;
  const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
  for (const Slice& slice : bound.program->slices) {
    const bool channels_last = slice.layout == Layout::kNHWC;
    bound.strides.push_back(
        channels_last
            ? ChannelsLastStrides(graphs[slice.value.graph]->value(slice.value.value).type.shape)
            : slice.strides);
  }
  MILLRACE_RETURN_IF_ERROR(AllocateBuffers(bound));
  return bound;
}

}  // namespace

std::byte* BoundProgram::Address(SliceId id, int64_t microbatch) const {
  if (!id.valid()) return nullptr;
  const Slice& s = slice(id);
  const Buffer& buffer = buffers[s.buffer.index];
  const int64_t offset =
      Evaluate(s.offset_bytes, {.coordinates = endpoint.coordinates, .microbatch = microbatch});
  MILLRACE_CHECK(offset >= 0 && s.size_bytes >= 0 && offset <= buffer.size() &&
                 s.size_bytes <= buffer.size() - offset);
  return buffer.data() + offset;
}

StridedPlace BoundProgram::Place(SliceId id, int64_t microbatch) const {
  return {.data = Address(id, microbatch), .space = space(id), .strides = strides[id.index]};
}

absl::StatusOr<std::vector<BoundProgram>> BindPrograms(const PlanBundle& plan,
                                                       const DeviceTable& devices, bool others) {
  std::vector<BoundProgram> bound;
  for (int32_t program = 0; program < static_cast<int32_t>(plan.programs.size()); ++program) {
    for (int64_t device = 0; device < plan.mesh.num_devices(); ++device) {
      MILLRACE_ASSIGN_OR_RETURN(
          std::optional<BoundProgram> one,
          Bind(plan, program, CoordinatesOf(plan.mesh, device), devices, others));
      if (one.has_value()) bound.push_back(*std::move(one));
    }
  }
  return bound;
}

std::string Describe(const BoundProgram& bound, const Mesh& mesh) {
  std::string text = StrCat("program '", bound.program->name, "'");
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    StrAppend(&text, axis == 0 ? " at " : ",", mesh.axes[axis].name, "=",
              bound.endpoint.coordinates[axis]);
  }
  return StrCat(text, " on ", bound.device_name);
}

}  // namespace millrace
