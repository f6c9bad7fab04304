// The budget problem of a graph (graph_problem.h) knows sizes, views and results written over
// operands, but neither copies between layouts nor how well the packing comes out. What counts is
// the planned peak. So a problem is solved for a *target* a little above or below the budget, the
// steps are made a graph, the graph a program, and its bytes are measured; the next target makes up
// for what that was off. A handful of rounds for each order of nodes there is to plan from; of all
// programs within the budget the quickest is taken.
//
// If none is, the least target that has steps at all is sought, and programs are made of that and
// of some above: the smallest of them is either the answer or the smallest budget that works. It
// depends on the budget in nothing, so asking for just that much succeeds.
#include "passes/budget/fit_graph.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "passes/assign_layouts.h"
#include "passes/budget/fit_steps.h"
#include "passes/budget/graph_problem.h"
#include "passes/memory/live_bytes.h"
#include "passes/schedule/choose_streams.h"
#include "passes/variant_memo.h"

namespace millrace {
namespace {

constexpr int kRounds = 6;                 // for each order
constexpr int64_t kRoundWork = 1'500'000;  // FitOptions::max_work
constexpr double kCloseEnough = 0.003;     // of the budget
constexpr double kAboveLeast[] = {1, 1.01, 1.03, 1.06, 1.1, 1.2};
constexpr BudgetOrder kOrders[] = {BudgetOrder::kEagerUpdates, BudgetOrder::kLeastLive};
constexpr size_t kMostNamed = 8;  // in a message

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%d bytes (%.1f MB)", bytes, static_cast<double>(bytes) / 1e6);
}

// The graph with its nodes in one of the orders.
struct OrderedProblem {
  BudgetOrder order = BudgetOrder::kGiven;
  Graph graph;
  std::vector<NodeId> source;  // by node: the one of the graph that was given
  GraphProblem problem;
};

// Steps, and the program made of them.
struct FitAttempt {
  const OrderedProblem* from = nullptr;
  FittedSteps fitted;
  Graph graph;
  Program program;
  int64_t bytes = 0;
};

class GraphFitter {
 public:
  GraphFitter(const Graph& graph, const Target& target, const FitGraphOptions& options)
      : graph_(graph),
        target_(target),
        options_(options),
        memo_(target),
        variants_(AssignLayouts(graph, memo_)) {}

  absl::StatusOr<FittedGraph> Fit() {
    MILLRACE_RETURN_IF_ERROR(MakeProblems());
    for (const OrderedProblem& ordered : problems_) MILLRACE_RETURN_IF_ERROR(Approach(ordered));
    if (!best_.has_value()) MILLRACE_RETURN_IF_ERROR(SeekSmallest());
    if (!best_.has_value()) return TooLittle();
    return Finish(*best_);
  }

 private:
  absl::Status MakeProblems() {
    MILLRACE_ASSIGN_OR_RETURN(ScheduleProblem tasks, ScheduleProblemOf(graph_));
    SetTaskCosts(graph_, target_, *options_.device, options_.emit.threads, options_.known, tasks);
    std::vector<NodeCost> costs;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const int64_t scratch = variants_[n] == nullptr ? 0 : variants_[n]->scratch_bytes;
      costs.push_back({tasks.tasks[n].time_us, tasks.tasks[n].workspace_bytes + scratch});
    }
    const GraphProblem given = BudgetProblemOf(graph_, costs);
    MILLRACE_RETURN_IF_ERROR(VerifyBudgetProblem(given.problem));
    for (const BudgetOrder order : kOrders) {
      OrderedProblem ordered{order, graph_, OrderNodes(graph_, given, order), {}};
      ReorderNodes(ordered.graph, ordered.source);
      std::vector<NodeCost> in_order;
      for (const NodeId id : ordered.source) in_order.push_back(costs[id.index]);
      ordered.problem = BudgetProblemOf(ordered.graph, in_order);
      MILLRACE_RETURN_IF_ERROR(VerifyBudgetProblem(ordered.problem.problem));
      problems_.push_back(std::move(ordered));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<FitAttempt> Make(const OrderedProblem& ordered, FittedSteps fitted) {
    FitAttempt candidate{&ordered, std::move(fitted), {}, {}, 0};
    RepeatedGraph repeated = RepeatNodes(ordered.graph, ordered.problem, candidate.fitted.steps);
    EmitOptions emit = options_.emit;
    for (const NodeId id : repeated.source) {
      emit.variant_of_node.push_back(variants_[ordered.source[id.index].index]);
    }
    candidate.graph = std::move(repeated.graph);
    MILLRACE_ASSIGN_OR_RETURN(candidate.program, EmitProgram(candidate.graph, target_, emit));
    candidate.bytes = BudgetedBytes(candidate.program);
    return candidate;
  }

  // Targets that lead to programs as large as the budget.
  absl::Status Approach(const OrderedProblem& ordered) {
    const double budget = static_cast<double>(options_.budget_bytes);
    double low = 0, high = 4 * budget;  // targets known to give too little, and too much
    double target = budget;
    for (int round = 0; round < kRounds && high - low > kCloseEnough * budget; ++round) {
      FittedSteps fitted =
          FitSteps(ordered.problem.problem,
                   {.budget_bytes = static_cast<int64_t>(target), .max_work = kRoundWork});
      if (!fitted.fits) {
        low = target;  // nothing so small; some way up there may be
        if (high >= 4 * budget) return absl::OkStatus();
        target = (low + high) / 2;
        continue;
      }
      MILLRACE_ASSIGN_OR_RETURN(FitAttempt made, Make(ordered, std::move(fitted)));
      const double off = budget - static_cast<double>(made.bytes);
      const bool fits = off >= 0, is_free = made.fitted.measure.num_repeats == 0;
      (fits ? low : high) = target;
      Take(std::move(made));
      if (fits && is_free) break;
      target = std::clamp(target + off, low + 0.1 * (high - low), high - 0.1 * (high - low));
      if (fits && off < kCloseEnough * budget) break;
    }
    return absl::OkStatus();
  }

  void Take(FitAttempt candidate) {
    if (!smallest_.has_value() || candidate.bytes < smallest_->bytes) smallest_ = candidate;
    if (candidate.bytes > options_.budget_bytes) return;
    if (best_.has_value() &&
        best_->fitted.measure.repeat_us <= candidate.fitted.measure.repeat_us) {
      return;
    }
    best_ = std::move(candidate);
  }

  absl::Status SeekSmallest() {
    smallest_.reset();
    for (const OrderedProblem& ordered : problems_) {
      const LeastBudget least = FindLeastBudget(ordered.problem.problem, {.max_work = 0});
      for (const double factor : kAboveLeast) {
        const auto target = static_cast<int64_t>(factor * static_cast<double>(least.bytes));
        FittedSteps fitted = factor == 1
                                 ? least.fitted
                                 : FitSteps(ordered.problem.problem,
                                            {.budget_bytes = target, .max_work = kRoundWork});
        if (!fitted.fits) continue;
        MILLRACE_ASSIGN_OR_RETURN(FitAttempt made, Make(ordered, std::move(fitted)));
        Take(std::move(made));
      }
    }
    return absl::OkStatus();
  }

  // By what is certain: params, and of each node what it reads or what it writes, whichever is
  // more, for the planner may find ways to write the one over the other. New versions of params may
  // come to lie in the bytes of the old ones.
  static WorkingSet LeastThereCanBe(const OrderedProblem& ordered) {
    BudgetProblem problem = ordered.problem.problem;
    problem.fixed_bytes = 0;
    for (const ValueId id : ordered.graph.params) {
      problem.fixed_bytes += ByteSize(ordered.graph.value(id).type);
    }
    std::vector<uint8_t> is_update(ordered.graph.values.size(), 0);
    for (const Update& update : ordered.graph.updates) is_update[update.value.index] = 1;
    for (size_t t = 0; t < problem.tensors.size(); ++t) {
      problem.tensors[t].is_kept = false;
      if (is_update[ordered.problem.value_of_tensor[t].index] == 0) continue;
      for (auto of = static_cast<int32_t>(t); of >= 0; of = problem.tensors[of].view_of) {
        problem.tensors[of].size_bytes = 0;
      }
    }
    for (BudgetOp& op : problem.ops) {
      op.in_place.clear();
      for (const int32_t write : op.writes) {
        for (const int32_t read : op.reads) op.in_place.push_back({write, read});
      }
    }
    return LargestWorkingSet(problem);
  }

  absl::Status TooLittle() const {
    const auto lower = std::ranges::min_element(
        problems_, {}, [](const OrderedProblem& p) { return LeastThereCanBe(p).bytes; });
    const WorkingSet bound = LeastThereCanBe(*lower);
    std::string message =
        StrCat("the memory budget of ", Megabytes(options_.budget_bytes), " is too small");
    if (bound.op >= 0) {
      const NodeId id = lower->problem.node_of_op[bound.op];
      StrAppend(&message, "; no order and no recomputation needs less than ",
                Megabytes(bound.bytes), ", for node '", lower->graph.node(id).name, "'");
    }
    if (!smallest_.has_value()) return InfeasibleError(message);
    const StepsMeasure& measure = smallest_->fitted.measure;
    StrAppend(&message, "; the smallest budget that works is ", smallest_->bytes,
              " bytes: ", measure.num_repeats, " nodes run again, and a step takes ",
              Percent(measure), " longer. Live at its peak:", LiveAtPeak(*smallest_));
    return InfeasibleError(message);
  }

  static std::string Percent(const StepsMeasure& measure) {
    const double once_us = measure.time_us - measure.repeat_us;
    return absl::StrFormat("%.1f %%", once_us > 0 ? 100 * measure.repeat_us / once_us : 0.0);
  }

  static std::string LiveAtPeak(const FitAttempt& candidate) {
    PlanBundle plan;
    plan.graph = candidate.graph;
    plan.programs.push_back(candidate.program);
    const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
    const auto live = MeasureLiveBytes(plan, plan.programs[0])[0];
    std::string text;
    for (size_t i = 0; i < live.at_peak.size() && i < kMostNamed; ++i) {
      const auto& [value, bytes] = live.at_peak[i];
      StrAppend(&text, "\n  ", bytes, " bytes: ",
                value.value.valid() ? graphs[value.graph]->value(value.value).name
                                    : std::string("scratch"));
    }
    if (live.at_peak.size() > kMostNamed) {
      int64_t rest = 0;
      for (size_t i = kMostNamed; i < live.at_peak.size(); ++i) rest += live.at_peak[i].bytes;
      StrAppend(&text, "\n  ", rest, " bytes: ", live.at_peak.size() - kMostNamed, " others");
    }
    return text;
  }

  // --- What is said about it ---
  FittedGraph Finish(FitAttempt& best) const {
    FittedGraph result;
    const StepsMeasure& measure = best.fitted.measure;
    result.records.push_back(
        {"budget",
         "fit",
         {},
         StrCat(Megabytes(best.bytes), " of a budget of ", Megabytes(options_.budget_bytes),
                "; nodes ordered ", BudgetOrderName(best.from->order), ", ", measure.num_repeats,
                " of them run again: a step takes ", Percent(measure), " longer"),
         true});
    AppendTensors(best, result.records);
    result.graph = std::move(best.graph);
    result.program = std::move(best.program);
    return result;
  }

  void AppendTensors(const FitAttempt& best, std::vector<RewriteRecord>& records) const {
    const BudgetProblem& problem = best.from->problem.problem;
    std::vector<int32_t> runs(problem.ops.size(), 0);
    for (const int32_t op : best.fitted.steps) ++runs[op];
    for (size_t o = 0; o < problem.ops.size(); ++o) {
      if (runs[o] < 2) continue;
      const Node& node = best.from->graph.node(best.from->problem.node_of_op[o]);
      int64_t bytes = 0;
      for (const int32_t write : problem.ops[o].writes) bytes += problem.tensors[write].size_bytes;
      records.push_back({"budget",
                         "recompute",
                         {node.name},
                         absl::StrFormat("runs %d times, each %.1f us, and does not hold %d bytes",
                                         runs[o], problem.ops[o].time_us, bytes),
                         true});
    }
    const std::vector<LiveTensor> live =
        LiveAtStep(problem, best.fitted.steps, best.fitted.measure.peak_step);
    for (const LiveTensor& tensor : live) {
      const BudgetTensor& facts = problem.tensors[tensor.tensor];
      if (tensor.size_bytes == 0) continue;
      const ValueId id = best.from->problem.value_of_tensor[tensor.tensor];
      std::string why;
      std::vector<std::string> nodes;
      if (facts.producer < 0) {
        why = "an input";
      } else {
        const BudgetOp& op = problem.ops[facts.producer];
        nodes.push_back(best.from->graph.node(best.from->problem.node_of_op[facts.producer]).name);
        why = facts.is_kept    ? "the step ends with it"
              : !op.can_repeat ? "its node must not run twice"
                               : absl::StrFormat("to make it again takes %.1f us", op.time_us);
      }
      records.push_back({"budget", "keep", nodes,
                         StrCat("'", best.from->graph.value(id).name, "', ", tensor.size_bytes,
                                " bytes, lives while most does: ", why),
                         false});
    }
  }

  const Graph& graph_;
  const Target& target_;
  const FitGraphOptions& options_;
  VariantMemo memo_;
  const std::vector<const KernelVariant*> variants_;  // by node of `graph_`
  std::vector<OrderedProblem> problems_;
  std::optional<FitAttempt> best_, smallest_;
};

}  // namespace

int64_t BudgetedBytes(const Program& program) {
  int64_t bytes = DeviceBytes(program);
  if (program.device_kind != "cpu") return bytes;
  for (const PlanBuffer& buffer : program.buffers) {
    if (buffer.space == MemorySpace::kHost) bytes += buffer.size_bytes;
  }
  return bytes;
}

absl::StatusOr<FittedGraph> FitGraph(const Graph& graph, const Target& target,
                                     const FitGraphOptions& options) {
  return GraphFitter(graph, target, options).Fit();
}

}  // namespace millrace
