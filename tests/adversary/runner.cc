// A plan is prepared as for a session (runtime/prepare.h): one lane of steps for each stream, each
// with addresses, kernels, ports. But nobody runs the lanes; the adversary keeps a place in each
// and does one step at a time of whichever may go on:
//
//   Wait        when the event has been recorded as often as the plan says
//   Send        when the stream of the other end stands at its Recv: the bytes move
//   Recv        when they have
//   Collective  when the streams of all members stand at it: the first one does it for all
//   others      always
//
// Which one is drawn in one of two ways, by seed: evenly; or by priorities that are drawn once and
// lowered now and then, as in probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010),
// which finds orders that need one stream to be far ahead of another.
#include "tests/adversary/runner.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "distributed/reduce.h"
#include "graph/strings.h"
#include "tests/adversary/operand_guard.h"
#include "tests/adversary/virtual_device.h"

namespace millrace {
namespace {

// Chooses among what may go on.
class Chooser {
 public:
  Chooser(uint64_t seed, size_t lanes) : random_(seed), even_(seed % 2 == 0), priority_(lanes) {
    std::iota(priority_.begin(), priority_.end(), 0);
    std::shuffle(priority_.begin(), priority_.end(), random_);
  }

  size_t Choose(const std::vector<size_t>& ready) {
    if (ready.size() > 1) ++choices_;
    if (even_) return ready[random_() % ready.size()];
    const size_t best = *std::max_element(ready.begin(), ready.end(), [&](size_t a, size_t b) {
      return priority_[a] < priority_[b];
    });
    if (random_() % kStepsAtOnePriority == 0) priority_[best] = --lowest_;
    return best;
  }
  int64_t choices() const { return choices_; }

 private:
  static constexpr uint64_t kStepsAtOnePriority = 16;  // on average
  std::mt19937_64 random_;
  const bool even_;
  std::vector<int64_t> priority_;  // by lane
  int64_t lowest_ = 0;
  int64_t choices_ = 0;
};

// The slices an instruction names, with what a kernel does to them.
struct NamedSlice {
  SliceId slice;
  bool read = false, written = false;
};

}  // namespace

class Runner::Impl {
 public:
  Impl(PreparedPlan& prepared, const RunnerOptions& options)
      : prepared_(prepared),
        options_(options),
        chooser_(options.seed, prepared.lanes.size()),
        at_(prepared.lanes.size(), 0) {}

  absl::Status Run(Section section) {
    section_ = static_cast<int>(section);
    std::fill(at_.begin(), at_.end(), 0);
    while (true) {
      std::vector<size_t> ready;
      bool done = true;
      for (size_t lane = 0; lane < at_.size(); ++lane) {
        if (AtEnd(lane)) continue;
        done = false;
        if (MayGoOn(lane)) ready.push_back(lane);
      }
      if (done) break;
      if (ready.empty()) return Stuck();
      const size_t lane = chooser_.Choose(ready);
      const StepOrigin& origin = Steps(lane).origins[at_[lane]];
      const absl::Status status = Do(lane);
      if (!status.ok()) {
        return Annotate(status,
                        DescribeStep(prepared_, *prepared_.lanes[lane], *origin.instruction));
      }
    }
    for (ProgramState& state : prepared_.states) {
      for (EventState& event : state.events) event.base += event.records[section_];
    }
    return absl::OkStatus();
  }

  int64_t choices() const { return chooser_.choices(); }

 private:
  LaneSteps& Steps(size_t lane) { return prepared_.lanes[lane]->sections[section_]; }
  bool AtEnd(size_t lane) { return at_[lane] == std::ssize(Steps(lane).steps); }
  const Step& StepOf(size_t lane) { return Steps(lane).steps[at_[lane]]; }

  // --- What may go on ---

  template <typename Port>
  static Port& As(const auto& pointer) {
    return static_cast<Port&>(**pointer);
  }

  bool MayGoOn(size_t lane) {
    const Step& step = StepOf(lane);
    LaneSteps& steps = Steps(lane);
    switch (step.kind) {
      case StepKind::kWait: {
        const EventStep& event = steps.events[step.index];
        return static_cast<VirtualEvent&>(*event.event).generation >=
               *event.base + event.generation;
      }
      case StepKind::kSend: {
        const auto& port = As<VirtualSendPort>(steps.sends[step.index]);
        return port.peer != nullptr && StandsAt(*port.peer) && !port.peer->arrived;
      }
      case StepKind::kRecv:
        return As<VirtualRecvPort>(steps.recvs[step.index]).arrived;
      case StepKind::kCollective: {
        const auto& group = As<VirtualGroup>(steps.collectives[step.index].group);
        return group.done || AllStandAt(*group.state);
      }
      default:
        return true;
    }
  }

  bool StandsAt(const VirtualRecvPort& port) {
    for (size_t lane = 0; lane < at_.size(); ++lane) {
      if (AtEnd(lane) || StepOf(lane).kind != StepKind::kRecv) continue;
      if (&As<VirtualRecvPort>(Steps(lane).recvs[StepOf(lane).index]) == &port) return true;
    }
    return false;
  }

  // The lane that stands at a collective of this member.
  std::optional<size_t> LaneAt(const VirtualGroup* member) {
    for (size_t lane = 0; lane < at_.size(); ++lane) {
      if (AtEnd(lane) || StepOf(lane).kind != StepKind::kCollective) continue;
      if (&As<VirtualGroup>(Steps(lane).collectives[StepOf(lane).index].group) == member) {
        return lane;
      }
    }
    return std::nullopt;
  }

  bool AllStandAt(const VirtualGroupState& state) {
    return std::ranges::all_of(state.members, [&](const VirtualGroup* member) {
      return member != nullptr && !member->done && LaneAt(member).has_value();
    });
  }

  absl::Status Stuck() {
    std::string text = "no stream can go on:";
    for (size_t lane = 0; lane < at_.size(); ++lane) {
      if (AtEnd(lane)) continue;
      StrAppend(&text, "\n  ",
                DescribeStep(prepared_, *prepared_.lanes[lane],
                             *Steps(lane).origins[at_[lane]].instruction));
    }
    return InternalError(text);
  }

  // --- Doing it ---

  absl::Status Do(size_t lane) {
    const Step step = StepOf(lane);
    LaneSteps& steps = Steps(lane);
    const int32_t here = at_[lane]++;
    switch (step.kind) {
      case StepKind::kLaunch: {
        LaunchStep& launch = steps.launches[step.index];
        return RunLaunch(lane, steps.origins[here], launch);
      }
      case StepKind::kCopy:
        return ForEachRegion(steps.copies[step.index],
                             [&](const CopyRegion& region) { return step.stream->Copy(region); });
      case StepKind::kRecord: {
        const EventStep& event = steps.events[step.index];
        static_cast<VirtualEvent&>(*event.event).generation = *event.base + event.generation;
        return absl::OkStatus();
      }
      case StepKind::kWait:
        return absl::OkStatus();
      case StepKind::kSend:
        return Move(As<VirtualSendPort>(steps.sends[step.index]));
      case StepKind::kRecv:
        As<VirtualRecvPort>(steps.recvs[step.index]).arrived = false;
        return absl::OkStatus();
      case StepKind::kCollective: {
        auto& group = As<VirtualGroup>(steps.collectives[step.index].group);
        if (!group.done) {
          --at_[lane];  // it still stands there
          const absl::Status status = Meet(*group.state);
          ++at_[lane];
          MILLRACE_RETURN_IF_ERROR(status);
        }
        group.done = false;
        return absl::OkStatus();
      }
      case StepKind::kPublish: {
        const MailboxStep& m = steps.mailboxes[step.index];
        return (*m.mailbox)->Publish(*step.stream, m.data, m.size_bytes);
      }
      case StepKind::kTakeLatest: {
        const MailboxStep& m = steps.mailboxes[step.index];
        return (*m.mailbox)->TakeLatest(*step.stream, m.data, m.size_bytes);
      }
      case StepKind::kHost:
        return RunHost(lane, steps.origins[here], *steps.host_steps[step.index]);
      case StepKind::kBranch: {
        const BranchStep& branch = steps.branches[step.index];
        if (*branch.condition == std::byte{0}) at_[lane] = branch.otherwise;
        return absl::OkStatus();
      }
      case StepKind::kJump:
        at_[lane] = step.index;
        return absl::OkStatus();
      case StepKind::kLoopBegin:
        return BeginLoop(*steps.loops[step.index], *step.stream, at_[lane]);
      case StepKind::kTripBegin:
        return BeginTrip(*steps.loops[step.index], *step.stream);
      case StepKind::kTripEnd:
        return EndTrip(*steps.loops[step.index], *step.stream, at_[lane]);
      case StepKind::kLoopEnd:
        return EndLoop(*steps.loops[step.index], *step.stream);
    }
    return InternalError("the adversary does not know this kind of step");
  }

  absl::Status Move(VirtualSendPort& port) {
    VirtualRecvPort& peer = *port.peer;
    const Transfer& from = port.transfers[port.next++ % std::ssize(port.transfers)];
    const Transfer& to = peer.transfers[peer.next++ % std::ssize(peer.transfers)];
    if (from.size_bytes != to.size_bytes) {
      return InternalError(
          StrCat("a Send of ", from.size_bytes, " bytes meets a Recv of ", to.size_bytes));
    }
    std::memmove(to.data, from.data, static_cast<size_t>(from.size_bytes));
    peer.arrived = true;
    return absl::OkStatus();
  }

  // The collective that all members stand at.
  absl::Status Meet(const VirtualGroupState& state) {
    std::vector<const CollectiveStep*> members;
    for (VirtualGroup* member : state.members) {
      const size_t lane = *LaneAt(member);
      members.push_back(&Steps(lane).collectives[StepOf(lane).index]);
      member->done = true;
    }
    const CollectiveSpec spec = members[0]->spec;
    const int64_t bytes = spec.count * SizeOf(spec.dtype);
    std::vector<std::vector<std::byte>> inputs;
    for (const CollectiveStep* member : members) {
      if (member->spec.kind != spec.kind || member->spec.count != spec.count ||
          member->spec.dtype != spec.dtype || member->spec.reduction != spec.reduction) {
        return InternalError("members of a group run different collectives");
      }
      inputs.emplace_back(member->input, member->input + bytes);
    }
    for (size_t rank = 0; rank < members.size(); ++rank) {
      MILLRACE_RETURN_IF_ERROR(GiveTo(rank, spec, inputs, members[rank]->output));
    }
    return absl::OkStatus();
  }

  static absl::Status GiveTo(size_t rank, const CollectiveSpec& spec,
                             const std::vector<std::vector<std::byte>>& inputs, std::byte* output) {
    const int64_t ranks = std::ssize(inputs);
    const int64_t element = SizeOf(spec.dtype), bytes = spec.count * element;
    const int64_t share = spec.count / ranks;
    const auto reduce = [&](int64_t first, int64_t count) {
      std::vector<const std::byte*> parts;
      for (const auto& input : inputs) parts.push_back(input.data() + first * element);
      return ReduceRanks(spec.reduction, spec.dtype, parts, count, output);
    };
    switch (spec.kind) {
      case CommKind::kAllReduce:
        return reduce(0, spec.count);
      case CommKind::kReduceScatter:
        return reduce(static_cast<int64_t>(rank) * share, share);
      case CommKind::kAllGather:
        for (int64_t r = 0; r < ranks; ++r) {
          std::memcpy(output + r * bytes, inputs[r].data(), static_cast<size_t>(bytes));
        }
        return absl::OkStatus();
      case CommKind::kAllToAll:
        for (int64_t r = 0; r < ranks; ++r) {
          std::memcpy(output + r * share * element,
                      inputs[r].data() + static_cast<int64_t>(rank) * share * element,
                      static_cast<size_t>(share * element));
        }
        return absl::OkStatus();
      case CommKind::kBroadcast:
        std::memcpy(output, inputs[spec.root].data(), static_cast<size_t>(bytes));
        return absl::OkStatus();
      default:
        return InternalError("not a collective");
    }
  }

  // --- Kernels ---

  OperandGuard GuardOf(size_t lane, const StepOrigin& origin,
                       const std::vector<NamedSlice>& slices) const {
    const BoundProgram& bound = prepared_.programs[prepared_.lanes[lane]->program];
    OperandGuard guard;
    for (const NamedSlice& named : slices) {
      if (!named.slice.valid()) {
        guard.Add(nullptr, 0, false, false, "");
        continue;
      }
      const Slice& slice = bound.slice(named.slice);
      guard.Add(bound.Address(named.slice, origin.microbatch), slice.size_bytes, named.read,
                named.written,
                slice.value.value.valid() ? prepared_.value(slice.value).name : "scratch");
    }
    return guard;
  }

  template <typename Body>
  static std::vector<NamedSlice> SlicesOf(const Body& body) {
    std::vector<NamedSlice> slices;
    for (const SliceId s : body.inputs) slices.push_back({.slice = s, .read = true});
    for (const SliceId s : body.outputs) slices.push_back({.slice = s, .written = true});
    return slices;
  }

  absl::Status RunLaunch(size_t lane, const StepOrigin& origin, LaunchStep& launch) {
    if (!options_.checked) return launch.kernel->Run(launch.args);
    const auto& body = std::get<Launch>(origin.instruction->body);
    std::vector<NamedSlice> slices = SlicesOf(body);
    slices.push_back({.slice = body.scratch, .written = true});
    OperandGuard guard = GuardOf(lane, origin, slices);
    return guard.Run([&](const std::vector<void*>& addresses) {
      KernelArgs args = launch.args;
      args.inputs = addresses.data();
      args.outputs = addresses.data() + body.inputs.size();
      args.scratch = addresses.back();
      return launch.kernel->Run(args);
    });
  }

  // Bounded results are of any size up to their slices', so all of a slice may be written.
  absl::Status RunHost(size_t lane, const StepOrigin& origin, HostStep& step) {
    const auto* body = std::get_if<HostCall>(&origin.instruction->body);
    if (!options_.checked || body == nullptr || step.kernel == nullptr) return step.function();
    OperandGuard guard = GuardOf(lane, origin, SlicesOf(*body));
    const std::vector<void*> inputs = step.inputs, outputs = step.outputs;
    const absl::Status status = guard.Run([&](const std::vector<void*>& addresses) {
      const auto middle = addresses.begin() + std::ssize(inputs);
      std::copy(addresses.begin(), middle, step.inputs.begin());
      std::copy(middle, addresses.end(), step.outputs.begin());
      return step.function();
    });
    step.inputs = inputs;
    step.outputs = outputs;
    return status;
  }

  PreparedPlan& prepared_;
  const RunnerOptions options_;
  Chooser chooser_;
  std::vector<int32_t> at_;  // step, by lane
  int section_ = 0;
};

Runner::Runner(PreparedPlan& prepared, const RunnerOptions& options)
    : impl_(std::make_unique<Impl>(prepared, options)) {}
Runner::~Runner() = default;

absl::Status Runner::Run(Section section) { return impl_->Run(section); }
int64_t Runner::choices() const { return impl_->choices(); }

}  // namespace millrace
