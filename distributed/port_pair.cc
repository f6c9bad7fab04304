// Little is written by the sender, a flag behind the data, as soon as the receiver has said that
// its bytes are free: it waits for nothing more. Of much each side moves a half: both would be
// waiting, and one core alone does not saturate the memory.
#include "distributed/port_pair.h"

#include <cstring>

namespace millrace {
namespace {

constexpr int64_t kSharedBytes = 64 << 10;
constexpr int64_t kPageBytes = 4096;

void MoveBytes(const PortMove& move, int64_t begin, int64_t end) {
  if (begin < end) {
    std::memcpy(move.to + begin, move.from + begin, static_cast<size_t>(end - begin));
  }
}

}  // namespace

absl::Status MeetAndMove(Stream& stream, PortEnd& self, PortEnd& peer, uint32_t count, bool sends,
                         const PortMove& move) {
  if (move.size_bytes >= kSharedBytes) {
    MILLRACE_RETURN_IF_ERROR(stream.Signal(self.ready, count));
    MILLRACE_RETURN_IF_ERROR(stream.WaitFlag(peer.ready, count));
    const int64_t middle = move.size_bytes / 2 / kPageBytes * kPageBytes;
    MoveBytes(move, sends ? 0 : middle, sends ? middle : move.size_bytes);
    MILLRACE_RETURN_IF_ERROR(stream.Signal(self.done, count));
    return stream.WaitFlag(peer.done, count);
  }
  if (!sends) {
    MILLRACE_RETURN_IF_ERROR(stream.Signal(self.ready, count));
    return stream.WaitFlag(peer.done, count);
  }
  MILLRACE_RETURN_IF_ERROR(stream.WaitFlag(peer.ready, count));
  MoveBytes(move, 0, move.size_bytes);
  return stream.Signal(self.done, count);
}

}  // namespace millrace
