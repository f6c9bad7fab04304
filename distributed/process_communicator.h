// Endpoints spread over the processes of a job. Processes of one machine map each other's arenas:
// transfers are written to the planned bytes and collectives read where the producers wrote.
#ifndef MILLRACE_DISTRIBUTED_PROCESS_COMMUNICATOR_H_
#define MILLRACE_DISTRIBUTED_PROCESS_COMMUNICATOR_H_

#include <memory>

#include "distributed/job.h"
#include "distributed/shared_memory.h"
#include "runtime/communicator.h"

namespace millrace {

class ProcessCommunicator : public Communicator {
 public:
  // What cpu devices of this process allocate arenas from, so that the others reach them.
  virtual SharedMemory& memory() = 0;
};

// `job` outlives it. What processes share is for synchronous devices whose memory the host reaches;
// for others opening it is a DeviceError.
std::unique_ptr<ProcessCommunicator> CreateProcessCommunicator(Job& job);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_PROCESS_COMMUNICATOR_H_
