// `millrace`: parses the command line, runs one subcommand, and turns its Status into a message on
// stderr and an exit code (graph/status.h).
#include <cstdio>
#include <string>

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

int Main(int argc, char** argv) {
  InstallInterruptHandler();
  CommandLine line;
  AddRunCommand(line);
  AddPlanCommand(line);
  AddSimulateCommand(line);
  AddProfileCommand(line);
  AddInspectCommand(line);
  AddCheckCommand(line);
#ifdef MILLRACE_HAVE_ONNX
  AddImportCommand(line);
  AddExportCommand(line);
#endif
  AddOpsCommand(line);
  AddDevicesCommand(line);
  absl::Status status = Run(line, argc, argv);
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && status.ok()) {
    status = absl::UnknownError("cannot write to standard output");
  }
  if (Interrupted()) {
    std::fprintf(stderr, "millrace: interrupted\n");
    return kInterruptedExitCode;
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "millrace: %s\n", std::string(status.message()).c_str());
  return ExitCode(status);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
