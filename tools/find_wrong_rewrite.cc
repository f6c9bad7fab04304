#include "tools/find_wrong_rewrite.h"

#include <algorithm>
#include <map>

#include "ops/evaluate_graph.h"
#include "tools/differential.h"
#include "tools/reduce_graph.h"

namespace millrace {
namespace {

// The graph after one execution of a pass that changed it.
struct Snapshot {
  Pass pass;
  Graph graph;
};

// What a step leaves in params is a result too.
Graph WithUpdatesAsOutputs(Graph graph) {
  for (const Update& update : graph.updates) {
    const bool is_result = graph.value(update.value).kind == ValueKind::kResult;
    if (is_result && std::ranges::find(graph.outputs, update.value) == graph.outputs.end()) {
      graph.outputs.push_back(update.value);
    }
  }
  return graph;
}

// What is wrong with the results of `rewritten`; "" when it means what `graph` does.
std::string FindChangeOfMeaning(const Graph& graph, const Graph& rewritten, uint64_t seed) {
  const std::map<std::string, Tensor> inputs = InputsFor(graph, {}, seed);
  std::vector<Tensor> operands;
  for (const ValueId input : rewritten.inputs) {
    operands.push_back(inputs.at(rewritten.value(input).name));
  }
  return CompareWithMeaning(graph, inputs, EvaluateGraph(rewritten, operands));
}

// What the pass alone applies to `graph`, which it changes.
absl::StatusOr<std::vector<RewriteRecord>> RunAlone(const Pass& pass, const PassContext& context,
                                                    Graph& graph) {
  PassContext alone;
  alone.machine = context.machine;
  alone.target = context.target;
  MILLRACE_RETURN_IF_ERROR(RunPasses({&pass, 1}, graph, alone).status());
  std::erase_if(alone.records, [](const RewriteRecord& record) { return !record.applied; });
  return std::move(alone.records);
}

// The smallest graph that the pass makes wrong, from one that it does.
absl::StatusOr<WrongRewrite> Isolate(const Pass& pass, const Graph& before,
                                     const PassContext& context, uint64_t seed) {
  const Interesting is_made_wrong = [&](const Graph& candidate) -> absl::StatusOr<bool> {
    Graph rewritten = candidate;
    const bool ran = RunAlone(pass, context, rewritten).ok();
    return ran && !FindChangeOfMeaning(candidate, rewritten, seed).empty();
  };
  WrongRewrite wrong;
  wrong.pass = pass.name;
  const absl::StatusOr<Graph> reduced = ReduceGraph(before, is_made_wrong);
  if (absl::IsCancelled(reduced.status())) return reduced.status();
  // Where the change is within what kernels may differ by, the whole graph has to do.
  wrong.smallest = reduced.ok() ? *reduced : before;
  Graph rewritten = wrong.smallest;
  MILLRACE_ASSIGN_OR_RETURN(wrong.records, RunAlone(pass, context, rewritten));
  wrong.mismatch = FindChangeOfMeaning(wrong.smallest, rewritten, seed);
  return wrong;
}

}  // namespace

absl::StatusOr<std::optional<WrongRewrite>> FindWrongRewrite(const Graph& graph,
                                                             const RewriteFn& rewrite,
                                                             const PassContext& context,
                                                             uint64_t seed) {
  const Graph source = WithUpdatesAsOutputs(graph);
  std::vector<Snapshot> snapshots;
  RunPassesOptions options;
  options.after = [&](const Pass& pass, const Graph& after, bool changed) {
    if (changed) snapshots.push_back({pass, after});
    return absl::OkStatus();
  };
  Graph rewritten = source;
  MILLRACE_RETURN_IF_ERROR(rewrite(rewritten, options));
  const auto is_wrong = [&](size_t i) {
    return !FindChangeOfMeaning(source, snapshots[i].graph, seed).empty();
  };
  if (snapshots.empty() || !is_wrong(snapshots.size() - 1)) return std::nullopt;

  // Right after execution `right`, -1 being the source; wrong after `wrong`.
  int64_t right = -1, wrong = std::ssize(snapshots) - 1;
  while (wrong - right > 1) {
    const int64_t middle = (right + wrong) / 2;
    (is_wrong(static_cast<size_t>(middle)) ? wrong : right) = middle;
  }
  const Graph& before = right < 0 ? source : snapshots[static_cast<size_t>(right)].graph;
  MILLRACE_ASSIGN_OR_RETURN(WrongRewrite found, Isolate(snapshots[static_cast<size_t>(wrong)].pass,
                                                        before, context, seed));
  found.execution = wrong + 1;
  found.executions = std::ssize(snapshots);
  return found;
}

}  // namespace millrace
