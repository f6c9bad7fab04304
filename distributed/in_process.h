// Endpoints in one process: transfers by address and flag, collectives over shared memory,
// mailboxes.
#ifndef MILLRACE_DISTRIBUTED_IN_PROCESS_H_
#define MILLRACE_DISTRIBUTED_IN_PROCESS_H_

#include <memory>

#include "runtime/communicator.h"

namespace millrace {

// Ports connect devices of any kinds; where one side is asynchronous, it moves the bytes. Groups
// and mailboxes are for synchronous devices whose memory the host reaches; for others opening one
// is a DeviceError. Devices outlive the communicator. Nothing allocates or locks once it is open,
// except that publishers of one mailbox wait for each other.
std::unique_ptr<Communicator> CreateInProcessCommunicator();

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_IN_PROCESS_H_
