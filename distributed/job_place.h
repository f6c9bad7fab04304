// Where a process stands in its job, as its launcher says.
#ifndef MILLRACE_DISTRIBUTED_JOB_PLACE_H_
#define MILLRACE_DISTRIBUTED_JOB_PLACE_H_

#include <optional>
#include <string>

#include "graph/status.h"

namespace millrace {

struct JobPlace {
  int rank = 0;
  int size = 1;
  std::string master;  // where rank 0 listens: "host:port", or "@name" on one machine
};

// From the environment: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; under mpirun what Open MPI
// sets (on one machine it needs no MASTER_ADDR). MILLRACE_MASTER is the whole of
// JobPlace::master. nullopt: there is no job, or one of one process. UsageError for variables that
// make no sense.
absl::StatusOr<std::optional<JobPlace>> FindJobPlace();

// Which machine this process runs on: processes of one name share memory. A network namespace of
// its own is a machine of its own, whatever memory could be reached past the network.
std::string ThisMachine();

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_JOB_PLACE_H_
