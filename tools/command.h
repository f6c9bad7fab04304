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

// An option that may be given several times, with one argument each, shown as `form` in the help.
CLI::Option* AddRepeated(CLI::App& command, const std::string& name, const std::string& form,
                         std::vector<std::string>& values, const std::string& doc);

// An option with an integer from `min` to `max`.
template <typename Int>
CLI::Option* AddCount(CLI::App& command, const std::string& name, Int& value, Int min, Int max,
                      const std::string& doc) {
  // The range is for error messages, not for the help.
  return command.add_option(name, value, doc)
      ->type_name("COUNT")
      ->check(CLI::Range(min, max).description(""));
}

// A JSON document of `format`, version 1.0, to be filled in key by key.
using Json = nlohmann::ordered_json;
Json JsonHeader(std::string_view format);

// To stdout.
void Print(std::string_view text);
void PrintJson(const Json& document);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMMAND_H_
