#include "passes/memory/access_log.h"

#include "graph/assert.h"
#include "graph/control_flow.h"

namespace millrace {
namespace {

class Logger {
 public:
  Logger(const Program& program, std::span<const Graph* const> graphs)
      : program_(program), graphs_(graphs) {}

  AccessLog Run() {
    BeginSession();
    Writes(program_.loads);
    LogSection(Section::kInit);
    const int32_t outside = loop_;
    BeginSession();
    BeginLoop();
    BeginSession();
    Writes(program_.inputs);
    LogSection(Section::kStep);
    BeginSession();
    Reads(program_.outputs);
    loop_ = outside;
    BeginSession();
    log_.loops[0].end = Last();
    LogSection(Section::kFinish);
    BeginSession();
    Reads(program_.loads);
    return std::move(log_);
  }

 private:
  int32_t Last() const { return log_.num_moments() - 1; }

  void Begin(const Instruction* instruction, int32_t stream) {
    log_.moments.push_back({.instruction = instruction,
                            .stream = stream,
                            .microbatch = microbatch_,
                            .loop = loop_,
                            .first_access = static_cast<int32_t>(log_.accesses.size())});
  }
  void BeginSession() { Begin(nullptr, -1); }
  // From the last moment on.
  void BeginLoop() {
    log_.loops.push_back({.begin = Last(), .end = 0, .parent = loop_});
    loop_ = static_cast<int32_t>(log_.loops.size()) - 1;
  }

  void Touch(SliceId slice, bool writes) {
    if (slice.valid()) log_.accesses.push_back({slice, writes});
  }
  void Reads(std::span<const SliceId> slices) {
    for (SliceId slice : slices) Touch(slice, false);
  }
  void Writes(std::span<const SliceId> slices) {
    for (SliceId slice : slices) Touch(slice, true);
  }
  void Reads(const std::vector<Binding>& bindings) {
    for (const Binding& binding : bindings) Touch(binding.slice, false);
  }
  void Writes(const std::vector<Binding>& bindings) {
    for (const Binding& binding : bindings) Touch(binding.slice, true);
  }

  void LogSection(Section section) {
    for (const ScheduleItem& item : program_.schedule(section)) {
      microbatch_ = item.microbatch;
      LogSegment(item.segment);
    }
    microbatch_ = 0;
  }

  void LogSegment(SegmentId segment) {
    for (const Instruction& instruction : program_.segments[segment.index].instructions) {
      Begin(&instruction, instruction.stream.index);
      const InstructionBody& body = instruction.body;
      if (const Launch* launch = std::get_if<Launch>(&body)) {
        Reads(launch->inputs);
        Touch(launch->scratch, true);
        Writes(launch->outputs);
      } else if (const Copy* copy = std::get_if<Copy>(&body)) {
        Touch(copy->from, false);
        Touch(copy->to, true);
      } else if (const HostCall* call = std::get_if<HostCall>(&body)) {
        Reads(call->inputs);
        Writes(call->outputs);
      } else if (const Call* call = std::get_if<Call>(&body)) {
        LogCall(instruction, *call);
      } else if (const Collective* collective = std::get_if<Collective>(&body)) {
        Reads(collective->inputs);
        Touch(collective->scratch, true);
        Writes(collective->outputs);
      } else if (const Send* send = std::get_if<Send>(&body)) {
        Touch(send->from, false);
      } else if (const Recv* recv = std::get_if<Recv>(&body)) {
        Touch(recv->to, true);
      } else if (const Publish* publish = std::get_if<Publish>(&body)) {
        Touch(publish->from, false);
      } else if (const TakeLatest* take = std::get_if<TakeLatest>(&body)) {
        Touch(take->to, true);
      }
    }
  }

  void LogCall(const Instruction& instruction, const Call& call) {
    const absl::StatusOr<CallForm> form = FormOf(call.flow, graphs_[call.graph]->node(call.node));
    MILLRACE_CHECK(form.ok());  // the plan is sound
    if (form->IsLoop()) {
      LogLoop(instruction, call, *form);
      return;
    }
    Reads(call.inputs);
    for (const CallBody& body : call.bodies) {
      LogSegment(body.segment);
      Begin(&instruction, instruction.stream.index);
      Reads(body.outputs);
    }
    Begin(&instruction, instruction.stream.index);
    Writes(call.outputs);
  }

  // What is read in any trip is read in the last; stacks and carried places are in use throughout.
  void LogLoop(const Instruction& instruction, const Call& call, const CallForm& form) {
    const CallBody& body = call.bodies[0];
    Reads(call.inputs);
    Writes(call.outputs);
    const int32_t outside = loop_;
    BeginLoop();
    const int32_t loop = loop_;
    Begin(&instruction, instruction.stream.index);
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      const PortKind kind = form.inputs[i].kind;
      Touch(body.inputs[i], kind != PortKind::kSame && kind != PortKind::kCarried);
    }
    LogSegment(body.segment);
    Begin(&instruction, instruction.stream.index);
    Reads(body.outputs);
    loop_ = outside;
    Begin(&instruction, instruction.stream.index);
    log_.loops[loop].end = Last();
    for (const BodyPort& port : form.inputs) {
      if (port.operand >= 0) Touch(call.inputs[port.operand], false);
    }
    Reads(call.outputs);
    Writes(call.outputs);
  }

  const Program& program_;
  const std::span<const Graph* const> graphs_;
  AccessLog log_;
  int32_t loop_ = -1;
  int32_t microbatch_ = 0;
};

}  // namespace

std::span<const Access> AccessLog::AccessesOf(int32_t moment) const {
  const size_t begin = moments[moment].first_access;
  const size_t end =
      moment + 1 < num_moments() ? moments[moment + 1].first_access : accesses.size();
  return std::span(accesses).subspan(begin, end - begin);
}

AccessLog LogAccesses(const Program& program, std::span<const Graph* const> graphs) {
  return Logger(program, graphs).Run();
}

}  // namespace millrace
