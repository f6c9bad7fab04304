// Members meet in rounds. In a round each member first shows its buffers and counts up its flag,
// then waits until all others have; flags are written by their own member only, so a round costs a
// store and n - 1 loads a member and no lock. All data are read where they lie.
//
// AllReduce: rank r reduces the r-th part of all inputs into its own output; a round; then it
// copies the other parts from the outputs of those that made them; a round, after which inputs and
// outputs may change again. Inputs and outputs may be the same bytes: part r of rank q's buffer is
// read in the first step by r alone, and written only by q's copy in the second, after r is done
// with it. (The part a rank makes lies in its own buffer and is read by the others in the second
// step.)
#include "distributed/shared_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "distributed/reduce.h"
#include "graph/strings.h"

namespace millrace {

struct SharedGroup {
  struct Member {
    Flag rounds;
    CollectiveSpec spec;  // a copy: others read it even when this member has failed and left
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  explicit SharedGroup(int members) : members(members) {}
  std::vector<Member> members;  // by rank
};

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
  SharedGroupMember(std::shared_ptr<SharedGroup> group, int rank)
      : group_(std::move(group)),
        rank_(rank),
        ranks_(static_cast<int>(group_->members.size())),
        parts_(group_->members.size()) {}

  absl::Status Run(Stream& stream, const CollectiveSpec& spec, const std::byte* input,
                   std::byte* output) override {
    SharedGroup::Member& self = group_->members[rank_];
    self.spec = spec;
    self.input = input;
    self.output = output;
    MILLRACE_RETURN_IF_ERROR(Meet(stream));
    MILLRACE_RETURN_IF_ERROR(CheckSpecs(spec));
    MILLRACE_RETURN_IF_ERROR(RunKind(stream, spec, output));
    return Meet(stream);
  }

 private:
  // Until all members have come as far.
  absl::Status Meet(Stream& stream) {
    ++round_;
    MILLRACE_RETURN_IF_ERROR(stream.Signal(group_->members[rank_].rounds, round_));
    for (int other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      MILLRACE_RETURN_IF_ERROR(stream.WaitFlag(group_->members[other].rounds, round_));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSpecs(const CollectiveSpec& spec) const {
    for (int other = 0; other < ranks_; ++other) {
      const CollectiveSpec& theirs = group_->members[other].spec;
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

  absl::Status RunKind(Stream& stream, const CollectiveSpec& spec, std::byte* output) {
    const int64_t element = SizeOf(spec.dtype);
    const int64_t bytes = spec.count * element;
    switch (spec.kind) {
      case CommKind::kAllReduce:
        return AllReduce(stream, spec, output);
      case CommKind::kAllGather:
        for (int r = 0; r < ranks_; ++r) CopyBytes(output + r * bytes, InputOf(r), bytes);
        return absl::OkStatus();
      case CommKind::kReduceScatter: {
        const int64_t share = spec.count / ranks_;
        return Reduce(spec, {rank_ * share, (rank_ + 1) * share}, output);
      }
      case CommKind::kAllToAll: {
        const int64_t share = bytes / ranks_;
        for (int r = 0; r < ranks_; ++r) {
          CopyBytes(output + r * share, InputOf(r) + rank_ * share, share);
        }
        return absl::OkStatus();
      }
      case CommKind::kBroadcast:
        CopyBytes(output, InputOf(spec.root), bytes);
        return absl::OkStatus();
      case CommKind::kNone:
      case CommKind::kPublish:
      case CommKind::kTakeLatest:
        break;
    }
    return InternalError(StrCat(ToText(spec), " is not a collective"));
  }

  absl::Status AllReduce(Stream& stream, const CollectiveSpec& spec, std::byte* output) {
    const int64_t element = SizeOf(spec.dtype);
    const Part own = PartOf(spec.count, element, ranks_, rank_);
    MILLRACE_RETURN_IF_ERROR(Reduce(spec, own, output + own.begin * element));
    MILLRACE_RETURN_IF_ERROR(Meet(stream));
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      const Part part = PartOf(spec.count, element, ranks_, r);
      CopyBytes(output + part.begin * element, group_->members[r].output + part.begin * element,
                part.size() * element);
    }
    return absl::OkStatus();
  }

  // That part of all inputs, to `output`.
  absl::Status Reduce(const CollectiveSpec& spec, Part part, std::byte* output) {
    for (int r = 0; r < ranks_; ++r) parts_[r] = InputOf(r) + part.begin * SizeOf(spec.dtype);
    return ReduceRanks(spec.reduction, spec.dtype, parts_, part.size(), output);
  }

  const std::byte* InputOf(int rank) const { return group_->members[rank].input; }

  const std::shared_ptr<SharedGroup> group_;
  const int rank_;
  const int ranks_;
  std::vector<const std::byte*> parts_;  // by rank; kept, so that running does not allocate
  uint32_t round_ = 0;
};

}  // namespace

std::shared_ptr<SharedGroup> CreateSharedGroup(int members) {
  return std::make_shared<SharedGroup>(members);
}

std::unique_ptr<Group> JoinGroup(std::shared_ptr<SharedGroup> group, int rank) {
  return std::make_unique<SharedGroupMember>(std::move(group), rank);
}

}  // namespace millrace
