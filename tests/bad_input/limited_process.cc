#include "tests/bad_input/limited_process.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph/assert.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int kMostWallSeconds = 60;  // machines may be busy

// In the child; does not return. The answer is a byte with the exit code, then the message.
void Answer(int fd, const std::string& folder, const std::function<absl::Status()>& run) {
  const rlimit address_space = {kMostBytes, kMostBytes};
  if (!kSanitized) setrlimit(RLIMIT_AS, &address_space);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  alarm(kMostWallSeconds);
  if (chdir(folder.c_str()) != 0) _exit(1);
  const absl::Status status = run();
  std::string text(1, static_cast<char>(ExitCode(status)));
  StrAppend(&text, status.message());
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n <= 0) _exit(1);
    at += static_cast<size_t>(n);
  }
  _exit(0);
}

std::string ReadAll(int fd) {
  std::string text;
  char chunk[4096];
  for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;) text.append(chunk, n);
  return text;
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

LimitedResult RunLimited(const std::string& folder, const std::function<absl::Status()>& run) {
  int pipe_ends[2];
  MILLRACE_CHECK(pipe(pipe_ends) == 0);
  const pid_t pid = fork();
  MILLRACE_CHECK(pid >= 0);
  if (pid == 0) {
    close(pipe_ends[0]);
    Answer(pipe_ends[1], folder, run);
  }
  close(pipe_ends[1]);
  const std::string text = ReadAll(pipe_ends[0]);
  close(pipe_ends[0]);

  LimitedResult result;
  int status = 0;
  rusage usage = {};
  MILLRACE_CHECK(wait4(pid, &status, 0, &usage) == pid);
  result.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  result.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  if (WIFSIGNALED(status)) {
    result.ending = WTERMSIG(status) == SIGALRM ? StrCat("no answer in ", kMostWallSeconds, " s")
                                                : StrCat("signal ", WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0 || text.empty()) {
    result.ending = StrCat("exit code ", WEXITSTATUS(status), " without an answer");
  } else {
    result.exit_code = text[0];
    result.message = text.substr(1);
  }
  return result;
}

}  // namespace millrace
