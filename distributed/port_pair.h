// One transfer between two synchronous devices whose memory both sides reach.
#ifndef MILLRACE_DISTRIBUTED_PORT_PAIR_H_
#define MILLRACE_DISTRIBUTED_PORT_PAIR_H_

#include <cstddef>
#include <cstdint>

#include "graph/status.h"
#include "runtime/device.h"

namespace millrace {

// One side's flags, written by that side alone.
struct PortEnd {
  Flag ready, done;
};

// The bytes to move, as this side calls them.
struct PortMove {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  int64_t size_bytes = 0;
};

// Takes part in transfer number `count` (from 1, over all runs) of a channel, as its sender or its
// receiver. Returns when the bytes are where they belong.
absl::Status MeetAndMove(Stream& stream, PortEnd& self, PortEnd& peer, uint32_t count, bool sends,
                         const PortMove& move);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_PORT_PAIR_H_
