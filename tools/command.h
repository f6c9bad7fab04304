// The subcommands of `millrace`, one file each. Each function adds its subcommand. Results go to
// stdout, what else there is to say to stderr.
#ifndef MILLRACE_TOOLS_COMMAND_H_
#define MILLRACE_TOOLS_COMMAND_H_

#include "tools/command_line.h"

namespace millrace {

void AddBisectCommand(CommandLine& line);
void AddCheckCommand(CommandLine& line);
void AddDevicesCommand(CommandLine& line);
void AddDiffCommand(CommandLine& line);
void AddExplainCommand(CommandLine& line);
#ifdef MILLRACE_HAVE_ONNX
void AddExportCommand(CommandLine& line);
void AddImportCommand(CommandLine& line);
#endif
void AddInspectCommand(CommandLine& line);
void AddMachineCommand(CommandLine& line);
void AddModelCommand(CommandLine& line);
void AddOpsCommand(CommandLine& line);
void AddOptimizeCommand(CommandLine& line);
void AddPassesCommand(CommandLine& line);
void AddPlanCommand(CommandLine& line);
void AddProfileCommand(CommandLine& line);
void AddReduceCommand(CommandLine& line);
void AddRunCommand(CommandLine& line);
void AddSimulateCommand(CommandLine& line);
void AddTrainCommand(CommandLine& line);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMMAND_H_
