#include "runtime/prepare.h"

#include "graph/plan_json.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// One lane per used stream of a synchronous device, one for all used streams of an asynchronous
// device's program.
void MakeLanes(PreparedPlan& prepared, int32_t program, const std::vector<bool>& used) {
  const bool asynchronous = prepared.programs[program].device().asynchronous();
  Lane* lane = nullptr;
  for (int32_t stream = 0; stream < static_cast<int32_t>(used.size()); ++stream) {
    if (!used[stream]) continue;
    if (lane == nullptr || !asynchronous) {
      lane = prepared.lanes.emplace_back(std::make_unique<Lane>()).get();
      lane->program = program;
    }
    lane->streams.push_back(StreamId(stream));
  }
}

absl::Status MakeStreams(PreparedPlan& prepared, int32_t index, const std::vector<bool>& used,
                         Tracer* tracer) {
  const BoundProgram& bound = prepared.programs[index];
  ProgramState& state = prepared.states[index];
  const std::vector<PlanStream>& streams = bound.program->streams;
  state.streams.resize(streams.size());
  state.trace.resize(streams.size());
  for (size_t i = 0; i < streams.size(); ++i) {
    if (!used[i]) continue;
    MILLRACE_ASSIGN_OR_RETURN(state.streams[i],
                              bound.device().CreateStream(streams[i], prepared.cancellation));
    if (tracer != nullptr) {
      state.trace[i] = &tracer->AddLane(bound.device_name, streams[i].name, bound.endpoint.program,
                                        bound.endpoint.coordinates);
    }
  }
  return absl::OkStatus();
}

absl::Status MakeProgramState(PreparedPlan& prepared, int32_t index, Tracer* tracer) {
  const BoundProgram& bound = prepared.programs[index];
  const Program& program = *bound.program;
  ProgramState& state = prepared.states[index];
  std::vector<bool> used(program.streams.size());
  MILLRACE_RETURN_IF_ERROR(
      ForEachInstruction(program, [&](SegmentId, int32_t, const Instruction& instruction) {
        used[instruction.stream.index] = true;
        return absl::OkStatus();
      }));
  MakeLanes(prepared, index, used);
  MILLRACE_RETURN_IF_ERROR(MakeStreams(prepared, index, used, tracer));
  for (size_t i = 0; i < program.events.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Event> event, bound.device().CreateEvent());
    state.events.push_back({.event = std::move(event)});
  }
  for (const Segment& segment : program.segments) {
    state.kernels.emplace_back(segment.instructions.size());
  }
  return absl::OkStatus();
}

// Lane after lane, each on its own thread: libraries need not be thread safe, and the first error
// does not depend on timing.
absl::Status PrepareAllKernels(PreparedPlan& prepared) {
  for (int index = 0; index < static_cast<int>(prepared.lanes.size()); ++index) {
    Lane& lane = *prepared.lanes[index];
    prepared.threads->Run({&index, 1}, [&](int) { lane.status = PrepareKernels(prepared, lane); });
    MILLRACE_RETURN_IF_ERROR(lane.status);
  }
  return absl::OkStatus();
}

absl::Status OpenChannels(PreparedPlan& prepared, Communicator* communicator) {
  if (communicator == nullptr) {
    if (prepared.channels.empty()) return absl::OkStatus();
    return UsageError(StrCat("plan '", prepared.plan->name,
                             "' moves data between devices; the session needs a communicator"));
  }
  for (const BoundProgram& bound : prepared.programs) {
    MILLRACE_RETURN_IF_ERROR(
        communicator->Register(bound.endpoint, bound.device(), prepared.cancellation));
  }
  MILLRACE_RETURN_IF_ERROR(prepared.channels.Open(*communicator));
  return communicator->Connect();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedPlan>> PreparePlan(const PlanBundle& plan,
                                                          const DeviceTable& devices,
                                                          const ExecutorOptions& options) {
  auto prepared = std::make_unique<PreparedPlan>();
  prepared->plan = &plan;
  prepared->graphs = FlattenGraphs(plan.graph);
  const bool others =
      options.communicator != nullptr && options.communicator->num_processes() > 1;
  MILLRACE_ASSIGN_OR_RETURN(prepared->programs, BindPrograms(plan, devices, others));
  prepared->states.resize(prepared->programs.size());
  for (int32_t i = 0; i < static_cast<int32_t>(prepared->programs.size()); ++i) {
    MILLRACE_RETURN_IF_ERROR(MakeProgramState(*prepared, i, options.tracer));
  }
  MILLRACE_ASSIGN_OR_RETURN(prepared->threads,
                            LaneThreads::Start(static_cast<int>(prepared->lanes.size())));
  MILLRACE_RETURN_IF_ERROR(PrepareAllKernels(*prepared));
  MILLRACE_RETURN_IF_ERROR(UnrollSchedules(*prepared));
  MILLRACE_RETURN_IF_ERROR(OpenChannels(*prepared, options.communicator));
  return prepared;
}

absl::Status ForEachInstruction(const Program& program, VisitInstruction visit) {
  std::vector<bool> seen(program.segments.size());
  std::vector<SegmentId> found;
  const auto add = [&](SegmentId segment) {
    if (!seen[segment.index]) found.push_back(segment);
    seen[segment.index] = true;
  };
  for (const Section section : {Section::kInit, Section::kStep, Section::kFinish}) {
    for (const ScheduleItem& item : program.schedule(section)) add(item.segment);
  }
  for (size_t next = 0; next < found.size(); ++next) {
    const SegmentId segment = found[next];
    const std::vector<Instruction>& instructions = program.segments[segment.index].instructions;
    for (int32_t i = 0; i < static_cast<int32_t>(instructions.size()); ++i) {
      MILLRACE_RETURN_IF_ERROR(visit(segment, i, instructions[i]));
      if (const auto* call = std::get_if<Call>(&instructions[i].body)) {
        for (const CallBody& body : call->bodies) add(body.segment);
      }
    }
  }
  return absl::OkStatus();
}

std::string DescribeStep(const PreparedPlan& prepared, const Lane& lane,
                         const Instruction& instruction) {
  const BoundProgram& bound = prepared.programs[lane.program];
  return StrCat(Describe(bound, prepared.plan->mesh), ", stream '",
                bound.program->streams[instruction.stream.index].name, "', ",
                DescribeInstruction(*prepared.plan, *bound.program, instruction));
}

}  // namespace millrace
