#include "distributed/job.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "distributed/job_server.h"
#include "graph/strings.h"
#include "runtime/wire.h"

namespace millrace {
namespace {

double JobNowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Job::Job(const JobPlace& place, const JobOptions& options) : place_(place), options_(options) {}

absl::StatusOr<std::unique_ptr<Job>> Job::Join(const JobPlace& place, const JobOptions& options) {
  auto job = std::unique_ptr<Job>(new Job(place, options));
  if (place.rank == 0) {
    MILLRACE_ASSIGN_OR_RETURN(Socket listener, millrace::Listen(place.master));
    job->server_ = JobServer::Start(std::move(listener), place.size, options.timeout_s);
  }
  MILLRACE_ASSIGN_OR_RETURN(job->socket_, Connect(place.master, options.timeout_s));
  WireWriter hello;
  hello.Put(static_cast<int32_t>(place.rank));
  hello.Put(static_cast<int32_t>(place.size));
  job->Send(static_cast<uint8_t>(JobMessage::kHello), std::move(hello).Take());
  job->heard_s_ = job->progressed_s_ = JobNowS();
  job->thread_ = std::thread([self = job.get()] { self->Listen(); });
  MILLRACE_RETURN_IF_ERROR(job->Gather("").status());  // all are there
  return job;
}

Job::~Job() {
  if (socket_.open()) {
    Send(static_cast<uint8_t>(JobMessage::kBye), "");
    leaving_ = true;
    if (thread_.joinable()) thread_.join();
    socket_ = Socket();
  }
  server_.reset();
}

bool Job::Send(uint8_t kind, std::string_view bytes) {
  const std::string frame = EncodeFrame(kind, bytes);
  const std::lock_guard lock(sending_);
  const std::string rest = std::exchange(pulse_rest_, "");
  return SendAll(socket_.descriptor(), rest) && SendAll(socket_.descriptor(), frame);
}

absl::StatusOr<std::vector<std::string>> Job::Gather(std::string bytes) {
  Send(static_cast<uint8_t>(JobMessage::kGather), bytes);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return gathered_.has_value() || !failure_.empty(); });
  if (!gathered_.has_value()) return DistributedError(failure_);
  const std::string all = *std::exchange(gathered_, std::nullopt);
  lock.unlock();
  WireReader reader(all);
  std::vector<std::string> result;
  for (int rank = 0; rank < size(); ++rank) result.push_back(reader.GetString());
  if (!reader.ok()) return InternalError("a gathering that is cut short");
  return result;
}

absl::Status Job::Agree(const std::string& what, const std::string& bytes) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> all, Gather(bytes));
  for (int rank = 1; rank < size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return DistributedError(StrCat("rank ", rank, " has another ", what,
                                   " than rank 0: ", all[rank], " and ", all[0],
                                   "; all ranks need the same files, options and program"));
  }
  return absl::OkStatus();
}

void Job::Fail(const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
  }
  Send(static_cast<uint8_t>(JobMessage::kFail), StdView(status.message()));
}

absl::Status Job::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_.empty() ? absl::OkStatus() : DistributedError(failure_);
}

void Job::Watch(JobActivity& activity) {
  const std::lock_guard lock(mutex_);
  activities_.push_back(&activity);
  if (!failure_.empty()) activity.Cancel();
}

void Job::Unwatch(JobActivity& activity) {
  const std::lock_guard lock(mutex_);
  std::erase(activities_, &activity);
}

void Job::End(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = why;
  failed_s_ = JobNowS();
  for (JobActivity* activity : activities_) activity->Cancel();
  changed_.notify_all();
}

Pulse Job::TakePulse() {
  const std::lock_guard lock(mutex_);
  Pulse all;
  for (JobActivity* activity : activities_) {
    const Pulse pulse = activity->Take();
    all.progress += pulse.progress;
    if (pulse.waits_for >= 0) all.waits_for = pulse.waits_for;
    if (!pulse.where.empty()) all.where = pulse.where;
  }
  return all;
}

void Job::SendPulse() {
  const Pulse pulse = TakePulse();
  const double now_s = JobNowS();
  if (pulse.progress != last_progress_) progressed_s_ = now_s;
  last_progress_ = pulse.progress;
  WireWriter bytes;
  bytes.Put(pulse.progress);
  bytes.Put(pulse.waits_for);
  bytes.Put(now_s - progressed_s_);
  bytes.PutString(pulse.where);
  const std::string frame =
      EncodeFrame(static_cast<uint8_t>(JobMessage::kPulse), std::move(bytes).Take());
  // While a large contribution goes out, that is sign of life enough. This thread must not wait for
  // a rank 0 that takes nothing: it is the one that finds out.
  const std::unique_lock lock(sending_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  if (pulse_rest_.empty()) pulse_rest_ = frame;
  const ssize_t sent = send(socket_.descriptor(), pulse_rest_.data(), pulse_rest_.size(),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) pulse_rest_.erase(0, static_cast<size_t>(sent));
}

// False: rank 0 is gone.
bool Job::ReadFrames(std::string& received) {
  char buffer[1 << 16];
  const ssize_t got = recv(socket_.descriptor(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  heard_s_ = JobNowS();
  received.append(buffer, static_cast<size_t>(got));
  while (true) {
    absl::StatusOr<std::optional<Frame>> frame = TakeFrame(received, kMaxJobMessageBytes);
    if (!frame.ok()) return false;
    if (!frame->has_value()) return true;
    if ((*frame)->kind == static_cast<uint8_t>(JobMessage::kEnd)) End((*frame)->bytes);
    if ((*frame)->kind == static_cast<uint8_t>(JobMessage::kGathered)) {
      const std::lock_guard lock(mutex_);
      gathered_ = std::move((*frame)->bytes);
      changed_.notify_all();
    }
  }
}

void Job::Listen() {
  std::string received;
  double pulsed_s = 0;
  while (!leaving_) {
    pollfd polled = {socket_.descriptor(), POLLIN, 0};
    poll(&polled, 1, static_cast<int>(kPulseS * 500));
    const bool there = polled.revents == 0 || ReadFrames(received);
    const double now_s = JobNowS();
    if (!there) {
      if (leaving_) return;
      End("rank 0 died");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } else if (now_s - heard_s_ > options_.timeout_s) {
      End(StrCat("not heard of any more: rank 0, for ", options_.timeout_s, " s"));
    }
    if (now_s - pulsed_s >= kPulseS && there) {
      SendPulse();
      pulsed_s = now_s;
    }
    if (failed_s_ > 0 && now_s - failed_s_ > kGraceS && options_.on_overdue) {
      options_.on_overdue(failure());
    }
  }
}

}  // namespace millrace
