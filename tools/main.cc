// `millrace`: parses the command line, runs one subcommand, and turns its Status into a message on
// stderr and an exit code (graph/status.h).
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "absl/strings/str_split.h"
#include "graph/printable.h"
#include "graph/strings.h"
#include "tools/command.h"
#include "tools/interrupt.h"

namespace millrace {
namespace {

absl::Status Run(CommandLine& line, int argc, char** argv) {
  if (argc < 2) {
    std::fputs(line.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const CommandAction action, line.Parse(argc, argv));
  return action ? action() : absl::OkStatus();
}

// A file opened where standard output should be would be written to by printing.
void FillClosedStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) std::abort();
  }
}

constexpr int kOutOfMemoryExitCode = 5;  // graph/status.h; making a Status would need memory

// Containers' memory; tensors and arenas say what it was for.
void OnOutOfMemory() {
  constexpr std::string_view kMessage = "millrace: out of memory\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(kOutOfMemoryExitCode);
}

absl::Status FlushOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  const std::string why = errno != 0 ? StrCat(": ", std::strerror(errno)) : "";
  return UsageError(StrCat("cannot write to standard output", why));
}

// Names in it may come from anywhere.
void PrintError(std::string_view message) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(AbslView(message), '\n')) {
    StrAppend(&text, text.empty() ? "millrace: " : "\n", Printable(StdView(line)));
  }
  std::fprintf(stderr, "%s\n", text.c_str());
}

int Main(int argc, char** argv) {
  FillClosedStreams();
  std::set_new_handler(OnOutOfMemory);
  InstallInterruptHandler();
  CommandLine line;
  AddRunCommand(line);
  AddTrainCommand(line);
  AddPlanCommand(line);
  AddOptimizeCommand(line);
  AddExplainCommand(line);
  AddSimulateCommand(line);
  AddProfileCommand(line);
  AddInspectCommand(line);
  AddCheckCommand(line);
  AddDiffCommand(line);
  AddReduceCommand(line);
  AddBisectCommand(line);
#ifdef MILLRACE_HAVE_ONNX
  AddImportCommand(line);
  AddExportCommand(line);
#endif
  AddModelCommand(line);
  AddPassesCommand(line);
  AddOpsCommand(line);
  AddDevicesCommand(line);
  AddMachineCommand(line);
  absl::Status status = Run(line, argc, argv);
  const absl::Status flushed = FlushOutput();
  if (status.ok()) status = flushed;
  if (const int code = InterruptedExitCode()) {
    PrintError("interrupted");
    return code;
  }
  if (status.ok()) return 0;
  // Without a message: whoever failed has given it.
  if (!status.message().empty()) PrintError(StdView(status.message()));
  return ExitCode(status);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
