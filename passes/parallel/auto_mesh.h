// Automatic partition: which mesh, which pipeline stages, which microbatches, by prediction.
#ifndef MILLRACE_PASSES_PARALLEL_AUTO_MESH_H_
#define MILLRACE_PASSES_PARALLEL_AUTO_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/mesh.h"
#include "graph/status.h"
#include "passes/parallel/auto_cell.h"

namespace millrace {

enum class PipelineSchedule : uint8_t { kOneForwardOneBackward, kGPipe };
std::string_view PipelineScheduleName(PipelineSchedule schedule);  // "1F1B", "GPipe"

// What is fixed by hand; 0: searched.
struct MeshRequest {
  int64_t data = 0, tensor = 0, pipeline = 0;
  int64_t samples = 0;     // of a microbatch
  bool one_microbatch = false;  // a replica takes all its samples at once
  int64_t devices = 0;     // 0: all of the pool
  int64_t interleave = 0;  // chunks of a stage, which shorten the bubble; 0: up to max_interleave
  int64_t max_interleave = 1;
  int recompute = -1;           // 1: activations of cells are computed again in backward; 0: kept
  bool whole_boundary = false;  // activations between cells are on every device of the tensor axis
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
};

struct MeshStage {
  int32_t first_cell = 0, end_cell = 0;
  double seconds = 0;  // of a microbatch, forward and backward
  double parameters = 0;
  double weight_bytes = 0;      // weights, gradients, optimizer state
  double activation_bytes = 0;  // of all microbatches under way at once
  double bytes() const { return weight_bytes + activation_bytes; }
};

// Seconds of a step on the devices of the stage that takes longest.
struct MeshBreakdown {
  double compute = 0;    // kernels of all microbatches
  double recompute = 0;  // of them, done again in backward
  double tensor = 0;     // collectives of the tensor axis
  double pipeline = 0;   // activations to and from neighbours
  double bubble = 0;     // waiting for the first microbatch to come, and after the last
  double data = 0;       // all-reduce of gradients
  double update = 0;     // the optimizer
  double step() const { return compute + tensor + pipeline + bubble + data + update; }
};

struct MeshPlan {
  Mesh mesh;  // pipeline, data, tensor; axes of one device are left out
  int64_t data = 1, tensor = 1, pipeline = 1;
  int64_t samples = 1, microbatches = 1, interleave = 1;
  bool recompute = false;
  bool small = false;     // weights are cut wherever possible, also where that takes longer
  AxisSharding boundary;  // of activations between cells, along the tensor axis
  std::vector<MeshStage> stages;
  MeshBreakdown seconds;
  double step_seconds = 0;
  double tensor_bytes = 0, data_bytes = 0, pipeline_bytes = 0;  // sent by a device, a step
  double peak_bytes = 0;                                        // of the fullest device
  double flops = 0;  // of the model, a step, without recomputation
};

struct MeshSearch {
  DevicePool pool;
  double memory_limit = 0;  // of a device
  PartitionModel model;
  std::vector<MeshPlan> plans;    // all that fit, fastest first; at least one
  std::vector<CellPlan> classes;  // of the fastest, by cell class
  int64_t num_considered = 0, num_without_room = 0;
};

// InfeasibleError when no mesh has room for the model: what the one that comes nearest lacks. The
// same for the same graph, machine and request, in every process.
absl::StatusOr<MeshSearch> SearchMeshes(const Graph& graph, const MachineSpec& machine,
                                        const PartitionRegime& regime, const MeshRequest& request);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_AUTO_MESH_H_
