#include "tools/spawn.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "tools/interrupt.h"

extern char** environ;

namespace millrace {
namespace {

constexpr double kWindUpS = 3;  // more than a rank allows itself
constexpr const char* kSpawnedVariable = "MILLRACE_SPAWNED";

struct SpawnedRank {
  pid_t pid = 0;
  bool running = true;
  int wait_status = 0;
};

double SpawnNowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::StatusOr<std::vector<std::string>> OwnCommandLine() {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/self/cmdline"));
  std::vector<std::string> arguments;
  for (size_t at = 0; at < text.size();) {
    arguments.emplace_back(text.c_str() + at);
    at += arguments.back().size() + 1;
  }
  return arguments;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<std::string> UniqueName() {
  char random[16];
  if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
    return DeviceError("the system gives no random numbers");
  }
  return StrCat("@millrace-", absl::BytesToHexString({random, sizeof(random)}));
}

absl::StatusOr<pid_t> Start(int rank, int ranks, const std::string& master) {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> arguments, OwnCommandLine());
  // The first of a name is the one that counts.
  std::vector<std::string> environment = {StrCat("RANK=", rank), StrCat("WORLD_SIZE=", ranks),
                                          StrCat("MILLRACE_MASTER=", master),
                                          StrCat(kSpawnedVariable, "=", getpid())};
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  // In a group of its own: what a terminal sends to all is passed on by this process, once.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes,
                                Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  return OutOfMemoryError(StrCat("cannot start rank ", rank, ": ", std::strerror(error)));
}

class SpawnedRanks {
 public:
  ~SpawnedRanks() { KillRunning(); }

  absl::Status StartAll(int ranks) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string master, UniqueName());
    for (int rank = 0; rank < ranks; ++rank) {
      MILLRACE_ASSIGN_OR_RETURN(const pid_t pid, Start(rank, ranks, master));
      ranks_.push_back({.pid = pid});
    }
    return absl::OkStatus();
  }

  // Until all have ended, or those that go on after another failed had their time.
  void WaitForAll() {
    bool passed_on = false;
    while (Reap()) {
      if (InterruptedExitCode() != 0 && !passed_on) {
        for (const SpawnedRank& rank : ranks_) {
          if (rank.running) kill(rank.pid, SIGTERM);
        }
        passed_on = true;
      }
      if (failed_s_ > 0 && SpawnNowS() - failed_s_ > kWindUpS) KillRunning();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  absl::Status Result() const {
    // A rank that was killed is why the others failed.
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const int status = ranks_[rank].wait_status;
      if (!WIFSIGNALED(status) || static_cast<int>(rank) != first_failed_) continue;
      return DistributedError(StrCat("rank ", rank, " was killed by signal ", WTERMSIG(status),
                                     " (", strsignal(WTERMSIG(status)), ")"));
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const int status = ranks_[rank].wait_status;
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 7;
      if (code > 128) {
        return DistributedError(StrCat("rank ", rank, " was ended by signal ", code - 128, " (",
                                       strsignal(code - 128), ")"));
      }
      if (code != 0) return StatusOfExitCode(code);
    }
    return absl::OkStatus();
  }

 private:
  // Notes which have ended; false: all have.
  bool Reap() {
    bool any = false;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      SpawnedRank& rank = ranks_[i];
      if (!rank.running) continue;
      if (waitpid(rank.pid, &rank.wait_status, WNOHANG) != rank.pid) {
        any = true;
        continue;
      }
      rank.running = false;
      if (rank.wait_status != 0 && first_failed_ < 0) {
        first_failed_ = static_cast<int>(i);
        failed_s_ = SpawnNowS();
      }
    }
    return any;
  }

  void KillRunning() {
    for (SpawnedRank& rank : ranks_) {
      if (!rank.running) continue;
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, &rank.wait_status, 0);
      rank.running = false;
    }
  }

  // The error that has this exit code, without a message.
  static absl::Status StatusOfExitCode(int code) {
    for (const auto make : {CheckFailedError, UsageError, BadInputError, InfeasibleError,
                            OutOfMemoryError, DeviceError, DistributedError}) {
      if (ExitCode(make("")) == code) return make("");
    }
    return InternalError("");
  }

  std::vector<SpawnedRank> ranks_;
  int first_failed_ = -1;
  double failed_s_ = 0;
};

}  // namespace

absl::Status SpawnRanks(int ranks) {
  SpawnedRanks spawned;
  const InterruptDeferral deferral;
  MILLRACE_RETURN_IF_ERROR(spawned.StartAll(ranks));
  spawned.WaitForAll();
  return spawned.Result();
}

bool IsSpawned() { return std::getenv(kSpawnedVariable) != nullptr; }

void EndWithSpawner() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* spawner = std::getenv(kSpawnedVariable);
  if (spawner != nullptr && StrCat(getppid()) != spawner) _exit(143);  // it is gone already
}

}  // namespace millrace
