#include "passes/parallel/auto_hints.h"

#include "ops/sharding.h"

namespace millrace {
namespace {

// Replicated but along one axis; one that was asked for is left alone.
void CutAlong(std::string_view axis, const AxisSharding& cut, ValueId value, Graph& graph) {
  const int index = graph.mesh.FindAxis(axis);
  if (index < 0 || cut.kind != AxisSharding::Kind::kShard) return;
  const auto [found, fresh] = graph.shardings.try_emplace(value);
  if (!fresh) return;
  found->second.axes.resize(graph.mesh.axes.size());
  found->second.axes[index] = cut;
}

}  // namespace

void ApplySearch(const MeshSearch& search, Graph& graph) {
  const MeshPlan& plan = search.plans[0];
  graph.mesh = plan.mesh;
  for (const ValueId input : graph.inputs) {
    const int32_t dim = search.model.batch_dim[input.index];
    if (dim >= 0) CutAlong("data", ShardDim(dim), input, graph);
  }
  for (const PartitionCell& cell : search.model.cells) {
    for (const ParamCut& cut : search.classes[cell.cell_class].params) {
      const ValueId param = graph.node(cell.nodes[cut.node]).inputs[cut.input];
      CutAlong("tensor", cut.sharding, param, graph);
    }
  }
}

}  // namespace millrace
