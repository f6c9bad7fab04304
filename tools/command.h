// The subcommands of `millrace`, one file each. Each function adds its subcommand to `app`; when
// the command line names it, parsing sets `action` to what is to be done. Results go to stdout,
// what else there is to say to stderr.
#ifndef MILLRACE_TOOLS_COMMAND_H_
#define MILLRACE_TOOLS_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"
#include "nlohmann/json.hpp"

namespace millrace {

using CommandAction = std::function<absl::Status()>;

void AddCheckCommand(CLI::App& app, CommandAction& action);
void AddDevicesCommand(CLI::App& app, CommandAction& action);
void AddInspectCommand(CLI::App& app, CommandAction& action);
void AddOpsCommand(CLI::App& app, CommandAction& action);
void AddPlanCommand(CLI::App& app, CommandAction& action);
void AddRunCommand(CLI::App& app, CommandAction& action);

// Adds a subcommand whose options are an `Options`, filled in by parsing and given to `run`.
template <typename Options>
CLI::App* AddCommand(CLI::App& app, CommandAction& action, const std::string& name,
                     const std::string& doc, absl::Status (*run)(const Options&),
                     const std::function<void(CLI::App&, Options&)>& add_options) {
  CLI::App* command = app.add_subcommand(name, doc);
  auto options = std::make_shared<Options>();
  add_options(*command, *options);
  command->callback([&action, options, run] { action = [options, run] { return run(*options); }; });
  return command;
}

// An option that may be given several times, with one argument each.
CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& doc);

// A JSON document of `format`, version 1.0, to be filled in key by key.
using Json = nlohmann::ordered_json;
Json JsonHeader(std::string_view format);

// To stdout.
void Print(std::string_view text);
void PrintJson(const Json& document);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMMAND_H_
