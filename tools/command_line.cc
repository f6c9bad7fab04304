#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "graph/diagnostics.h"
#include "graph/strings.h"

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

// An empty value would pass for an option that was not given.
CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& value) {
        return std::string(value.empty() ? "the value is empty" : "");
      },
      "");
}

// The range is for error messages, not for the help.
template <typename Int>
void AddCount(CLI::App& command, const std::string& name, Int& value, Int min, Int max,
              const std::string& doc) {
  command.add_option(name, value, doc)
      ->type_name("COUNT")
      ->check(CLI::Range(min, max).description(""));
}

}  // namespace

// --- OptionList ---------------------------------------------------------------------------------

void OptionList::Text(const std::string& name, const std::string& form, std::string& value,
                      const std::string& doc) {
  command_.add_option(name, value, doc)->type_name(form)->check(NotEmpty());
}

void OptionList::RequiredText(const std::string& name, const std::string& form, std::string& value,
                              const std::string& doc) {
  command_.add_option(name, value, doc)->type_name(form)->check(NotEmpty())->required();
}

void OptionList::Repeated(const std::string& name, const std::string& form,
                          std::vector<std::string>& values, const std::string& doc) {
  command_.add_option(name, values, doc)
      ->type_name(form)
      ->check(NotEmpty())
      ->allow_extra_args(false);
}

void OptionList::Pairs(const std::string& name, const std::string& form,
                       std::vector<std::string>& values, const std::string& doc) {
  command_.add_option(name, values, doc)
      ->type_name(form)
      ->check(NotEmpty())
      ->type_size(2)
      ->allow_extra_args(false)
      ->take_all();
}

void OptionList::Several(const std::string& name, const std::string& form,
                         std::vector<std::string>& values, const std::string& doc) {
  command_.add_option(name, values, doc)->type_name(form);
}

void OptionList::Flag(const std::string& name, bool& value, const std::string& doc) {
  command_.add_flag(name, value, doc);
}

void OptionList::Count(const std::string& name, int& value, int min, int max,
                       const std::string& doc) {
  AddCount(command_, name, value, min, max, doc);
}

void OptionList::Count(const std::string& name, int64_t& value, int64_t min, int64_t max,
                       const std::string& doc) {
  AddCount(command_, name, value, min, max, doc);
}

void OptionList::Number(const std::string& name, double& value, const std::string& doc) {
  command_.add_option(name, value, doc)
      ->check(CLI::Validator(
          [](const std::string& text) {
            double number = 0;
            const bool fits = CLI::detail::lexical_cast(text, number) && number >= 0;
            return fits ? std::string() : StrCat("expected a number from 0 on, found '", text, "'");
          },
          ""));
}

void OptionList::AtMostOne(std::initializer_list<std::string> names) {
  for (const std::string& a : names) {
    for (const std::string& b : names) {
      if (a != b) command_.get_option(a)->excludes(command_.get_option(b));
    }
  }
}

void OptionList::Footer(const std::string& text) { command_.footer(text); }

// --- CommandLine --------------------------------------------------------------------------------

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>("Millrace: plans and runs deep-learning dataflow graphs.",
                                      "millrace")) {
  app_->set_version_flag("--version", "millrace " MILLRACE_VERSION);
  app_->get_formatter()->column_width(30);
  app_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

OptionList CommandLine::AddCommand(const std::string& name, const std::string& doc,
                                   CommandAction action) {
  CLI::App* command = app_->add_subcommand(name, doc);
  command->callback([this, action = std::move(action)] { chosen_ = action; });
  return OptionList(*command);
}

absl::StatusOr<CommandAction> CommandLine::Parse(int argc, char** argv) {
  // CLI11 would say only that a subcommand is missing.
  if (argc > 1 && argv[1][0] != '-') {
    const std::vector<std::string> names = SubcommandNames(*app_);
    if (std::find(names.begin(), names.end(), argv[1]) == names.end()) {
      const std::string hint = DidYouMean(argv[1], names);
      return UsageError(
          StrCat("unknown command '", argv[1], "'; ", hint.empty() ? "see millrace --help" : hint));
    }
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    app_->exit(success);
    return CommandAction();
  } catch (const CLI::ParseError& error) {
    const auto commands = app_->get_subcommands();
    if (commands.empty()) return UsageError(error.what());
    if (commands[0]->remaining_size() > 0) return UnknownArguments(*commands[0]);
    return UsageError(StrCat(commands[0]->get_name(), ": ", error.what()));
  }
  return chosen_;
}

std::string CommandLine::Help() const { return app_->help(); }

}  // namespace millrace
