#include "distributed/job_place.h"

#include <limits.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "graph/files.h"
#include "graph/strings.h"

namespace millrace {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What a launcher sets.
struct LauncherVariables {
  const char* rank;
  const char* size;
};
constexpr LauncherVariables kLaunchers[] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},  // Open MPI's mpirun
    {"PMI_RANK", "PMI_SIZE"},                          // MPICH's
};

absl::StatusOr<int> ParseVariable(const char* name, int min, int max) {
  const std::string text = Variable(name);
  int value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= min && value <= max) return value;
  return UsageError(StrCat("environment variable ", name, " is '", text,
                           "', expected a number from ", min, " to ", max));
}

absl::StatusOr<std::string> FindMaster(const LauncherVariables& launcher, int size) {
  if (const std::string name = Variable("MILLRACE_MASTER"); !name.empty()) return name;
  const std::string host = Variable("MASTER_ADDR");
  if (!host.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const int port, ParseVariable("MASTER_PORT", 1, 65535));
    return StrCat(host, ":", port);
  }
  // Under mpirun on one machine the job's own name does.
  const std::string job = Variable("PMIX_NAMESPACE");
  if (!job.empty() && Variable("OMPI_COMM_WORLD_LOCAL_SIZE") == StrCat(size)) {
    return StrCat("@millrace-", getuid(), "-", job);
  }
  return UsageError(StrCat(launcher.rank, " is set, but MASTER_ADDR is not: ranks on several ",
                           "machines need MASTER_ADDR and MASTER_PORT, where rank 0 listens ",
                           "(mpirun -x MASTER_ADDR -x MASTER_PORT)"));
}

std::string LinkTarget(const char* path) {
  char target[PATH_MAX];
  const ssize_t size = readlink(path, target, sizeof(target));
  return std::string(target, size > 0 ? static_cast<size_t>(size) : 0);
}

}  // namespace

absl::StatusOr<std::optional<JobPlace>> FindJobPlace() {
  constexpr int kMaxRanks = 1 << 16;
  for (const LauncherVariables& launcher : kLaunchers) {
    if (Variable(launcher.rank).empty()) continue;
    JobPlace place;
    MILLRACE_ASSIGN_OR_RETURN(place.size, ParseVariable(launcher.size, 1, kMaxRanks));
    MILLRACE_ASSIGN_OR_RETURN(place.rank, ParseVariable(launcher.rank, 0, place.size - 1));
    if (place.size == 1) return std::nullopt;
    MILLRACE_ASSIGN_OR_RETURN(place.master, FindMaster(launcher, place.size));
    return place;
  }
  return std::nullopt;
}

std::string ThisMachine() {
  const absl::StatusOr<std::string> boot = ReadFile("/proc/sys/kernel/random/boot_id");
  return StrCat(boot.ok() ? absl::StripAsciiWhitespace(*boot) : "", " ",
                LinkTarget("/proc/self/ns/net"), " ", LinkTarget("/proc/self/ns/pid"));
}

}  // namespace millrace
