// Between synchronous devices both sides move the bytes (port_pair.h).
//
// Otherwise one side of a channel moves the bytes, with its own stream; the other offers its
// address and waits. Both know all addresses beforehand, so a transfer is two flags:
//
//     mover:  wait offered >= n;  copy;  signal done = n
//     other:  signal offered = n;  wait done >= n
//
// in stream order on each side, n counting transfers over all runs. The receiver moves, unless only
// the sender is asynchronous: a device that queues work can copy to and from host memory, but the
// host cannot reach its memory. Nobody ever waits outside a stream.
#include "distributed/in_process_ports.h"

#include <utility>

namespace millrace {
namespace {

// What the mover's device has to call memory of the other device: its own space if they are of one
// kind, host memory otherwise.
MemorySpace SpaceSeenFrom(const Device& mover, const Device& owner, MemorySpace space) {
  if (mover.kind() == owner.kind() || space == MemorySpace::kHost) return space;
  return MemorySpace::kHost;
}

class InProcessPort : public SendPort, public RecvPort {
 public:
  InProcessPort(std::shared_ptr<InProcessChannel> channel, bool sends)
      : channel_(std::move(channel)), sends_(sends), moves_(sends == channel_->sender_moves) {}

  absl::Status Send(Stream& stream) override { return Transmit(stream); }
  absl::Status Recv(Stream& stream) override { return Transmit(stream); }

 private:
  absl::Status Transmit(Stream& stream) {
    const size_t transfer = next_;
    const size_t transfers = (sends_ ? channel_->sends : channel_->recvs).size();
    next_ = next_ + 1 == transfers ? 0 : next_ + 1;
    ++count_;
    if (channel_->both_move) return MeetPeer(stream, transfer);
    if (!moves_) {
      MILLRACE_RETURN_IF_ERROR(stream.Signal(channel_->offered(), count_));
      return stream.WaitFlag(channel_->done(), count_);
    }
    MILLRACE_RETURN_IF_ERROR(stream.WaitFlag(channel_->offered(), count_));
    const CopyRegion region = Region(transfer);
    if (region.row_bytes > 0) MILLRACE_RETURN_IF_ERROR(stream.Copy(region));
    return stream.Signal(channel_->done(), count_);
  }

  absl::Status MeetPeer(Stream& stream, size_t transfer) {
    PortEnd& self = sends_ ? channel_->sender_end : channel_->receiver_end;
    PortEnd& peer = sends_ ? channel_->receiver_end : channel_->sender_end;
    // An end that was never opened never says that it is ready.
    PortMove move;
    if (channel_->sender_open && channel_->receiver_open) {
      move = {.to = channel_->recvs[transfer].data,
              .from = channel_->sends[transfer].data,
              .size_bytes = channel_->sends[transfer].size_bytes};
    }
    return MeetAndMove(stream, self, peer, count_, sends_, move);
  }

  CopyRegion Region(size_t transfer) const {
    const Transfer& from = channel_->sends[transfer];
    const Transfer& to = channel_->recvs[transfer];
    const Device& mover = channel_->sender_moves ? *channel_->sender : *channel_->receiver;
    return {.to = to.data,
            .from = from.data,
            .to_space = SpaceSeenFrom(mover, *channel_->receiver, to.space),
            .from_space = SpaceSeenFrom(mover, *channel_->sender, from.space),
            .row_bytes = from.size_bytes};
  }

  const std::shared_ptr<InProcessChannel> channel_;
  const bool sends_, moves_;
  size_t next_ = 0;     // transfer of the run
  uint32_t count_ = 0;  // transfers begun
};

}  // namespace

absl::StatusOr<std::shared_ptr<InProcessChannel>> CreateInProcessChannel(Device& sender,
                                                                         Device& receiver) {
  auto channel = std::make_shared<InProcessChannel>();
  channel->sender = &sender;
  channel->receiver = &receiver;
  channel->both_move = !sender.asynchronous() && !receiver.asynchronous();
  channel->sender_moves = sender.asynchronous() && !receiver.asynchronous();
  // The flags must be within the mover's reach; the host reaches those of any device.
  Device& mover = channel->sender_moves ? sender : receiver;
  MILLRACE_ASSIGN_OR_RETURN(channel->flags, mover.AllocateFlags(2));
  return channel;
}

std::unique_ptr<SendPort> MakeSendPort(std::shared_ptr<InProcessChannel> channel) {
  return std::make_unique<InProcessPort>(std::move(channel), /*sends=*/true);
}

std::unique_ptr<RecvPort> MakeRecvPort(std::shared_ptr<InProcessChannel> channel) {
  return std::make_unique<InProcessPort>(std::move(channel), /*sends=*/false);
}

}  // namespace millrace
