#include "bench/models/model.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "graph/assert.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"

namespace millrace {
namespace {

absl::StatusOr<int64_t> ParseValue(const ModelOption& option, const std::string& text) {
  if (!option.words.empty()) {
    const auto word = std::ranges::find(option.words, text);
    if (word != option.words.end()) return word - option.words.begin();
    return UsageError(StrCat("expected ", absl::StrJoin(option.words, " or ")));
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < option.min || value > option.max) {
    return UsageError(StrCat("expected an integer from ", option.min, " to ", option.max));
  }
  return value;
}

absl::StatusOr<const ModelOption*> FindOption(const Model& model, const std::string& name) {
  std::vector<std::string> names;
  for (const ModelOption& option : model.options) {
    if (option.name == name) return &option;
    names.push_back(option.name);
  }
  const std::string hint = DidYouMean(name, names);
  return UsageError(StrCat(model.name, " has no such setting; ",
                           hint.empty() ? "it has " + absl::StrJoin(names, ", ") : hint));
}

}  // namespace

ModelSettings::ModelSettings(std::span<const ModelOption> options) {
  for (const ModelOption& option : options) values_[option.name] = option.value;
}

int64_t ModelSettings::operator[](std::string_view name) const {
  const auto found = values_.find(name);
  MILLRACE_CHECK(found != values_.end());
  return found->second;
}

void ModelSettings::Set(std::string_view name, int64_t value) {
  const auto found = values_.find(name);
  MILLRACE_CHECK(found != values_.end());
  found->second = value;
}

absl::StatusOr<const Model*> FindModel(std::string_view name) {
  std::vector<std::string> names;
  for (const Model& model : AllModels()) {
    if (model.name == name) return &model;
    names.push_back(model.name);
  }
  const std::string hint = DidYouMean(name, names);
  return UsageError(
      StrCat("no model is called '", name, "'; ", hint.empty() ? "see millrace model" : hint));
}

absl::StatusOr<ModelSettings> ParseModelSettings(const Model& model,
                                                 std::span<const std::string> sets) {
  ModelSettings settings(model.options);
  std::set<std::string> seen;
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return UsageError(StrCat("--set ", set, ": expected NAME=VALUE, such as batch=8"));
    }
    const std::string context = StrCat("--set ", set), name = set.substr(0, equals);
    if (!seen.insert(name).second) {
      return UsageError(StrCat(context, ": '", name, "' is set twice"));
    }
    const absl::StatusOr<const ModelOption*> option = FindOption(model, name);
    if (!option.ok()) return Annotate(option.status(), context);
    const absl::StatusOr<int64_t> value = ParseValue(**option, set.substr(equals + 1));
    if (!value.ok()) return Annotate(value.status(), context);
    settings.Set(name, *value);
  }
  return settings;
}

ModelOption BatchOption() {
  return {.name = "batch", .doc = "samples a step", .value = 1, .max = 1024};
}

ModelOption SizeOption(int64_t value, int64_t min) {
  return {.name = "size", .doc = "pixels a side", .value = value, .min = min, .max = 1024};
}

ModelOption SpellingOption() {
  return {.name = "spelling",
          .doc = "LayerNormalization and Gelu as ops, or as exporters without them spell them",
          .words = {"ops", "primitive"}};
}

}  // namespace millrace
