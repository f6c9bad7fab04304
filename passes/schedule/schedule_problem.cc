#include "passes/schedule/schedule_problem.h"

#include <algorithm>
#include <numeric>

#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/schedule/lifetime_problem.h"

namespace millrace {
namespace {

constexpr int64_t kMaxTotalBytes = int64_t{1} << 60;

bool KeepsItsOrder(const Node& node) {
  const OpDef* op = FindOp(node.op);
  if (op == nullptr || op->traits.has_effects || op->traits.comm != CommKind::kNone) return true;
  return std::ranges::any_of(node.subgraphs, [](const Subgraph& sub) {
    return std::ranges::any_of(sub.graph.nodes, KeepsItsOrder);
  });
}

class ProblemMaker {
 public:
  ProblemMaker(const Graph& graph, BodyPlace place) : graph_(graph), place_(place) {}

  absl::StatusOr<ScheduleProblem> Make() {
    AddValues();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      MILLRACE_RETURN_IF_ERROR(AddNode(static_cast<int32_t>(n)));
    }
    if (total_bytes_ > kMaxTotalBytes) {
      return InfeasibleError("the values together are larger than any memory");
    }
    return std::move(problem_);
  }

 private:
  void AddValues() {
    result_of_.assign(graph_.values.size(), -1);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      // What a body gets lies on the bytes of what its node reads.
      const bool counts = value.kind == ValueKind::kResult ||
                          (value.kind == ValueKind::kInput && place_ == BodyPlace::kNone);
      if (!counts) continue;
      result_of_[v] = static_cast<int32_t>(problem_.results.size());
      const int64_t bytes = ByteSize(value.type);
      problem_.results.push_back({.size_bytes = bytes, .producer = value.producer.index});
      total_bytes_ = std::min(total_bytes_ + bytes, kMaxTotalBytes + 1);
    }
    for (const ValueId id : graph_.outputs) Keep(id);
    for (const Update& update : graph_.updates) Keep(update.value);
  }

  void Keep(ValueId id) {
    if (result_of_[id.index] < 0) return;
    ScheduleResult& result = problem_.results[result_of_[id.index]];
    result.is_kept = true;
    if (place_ == BodyPlace::kBranch) result.size_bytes = 0;
  }

  absl::Status AddNode(int32_t n) {
    const Node& node = graph_.nodes[n];
    for (const ValueId in : node.inputs) {
      if (!in.valid() || result_of_[in.index] < 0) continue;
      std::vector<int32_t>& readers = problem_.results[result_of_[in.index]].readers;
      if (readers.empty() || readers.back() != n) readers.push_back(n);
    }
    for (const NodeId before : node.after) problem_.edges.push_back({before.index, n});
    if (KeepsItsOrder(node)) {
      if (last_in_order_ >= 0) problem_.edges.push_back({last_in_order_, n});
      last_in_order_ = n;
    }
    ScheduleTask task;
    MILLRACE_ASSIGN_OR_RETURN(task.workspace_bytes, NeedsOfBodies(node));
    problem_.tasks.push_back(task);
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> NeedsOfBodies(const Node& node) {
    int64_t most = 0;
    for (const Subgraph& sub : node.subgraphs) {
      MILLRACE_ASSIGN_OR_RETURN(const ScheduleProblem body,
                                ScheduleProblemOf(sub.graph, PlaceOfBodies(node)));
      std::vector<int32_t> order(body.tasks.size());
      std::iota(order.begin(), order.end(), 0);
      most = std::max(most, PeakBytes(body, order));
    }
    total_bytes_ = std::min(total_bytes_ + most, kMaxTotalBytes + 1);
    return most;
  }

  const Graph& graph_;
  const BodyPlace place_;
  ScheduleProblem problem_;
  std::vector<int32_t> result_of_;  // by value; -1: not counted
  int32_t last_in_order_ = -1;      // node that later ones of its kind must follow
  int64_t total_bytes_ = 0;
};

}  // namespace

BodyPlace PlaceOfBodies(const Node& node) {
  const OpDef* op = FindOp(node.op);
  const bool is_if = op != nullptr && op->traits.control_flow == ControlFlow::kIf;
  return is_if ? BodyPlace::kBranch : BodyPlace::kTrip;
}

absl::StatusOr<ScheduleProblem> ScheduleProblemOf(const Graph& graph, BodyPlace place) {
  return ProblemMaker(graph, place).Make();
}

absl::Status VerifyScheduleProblem(const ScheduleProblem& problem) {
  const auto num_tasks = static_cast<int32_t>(problem.tasks.size());
  for (int32_t t = 0; t < num_tasks; ++t) {
    const ScheduleTask& task = problem.tasks[t];
    if (!(task.time_us >= 0) || task.workspace_bytes < 0) {
      return InternalError(StrCat("task ", t, " takes ", task.time_us, " us and ",
                                  task.workspace_bytes, " bytes of workspace"));
    }
  }
  for (size_t r = 0; r < problem.results.size(); ++r) {
    const ScheduleResult& result = problem.results[r];
    if (result.size_bytes < 0) return InternalError(StrCat("result ", r, " has a negative size"));
    int32_t previous = result.producer;
    if (previous < -1 || previous >= num_tasks) {
      return InternalError(StrCat("result ", r, " comes from task ", previous, " of ", num_tasks));
    }
    for (const int32_t reader : result.readers) {
      if (reader <= previous || reader >= num_tasks) {
        return InternalError(StrCat("result ", r, " is read by task ", reader, " after task ",
                                    previous, " of ", num_tasks));
      }
      previous = reader;
    }
  }
  for (const TaskEdge& edge : problem.edges) {
    if (edge.before < 0 || edge.before >= edge.after || edge.after >= num_tasks) {
      return InternalError(
          StrCat("edge ", edge.before, " -> ", edge.after, " of ", num_tasks, " tasks"));
    }
  }
  return absl::OkStatus();
}

bool IsOrder(const ScheduleProblem& problem, std::span<const int32_t> order) {
  const auto num_tasks = static_cast<int32_t>(problem.tasks.size());
  if (std::ssize(order) != num_tasks) return false;
  std::vector<int32_t> place(num_tasks, -1);
  for (int32_t i = 0; i < num_tasks; ++i) {
    if (order[i] < 0 || order[i] >= num_tasks || place[order[i]] >= 0) return false;
    place[order[i]] = i;
  }
  for (const ScheduleResult& result : problem.results) {
    for (const int32_t reader : result.readers) {
      if (result.producer >= 0 && place[reader] <= place[result.producer]) return false;
    }
  }
  return std::ranges::all_of(
      problem.edges, [&](const TaskEdge& edge) { return place[edge.before] < place[edge.after]; });
}

int64_t PeakBytes(const ScheduleProblem& problem, std::span<const int32_t> order) {
  const std::vector<int64_t> live = LiveBytes(LifetimesOf(problem), order);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace millrace
