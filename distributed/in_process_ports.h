// Point-to-point transfers between two devices of one process.
#ifndef MILLRACE_DISTRIBUTED_IN_PROCESS_PORTS_H_
#define MILLRACE_DISTRIBUTED_IN_PROCESS_PORTS_H_

#include <memory>
#include <span>
#include <vector>

#include "distributed/port_pair.h"
#include "graph/status.h"
#include "runtime/communicator.h"

namespace millrace {

// One channel, shared by its two ports.
struct InProcessChannel {
  Device* sender = nullptr;
  Device* receiver = nullptr;
  bool sender_open = false, receiver_open = false;
  std::vector<Transfer> sends, recvs;  // of one run, in order
  Buffer flags;                        // two: offered, done
  bool sender_moves = false;           // who copies the bytes
  bool both_move = false;              // both devices are synchronous: as in port_pair.h
  PortEnd sender_end, receiver_end;

  Flag& offered() const { return reinterpret_cast<Flag*>(flags.data())[0]; }
  Flag& done() const { return reinterpret_cast<Flag*>(flags.data())[1]; }
};

absl::StatusOr<std::shared_ptr<InProcessChannel>> CreateInProcessChannel(Device& sender,
                                                                         Device& receiver);
std::unique_ptr<SendPort> MakeSendPort(std::shared_ptr<InProcessChannel> channel);
std::unique_ptr<RecvPort> MakeRecvPort(std::shared_ptr<InProcessChannel> channel);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_IN_PROCESS_PORTS_H_
