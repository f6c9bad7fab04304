#include "tools/workers.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "graph/printable.h"
#include "graph/strings.h"
#include "tools/interrupt.h"
#include "tools/spawn.h"

namespace millrace {
namespace {

constexpr int kMaxSpawned = 256;

// Where messages go that even a silent rank has to give; kept open when the others are closed.
int messages = STDERR_FILENO;

void Silence() {
  messages = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  std::fflush(stdout);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

// Rank 0 says what ended a job. When it is the one that is gone the others do, unless the process
// that spawned them will.
void SayIfRankZeroCannot(const JobPlace& place, const absl::Status& failure) {
  const bool rank_zero_lost = failure.message().find("rank 0 died") != absl::string_view::npos ||
                              failure.message().find("more: rank 0,") != absl::string_view::npos;
  if (place.rank != 0 && (!rank_zero_lost || IsSpawned())) return;
  const std::string line = StrCat("millrace: ", Printable(StdView(failure.message())), "\n");
  [[maybe_unused]] const ssize_t written = write(messages, line.data(), line.size());
}

absl::Status RunAsRank(const JobPlace& place, const WorkerOptions& options,
                       const std::function<absl::Status(Job* job)>& work) {
  if (IsSpawned()) EndWithSpawner();
  if (place.rank != 0) Silence();
  JobOptions job_options;
  job_options.timeout_s = options.timeout_s;
  job_options.on_overdue = [place](const absl::Status& failure) {
    SayIfRankZeroCannot(place, failure);
    _exit(ExitCode(failure));
  };
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, Job::Join(place, job_options));
  absl::Status status = work(job.get());
  if (status.ok()) return status;
  job->Fail(InterruptedExitCode() != 0 ? DistributedError("interrupted") : status);
  const absl::Status failure = job->failure();
  if (absl::IsCancelled(status) && !failure.ok()) status = failure;
  if (place.rank != 0) SayIfRankZeroCannot(place, status);
  return status;
}

}  // namespace

void AddWorkerOptions(OptionList& list, WorkerOptions& options) {
  list.Count("--spawn", options.spawn, 1, kMaxSpawned,
             "Run the plan's devices in so many processes");
  list.Number("--timeout", options.timeout_s,
              "Seconds that a process may keep the others waiting [120]");
}

absl::Status RunAsWorker(const WorkerOptions& options,
                         const std::function<absl::Status(Job* job)>& work) {
  if (options.timeout_s <= 0) return UsageError("--timeout must be more than 0");
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobPlace> place, FindJobPlace());
  if (place.has_value()) {
    if (options.spawn > 0 && options.spawn != place->size) {
      return UsageError(StrCat("--spawn ", options.spawn, " in a job that has ", place->size,
                               " ranks already; leave it out"));
    }
    return RunAsRank(*place, options, work);
  }
  if (options.spawn > 1) return SpawnRanks(options.spawn);
  return work(nullptr);
}

}  // namespace millrace
