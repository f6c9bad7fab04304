// `millrace passes`: the rewrite passes there are, in the order in which they run.
#include "graph/strings.h"
#include "passes/pass_list.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/table.h"

namespace millrace {
namespace {

struct PassesOptions {
  bool json = false;
};

absl::Status Passes(const PassesOptions& options) {
  if (options.json) {
    Json document = JsonHeader("millrace-passes");
    for (const Pass& pass : AllPasses()) {
      document["passes"].push_back({{"name", pass.name}, {"level", pass.level}, {"doc", pass.doc}});
    }
    PrintJson(document);
    return absl::OkStatus();
  }
  Table table({"pass", ">from -O", "what it does"});
  for (const Pass& pass : AllPasses()) {
    table.Row({pass.name, pass.level < kAskedForLevel ? StrCat(pass.level) : "", pass.doc});
  }
  Print(table.ToString());
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, PassesOptions& options) {
  list.Flag("--json", options.json, "Print them as JSON");
}

}  // namespace

void AddPassesCommand(CommandLine& line) {
  AddCommand<PassesOptions>(line, "passes", "List the rewrite passes", Passes, DeclareOptions);
}

}  // namespace millrace
