// All factorizations of the devices into pipeline x data x tensor, all sizes of microbatch that
// divide what a replica gets, with and without recomputation, with activations between cells whole
// or cut along one dim. Devices of the tensor axis are neighbours, those of the data axis come
// next, stages are furthest apart, as their traffic asks for.
//
// A cell's plan depends on its class, the tensor axis, the microbatch and the boundary only, and is
// solved once for all meshes that share these (auto_cell.h). Stages are runs of cells; the split
// with the shortest longest stage, each within its memory, is found by dynamic programming. A step
// takes (m + (p - 1) / v) times the longest stage: m microbatches, p stages, v chunks each
// (Narayanan et al. 2021), then gradients are summed over the data axis and weights updated.
// Nothing is taken to overlap.
#include "passes/parallel/auto_mesh.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "graph/strings.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

constexpr double kMomentBytes = 8;  // Adam's two, in f32

// Kept for each parameter: weight and gradient, a copy of the weight in f32 where it is narrower,
// and Adam's moments.
double BytesPerParameter(const PartitionRegime& regime) {
  const double own = static_cast<double>(ByteSize({regime.dtype, Shape{}}));
  if (!regime.training) return own;
  return 2 * own + kMomentBytes + (regime.dtype == DType::kF32 ? 0 : 4);
}

std::vector<int64_t> DivisorsOf(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// What is the same for all cells of a mesh under consideration.
struct CellSetting {
  int64_t tensor = 1, samples = 1;
  int boundary = -1;  // dim; -1: whole
  bool small = false;
  auto operator<=>(const CellSetting&) const = default;
};

class MeshSearcher {
 public:
  MeshSearcher(const Graph& graph, const PartitionRegime& regime, const MeshRequest& request,
               MeshSearch& search)
      : graph_(graph),
        regime_(regime),
        request_(request),
        search_(search),
        bytes_per_parameter_(BytesPerParameter(regime)) {
    devices_ = request.devices > 0 ? request.devices : search.pool.count;
  }

  absl::Status Run() {
    for (const int64_t tensor : DivisorsOf(devices_)) {
      if (!Allowed(request_.tensor, tensor) || tensor > kMostTensor) continue;
      for (const int64_t pipeline : DivisorsOf(devices_ / tensor)) {
        const int64_t data = devices_ / tensor / pipeline;
        if (!Allowed(request_.pipeline, pipeline) || !Allowed(request_.data, data)) continue;
        if (pipeline > static_cast<int64_t>(search_.model.cells.size())) continue;
        if (search_.model.batch % data != 0) continue;  // replicas have as many samples each
        for (const int64_t samples : DivisorsOf(search_.model.batch / data)) {
          if (!Allowed(request_.samples, samples)) continue;
          if (request_.one_microbatch) {
            if (samples * data != search_.model.batch) continue;
          } else if (request_.samples == 0 && samples > kMostSamples && samples > 1)
            break;
          Consider(tensor, pipeline, data, samples);
        }
      }
    }
    if (search_.plans.empty()) return NothingFits();
    std::stable_sort(
        search_.plans.begin(), search_.plans.end(),
        [](const MeshPlan& a, const MeshPlan& b) { return a.step_seconds < b.step_seconds; });
    const MeshPlan& best = search_.plans[0];
    const int dim = best.boundary.kind == AxisSharding::Kind::kShard ? best.boundary.dim : -1;
    for (const auto& plan : *ClassPlans({best.tensor, best.samples, dim, best.small})) {
      search_.classes.push_back(plan);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kMostTensor = 64, kMostSamples = 64;
  static constexpr double kWorthShowing = 1.5;  // times the fastest

  static bool Allowed(int64_t fixed, int64_t value) { return fixed == 0 || fixed == value; }

  // Plans of all classes; nullptr: there is none under this setting.
  const std::vector<CellPlan>* ClassPlans(const CellSetting& setting) {
    const auto [found, fresh] = class_plans_.try_emplace(setting);
    if (!fresh) return found->second ? &*found->second : nullptr;
    const PartitionModel& model = search_.model;
    CellRequest request;
    request.tensor = setting.tensor;
    request.samples = setting.samples;
    request.small = setting.small;
    if (setting.boundary >= 0) request.boundary = ShardDim(setting.boundary);
    // The fewest there can be.
    request.microbatches = std::max(1.0, static_cast<double>(model.batch * setting.tensor) /
                                             static_cast<double>(setting.samples * devices_));
    std::vector<CellPlan> plans;
    for (const int32_t example : model.class_example) {
      auto plan = PlanCell(graph_, model, model.cells[example], search_.pool, regime_, request);
      if (!plan.ok()) return nullptr;
      plans.push_back(*std::move(plan));
    }
    found->second = std::move(plans);
    return &*found->second;
  }

  // Dims along which activations of all cells can be cut; -1: whole.
  std::vector<int> Boundaries(int64_t tensor) const {
    std::vector<int> dims = {-1};
    if (tensor == 1 || request_.whole_boundary) return dims;
    for (int d = 0; d < 4; ++d) {
      bool possible = true, any = false;
      for (const PartitionCell& cell : search_.model.cells) {
        if (!cell.output.valid()) continue;
        const Shape& shape = graph_.value(cell.output).type.shape;
        // Cutting samples further is what the data axis does.
        const bool batch = search_.model.batch_dim[cell.output.index] == d;
        any = true;
        possible &= d < shape.rank() && !batch && shape[d] % tensor == 0;
      }
      if (possible && any) dims.push_back(d);
    }
    return dims;
  }

  void Consider(int64_t tensor, int64_t pipeline, int64_t data, int64_t samples) {
    for (const int boundary : Boundaries(tensor)) {
      for (const bool small : {false, true}) {
        if (small && tensor == 1) continue;
        const std::vector<CellPlan>* plans = ClassPlans({tensor, samples, boundary, small});
        if (plans == nullptr) continue;
        MeshPlan plan;
        plan.tensor = tensor, plan.pipeline = pipeline, plan.data = data, plan.samples = samples;
        plan.microbatches = search_.model.batch / data / samples;
        plan.small = small;
        if (boundary >= 0) plan.boundary = ShardDim(boundary);
        for (const bool recompute : {false, true}) {
          if (recompute && !regime_.training) continue;
          if (request_.recompute >= 0 && request_.recompute != (recompute ? 1 : 0)) continue;
          plan.recompute = recompute;
          for (int64_t v = 1; v <= std::max(request_.interleave, request_.max_interleave); v *= 2) {
            if (!Allowed(request_.interleave, v)) continue;
            if (v > 1 && !CanInterleave(plan, v)) continue;
            plan.interleave = v;
            Complete(plan, *plans);
          }
        }
      }
    }
  }

  // Chunks need cells enough, and microbatches in whole rounds of stages.
  bool CanInterleave(const MeshPlan& plan, int64_t v) const {
    return plan.pipeline > 1 && plan.microbatches % plan.pipeline == 0 &&
           plan.pipeline * v <= static_cast<int64_t>(search_.model.cells.size());
  }

  struct CellCost {
    double seconds = 0, parameters = 0, kept = 0, transient = 0;
  };

  std::vector<CellCost> CellCosts(const MeshPlan& plan,
                                  const std::vector<CellPlan>& classes) const {
    std::vector<CellCost> costs;
    for (const PartitionCell& cell : search_.model.cells) {
      const CellPlan& c = classes[cell.cell_class];
      const double again = plan.recompute ? c.forward + c.tensor_forward : 0;
      CellCost cost;
      cost.seconds = c.forward + c.backward + c.tensor_forward + c.tensor_backward + again;
      cost.parameters = c.parameters;
      if (regime_.training) {
        cost.kept = c.input_bytes + (plan.recompute ? 0 : c.saved_bytes);
        cost.transient = plan.recompute ? c.saved_bytes : 0;
      } else {
        cost.transient = c.saved_bytes;
      }
      costs.push_back(cost);
    }
    return costs;
  }

  // Microbatches whose activations stage `stage` holds at once.
  double UnderWay(const MeshPlan& plan, int64_t stage) const {
    const double m = static_cast<double>(plan.microbatches);
    if (!regime_.training) return 1;
    if (request_.schedule == PipelineSchedule::kGPipe) return m;
    double held = static_cast<double>(plan.pipeline - stage);
    if (plan.interleave > 1) {
      held += static_cast<double>(plan.pipeline - 1) / static_cast<double>(plan.interleave);
    }
    return std::min(m, held);
  }

  // Cells [begin, end) as a stage.
  struct StageSums {
    std::vector<double> seconds, parameters, kept;  // of all cells before
    std::vector<CellCost> costs;
  };

  MeshStage StageOf(const MeshPlan& plan, const StageSums& sums, int64_t stage, int32_t begin,
                    int32_t end) const {
    MeshStage result;
    result.first_cell = begin;
    result.end_cell = end;
    result.seconds = sums.seconds[end] - sums.seconds[begin];
    result.parameters = sums.parameters[end] - sums.parameters[begin];
    result.weight_bytes = result.parameters * bytes_per_parameter_;
    double transient = 0;
    for (int32_t c = begin; c < end; ++c) transient = std::max(transient, sums.costs[c].transient);
    result.activation_bytes =
        UnderWay(plan, stage) * (sums.kept[end] - sums.kept[begin]) + transient;
    return result;
  }

  // The split into `plan.pipeline` stages with the shortest longest one, each within memory.
  // O(stages cells^2), most of which memory or the best split so far rule out.
  bool SplitIntoStages(const StageSums& sums, MeshPlan& plan) {
    const int32_t n = static_cast<int32_t>(sums.costs.size());
    const int64_t p = plan.pipeline;
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<std::vector<int32_t>> from(p + 1, std::vector<int32_t>(n + 1, -1));
    std::vector<double> best(n + 1, kNever);
    best[0] = 0;
    double least_missing = kNever;
    for (int64_t stage = 0; stage < p; ++stage) {
      std::vector<double> next(n + 1, kNever);
      for (int32_t begin = 0; begin < n; ++begin) {
        if (best[begin] == kNever) continue;
        // Each later stage needs a cell.
        for (int32_t end = begin + 1; end <= n - (p - 1 - stage); ++end) {
          const double longest = std::max(best[begin], sums.seconds[end] - sums.seconds[begin]);
          if (longest >= next[end]) continue;
          const MeshStage candidate = StageOf(plan, sums, stage, begin, end);
          if (candidate.bytes() > search_.memory_limit) {
            least_missing = std::min(least_missing, candidate.bytes());
            break;  // more cells take more
          }
          next[end] = longest;
          from[stage + 1][end] = begin;
        }
      }
      best = std::move(next);
    }
    if (best[n] == kNever) {
      Missing(plan, least_missing);
      return false;
    }
    plan.stages.assign(p, {});
    for (int64_t stage = p, end = n; stage > 0; --stage) {
      const int32_t begin = from[stage][end];
      plan.stages[stage - 1] = StageOf(plan, sums, stage - 1, begin, static_cast<int32_t>(end));
      end = begin;
    }
    return true;
  }

  void Missing(const MeshPlan& plan, double bytes) {
    ++search_.num_without_room;
    if (bytes < nearest_bytes_) {
      nearest_bytes_ = bytes;
      nearest_ = plan;
    }
  }

  // Even with stages alike it would not be among the plans worth showing.
  bool IsHopeless(const StageSums& sums, const MeshPlan& plan) const {
    const double stage = sums.seconds.back() / static_cast<double>(plan.pipeline);
    const double rounds =
        static_cast<double>(plan.microbatches) +
        static_cast<double>(plan.pipeline - 1) / static_cast<double>(plan.interleave);
    return rounds * stage > kWorthShowing * best_seconds_;
  }

  void Complete(MeshPlan plan, const std::vector<CellPlan>& classes) {
    ++search_.num_considered;
    StageSums sums;
    sums.costs = CellCosts(plan, classes);
    const size_t n = sums.costs.size();
    sums.seconds.assign(n + 1, 0);
    sums.parameters = sums.kept = sums.seconds;
    for (size_t c = 0; c < n; ++c) {
      sums.seconds[c + 1] = sums.seconds[c] + sums.costs[c].seconds;
      sums.parameters[c + 1] = sums.parameters[c] + sums.costs[c].parameters;
      sums.kept[c + 1] = sums.kept[c] + sums.costs[c].kept;
    }
    if (IsHopeless(sums, plan) || !SplitIntoStages(sums, plan)) return;
    Time(classes, plan);
    best_seconds_ = std::min(best_seconds_, plan.step_seconds);
    for (const auto& [name, size] : std::initializer_list<std::pair<const char*, int64_t>>{
             {"pipeline", plan.pipeline}, {"data", plan.data}, {"tensor", plan.tensor}}) {
      if (size > 1) plan.mesh.axes.push_back({name, size});
    }
    search_.plans.push_back(std::move(plan));
  }

  void Time(const std::vector<CellPlan>& classes, MeshPlan& plan) const {
    const MeshStage& longest = *std::max_element(
        plan.stages.begin(), plan.stages.end(),
        [](const MeshStage& a, const MeshStage& b) { return a.seconds < b.seconds; });
    const double m = static_cast<double>(plan.microbatches);
    const double v = static_cast<double>(plan.interleave);
    const double ways = regime_.training ? 2 : 1;
    double once = 0;
    for (int32_t c = longest.first_cell; c < longest.end_cell; ++c) {
      const CellPlan& cell = classes[search_.model.cells[c].cell_class];
      const double again = plan.recompute ? 1 : 0;
      plan.seconds.compute += m * ((1 + again) * cell.forward + cell.backward);
      plan.seconds.recompute += m * again * cell.forward;
      plan.seconds.tensor += m * ((1 + again) * cell.tensor_forward + cell.tensor_backward);
      // Recomputation repeats the forward half.
      plan.tensor_bytes += m * cell.tensor_bytes * (1 + again / 2) + cell.tensor_once_bytes;
      once += cell.tensor_once;
    }
    plan.seconds.tensor += once;
    double hop = 0;
    for (size_t s = 1; s < plan.stages.size(); ++s) {
      const auto& cell = search_.model.cells[plan.stages[s].first_cell];
      hop = std::max(hop, classes[cell.cell_class].input_bytes);
    }
    // A whole activation is sent in parts by the devices that all have it.
    if (plan.boundary.kind != AxisSharding::Kind::kShard) hop /= static_cast<double>(plan.tensor);
    double stage_seconds = longest.seconds;
    if (plan.pipeline > 1) {
      const double once = AxisShiftSeconds(search_.pool, plan.data * plan.tensor, hop);
      plan.pipeline_bytes = ways * m * v * hop;
      plan.seconds.pipeline = ways * m * v * once;
      stage_seconds += ways * v * once;
    }
    plan.seconds.bubble = static_cast<double>(plan.pipeline - 1) / v * stage_seconds;
    double parameters = 0;
    for (MeshStage& stage : plan.stages) {
      parameters = std::max(parameters, stage.parameters);
      plan.peak_bytes = std::max(plan.peak_bytes, stage.bytes());
    }
    if (regime_.training) {
      const double gradient = parameters * static_cast<double>(ByteSize({regime_.dtype, Shape{}}));
      plan.seconds.data = AxisCollectiveSeconds(search_.pool, {plan.data, plan.tensor},
                                                CommKind::kAllReduce, gradient);
      const double d = static_cast<double>(plan.data);
      plan.data_bytes = 2 * (d - 1) / d * gradient;
      plan.seconds.update = parameters * 28 / search_.pool.first.spec->memory_bandwidth;
    }
    plan.step_seconds = plan.seconds.step();
    plan.flops = ModelFlops();
  }

  // Of a step: what one device would do without recomputation.
  double ModelFlops() const {
    if (flops_ > 0) return flops_;
    const int64_t whole = search_.model.batch;
    CellRequest request;
    request.samples = whole;
    for (const PartitionCell& cell : search_.model.cells) {
      auto& known = class_flops_[cell.cell_class];
      if (!known) {
        const auto plan = PlanCell(graph_, search_.model, cell, search_.pool, regime_, request);
        known = plan.ok() ? plan->flops : 0;
      }
      flops_ += *known * (regime_.training ? 3 : 1);
    }
    return flops_;
  }

  absl::Status NothingFits() const {
    if (nearest_bytes_ == std::numeric_limits<double>::infinity()) {
      return InfeasibleError(
          StrCat("no mesh of ", devices_, " devices divides the graph as asked: batch ",
                 search_.model.batch, ", ", search_.model.cells.size(), " cells"));
    }
    return InfeasibleError(StrCat(
        "no mesh of ", devices_, " devices has room: of the ", search_.num_considered,
        " considered, the one that comes nearest (data=", nearest_.data,
        ", tensor=", nearest_.tensor, ", pipeline=", nearest_.pipeline, ", ", nearest_.samples,
        " samples a microbatch) needs ", static_cast<int64_t>(nearest_bytes_),
        " bytes on a device that has ", static_cast<int64_t>(search_.memory_limit), ": ",
        static_cast<int64_t>(nearest_bytes_ - search_.memory_limit),
        " are missing. More devices, or a larger tensor or pipeline axis, would help"));
  }

  const Graph& graph_;
  const PartitionRegime& regime_;
  const MeshRequest& request_;
  MeshSearch& search_;
  const double bytes_per_parameter_;
  int64_t devices_ = 1;
  std::map<CellSetting, std::optional<std::vector<CellPlan>>> class_plans_;
  double best_seconds_ = std::numeric_limits<double>::infinity();
  double nearest_bytes_ = std::numeric_limits<double>::infinity();
  MeshPlan nearest_;
  mutable double flops_ = 0;
  mutable std::map<int32_t, std::optional<double>> class_flops_;
};

}  // namespace

std::string_view PipelineScheduleName(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kGPipe ? "GPipe" : "1F1B";
}

absl::StatusOr<MeshSearch> SearchMeshes(const Graph& graph, const MachineSpec& machine,
                                        const PartitionRegime& regime, const MeshRequest& request) {
  MeshSearch search;
  MILLRACE_ASSIGN_OR_RETURN(search.pool, LargestPool(machine));
  if (request.devices > search.pool.count) {
    return InfeasibleError(StrCat("asked for ", request.devices, " devices of a machine that has ",
                                  search.pool.count));
  }
  search.memory_limit = static_cast<double>(search.pool.first.spec->memory_bytes);
  MILLRACE_ASSIGN_OR_RETURN(search.model, FindCells(graph));
  MILLRACE_RETURN_IF_ERROR(MeshSearcher(graph, regime, request, search).Run());
  return search;
}

}  // namespace millrace
