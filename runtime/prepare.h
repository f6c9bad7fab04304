// Preparation: from a plan and devices to lanes of steps. Everything that can allocate, fail for
// want of something, or take long happens here, so that running does none of it.
#ifndef MILLRACE_RUNTIME_PREPARE_H_
#define MILLRACE_RUNTIME_PREPARE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "runtime/bound_program.h"
#include "runtime/channels.h"
#include "runtime/communicator.h"
#include "runtime/device_table.h"
#include "runtime/lane_threads.h"
#include "runtime/steps.h"
#include "runtime/trace.h"

namespace millrace {

struct ExecutorOptions {
  Communicator* communicator = nullptr;  // for plans with Send, Recv, Collective or mailboxes
  Tracer* tracer = nullptr;
};

struct EventState {
  std::unique_ptr<Event> event;
  uint64_t base = 0;                  // Records issued by earlier runs
  std::array<uint64_t, 3> records{};  // Records in one run of each section
};

// What belongs to one program at one mesh coordinate.
struct ProgramState {
  std::vector<std::unique_ptr<Stream>> streams;  // by StreamId; null: no instruction uses it
  std::vector<TraceLane*> trace;                 // by StreamId; null without a tracer
  std::vector<EventState> events;                // by EventId
  // By segment and instruction; null where the instruction needs none.
  std::vector<std::vector<std::unique_ptr<Kernel>>> kernels;
  ShapeCells shapes;
};

// Destroyed from the bottom up: threads, lanes, ports, then what they refer to.
struct PreparedPlan {
  const PlanBundle* plan = nullptr;
  std::vector<const Graph*> graphs;  // FlattenGraphs
  Cancellation cancellation;
  std::vector<BoundProgram> programs;
  std::vector<ProgramState> states;  // as programs
  Channels channels;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::array<std::vector<int>, 3> active_lanes;  // by section: lanes with steps, ascending
  std::unique_ptr<LaneThreads> threads;

  const Graph& graph(int32_t index) const { return *graphs[index]; }
  const Value& value(const ValueRef& ref) const { return graph(ref.graph).value(ref.value); }
};

// `plan` outlives the result.
absl::StatusOr<std::unique_ptr<PreparedPlan>> PreparePlan(const PlanBundle& plan,
                                                          const DeviceTable& devices,
                                                          const ExecutorOptions& options);

// How the program's slices lie, as kernels are told.
std::vector<OperandLayout> LayoutsOf(const Program& program, std::span<const SliceId> ids);

// --- Its parts ----------------------------------------------------------------------------------

// Calls visit(SegmentId, index, const Instruction&) for each instruction that a section of the
// program can reach, bodies of Calls included, each once, in order of first use.
using VisitInstruction =
    absl::FunctionRef<absl::Status(SegmentId segment, int32_t index, const Instruction&)>;
absl::Status ForEachInstruction(const Program& program, VisitInstruction visit);

// Prepares the kernels of the lane's instructions; called on the lane's own thread, which is the
// leader of the team that will run them (prepare_kernels.cc).
absl::Status PrepareKernels(PreparedPlan& prepared, const Lane& lane);

// "program 'stage0' on cpu:0, stream 'main', launch mm (...)", for messages.
std::string DescribeStep(const PreparedPlan& prepared, const Lane& lane,
                         const Instruction& instruction);

// Fills the lanes' steps for all sections (unroll.cc).
absl::Status UnrollSchedules(PreparedPlan& prepared);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_PREPARE_H_
