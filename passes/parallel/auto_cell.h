// One cell of a model on the devices of a tensor axis: how each node is best cut, and what one
// microbatch through it takes.
#ifndef MILLRACE_PASSES_PARALLEL_AUTO_CELL_H_
#define MILLRACE_PASSES_PARALLEL_AUTO_CELL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "passes/parallel/auto_cells.h"
#include "passes/parallel/axis_links.h"

namespace millrace {

// How a model is run, the same for all meshes.
struct PartitionRegime {
  bool training = true;       // forward, backward and Adam; otherwise forward only
  DType dtype = DType::kF32;  // what f32 activations and weights are kept and multiplied in
  // What kernels reach of the device's roofline. One number for all of them: calibrated on
  // published step times in bench/README.md.
  double efficiency = 0.64;
};

struct CellRequest {
  int64_t tensor = 1;       // devices of the tensor axis, next to each other
  int64_t samples = 1;      // of a microbatch
  AxisSharding boundary;    // of the activations at both ends of the cell, along the tensor axis
  double microbatches = 1;  // that share what is done once a step
  // Fewest bytes of weights a device rather than least time.
  bool small = false;
};

struct NodeCut {
  NodeId node;
  std::string note;  // of its sharding rule; empty: each device does all of it
  bool operator==(const NodeCut&) const = default;
};

// How the tensor axis cuts a param.
struct ParamCut {
  int32_t node = 0, input = 0;  // of the cell's nodes, and operand
  AxisSharding sharding;
};

struct CellPlan {
  // Seconds of one microbatch.
  double forward = 0, backward = 0;                // kernels
  double tensor_forward = 0, tensor_backward = 0;  // moving activations along the tensor axis
  // Bytes that a device sends for those, a microbatch.
  double tensor_bytes = 0;
  // Gradients of weights that are whole on every device of the tensor axis, which must be summed
  // over it where nodes that read them are cut: seconds and bytes a device sends, a step.
  double tensor_once = 0, tensor_once_bytes = 0;
  // Of one device.
  double parameters = 0;      // elements
  double saved_bytes = 0;     // kept from forward to backward, a microbatch
  double input_bytes = 0;     // of the activation that comes in, a microbatch
  double flops = 0;           // forward, a microbatch
  std::vector<NodeCut> cuts;  // of the cell's nodes, in order
  std::vector<ParamCut> params;
};

// InfeasibleError when no combination of sharding rules fits together.
absl::StatusOr<CellPlan> PlanCell(const Graph& graph, const PartitionModel& model,
                                  const PartitionCell& cell, const DevicePool& pool,
                                  const PartitionRegime& regime, const CellRequest& request);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_AUTO_CELL_H_
