// The command line of `millrace`: subcommands and their options, as their files declare them.
// CLI11 parses; only command_line.cc includes it, because its header takes ten seconds to compile.
#ifndef MILLRACE_TOOLS_COMMAND_LINE_H_
#define MILLRACE_TOOLS_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "graph/status.h"

namespace CLI {
class App;
}

namespace millrace {

using CommandAction = std::function<absl::Status()>;

// The options of one subcommand. A name is "--machine", "-o,--output", or "file": by position. A
// value is shown as `form` in the help. Values are written when the command line is parsed.
class OptionList {
 public:
  explicit OptionList(CLI::App& command) : command_(command) {}

  void Text(const std::string& name, const std::string& form, std::string& value,
            const std::string& doc);
  void RequiredText(const std::string& name, const std::string& form, std::string& value,
                    const std::string& doc);
  // May be given several times, with one argument each.
  void Repeated(const std::string& name, const std::string& form, std::vector<std::string>& values,
                const std::string& doc);
  // May be given several times, with two arguments each.
  void Pairs(const std::string& name, const std::string& form, std::vector<std::string>& values,
             const std::string& doc);
  // By position: any number of arguments.
  void Several(const std::string& name, const std::string& form, std::vector<std::string>& values,
               const std::string& doc);
  void Flag(const std::string& name, bool& value, const std::string& doc);
  // An integer from `min` to `max`.
  void Count(const std::string& name, int& value, int min, int max, const std::string& doc);
  void Count(const std::string& name, int64_t& value, int64_t min, int64_t max,
             const std::string& doc);
  // Zero or more.
  void Number(const std::string& name, double& value, const std::string& doc);

  // Of these options, declared before, only one may be given.
  void AtMostOne(std::initializer_list<std::string> names);
  // What the help says below the options.
  void Footer(const std::string& text);

 private:
  CLI::App& command_;
};

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();

  OptionList AddCommand(const std::string& name, const std::string& doc, CommandAction action);

  // The action of the subcommand that was named; empty when help or the version was asked for and
  // printed. UsageError for all that is wrong, with the nearest names there are.
  absl::StatusOr<CommandAction> Parse(int argc, char** argv);

  std::string Help() const;

 private:
  std::unique_ptr<CLI::App> app_;
  CommandAction chosen_;
};

// A subcommand whose options are an `Options`, given to `run`.
template <typename Options>
void AddCommand(CommandLine& line, const std::string& name, const std::string& doc,
                absl::Status (*run)(const Options&), void (*declare)(OptionList&, Options&)) {
  auto options = std::make_shared<Options>();
  OptionList list = line.AddCommand(name, doc, [options, run] { return run(*options); });
  declare(list, *options);
}

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMMAND_LINE_H_
