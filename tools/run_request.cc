#include "tools/run_request.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"

namespace millrace {
namespace {

absl::StatusOr<std::vector<ValueSpec>> ParseSpecs(std::string_view option,
                                                  const std::vector<std::string>& texts) {
  std::vector<ValueSpec> specs;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    MILLRACE_ASSIGN_OR_RETURN(ValueSpec spec, ParseValueSpec(option, text));
    const bool twice = !names.insert(spec.name).second;
    if (twice) return UsageError(StrCat(option, " ", text, ": '", spec.name, "' is given twice"));
    specs.push_back(std::move(spec));
  }
  return specs;
}

// UsageError unless each spec names one of `known`.
absl::Status CheckNames(std::string_view option, const std::vector<ValueSpec>& specs,
                        const std::vector<std::string>& known, std::string_view what) {
  for (const ValueSpec& spec : specs) {
    if (std::find(known.begin(), known.end(), spec.name) != known.end()) continue;
    const std::string hint = DidYouMean(spec.name, known);
    return UsageError(
        StrCat(option, " ", spec.name, "=...: no ", what, " is called that; ",
               hint.empty() ? StrCat("there are: ", absl::StrJoin(known, ", ")) : hint));
  }
  return absl::OkStatus();
}

absl::Status CheckAllNames(const RunRequest& request, const Graph& graph) {
  const std::vector<std::string> outputs = NamesOf(graph, graph.outputs);
  std::vector<std::string> readable = outputs;
  for (std::string& name : NamesOf(graph, graph.params)) readable.push_back(std::move(name));
  std::vector<std::string> inputs = NamesOf(graph, graph.inputs);
  inputs.push_back("*");
  MILLRACE_RETURN_IF_ERROR(CheckNames("--input", request.inputs, inputs, "input"));
  MILLRACE_RETURN_IF_ERROR(CheckNames("--output", request.outputs, readable, "output or param"));
  MILLRACE_RETURN_IF_ERROR(CheckNames("--expect", request.expects, readable, "output or param"));
  return CheckNames("--labels", request.labels, outputs, "output");
}

// The type of an input or output as the session has it: all microbatches, stacked.
TensorType StackedType(const PlanBundle& plan, ValueId value) {
  TensorType type = GlobalType(plan.graph, value);
  if (plan.microbatches == 1 || plan.graph.value(value).kind == ValueKind::kParam) return type;
  if (type.shape.rank() == 0) {
    // An input of rank 0 is the same for all microbatches; an output has one element for each.
    if (plan.graph.value(value).kind != ValueKind::kInput) type.shape.push_back(plan.microbatches);
    return type;
  }
  type.shape[0] *= plan.microbatches;
  return type;
}

// Every input, in the graph's order; "*" stands for all that are not named.
absl::StatusOr<std::vector<Tensor>> ReadInputs(const RunRequest& request, const PlanBundle& plan) {
  std::vector<Tensor> tensors;
  std::string missing;
  for (ValueId input : plan.graph.inputs) {
    const std::string& name = plan.graph.value(input).name;
    const TensorType type = StackedType(plan, input);
    const ValueSpec* found = nullptr;
    for (const ValueSpec& spec : request.inputs) {
      if (spec.name == name || (spec.name == "*" && found == nullptr)) found = &spec;
    }
    if (found == nullptr) {
      StrAppend(&missing, missing.empty() ? "" : ", ", name, " (", ToString(type), ")");
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, ReadValue("--input", {name, found->spec}, type));
    tensors.push_back(std::move(tensor));
  }
  if (!missing.empty()) {
    return UsageError(StrCat("--input is needed for: ", missing,
                             "; --input '*=rand:0' makes up all that are not given"));
  }
  return tensors;
}

// An output, or else a param, of a name that CheckAllNames let through.
ValueId ResultNamed(const Graph& graph, const std::string& name) {
  for (const auto* list : {&graph.outputs, &graph.params}) {
    for (ValueId id : *list) {
      if (graph.value(id).name == name) return id;
    }
  }
  return ValueId();
}

}  // namespace

std::vector<std::string> NamesOf(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (ValueId id : values) names.push_back(graph.value(id).name);
  return names;
}

absl::StatusOr<RunRequest> ParseRunRequest(const RunRequestTexts& texts) {
  RunRequest request;
  MILLRACE_ASSIGN_OR_RETURN(request.inputs, ParseSpecs("--input", texts.inputs));
  MILLRACE_ASSIGN_OR_RETURN(request.outputs, ParseSpecs("--output", texts.outputs));
  MILLRACE_ASSIGN_OR_RETURN(request.expects, ParseSpecs("--expect", texts.expects));
  MILLRACE_ASSIGN_OR_RETURN(request.labels, ParseSpecs("--labels", texts.labels));
  for (const ValueSpec& spec : request.outputs) {
    MILLRACE_RETURN_IF_ERROR(CheckWritable("--output", spec));
  }
  if (texts.held_out.empty()) return request;
  const size_t colon = texts.held_out.find(':');
  if (request.labels.empty()) return UsageError("--held-out says which rows of --labels count");
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(texts.held_out.substr(0, colon), &request.every) ||
      !absl::SimpleAtoi(texts.held_out.substr(colon + 1), &request.remainder) ||
      request.every < 1 || request.remainder < 0 || request.remainder >= request.every) {
    return UsageError(StrCat("--held-out ", texts.held_out,
                             ": expected EVERY:REMAINDER, such as 5:4 for every fifth row"));
  }
  return request;
}

absl::StatusOr<RunData> ReadRunData(const RunRequest& request, const PlanBundle& plan) {
  MILLRACE_RETURN_IF_ERROR(CheckAllNames(request, plan.graph));
  RunData data;
  MILLRACE_ASSIGN_OR_RETURN(data.inputs, ReadInputs(request, plan));
  for (const ValueSpec& spec : request.expects) {
    const ValueId id = ResultNamed(plan.graph, spec.name);
    const TensorType bound = StackedType(plan, id);
    // Where only a bound is known, the true type is compared after the run.
    absl::StatusOr<Tensor> tensor = plan.graph.value(id).bounded
                                        ? ReadValue("--expect", spec, NumElements(bound.shape))
                                        : ReadValue("--expect", spec, bound);
    MILLRACE_RETURN_IF_ERROR(tensor.status());
    data.expected.push_back(*std::move(tensor));
  }
  for (const ValueSpec& spec : request.labels) {
    const TensorType scores = StackedType(plan, ResultNamed(plan.graph, spec.name));
    if (scores.shape.rank() != 2) {
      return UsageError(StrCat("--labels ", spec.name, "=...: expected an output of shape [rows, ",
                               "classes], found ", ToString(scores)));
    }
    MILLRACE_ASSIGN_OR_RETURN(Tensor labels, ReadValue("--labels", spec, scores.shape[0]));
    if (labels.num_elements() != scores.shape[0]) {
      return UsageError(StrCat("--labels ", spec.name, "=", spec.spec, ": expected ",
                               scores.shape[0], " labels, found ", labels.num_elements()));
    }
    data.labels.push_back(std::move(labels));
  }
  return data;
}

}  // namespace millrace
