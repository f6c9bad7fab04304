// `--spawn`, and being one rank of a job.
#ifndef MILLRACE_TOOLS_WORKERS_H_
#define MILLRACE_TOOLS_WORKERS_H_

#include <functional>

#include "distributed/job.h"
#include "graph/status.h"
#include "tools/command_line.h"

namespace millrace {

struct WorkerOptions {
  int spawn = 0;  // processes; 0: not given
  double timeout_s = 120;
};
void AddWorkerOptions(OptionList& list, WorkerOptions& options);

// Runs `work` as what this process is:
//  * on its own, with no job;
//  * as a rank of a job that a launcher started (distributed/job_place.h): rank 0 talks, what the
//    others print goes nowhere, and the first failure of any is the error of all;
//  * with --spawn, not at all: the ranks are processes of this program with this command line, and
//    the error has the exit code of theirs and no message, since they have given it.
absl::Status RunAsWorker(const WorkerOptions& options,
                         const std::function<absl::Status(Job* job)>& work);

// True when this process is a rank other than 0: it writes no files.
inline bool IsSilent(const Job* job) { return job != nullptr && job->rank() != 0; }

}  // namespace millrace

#endif  // MILLRACE_TOOLS_WORKERS_H_
