// Steps: what a plan's instructions become when a plan is prepared. A lane is the list of one host
// thread: all streams of one asynchronous device's program in issue order, or one stream of a
// synchronous device's. The schedule of each section is unrolled into the lanes' flat arrays, with
// addresses evaluated and kernels, events and ports looked up, so that running a lane is one loop
// over an array (executor.cc).
#ifndef MILLRACE_RUNTIME_STEPS_H_
#define MILLRACE_RUNTIME_STEPS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/plan.h"
#include "runtime/communicator.h"
#include "runtime/device.h"
#include "runtime/host_call.h"
#include "runtime/kernel.h"
#include "runtime/loop.h"
#include "runtime/strided_copy.h"
#include "runtime/trace.h"

namespace millrace {

enum class StepKind : uint8_t {
  kLaunch,
  kCopy,
  kRecord,
  kWait,
  kSend,
  kRecv,
  kCollective,
  kPublish,
  kTakeLatest,
  kHost,
  kBranch,  // of an If: goes on with the next step, or elsewhere when the condition is false
  kJump,    // to step `index`
  kLoopBegin,
  kTripBegin,
  kTripEnd,
  kLoopEnd,
};

struct Step {
  StepKind kind = StepKind::kLaunch;
  int32_t index = 0;  // into the array of its kind in LaneSteps
  Stream* stream = nullptr;
};

struct LaunchStep {
  Kernel* kernel = nullptr;
  KernelArgs args;
};

// Generations are counted per event over all runs: `*base` is how many Records runs before this one
// issued, `generation` counts within the section.
struct EventStep {
  Event* event = nullptr;
  const uint64_t* base = nullptr;
  uint64_t generation = 0;
};

// Ports, groups and mailboxes are opened when all steps are known, hence the second pointer.
struct CollectiveStep {
  std::unique_ptr<Group>* group = nullptr;
  CollectiveSpec spec;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

struct MailboxStep {
  std::unique_ptr<Mailbox>* mailbox = nullptr;
  std::byte* data = nullptr;
  int64_t size_bytes = 0;
};

struct BranchStep {
  const std::byte* condition = nullptr;  // on the host
  int32_t otherwise = 0;                 // step to go on with when it is false
};

// Where a step came from; apart from the steps, since only traces and errors ask.
struct StepOrigin {
  const Instruction* instruction = nullptr;
  int32_t microbatch = 0;
};

// Arrays of addresses that stay where they are while more are added.
class AddressPool {
 public:
  void** Add(std::span<void* const> addresses);

 private:
  static constexpr size_t kBlock = 8192;
  std::vector<std::unique_ptr<void*[]>> blocks_;
  size_t block_size_ = 0, free_ = 0;  // of the last block
};

// One lane's steps for one section.
struct LaneSteps {
  std::vector<Step> steps;
  std::vector<StepOrigin> origins;  // as steps

  std::vector<LaunchStep> launches;
  std::vector<StridedCopy> copies;
  std::vector<EventStep> events;
  std::vector<std::unique_ptr<SendPort>*> sends;
  std::vector<std::unique_ptr<RecvPort>*> recvs;
  std::vector<CollectiveStep> collectives;
  std::vector<MailboxStep> mailboxes;
  std::vector<std::unique_ptr<HostStep>> host_steps;
  std::vector<BranchStep> branches;
  std::vector<std::unique_ptr<LoopState>> loops;
  AddressPool addresses;
};

struct Lane {
  int32_t program = 0;            // index into PreparedPlan::programs
  std::vector<StreamId> streams;  // of that program, ascending
  std::array<LaneSteps, 3> sections;
  absl::Status status;  // of the run in progress
  // For whoever watches: steps begun over all runs, and the one under way; null between runs.
  std::atomic<uint64_t> begun{0};
  std::atomic<const StepOrigin*> under_way{nullptr};
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STEPS_H_
