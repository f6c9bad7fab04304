// A collective group of synchronous devices in one process.
#ifndef MILLRACE_DISTRIBUTED_SHARED_GROUP_H_
#define MILLRACE_DISTRIBUTED_SHARED_GROUP_H_

#include <memory>

#include "graph/status.h"
#include "runtime/communicator.h"

namespace millrace {

struct SharedGroup;  // what the members share

std::shared_ptr<SharedGroup> CreateSharedGroup(int members);
// The member of that rank. Members run on threads of their own.
std::unique_ptr<Group> JoinGroup(std::shared_ptr<SharedGroup> group, int rank);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_SHARED_GROUP_H_
