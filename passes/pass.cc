#include "passes/pass.h"

#include "graph/strings.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/infer.h"

namespace millrace {

void PassContext::Applied(std::string_view rule, std::vector<std::string> nodes,
                          std::string_view result) {
  records.push_back({std::string(running_pass), std::string(rule), std::move(nodes),
                     std::string(result), /*applied=*/true});
}

void PassContext::Refused(std::string_view rule, std::vector<std::string> nodes,
                          std::string_view why) {
  records.push_back({std::string(running_pass), std::string(rule), std::move(nodes),
                     std::string(why), /*applied=*/false});
}

namespace {

// What must hold after every pass: a well-formed graph whose types are those the ops infer.
absl::Status VerifyAfter(const Pass& pass, Graph& graph) {
  MILLRACE_RETURN_IF_ERROR(VerifyGraphAfter(graph, pass.name));
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  if (diagnostics.ok()) return absl::OkStatus();
  return InternalError(StrCat("pass '", pass.name, "' broke the graph's types:\n",
                              StdView(diagnostics.ToStatus().message())));
}

}  // namespace

absl::StatusOr<bool> RunPasses(std::span<const Pass> passes, Graph& graph, PassContext& context,
                               const RunPassesOptions& options) {
  bool any_changed = false;
  for (const Pass& pass : passes) {
    context.running_pass = pass.name;
    const std::string before = options.catch_lies ? ToText(graph) : "";
    MILLRACE_ASSIGN_OR_RETURN(const bool changed, pass.run(graph, context));
    if (options.catch_lies && !changed && ToText(graph) != before) {
      return InternalError(
          StrCat("pass '", pass.name, "' changed the graph and says that it did not"));
    }
    if (changed) MILLRACE_RETURN_IF_ERROR(VerifyAfter(pass, graph));
    if (options.after) MILLRACE_RETURN_IF_ERROR(options.after(pass, graph, changed));
    any_changed |= changed;
  }
  context.running_pass = "";
  return any_changed;
}

}  // namespace millrace
