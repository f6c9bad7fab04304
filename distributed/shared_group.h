// A collective group of synchronous devices whose memory all members reach: threads of one process,
// or processes of one machine that map each other's memory.
#ifndef MILLRACE_DISTRIBUTED_SHARED_GROUP_H_
#define MILLRACE_DISTRIBUTED_SHARED_GROUP_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "graph/status.h"
#include "runtime/communicator.h"
#include "runtime/device.h"

namespace millrace {

// What a member shows the others, in memory that they all reach.
struct alignas(64) GroupMember {
  Flag rounds;
  CollectiveSpec spec;  // a copy: others read it even when this member has failed and left
  const std::byte* input = nullptr;  // as its own process calls them
  std::byte* output = nullptr;
};

// A member as one of the others sees it.
struct MemberView {
  GroupMember* member = nullptr;
  // What `size_bytes` bytes that its process has at an address are called here; null: there is no
  // such place. Empty: it is of this process.
  std::function<std::byte*(const std::byte* there, int64_t size_bytes)> find = {};
};

// Told for which member (by rank in the group) a member waits, and that it does no more (-1).
using OnWaiting = std::function<void(int rank)>;

// The member of `rank` among `members`, which outlive it.
std::unique_ptr<Group> JoinGroup(std::vector<MemberView> members, int rank,
                                 OnWaiting on_waiting = nullptr);

// Members that are threads of one process.
struct SharedGroup {
  explicit SharedGroup(int size) : members(size) {}
  std::vector<GroupMember> members;  // by rank
};
std::shared_ptr<SharedGroup> CreateSharedGroup(int members);
// The member of that rank; it keeps the group. Members run on threads of their own.
std::unique_ptr<Group> JoinGroup(std::shared_ptr<SharedGroup> group, int rank);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_SHARED_GROUP_H_
