// A job: the processes ("ranks") that run one plan together, and the control line between them. It
// carries no tensors of a step: who is there, what ranks tell each other before and between steps,
// and the news that one has failed. Rank 0 serves the line (job_server.h); nothing of MPI is
// needed.
#ifndef MILLRACE_DISTRIBUTED_JOB_H_
#define MILLRACE_DISTRIBUTED_JOB_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "distributed/job_place.h"
#include "distributed/socket.h"
#include "graph/status.h"

namespace millrace {

// What a rank says about itself, several times a second.
struct Pulse {
  uint64_t progress = 0;   // instructions begun; grows while the rank gets on
  int32_t waits_for = -1;  // a rank, or -1
  std::string where;       // what it is doing, for messages; empty between steps
};

// Whoever uses a job for a session. Called from the job's own thread.
class JobActivity {
 public:
  virtual ~JobActivity() = default;
  virtual Pulse Take() = 0;
  virtual void Cancel() = 0;  // the job has failed: end all waits
};

struct JobOptions {
  // A rank that others wait for and that gets nowhere for so long ends the job.
  double timeout_s = 120;
  // Called when the job has failed and this process is still there some seconds later; does not
  // return. Null: nothing happens.
  std::function<void(const absl::Status&)> on_overdue = nullptr;
};

class JobServer;

class Job {
 public:
  // Returns when all ranks have joined. DistributedError naming those that did not within the
  // timeout.
  static absl::StatusOr<std::unique_ptr<Job>> Join(const JobPlace& place,
                                                   const JobOptions& options);
  // Takes leave; on rank 0, waits some seconds for the others to do so.
  ~Job();

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }

  // The bytes that each rank brings, by rank. All ranks call it, in the same order.
  absl::StatusOr<std::vector<std::string>> Gather(std::string bytes);

  // DistributedError, naming the first rank whose bytes differ from rank 0's, unless all bring the
  // same: "the plan's hash".
  absl::Status Agree(const std::string& what, const std::string& bytes);

  // Tells all ranks that this one has failed, unless it only gave up because another did.
  void Fail(const absl::Status& status);

  // DistributedError with what ended the job, once it has ended.
  absl::Status failure() const;

  // `activity` is asked and told from now on, until it is taken off again.
  void Watch(JobActivity& activity);
  void Unwatch(JobActivity& activity);

 private:
  Job(const JobPlace& place, const JobOptions& options);

  void Listen();  // the job's thread
  bool ReadFrames(std::string& received);
  Pulse TakePulse();
  void SendPulse();
  void End(const std::string& why);
  bool Send(uint8_t kind, std::string_view bytes);

  const JobPlace place_;
  const JobOptions options_;
  std::unique_ptr<JobServer> server_;  // on rank 0
  Socket socket_;
  std::thread thread_;
  std::atomic<bool> leaving_{false};

  std::mutex sending_;
  std::string pulse_rest_;  // of a pulse that went out in part
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::optional<std::string> gathered_;
  std::string failure_;  // empty: none
  std::vector<JobActivity*> activities_;

  // The thread's own.
  uint64_t last_progress_ = 0;
  double progressed_s_ = 0, heard_s_ = 0, failed_s_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_JOB_H_
