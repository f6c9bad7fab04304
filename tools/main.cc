// `millrace`: parses the command line, runs one subcommand, and turns its Status into a message on
// stderr and an exit code (graph/status.h).
#include <cstdio>
#include <string>
#include <vector>

#include "graph/diagnostics.h"
#include "graph/strings.h"
#include "tools/command.h"
#include "tools/interrupt.h"

namespace millrace {

namespace {

std::vector<std::string> SubcommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The error for arguments that the command does not know, with the nearest ones it does.
absl::Status UnknownArguments(const CLI::App& command) {
  std::string message;
  for (const std::string& argument : command.remaining()) {
    const bool option = argument.starts_with("-");
    const std::string name = argument.substr(0, argument.find('='));
    const std::string hint = option ? DidYouMean(name, OptionNames(command)) : "";
    StrAppend(&message, message.empty() ? "" : "\n", command.get_name(), ": unknown ",
              option ? "option" : "argument", " '", option ? name : argument, "'",
              hint.empty() ? StrCat("; see millrace ", command.get_name(), " --help")
                           : StrCat("; ", hint));
  }
  return UsageError(message);
}

// Ok with an empty action: there was nothing to do beyond printing help.
absl::Status Parse(CLI::App& app, int argc, char** argv) {
  // CLI11 would say only that a subcommand is missing.
  if (argc > 1 && argv[1][0] != '-') {
    const std::vector<std::string> names = SubcommandNames(app);
    if (std::find(names.begin(), names.end(), argv[1]) == names.end()) {
      const std::string hint = DidYouMean(argv[1], names);
      return UsageError(
          StrCat("unknown command '", argv[1], "'; ", hint.empty() ? "see millrace --help" : hint));
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success);
  } catch (const CLI::ExtrasError& error) {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? UsageError(error.what()) : UnknownArguments(*chosen[0]);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    if (!chosen.empty() && chosen[0]->remaining_size() > 0) return UnknownArguments(*chosen[0]);
    return UsageError(chosen.empty() ? std::string(error.what())
                                     : StrCat(chosen[0]->get_name(), ": ", error.what()));
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  InstallInterruptHandler();
  CLI::App app("Millrace: plans and runs deep-learning dataflow graphs.", "millrace");
  app.set_version_flag("--version", "millrace " MILLRACE_VERSION);
  app.get_formatter()->column_width(30);
  app.require_subcommand(1);
  CommandAction action;
  AddRunCommand(app, action);
  AddPlanCommand(app, action);
  AddInspectCommand(app, action);
  AddCheckCommand(app, action);
  AddOpsCommand(app, action);
  AddDevicesCommand(app, action);

  if (argc < 2) {
    Print(app.help());
    return 0;
  }
  absl::Status status = Parse(app, argc, argv);
  if (status.ok() && action) status = action();
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
