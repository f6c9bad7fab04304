// Members meet in rounds. In a round each member first shows its buffers and counts up its flag,
// then waits until all others have; flags are written by their own member only, so a round costs a
// store and n - 1 loads a member and no lock. All data are read where they lie.
//
// AllReduce: rank r reduces the r-th part of all inputs into that part of all outputs, so every
// byte is read once and written once where it belongs, and one round ends it. Inputs and outputs
// may be the same bytes: part r of rank q's buffer is read, block by block, by r alone and then
// written by r alone.
#include "distributed/shared_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "distributed/reduce.h"
#include "graph/strings.h"

namespace millrace {

namespace {

bool SameSpec(const CollectiveSpec& a, const CollectiveSpec& b) {
  return a.kind == b.kind && a.reduction == b.reduction && a.dtype == b.dtype &&
         a.count == b.count && a.root == b.root;
}

std::string ToText(const CollectiveSpec& spec) {
  constexpr std::string_view kNames[] = {"none",     "AllReduce", "AllGather", "ReduceScatter",
                                         "AllToAll", "Broadcast", "Publish",   "TakeLatest"};
  return StrCat(kNames[static_cast<int>(spec.kind)], " of ", spec.count, " ", DTypeName(spec.dtype),
                " (", ReductionName(spec.reduction), ", root ", spec.root, ")");
}

// Half-open range of elements.
struct Part {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// The rank's share of `count` elements: whole cache lines, so no two ranks write one line.
Part PartOf(int64_t count, int64_t element_bytes, int ranks, int rank) {
  const int64_t line = std::max<int64_t>(1, 64 / element_bytes);
  const int64_t lines = (count + line - 1) / line;
  const int64_t base = lines / ranks, extra = lines % ranks;
  const auto begin = [&](int64_t r) {
    return std::min(count, line * (r * base + std::min(r, extra)));
  };
  return {begin(rank), begin(rank + 1)};
}

void CopyBytes(std::byte* to, const std::byte* from, int64_t size_bytes) {
  if (size_bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(size_bytes));
}

class SharedGroupMember : public Group {
 public:
  SharedGroupMember(std::vector<MemberView> members, int rank, OnWaiting on_waiting)
      : members_(std::move(members)),
        rank_(rank),
        ranks_(static_cast<int>(members_.size())),
        on_waiting_(std::move(on_waiting)),
        inputs_(members_.size()),
        outputs_(members_.size()),
        parts_(members_.size()),
        targets_(members_.size()) {}

  absl::Status Run(Stream& stream, const CollectiveSpec& spec, const std::byte* input,
                   std::byte* output) override {
    GroupMember& self = *members_[rank_].member;
    self.spec = spec;
    self.input = input;
    self.output = output;
    MILLRACE_RETURN_IF_ERROR(Meet(stream));
    MILLRACE_RETURN_IF_ERROR(CheckSpecs(spec));
    MILLRACE_RETURN_IF_ERROR(FindBuffers(spec));
    MILLRACE_RETURN_IF_ERROR(RunKind(spec, output));
    return Meet(stream);
  }

 private:
  // Until all members have come as far.
  absl::Status Meet(Stream& stream) {
    ++round_;
    MILLRACE_RETURN_IF_ERROR(stream.Signal(members_[rank_].member->rounds, round_));
    for (int other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      if (on_waiting_) on_waiting_(other);
      MILLRACE_RETURN_IF_ERROR(stream.WaitFlag(members_[other].member->rounds, round_));
    }
    if (on_waiting_) on_waiting_(-1);
    return absl::OkStatus();
  }

  // Where all members' inputs, and what is written to of their outputs, lie here.
  absl::Status FindBuffers(const CollectiveSpec& spec) {
    const int64_t bytes = spec.count * SizeOf(spec.dtype);
    for (int r = 0; r < ranks_; ++r) {
      const GroupMember& member = *members_[r].member;
      inputs_[r] = member.input;
      outputs_[r] = member.output;
      if (!members_[r].find) continue;
      inputs_[r] = members_[r].find(member.input, bytes);
      outputs_[r] = spec.kind == CommKind::kAllReduce ? members_[r].find(member.output, bytes)
                                                      : members_[r].member->output;
      if (inputs_[r] == nullptr || outputs_[r] == nullptr) {
        return InternalError(StrCat(ToText(spec), ": rank ", r, "'s buffer is out of reach"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSpecs(const CollectiveSpec& spec) const {
    for (int other = 0; other < ranks_; ++other) {
      const CollectiveSpec& theirs = members_[other].member->spec;
      if (SameSpec(spec, theirs)) continue;
      return DistributedError(StrCat("rank ", rank_, " runs ", ToText(spec), " while rank ", other,
                                     " runs ", ToText(theirs)));
    }
    const bool split = spec.kind == CommKind::kReduceScatter || spec.kind == CommKind::kAllToAll;
    if (split && spec.count % ranks_ != 0) {
      return UsageError(StrCat(ToText(spec), " cannot be split evenly over ", ranks_, " ranks"));
    }
    if (spec.kind == CommKind::kBroadcast && (spec.root < 0 || spec.root >= ranks_)) {
      return UsageError(StrCat(ToText(spec), " in a group of ", ranks_, " ranks"));
    }
    return absl::OkStatus();
  }

  absl::Status RunKind(const CollectiveSpec& spec, std::byte* output) {
    const int64_t element = SizeOf(spec.dtype);
    const int64_t bytes = spec.count * element;
    switch (spec.kind) {
      case CommKind::kAllReduce:
        return AllReduce(spec);
      case CommKind::kAllGather:
        for (int r = 0; r < ranks_; ++r) CopyBytes(output + r * bytes, inputs_[r], bytes);
        return absl::OkStatus();
      case CommKind::kReduceScatter: {
        const int64_t share = spec.count / ranks_;
        return Reduce(spec, {rank_ * share, (rank_ + 1) * share}, {&output, 1});
      }
      case CommKind::kAllToAll: {
        const int64_t share = bytes / ranks_;
        for (int r = 0; r < ranks_; ++r) {
          CopyBytes(output + r * share, inputs_[r] + rank_ * share, share);
        }
        return absl::OkStatus();
      }
      case CommKind::kBroadcast:
        CopyBytes(output, inputs_[spec.root], bytes);
        return absl::OkStatus();
      case CommKind::kNone:
      case CommKind::kPublish:
      case CommKind::kTakeLatest:
        break;
    }
    return InternalError(StrCat(ToText(spec), " is not a collective"));
  }

  absl::Status AllReduce(const CollectiveSpec& spec) {
    const int64_t element = SizeOf(spec.dtype);
    const Part own = PartOf(spec.count, element, ranks_, rank_);
    for (int r = 0; r < ranks_; ++r) targets_[r] = outputs_[r] + own.begin * element;
    return Reduce(spec, own, targets_);
  }

  // That part of all inputs, to each of `outputs`.
  absl::Status Reduce(const CollectiveSpec& spec, Part part, std::span<std::byte* const> outputs) {
    for (int r = 0; r < ranks_; ++r) parts_[r] = inputs_[r] + part.begin * SizeOf(spec.dtype);
    return ReduceRanks(spec.reduction, spec.dtype, parts_, part.size(), outputs);
  }

  const std::vector<MemberView> members_;
  const int rank_;
  const int ranks_;
  const OnWaiting on_waiting_;
  // By rank; kept, so that running does not allocate.
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<const std::byte*> parts_;
  std::vector<std::byte*> targets_;
  uint32_t round_ = 0;
};

// Keeps the group it is a member of.
class KeepingMember : public Group {
 public:
  KeepingMember(std::shared_ptr<SharedGroup> group, std::unique_ptr<Group> member)
      : group_(std::move(group)), member_(std::move(member)) {}
  absl::Status Run(Stream& stream, const CollectiveSpec& spec, const std::byte* input,
                   std::byte* output) override {
    return member_->Run(stream, spec, input, output);
  }

 private:
  const std::shared_ptr<SharedGroup> group_;
  const std::unique_ptr<Group> member_;
};

}  // namespace

std::unique_ptr<Group> JoinGroup(std::vector<MemberView> members, int rank, OnWaiting on_waiting) {
  return std::make_unique<SharedGroupMember>(std::move(members), rank, std::move(on_waiting));
}

std::shared_ptr<SharedGroup> CreateSharedGroup(int members) {
  return std::make_shared<SharedGroup>(members);
}

std::unique_ptr<Group> JoinGroup(std::shared_ptr<SharedGroup> group, int rank) {
  std::vector<MemberView> members;
  for (GroupMember& member : group->members) members.push_back({.member = &member});
  return std::make_unique<KeepingMember>(std::move(group), JoinGroup(std::move(members), rank));
}

}  // namespace millrace
