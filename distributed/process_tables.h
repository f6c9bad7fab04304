// What the processes of a job tell each other when they connect, and its bytes.
#ifndef MILLRACE_DISTRIBUTED_PROCESS_TABLES_H_
#define MILLRACE_DISTRIBUTED_PROCESS_TABLES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/shared_memory.h"
#include "graph/status.h"
#include "runtime/communicator.h"

namespace millrace {

// Addresses are those of the process that tells.

// One end of a channel whose other end is in another process.
struct ChannelEnd {
  Endpoint self, peer;
  Channel channel;
  bool sends = false;
  std::vector<Transfer> transfers;
  uint64_t flags = 0;  // of its PortEnd
};

// An endpoint's place in a group that has members in several processes.
struct GroupSeat {
  std::vector<Endpoint> members;
  int32_t id = 0;
  Endpoint self;
  uint64_t member = 0;  // of its GroupMember
};

// First: who runs what, and which mailboxes it uses, with their sizes.
struct ProcessRoll {
  std::vector<Endpoint> endpoints;
  std::map<std::string, int64_t> mailboxes;
};

// Then: where everything lies.
struct ProcessTable {
  std::string machine;
  std::vector<SegmentName> segments;
  std::vector<ChannelEnd> ends;
  std::vector<GroupSeat> seats;
  std::map<std::string, uint64_t> mailboxes;  // those that lie there
};

std::string Encode(const ProcessRoll& roll);
std::string Encode(const ProcessTable& table);
absl::StatusOr<ProcessRoll> DecodeRoll(std::string_view bytes);
absl::StatusOr<ProcessTable> DecodeTable(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_PROCESS_TABLES_H_
