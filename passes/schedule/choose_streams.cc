#include "passes/schedule/choose_streams.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/control_flow.h"
#include "graph/node_order.h"
#include "ops/op_def.h"
#include "passes/variant_memo.h"

namespace millrace {
namespace {

constexpr double kWorthwhile = 0.99;  // of the time of fewer streams

struct KernelCosts {
  VariantMemo& variants;
  const DeviceSpec& device;
  const int threads;
  const KnownCosts& known;
};

ScheduleTask CostOfNode(const Graph& graph, NodeId id, const KernelCosts& kernels);

// One node after another.
double TimeOfBody(const Graph& body, const KernelCosts& kernels) {
  double time_us = 0;
  for (size_t n = 0; n < body.nodes.size(); ++n) {
    time_us += CostOfNode(body, NodeId(n), kernels).time_us + kernels.device.launch_overhead_us;
  }
  return time_us;
}

ScheduleTask CostOfCall(const Graph& graph, const Node& node, ControlFlow flow,
                        const KernelCosts& kernels) {
  ScheduleTask task;
  for (const Subgraph& sub : node.subgraphs) {
    task.time_us = std::max(task.time_us, TimeOfBody(sub.graph, kernels));
  }
  const absl::StatusOr<CallForm> form = FormOf(flow, node);
  const int64_t trips =
      flow == ControlFlow::kIf || !form.ok() ? 1 : PlannedTrips(*form, graph, node);
  if (trips >= 0) task.time_us *= static_cast<double>(trips);
  task.compute_use = 1;  // not known better
  return task;
}

ScheduleTask CostOfNode(const Graph& graph, NodeId id, const KernelCosts& kernels) {
  const Node& node = graph.node(id);
  const OpDef* op = FindOp(node.op);
  if (op == nullptr) return {};
  if (op->traits.control_flow != ControlFlow::kNone) {
    return CostOfCall(graph, node, op->traits.control_flow, kernels);
  }
  const NodeQuery query = QueryFor(graph, id);
  const KernelVariant* variant = kernels.variants.BestStrided(query);
  if (variant == nullptr) return {};
  const TaskCost cost =
      CostOfKernel(query, *variant, kernels.threads, kernels.device, kernels.known).task;
  ScheduleTask task;
  task.time_us = cost.time_us;
  task.compute_use = cost[Resource::kCompute];
  task.memory_use = cost[Resource::kMemory];
  return task;
}

}  // namespace

StreamCosts StreamCostsOf(const DeviceSpec& device) {
  return {.event_us = device.launch_overhead_us,
          .issue_us = device.kind == "cpu" ? 0 : device.launch_overhead_us};
}

void SetTaskCosts(const Graph& graph, const Target& target, const DeviceSpec& device, int threads,
                  const KnownCosts& known, ScheduleProblem& problem) {
  VariantMemo variants(target);
  const KernelCosts kernels{variants, device, threads, known};
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    ScheduleTask& task = problem.tasks[n];
    const ScheduleTask cost = CostOfNode(graph, NodeId(n), kernels);
    const double time_us = std::isfinite(cost.time_us) ? cost.time_us : 0;
    task.time_us = time_us + (device.kind == "cpu" ? device.launch_overhead_us : 0);
    task.compute_use = cost.compute_use;
    task.memory_use = cost.memory_use;
  }
}

StreamChoice ChooseStreams(const Graph& graph, const Target& target, const DeviceSpec& device,
                           const ChooseStreamsOptions& options, ScheduleProblem problem) {
  const StreamCosts costs = StreamCostsOf(device);
  const bool divides = device.kind == "cpu";
  StreamChoice best;
  for (int32_t streams = 1; streams <= options.max_streams; ++streams) {
    const int threads = divides ? options.threads / streams : options.threads;
    if (streams > 1 && divides && threads == 0) break;
    if (streams == 1 || divides) {
      SetTaskCosts(graph, target, device, std::max(1, threads), options.known, problem);
    }
    StreamPlan plan = AssignStreams(
        problem, {.num_streams = streams, .costs = costs, .max_work = options.max_work});
    const bool is_better = plan.shared_us < kWorthwhile * best.plan.shared_us;
    if (streams == 1) best.one_stream_us = plan.shared_us;
    if (streams > 1 && !is_better) continue;
    best.plan = std::move(plan);
    best.threads = std::max(1, threads);
  }
  return best;
}

absl::StatusOr<SpreadGraph> SpreadOverStreams(Graph& graph, const Target& target,
                                              const DeviceSpec& device,
                                              const ChooseStreamsOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(ScheduleProblem problem, ScheduleProblemOf(graph));
  const StreamChoice choice = ChooseStreams(graph, target, device, options, std::move(problem));
  const StreamAssignment& assignment = choice.plan.assignment;
  SpreadGraph spread = {.stream_of_node = {},
                        .num_streams = choice.plan.num_streams,
                        .threads = choice.threads,
                        .one_stream_us = choice.one_stream_us,
                        .streams_us = choice.plan.shared_us};
  std::vector<NodeId> order;
  for (const int32_t task : assignment.order) {
    order.push_back(NodeId(task));
    spread.stream_of_node.push_back(assignment.stream[task]);
  }
  ReorderNodes(graph, order);
  return spread;
}

}  // namespace millrace
