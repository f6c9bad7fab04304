// The run loop. A plan was unrolled into lanes of steps when it was prepared (unroll.cc); a lane is
// run by one thread, step after step. Lanes meet only in what the plan says: events, ports and
// groups, which wait on atomics and notice cancellation. When a step fails, its lane says so to all
// others by the run's Cancellation and the run ends with that step's error.
#include "runtime/executor.h"

#include <chrono>

#include "graph/strings.h"

namespace millrace {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::Status RunCopy(Stream& stream, const StridedCopy& copy) {
  return ForEachRegion(copy, [&](const CopyRegion& region) { return stream.Copy(region); });
}

// Does one step; `next` is the place of the step after it and may be changed.
inline absl::Status RunStep(const LaneSteps& lane, const Step& step, int32_t& next) {
  Stream& stream = *step.stream;
  switch (step.kind) {
    case StepKind::kLaunch: {
      const LaunchStep& launch = lane.launches[step.index];
      return stream.Launch(*launch.kernel, launch.args);
    }
    case StepKind::kCopy:
      return RunCopy(stream, lane.copies[step.index]);
    case StepKind::kRecord: {
      const EventStep& event = lane.events[step.index];
      return stream.Record(*event.event, *event.base + event.generation);
    }
    case StepKind::kWait: {
      const EventStep& event = lane.events[step.index];
      return stream.Wait(*event.event, *event.base + event.generation);
    }
    case StepKind::kSend:
      return (*lane.sends[step.index])->Send(stream);
    case StepKind::kRecv:
      return (*lane.recvs[step.index])->Recv(stream);
    case StepKind::kCollective: {
      const CollectiveStep& c = lane.collectives[step.index];
      return (*c.group)->Run(stream, c.spec, c.input, c.output);
    }
    case StepKind::kPublish: {
      const MailboxStep& m = lane.mailboxes[step.index];
      return (*m.mailbox)->Publish(stream, m.data, m.size_bytes);
    }
    case StepKind::kTakeLatest: {
      const MailboxStep& m = lane.mailboxes[step.index];
      return (*m.mailbox)->TakeLatest(stream, m.data, m.size_bytes);
    }
    case StepKind::kHost:
      return stream.RunOnHost(lane.host_steps[step.index]->function);
    case StepKind::kBranch: {
      const BranchStep& branch = lane.branches[step.index];
      MILLRACE_RETURN_IF_ERROR(stream.Synchronize());
      if (*branch.condition == std::byte{0}) next = branch.otherwise;
      return absl::OkStatus();
    }
    case StepKind::kJump:
      next = step.index;
      return absl::OkStatus();
    case StepKind::kLoopBegin:
      return BeginLoop(*lane.loops[step.index], stream, next);
    case StepKind::kTripBegin:
      return BeginTrip(*lane.loops[step.index], stream);
    case StepKind::kTripEnd:
      return EndTrip(*lane.loops[step.index], stream, next);
    case StepKind::kLoopEnd:
      return EndLoop(*lane.loops[step.index], stream);
  }
  return absl::OkStatus();
}

// What RunLane does around each step.
struct NoTrace {
  void Begin() {}
  void End(const StepOrigin&) {}
};
struct SpanTrace {
  const std::vector<TraceLane*>& lanes;  // by stream
  int64_t begin_ns = 0;

  void Begin() { begin_ns = NowNs(); }
  void End(const StepOrigin& origin) {
    lanes[origin.instruction->stream.index]->spans.push_back({.instruction = origin.instruction,
                                                              .microbatch = origin.microbatch,
                                                              .begin_ns = begin_ns,
                                                              .end_ns = NowNs()});
  }
};

// The loop. `failed` is the place of the step whose error is returned.
template <typename Trace>
absl::Status RunLane(Lane& running, const LaneSteps& lane, Trace trace, int32_t& failed) {
  const Step* const steps = lane.steps.data();
  const int32_t end = static_cast<int32_t>(lane.steps.size());
  uint64_t begun = running.begun.load(std::memory_order_relaxed);
  for (int32_t at = 0, next; at < end; at = next) {
    next = at + 1;
    running.under_way.store(&lane.origins[at], std::memory_order_relaxed);
    running.begun.store(++begun, std::memory_order_relaxed);
    trace.Begin();
    absl::Status status = RunStep(lane, steps[at], next);
    if (!status.ok()) [[unlikely]] {
      failed = at;
      return status;
    }
    if (steps[at].kind != StepKind::kJump) trace.End(lane.origins[at]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Prepare(const PlanBundle& plan,
                                                            const DeviceTable& devices,
                                                            const ExecutorOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<PreparedPlan> prepared,
                            PreparePlan(plan, devices, options));
  auto executor = std::unique_ptr<Executor>(new Executor(std::move(prepared), options));
  if (options.communicator != nullptr) options.communicator->Observe(executor.get());
  return executor;
}

Executor::~Executor() {
  if (communicator_ != nullptr) communicator_->Observe(nullptr);
}

uint64_t Executor::Progress() const {
  uint64_t begun = 0;
  for (const auto& lane : prepared_->lanes) begun += lane->begun.load(std::memory_order_relaxed);
  return begun;
}

// " (MatMul)": the op of the node that an instruction runs, if it runs one.
std::string Executor::OpOf(const Instruction& instruction) const {
  return std::visit(
      [&](const auto& body) -> std::string {
        if constexpr (requires { body.graph; }) {
          return StrCat(" (", prepared_->graph(body.graph).node(body.node).op, ")");
        } else if constexpr (requires { body.node; }) {
          return StrCat(" (", prepared_->graph(0).node(body.node).op, ")");
        } else {
          return "";
        }
      },
      instruction.body);
}

std::string Executor::Where() const {
  std::string where;
  for (const auto& lane : prepared_->lanes) {
    const StepOrigin* origin = lane->under_way.load(std::memory_order_relaxed);
    if (origin == nullptr) continue;
    StrAppend(&where, where.empty() ? "" : "; and ",
              DescribeStep(*prepared_, *lane, *origin->instruction), OpOf(*origin->instruction));
  }
  return where;
}

absl::Status Executor::Run(Section section) {
  first_failed_.store(-1, std::memory_order_relaxed);
  prepared_->threads->Run(prepared_->active_lanes[static_cast<int>(section)],
                          [&](int lane) { RunLaneOrCancel(lane, section); });
  for (ProgramState& state : prepared_->states) {
    for (EventState& event : state.events) event.base += event.records[static_cast<int>(section)];
  }
  const int failed = first_failed_.load(std::memory_order_relaxed);
  if (failed >= 0) return prepared_->lanes[failed]->status;
  if (prepared_->cancellation.requested()) return absl::CancelledError("the run was cancelled");
  return absl::OkStatus();
}

void Executor::RunLaneOrCancel(int index, Section section) {
  Lane& lane = *prepared_->lanes[index];
  const LaneSteps& steps = lane.sections[static_cast<int>(section)];
  const ProgramState& state = prepared_->states[lane.program];
  int32_t failed = -1;
  absl::Status status = traced_ ? RunLane(lane, steps, SpanTrace{state.trace}, failed)
                                : RunLane(lane, steps, NoTrace{}, failed);
  for (size_t i = 0; status.ok() && i < lane.streams.size(); ++i) {
    status = state.streams[lane.streams[i].index]->Synchronize();
  }
  lane.under_way.store(nullptr, std::memory_order_relaxed);
  if (status.ok()) [[likely]]
    return;

  // Lanes that gave up because another failed have nothing to say.
  int none = -1;
  if (!absl::IsCancelled(status) && first_failed_.compare_exchange_strong(none, index)) {
    if (failed >= 0) {
      const StepOrigin& origin = steps.origins[failed];
      std::string where = DescribeStep(*prepared_, lane, *origin.instruction);
      if (prepared_->plan->microbatches > 1) StrAppend(&where, ", microbatch ", origin.microbatch);
      status = Annotate(status, where);
    } else {
      status = Annotate(status, Describe(prepared_->programs[lane.program], prepared_->plan->mesh));
    }
    lane.status = std::move(status);
  }
  prepared_->cancellation.Request();
}

Shape Executor::TrueShape(int program, const ValueRef& value, int32_t microbatch) const {
  const ShapeCells& cells = prepared_->states[program].shapes;
  const auto cell = cells.find({value, microbatch});
  return cell != cells.end() ? cell->second : prepared_->value(value).type.shape;
}

}  // namespace millrace
