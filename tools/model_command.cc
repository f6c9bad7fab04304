// `millrace model`: graphs of well-known architectures, with seeded weights.
#include "absl/strings/str_join.h"
#include "bench/models/model.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "tools/command.h"
#include "tools/graph_summary.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct ModelOptions {
  std::string name;
  std::vector<std::string> sets;
  std::string output;
  bool json = false;
};

std::string ValueText(const ModelOption& option, int64_t value) {
  return option.words.empty() ? StrCat(value) : option.words[static_cast<size_t>(value)];
}

std::string RangeText(const ModelOption& option) {
  return option.words.empty() ? StrCat(option.min, " to ", option.max)
                              : absl::StrJoin(option.words, " or ");
}

GraphSummary SummaryOf(const Model& model) {
  return SummarizeGraph(model.build(ModelSettings(model.options)));
}

std::string ModelTable() {
  Table table({"model", ">parameters", ">FLOP", ">nodes", "settings", ""});
  for (const Model& model : AllModels()) {
    const GraphSummary summary = SummaryOf(model);
    const auto setting = [](std::string* out, const ModelOption& option) {
      StrAppend(out, option.name, "=", ValueText(option, option.value));
    };
    table.Row({model.name, FormatCount(summary.trainable.elements),
               FormatSi(summary.work.flops, ""), FormatCount(summary.nodes),
               absl::StrJoin(model.options, " ", setting), model.doc});
  }
  return table.ToString();
}

Json ToJson(const Model& model) {
  const GraphSummary summary = SummaryOf(model);
  Json options = Json::array();
  for (const ModelOption& option : model.options) {
    Json entry = {{"name", option.name}, {"doc", option.doc}};
    if (option.words.empty()) {
      entry.update({{"default", option.value}, {"min", option.min}, {"max", option.max}});
    } else {
      entry.update({{"default", ValueText(option, option.value)}, {"choices", option.words}});
    }
    options.push_back(std::move(entry));
  }
  return {{"name", model.name},
          {"doc", model.doc},
          {"parameters", summary.trainable.elements},
          {"flops", summary.work.flops},
          {"nodes", summary.nodes},
          {"settings", std::move(options)}};
}

absl::Status ListModels(const ModelOptions& options) {
  if (!options.sets.empty()) return UsageError("--set: name the model that it is a setting of");
  if (!options.output.empty()) return UsageError("--output: name the model to write");
  if (!options.json) {
    Print(ModelTable());
    return absl::OkStatus();
  }
  Json document = JsonHeader("millrace-models");
  document["models"] = Json::array();
  for (const Model& model : AllModels()) document["models"].push_back(ToJson(model));
  PrintJson(document);
  return absl::OkStatus();
}

std::string SettingsTable(const Model& model, const ModelSettings& settings) {
  Table table({"setting", ">here", ">default", "range", ""});
  for (const ModelOption& option : model.options) {
    table.Row({option.name, ValueText(option, settings[option.name]),
               ValueText(option, option.value), RangeText(option), option.doc});
  }
  return table.ToString("  ");
}

absl::Status RunModel(const ModelOptions& options) {
  if (options.name.empty()) return ListModels(options);
  MILLRACE_ASSIGN_OR_RETURN(const Model* model, FindModel(options.name));
  MILLRACE_ASSIGN_OR_RETURN(const ModelSettings settings, ParseModelSettings(*model, options.sets));
  if (!options.output.empty()) {
    MILLRACE_RETURN_IF_ERROR(Annotate(CheckCanWrite(options.output), "--output"));
  }
  const Graph graph = model->build(settings);
  if (!options.output.empty()) {
    const InterruptDeferral deferral;
    MILLRACE_RETURN_IF_ERROR(SaveGraph(graph, options.output));
  }
  if (options.json) {
    PrintJson(ToJson(SummarizeGraph(graph), graph));
  } else if (options.output.empty()) {
    Print(StrCat(model->doc, "\n\n", SettingsTable(*model, settings), "\n",
                 ToText(SummarizeGraph(graph), graph)));
  }
  return absl::OkStatus();
}

void DeclareModelOptions(OptionList& list, ModelOptions& options) {
  list.Text("name", "MODEL", options.name, "Model, such as resnet50; without one, all are listed");
  list.Repeated("--set", "batch=8", options.sets, "A setting of the model");
  list.Text("-o,--output", "FILE", options.output, "Write the graph here");
  list.Flag("--json", options.json, "Print the list or the summary as JSON");
}

}  // namespace

void AddModelCommand(CommandLine& line) {
  AddCommand<ModelOptions>(line, "model", "Write the graph of a well-known model, or list them",
                           RunModel, DeclareModelOptions);
}

}  // namespace millrace
