#include "tests/adversary/plan_sanity.h"

#include <cstring>
#include <set>

#include "graph/mesh_coordinates.h"
#include "graph/plan_json.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kMostDevices = 64;

class SanityChecker {
 public:
  explicit SanityChecker(const PlanBundle& plan)
      : plan_(plan), graphs_(FlattenGraphs(plan.graph)) {}

  absl::Status Check() {
    if (plan_.mesh.num_devices() > kMostDevices || plan_.microbatches < 1) return Bad("mesh");
    for (const Program& program : plan_.programs) {
      program_ = &program;
      for (const PlanBuffer& buffer : program.buffers) {
        if (buffer.size_bytes < 0) return Bad("buffer size");
      }
      for (const Slice& slice : program.slices) MILLRACE_RETURN_IF_ERROR(CheckSlice(slice));
      for (const auto* bindings : {&program.loads, &program.inputs, &program.outputs}) {
        for (const Binding& b : *bindings) {
          if (!In(b.value, plan_.graph.values)) return Bad("bound value");
          MILLRACE_RETURN_IF_ERROR(CheckHolds(b.slice, {0, b.value}));
        }
      }
      for (const Segment& segment : program.segments) {
        if (segment.graph < 0 || segment.graph >= std::ssize(graphs_)) return Bad("graph");
        for (const Instruction& instruction : segment.instructions) {
          if (!In(instruction.stream, program.streams)) return Bad("stream");
          MILLRACE_RETURN_IF_ERROR(
              std::visit([&](const auto& body) { return CheckBody(body); }, instruction.body));
        }
      }
      for (const Section section : {Section::kInit, Section::kStep, Section::kFinish}) {
        for (const ScheduleItem& item : program.schedule(section)) {
          if (!In(item.segment, program.segments)) return Bad("segment");
          if (item.microbatch < 0 || item.microbatch >= plan_.microbatches) {
            return Bad("microbatch");
          }
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Bad(std::string_view what) const {
    return InternalError(
        StrCat("no sane plan: ", what, program_ == nullptr ? "" : StrCat(" of ", program_->name)));
  }

  template <typename IdType, typename Things>
  static bool In(IdType id, const Things& things) {
    return id.valid() && id.index < std::ssize(things);
  }

  // In its buffer, for all microbatches and coordinates.
  absl::Status CheckSlice(const Slice& slice) const {
    if (!In(slice.buffer, program_->buffers) || slice.size_bytes < 0) return Bad("slice");
    const int64_t size = program_->buffers[slice.buffer.index].size_bytes;
    for (int64_t device = 0; device < plan_.mesh.num_devices(); ++device) {
      const std::vector<int64_t> coordinates = CoordinatesOf(plan_.mesh, device);
      for (int32_t mb = 0; mb < plan_.microbatches; ++mb) {
        const int64_t offset =
            Evaluate(slice.offset_bytes, {.coordinates = coordinates, .microbatch = mb});
        if (offset < 0 || offset > size || slice.size_bytes > size - offset) {
          return Bad("slice outside its buffer");
        }
      }
    }
    if (!slice.value.value.valid()) return absl::OkStatus();
    return CheckSize(slice);
  }

  // Large enough for its value.
  absl::Status CheckSize(const Slice& slice) const {
    const ValueRef ref = slice.value;
    if (ref.graph < 0 || ref.graph >= std::ssize(graphs_)) return Bad("graph of a slice");
    if (!In(ref.value, graphs_[ref.graph]->values)) return Bad("value of a slice");
    const TensorType& type = graphs_[ref.graph]->value(ref.value).type;
    int64_t needed = ByteSize(type);
    if (!slice.strides.empty()) {
      if (std::ssize(slice.strides) != type.shape.rank()) return Bad("strides");
      int64_t last = 0;
      for (int d = 0; d < type.shape.rank(); ++d) {
        if (slice.strides[d] < 0 || slice.strides[d] > (1 << 20)) return Bad("strides");
        last += std::max<int64_t>(0, type.shape[d] - 1) * slice.strides[d];
      }
      needed = NumElements(type.shape) == 0 ? 0 : (last + 1) * SizeOf(type.dtype);
    }
    return slice.size_bytes >= needed ? absl::OkStatus() : Bad("slice too small for its value");
  }

  // The slice is of a value of this type, or of any when `ref` has none.
  absl::Status CheckHolds(SliceId slice, ValueRef ref) const {
    if (!In(slice, program_->slices)) return Bad("slice id");
    const ValueRef held = program_->slices[slice.index].value;
    if (!held.value.valid()) return Bad("scratch as an operand");
    if (ref.value.valid() && !(graphs_[held.graph]->value(held.value).type ==
                               graphs_[ref.graph]->value(ref.value).type)) {
      return Bad("slice of another type");
    }
    return absl::OkStatus();
  }

  absl::Status CheckOperands(int32_t graph, const std::vector<ValueId>& values,
                             const std::vector<SliceId>& slices) const {
    if (values.size() != slices.size()) return Bad("number of operands");
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].valid() != slices[i].valid()) return Bad("operand");
      if (values[i].valid()) MILLRACE_RETURN_IF_ERROR(CheckHolds(slices[i], {graph, values[i]}));
    }
    return absl::OkStatus();
  }

  template <typename Body>
  absl::Status CheckNode(int32_t graph, const Body& body) const {
    if (graph < 0 || graph >= std::ssize(graphs_)) return Bad("graph");
    if (!In(body.node, graphs_[graph]->nodes)) return Bad("node");
    const Node& node = graphs_[graph]->node(body.node);
    MILLRACE_RETURN_IF_ERROR(CheckOperands(graph, node.inputs, body.inputs));
    return CheckOperands(graph, node.outputs, body.outputs);
  }

  absl::Status CheckBody(const Launch& launch) const {
    if (launch.scratch.valid() && !In(launch.scratch, program_->slices)) return Bad("scratch");
    return CheckNode(launch.graph, launch);
  }
  absl::Status CheckBody(const HostCall& call) const { return CheckNode(call.graph, call); }
  absl::Status CheckBody(const Collective& collective) const { return CheckNode(0, collective); }
  absl::Status CheckBody(const Call& call) const {
    MILLRACE_RETURN_IF_ERROR(CheckNode(call.graph, call));
    for (const CallBody& body : call.bodies) {
      if (!In(body.segment, program_->segments)) return Bad("body");
      for (const auto* slices : {&body.inputs, &body.outputs}) {
        for (const SliceId s : *slices) {
          if (s.valid() && !In(s, program_->slices)) return Bad("body operand");
        }
      }
    }
    return absl::OkStatus();
  }
  absl::Status CheckBody(const Copy& copy) const {
    MILLRACE_RETURN_IF_ERROR(CheckHolds(copy.from, {}));
    return CheckHolds(copy.to, program_->slices[copy.from.index].value);
  }
  absl::Status CheckBody(const Send& send) const { return CheckTransfer(send.from, send.to); }
  absl::Status CheckBody(const Recv& recv) const { return CheckTransfer(recv.to, recv.from); }
  absl::Status CheckTransfer(SliceId slice, const Peer& peer) const {
    if (!In(peer.program, plan_.programs)) return Bad("peer");
    for (const auto& [axis, expr] : peer.coordinates) {
      if (axis < 0 || axis >= std::ssize(plan_.mesh.axes)) return Bad("peer axis");
    }
    return CheckHolds(slice, {});
  }
  absl::Status CheckBody(const Record& record) const {
    return In(record.event, program_->events) ? absl::OkStatus() : Bad("event");
  }
  absl::Status CheckBody(const Wait& wait) const {
    return In(wait.event, program_->events) ? absl::OkStatus() : Bad("event");
  }
  absl::Status CheckBody(const Publish& publish) const { return CheckHolds(publish.from, {}); }
  absl::Status CheckBody(const TakeLatest& take) const { return CheckHolds(take.to, {}); }

  const PlanBundle& plan_;
  const std::vector<const Graph*> graphs_;
  const Program* program_ = nullptr;
};

}  // namespace

absl::Status CheckSanity(const PlanBundle& plan) { return SanityChecker(plan).Check(); }

absl::StatusOr<std::vector<std::string>> DeviceNamesOf(const PlanBundle& plan) {
  std::set<std::string> names;
  for (const Program& program : plan.programs) {
    for (int64_t device = 0; device < plan.mesh.num_devices(); ++device) {
      const std::vector<int64_t> coordinates = CoordinatesOf(plan.mesh, device);
      names.insert(StrCat(program.device_kind, ":",
                          Evaluate(program.device_index, {.coordinates = coordinates})));
    }
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<ValueId> ValueNamed(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].name == name) return ValueId(i);
  }
  return UsageError(StrCat("no value '", name, "'"));
}

absl::StatusOr<Tensor> StackTensors(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts[0];
  TensorType type = parts[0].type();
  int64_t rows = 0;
  for (const Tensor& part : parts) {
    Shape rest = part.shape(), first = parts[0].shape();
    if (rest.rank() > 0 && first.rank() > 0) rest[0] = first[0] = 0;
    if (!(rest == first)) return InternalError("microbatches differ in shape");
    rows += part.shape().rank() == 0 ? 1 : part.shape()[0];
  }
  if (type.shape.rank() == 0) {
    type.shape.push_back(rows);
  } else {
    type.shape[0] = rows;
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor stacked, Tensor::Allocate(type));
  std::byte* to = stacked.mutable_bytes();
  for (const Tensor& part : parts) {
    std::memcpy(to, part.bytes(), static_cast<size_t>(part.size_bytes()));
    to += part.size_bytes();
  }
  return stacked;
}

}  // namespace millrace
