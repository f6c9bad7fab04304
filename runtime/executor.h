// Executor: runs a prepared plan, section by section. The run loop neither allocates nor locks.
#ifndef MILLRACE_RUNTIME_EXECUTOR_H_
#define MILLRACE_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "graph/plan.h"
#include "graph/status.h"
#include "runtime/bound_program.h"
#include "runtime/prepare.h"

namespace millrace {

class Executor : private RunObserver {
 public:
  // Allocates the plan's buffers and prepares all sections; runs nothing. `plan` is right (the
  // checker says so) and, like devices, communicator and tracer, outlives the executor.
  static absl::StatusOr<std::unique_ptr<Executor>> Prepare(const PlanBundle& plan,
                                                           const DeviceTable& devices,
                                                           const ExecutorOptions& options = {});
  ~Executor() override;

  // One run of a section on all devices; returns when all streams have finished. The error is that
  // of the first instruction to fail, with program, stream, instruction and node; the others are
  // cancelled, and nothing may run afterwards.
  absl::Status Run(Section section);

  std::span<const BoundProgram> programs() const { return prepared_->programs; }
  const Graph& graph(int32_t index) const { return prepared_->graph(index); }
  // The true shape of a bounded value of programs()[program]; its bound before it was computed.
  Shape TrueShape(int program, const ValueRef& value, int32_t microbatch) const;
  // Host threads that take part, the caller's included.
  int num_lanes() const { return static_cast<int>(prepared_->lanes.size()); }

 private:
  Executor(std::unique_ptr<PreparedPlan> prepared, const ExecutorOptions& options)
      : prepared_(std::move(prepared)),
        communicator_(options.communicator),
        traced_(options.tracer != nullptr) {}

  void RunLaneOrCancel(int index, Section section);

  std::string OpOf(const Instruction& instruction) const;
  uint64_t Progress() const override;
  std::string Where() const override;
  void Cancel() override { prepared_->cancellation.Request(); }

  std::unique_ptr<PreparedPlan> prepared_;
  Communicator* const communicator_;  // observes this; may be null
  const bool traced_;
  std::atomic<int> first_failed_{-1};  // lane
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_EXECUTOR_H_
