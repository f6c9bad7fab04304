// Unrolls each section's schedule into the lanes. Instructions are visited in issue order; each
// adds one step to the lane of its stream, with the addresses of its microbatch. An If becomes
//
//     branch -> else        reads the condition, goes on when true
//     ... steps of then ...
//     jump -> end
//   else:
//     ... steps of else ...
//   end:
//
// so that the loop needs no stack; a Loop or Scan becomes one body between steps that count its
// trips (runtime/loop.h). O(instances) time and memory.
#include <algorithm>

#include "graph/control_flow.h"
#include "graph/strings.h"
#include "runtime/collective_spec.h"
#include "runtime/prepare.h"

namespace millrace {
namespace {

constexpr int kMaxCallDepth = 64;

bool IsDense(const Slice& slice, const Shape& shape) {
  if (slice.strides.empty()) return true;
  const Shape dense = DenseStrides(shape);
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1 && slice.strides[i] != dense[i]) return false;
  }
  return true;
}

class Unroller {
 public:
  Unroller(PreparedPlan& prepared, int32_t program, Section section)
      : prepared_(prepared),
        bound_(prepared.programs[program]),
        state_(prepared.states[program]),
        section_(section),
        lane_of_stream_(bound_.program->streams.size(), -1) {
    for (int lane = 0; lane < static_cast<int>(prepared.lanes.size()); ++lane) {
      if (prepared.lanes[lane]->program != program) continue;
      for (StreamId stream : prepared.lanes[lane]->streams) lane_of_stream_[stream.index] = lane;
    }
  }

  absl::Status Unroll() {
    for (const ScheduleItem& item : bound_.program->schedule(section_)) {
      MILLRACE_RETURN_IF_ERROR(AddSegment(item.segment, item.microbatch));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddSegment(SegmentId id, int32_t microbatch) {
    const Segment& segment = bound_.program->segments[id.index];
    for (int32_t i = 0; i < static_cast<int32_t>(segment.instructions.size()); ++i) {
      const Instruction& instruction = segment.instructions[i];
      Kernel* kernel = state_.kernels[id.index][i].get();
      const Where at{.instruction = instruction,
                     .kernel = kernel,
                     .microbatch = microbatch,
                     .lane = lane_of_stream_[instruction.stream.index]};
      const absl::Status status =
          std::visit([&](const auto& body) { return Add(at, body); }, instruction.body);
      if (!status.ok()) {
        return Annotate(status, DescribeStep(prepared_, *prepared_.lanes[at.lane], instruction));
      }
    }
    return absl::OkStatus();
  }

  // The instruction being unrolled.
  struct Where {
    const Instruction& instruction;
    Kernel* kernel;
    int32_t microbatch;
    int lane;
  };

  LaneSteps& StepsOf(const Where& at) {
    return prepared_.lanes[at.lane]->sections[static_cast<int>(section_)];
  }

  // A step that uses the last item of an array of its kind. Returns the step's place.
  template <typename Items>
  int32_t AddStep(const Where& at, StepKind kind, const Items& items) {
    return AddStep(at, kind, static_cast<int32_t>(items.size()) - 1);
  }
  int32_t AddStep(const Where& at, StepKind kind, int32_t index) {
    LaneSteps& steps = StepsOf(at);
    steps.steps.push_back({.kind = kind,
                           .index = index,
                           .stream = state_.streams[at.instruction.stream.index].get()});
    steps.origins.push_back({.instruction = &at.instruction, .microbatch = at.microbatch});
    return static_cast<int32_t>(steps.steps.size()) - 1;
  }

  std::byte* Address(const Where& at, SliceId slice) const {
    return bound_.Address(slice, at.microbatch);
  }

  std::vector<void*> Addresses(const Where& at, const std::vector<SliceId>& slices) const {
    std::vector<void*> addresses;
    addresses.reserve(slices.size());
    for (SliceId slice : slices) addresses.push_back(Address(at, slice));
    return addresses;
  }

  const Value& ValueOf(SliceId slice) const { return prepared_.value(bound_.slice(slice).value); }

  Shape* ShapeCell(const Where& at, SliceId slice) {
    if (!slice.valid()) return nullptr;
    return ShapeCellOf(state_.shapes, bound_.slice(slice).value, at.microbatch,
                       ValueOf(slice).type.shape);
  }

  // --- One overload per kind of instruction ---

  absl::Status Add(const Where& at, const Launch& launch) {
    LaneSteps& steps = StepsOf(at);
    KernelArgs args;
    args.inputs = steps.addresses.Add(Addresses(at, launch.inputs));
    args.outputs = steps.addresses.Add(Addresses(at, launch.outputs));
    args.scratch = Address(at, launch.scratch);
    steps.launches.push_back({.kernel = at.kernel, .args = args});
    AddStep(at, StepKind::kLaunch, steps.launches);
    return absl::OkStatus();
  }

  absl::Status Add(const Where& at, const Copy& copy) {
    const Slice& from = bound_.slice(copy.from);
    const Slice& to = bound_.slice(copy.to);
    const auto has_elements = [](const Slice& slice) {
      return slice.layout == Layout::kStrided || slice.layout == Layout::kNHWC;
    };
    if (!has_elements(from) || !has_elements(to)) {
      return InternalError("a Copy moves strided and nhwc layouts only");
    }
    LaneSteps& steps = StepsOf(at);
    steps.copies.push_back(PlanStridedCopy(ValueOf(copy.from).type,
                                           bound_.Place(copy.to, at.microbatch),
                                           bound_.Place(copy.from, at.microbatch)));
    AddStep(at, StepKind::kCopy, steps.copies);
    return absl::OkStatus();
  }

  absl::Status Add(const Where& at, const Record& record) {
    ++state_.events[record.event.index].records[static_cast<int>(section_)];
    AddEvent(at, StepKind::kRecord, record.event);
    return absl::OkStatus();
  }

  absl::Status Add(const Where& at, const Wait& wait) {
    if (state_.events[wait.event.index].records[static_cast<int>(section_)] == 0) {
      return InternalError("a Wait without a Record before it");
    }
    AddEvent(at, StepKind::kWait, wait.event);
    return absl::OkStatus();
  }

  void AddEvent(const Where& at, StepKind kind, EventId id) {
    LaneSteps& steps = StepsOf(at);
    const EventState& event = state_.events[id.index];
    steps.events.push_back({.event = event.event.get(),
                            .base = &event.base,
                            .generation = event.records[static_cast<int>(section_)]});
    AddStep(at, kind, steps.events);
  }

  absl::Status Add(const Where& at, const Send& send) {
    LaneSteps& steps = StepsOf(at);
    MILLRACE_ASSIGN_OR_RETURN(const Transfer transfer, TransferOf(at, send.from));
    MILLRACE_ASSIGN_OR_RETURN(const Endpoint peer, PeerOf(at, send.to));
    MILLRACE_ASSIGN_OR_RETURN(
        std::unique_ptr<SendPort>* const port,
        prepared_.channels.AddSend(bound_.endpoint, peer, {section_, send.channel}, transfer,
                                   at.lane));
    steps.sends.push_back(port);
    AddStep(at, StepKind::kSend, steps.sends);
    return absl::OkStatus();
  }

  absl::Status Add(const Where& at, const Recv& recv) {
    LaneSteps& steps = StepsOf(at);
    MILLRACE_ASSIGN_OR_RETURN(const Transfer transfer, TransferOf(at, recv.to));
    MILLRACE_ASSIGN_OR_RETURN(const Endpoint peer, PeerOf(at, recv.from));
    MILLRACE_ASSIGN_OR_RETURN(
        std::unique_ptr<RecvPort>* const port,
        prepared_.channels.AddRecv(bound_.endpoint, peer, {section_, recv.channel}, transfer,
                                   at.lane));
    steps.recvs.push_back(port);
    AddStep(at, StepKind::kRecv, steps.recvs);
    return absl::OkStatus();
  }

  absl::StatusOr<Transfer> TransferOf(const Where& at, SliceId id) const {
    const Slice& slice = bound_.slice(id);
    const Value& value = ValueOf(id);
    if (value.bounded) {
      return UsageError(
          StrCat("value '", value.name, "' has a size known only at run time; it cannot be sent"));
    }
    if (!IsDense(slice, value.type.shape)) {
      return UsageError(StrCat("value '", value.name,
                               "' lies in strided memory; copy it to a dense slice to send it"));
    }
    return Transfer{
        .data = Address(at, id), .size_bytes = slice.size_bytes, .space = bound_.space(id)};
  }

  absl::StatusOr<Endpoint> PeerOf(const Where& at, const Peer& peer) const {
    const Mesh& mesh = prepared_.plan->mesh;
    Endpoint endpoint{peer.program.index, bound_.endpoint.coordinates};
    for (const auto& [axis, expr] : peer.coordinates) {
      const int64_t coordinate =
          Evaluate(expr, {.coordinates = bound_.endpoint.coordinates, .microbatch = at.microbatch});
      if (coordinate < 0 || coordinate >= mesh.axes[axis].size) {
        return InternalError(StrCat("the peer's coordinate on axis '", mesh.axes[axis].name,
                                    "' is ", coordinate, " of ", mesh.axes[axis].size));
      }
      endpoint.coordinates[axis] = coordinate;
    }
    return endpoint;
  }

  absl::Status Add(const Where& at, const Collective& collective) {
    const Node& node = prepared_.plan->graph.node(collective.node);
    if (collective.inputs.size() != 1 || collective.outputs.size() != 1) {
      return InternalError("a collective has one input and one output");
    }
    const Mesh& mesh = prepared_.plan->mesh;
    LaneSteps& steps = StepsOf(at);
    CollectiveStep step;
    MILLRACE_ASSIGN_OR_RETURN(step.spec,
                              CollectiveSpecOf(node, ValueOf(collective.inputs[0]).type));
    MILLRACE_ASSIGN_OR_RETURN(std::vector<Endpoint> members,
                              CollectiveMembers(node, mesh, bound_.endpoint));
    // A node computed on two streams (recomputation) has a group on each.
    const int32_t streams = static_cast<int32_t>(bound_.program->streams.size());
    const int32_t id = collective.node.index * streams + at.instruction.stream.index;
    MILLRACE_ASSIGN_OR_RETURN(
        step.group, prepared_.channels.AddGroup(bound_.endpoint, std::move(members), id, at.lane));
    step.input = Address(at, collective.inputs[0]);
    step.output = Address(at, collective.outputs[0]);
    steps.collectives.push_back(step);
    AddStep(at, StepKind::kCollective, steps.collectives);
    return absl::OkStatus();
  }

  absl::Status Add(const Where& at, const Publish& publish) {
    return AddMailbox(at, StepKind::kPublish, publish.mailbox, publish.from);
  }

  absl::Status Add(const Where& at, const TakeLatest& take) {
    return AddMailbox(at, StepKind::kTakeLatest, take.mailbox, take.to);
  }

  absl::Status AddMailbox(const Where& at, StepKind kind, const std::string& name, SliceId slice) {
    LaneSteps& steps = StepsOf(at);
    const int64_t size_bytes = bound_.slice(slice).size_bytes;
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Mailbox>* const mailbox,
                              prepared_.channels.AddMailbox(bound_.endpoint, name, size_bytes));
    steps.mailboxes.push_back(
        {.mailbox = mailbox, .data = Address(at, slice), .size_bytes = size_bytes});
    AddStep(at, kind, steps.mailboxes);
    return absl::OkStatus();
  }

  absl::Status Add(const Where& at, const HostCall& call) {
    auto step = std::make_unique<HostStep>();
    step->kernel = at.kernel;
    step->inputs = Addresses(at, call.inputs);
    step->outputs = Addresses(at, call.outputs);
    step->true_shapes = AnyBounded(call.inputs) || AnyBounded(call.outputs);
    if (step->true_shapes) {
      for (SliceId id : call.inputs) step->input_shapes.push_back(ShapeCell(at, id));
      for (SliceId id : call.outputs) {
        step->output_shapes.push_back(ShapeCell(at, id));
        step->output_bounds.push_back(id.valid() ? ValueOf(id).type.shape : Shape());
        step->output_bounded.push_back(id.valid() && ValueOf(id).bounded);
      }
    }
    MakeKernelCall(*step);
    AddHostStep(at, std::move(step));
    return absl::OkStatus();
  }

  void AddHostStep(const Where& at, std::unique_ptr<HostStep> step) {
    LaneSteps& steps = StepsOf(at);
    steps.host_steps.push_back(std::move(step));
    AddStep(at, StepKind::kHost, steps.host_steps);
  }

  bool AnyBounded(const std::vector<SliceId>& ids) const {
    return std::ranges::any_of(ids, [&](SliceId id) { return id.valid() && ValueOf(id).bounded; });
  }

  absl::Status Add(const Where& at, const Call& call) {
    MILLRACE_ASSIGN_OR_RETURN(const CallForm form,
                              FormOf(call.flow, prepared_.graph(call.graph).node(call.node)));
    if (depth_ == kMaxCallDepth) {
      return InternalError(StrCat("calls are nested deeper than ", kMaxCallDepth));
    }
    if (static_cast<int>(call.bodies.size()) != form.num_bodies) {
      return InternalError(StrCat("it has ", call.bodies.size(), " bodies"));
    }
    for (const CallBody& body : call.bodies) {
      if (body.inputs.size() == form.inputs.size() && body.outputs.size() == form.outputs.size()) {
        continue;
      }
      return InternalError("a body's operands do not match the call's");
    }
    ++depth_;
    const absl::Status status =
        form.IsLoop() ? AddLoop(at, call, form) : AddBranches(at, call, form);
    --depth_;
    return status;
  }

  // Where the host reads or writes what a call needs of the plan's memory; null for no slice.
  absl::StatusOr<std::byte*> HostAddress(const Where& at, SliceId slice) const {
    if (!slice.valid() || bound_.HostReaches(slice)) return Address(at, slice);
    return InternalError(
        StrCat("'", ValueOf(slice).name, "' does not lie in host memory, where the call needs it"));
  }

  absl::Status AddBranches(const Where& at, const Call& call, const CallForm& form) {
    MILLRACE_ASSIGN_OR_RETURN(const std::byte* const condition,
                              HostAddress(at, call.inputs[form.condition]));
    LaneSteps& steps = StepsOf(at);
    const size_t branch = steps.branches.size();
    steps.branches.push_back({.condition = condition});
    AddStep(at, StepKind::kBranch, steps.branches);
    MILLRACE_RETURN_IF_ERROR(AddBranch(at, call, call.bodies[0]));
    const int32_t jump = AddStep(at, StepKind::kJump, steps.steps);
    steps.branches[branch].otherwise = NextStep(at);
    MILLRACE_RETURN_IF_ERROR(AddBranch(at, call, call.bodies[1]));
    steps.steps[jump].index = NextStep(at);
    return absl::OkStatus();
  }

  int32_t NextStep(const Where& at) { return static_cast<int32_t>(StepsOf(at).steps.size()); }

  // Bytes need no moving at a body's borders (graph/plan.h), true shapes do.
  absl::Status AddBranch(const Where& at, const Call& call, const CallBody& body) {
    MoveShapes(at, body.inputs, std::span(call.inputs).subspan(1));
    MILLRACE_RETURN_IF_ERROR(AddSegment(body.segment, at.microbatch));
    MoveShapes(at, call.outputs, body.outputs);
    return absl::OkStatus();
  }

  absl::Status AddLoop(const Where& at, const Call& call, const CallForm& form) {
    const CallBody& body = call.bodies[0];
    const int count = form.num_carried;
    const auto carried = std::span(body.inputs).subspan(form.first_carried_in, count);
    std::vector<SliceId> passed;
    for (const BodyPort& port : form.inputs) {
      const bool same = port.kind == PortKind::kSame || port.kind == PortKind::kCarried;
      passed.push_back(same ? call.inputs[port.operand] : SliceId());
    }
    MoveShapes(at, body.inputs, passed);

    LaneSteps& steps = StepsOf(at);
    LoopState& loop = *steps.loops.emplace_back(std::make_unique<LoopState>());
    MILLRACE_RETURN_IF_ERROR(PrepareLoop(at, call, form, loop));
    const int32_t index = static_cast<int32_t>(steps.loops.size()) - 1;
    AddStep(at, StepKind::kLoopBegin, index);
    loop.first_step = AddStep(at, StepKind::kTripBegin, index);
    MILLRACE_RETURN_IF_ERROR(AddSegment(body.segment, at.microbatch));
    MoveShapes(at, carried, std::span(body.outputs).subspan(form.first_carried_out, count));
    AddStep(at, StepKind::kTripEnd, index);
    loop.end_step = AddStep(at, StepKind::kLoopEnd, index);
    MoveShapes(at, std::span(call.outputs).first(count), carried);
    return absl::OkStatus();
  }

  absl::Status PrepareLoop(const Where& at, const Call& call, const CallForm& form,
                           LoopState& loop) {
    const CallBody& body = call.bodies[0];
    const auto input = [&](int i) { return i >= 0 ? call.inputs[i] : SliceId(); };
    MILLRACE_ASSIGN_OR_RETURN(loop.trip_count, HostAddress(at, input(form.trip_count)));
    MILLRACE_ASSIGN_OR_RETURN(loop.condition, HostAddress(at, input(form.condition)));
    loop.max_trips = form.max_trips;
    loop.cancellation = &prepared_.cancellation;
    for (size_t i = 0; i < form.inputs.size(); ++i) {
      const BodyPort& port = form.inputs[i];
      if (port.kind == PortKind::kTrip) {
        MILLRACE_ASSIGN_OR_RETURN(loop.trip_number, HostAddress(at, body.inputs[i]));
      } else if (port.kind == PortKind::kCondition) {
        MILLRACE_ASSIGN_OR_RETURN(loop.trip_condition, HostAddress(at, body.inputs[i]));
      } else if (port.kind == PortKind::kElement) {
        MILLRACE_RETURN_IF_ERROR(
            AddElement(at, port, call.inputs[port.operand], body.inputs[i], true, loop));
      }
    }
    for (size_t i = 0; i < form.outputs.size(); ++i) {
      const BodyPort& port = form.outputs[i];
      if (port.kind == PortKind::kCondition && form.condition >= 0) {
        MILLRACE_ASSIGN_OR_RETURN(loop.next_condition, HostAddress(at, body.outputs[i]));
      } else if (port.kind == PortKind::kElement) {
        MILLRACE_RETURN_IF_ERROR(
            AddElement(at, port, call.outputs[port.operand], body.outputs[i], false, loop));
      }
    }
    MakeLoopFunctions(loop);
    return absl::OkStatus();
  }

  // How the element moves between the whole, a sequence or stack, and its own slice.
  absl::Status AddElement(const Where& at, const BodyPort& port, SliceId whole, SliceId element,
                          bool is_sequence, LoopState& loop) {
    if (!whole.valid()) return absl::OkStatus();
    const Value& value = ValueOf(whole);
    const Shape& shape = value.type.shape;
    const int axis = ElementAxis(port, shape);
    if (axis < 0) return InternalError(StrCat("'", value.name, "' has no axis ", port.axis));
    const int64_t size = shape[axis];
    if (is_sequence) {
      loop.fixed_trips = size;
    } else {
      loop.max_trips = loop.max_trips < 0 ? size : std::min(loop.max_trips, size);
      if (value.bounded) {
        loop.stack_shapes.push_back(ShapeCell(at, whole));
      } else {
        loop.exact_sizes.push_back(size);
      }
    }
    if (!element.valid()) return absl::OkStatus();

    StridedPlace part = bound_.Place(whole, at.microbatch);
    const Shape dense = DenseStrides(shape);
    std::vector<int64_t> strides;
    for (int d = 0; d < shape.rank(); ++d) {
      if (d != axis) strides.push_back(part.strides.empty() ? dense[d] : part.strides[d]);
    }
    int64_t step =
        (part.strides.empty() ? dense[axis] : part.strides[axis]) * SizeOf(value.type.dtype);
    part.strides = strides;
    if (port.backwards && size > 0) {
      part.data += (size - 1) * step;
      step = -step;
    }
    const StridedPlace own = bound_.Place(element, at.microbatch);
    const TensorType& type = ValueOf(element).type;
    if (is_sequence) {
      loop.sequences.push_back({PlanStridedCopy(type, own, part), 0, step});
    } else {
      loop.stacks.push_back({PlanStridedCopy(type, part, own), step, 0});
    }
    return absl::OkStatus();
  }

  void MoveShapes(const Where& at, std::span<const SliceId> to, std::span<const SliceId> from) {
    auto step = std::make_unique<HostStep>();
    for (size_t i = 0; i < to.size(); ++i) {
      if (!to[i].valid() || !from[i].valid() || !ValueOf(to[i]).bounded) continue;
      step->moves.emplace_back(ShapeCell(at, to[i]), ShapeCell(at, from[i]));
    }
    if (step->moves.empty()) return;
    MakeShapeMoves(*step);
    AddHostStep(at, std::move(step));
  }

  PreparedPlan& prepared_;
  const BoundProgram& bound_;
  ProgramState& state_;
  const Section section_;
  std::vector<int> lane_of_stream_;
  int depth_ = 0;
};

}  // namespace

absl::Status UnrollSchedules(PreparedPlan& prepared) {
  for (const Section section : {Section::kInit, Section::kStep, Section::kFinish}) {
    for (int32_t program = 0; program < static_cast<int32_t>(prepared.programs.size()); ++program) {
      MILLRACE_RETURN_IF_ERROR(Unroller(prepared, program, section).Unroll());
    }
    for (int lane = 0; lane < static_cast<int>(prepared.lanes.size()); ++lane) {
      if (prepared.lanes[lane]->sections[static_cast<int>(section)].steps.empty()) continue;
      prepared.active_lanes[static_cast<int>(section)].push_back(lane);
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
