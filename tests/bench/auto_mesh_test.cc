// Automatic partition of models of the zoo, by prediction.
#include "passes/parallel/auto_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/models/model.h"
#include "graph/machine.h"
#include "ops/sharding.h"
#include "passes/parallel/auto_cell.h"
#include "passes/parallel/auto_cells.h"
#include "passes/parallel/axis_links.h"
#include "tools/auto_page.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Graph BuildZooModel(std::string_view name, const std::vector<std::string>& sets) {
  const Model* model = *FindModel(name);
  return model->build(*ParseModelSettings(*model, sets));
}

MachineSpec Pod() { return *LoadMachine(MILLRACE_SOURCE_DIR "/tools/machines/dgx-a100-pod.json"); }

constexpr PartitionRegime kMixed = {.dtype = DType::kBF16};

TEST(AutoMeshTest, LayersOfAModelAreTwoClassesOfCells) {
  const Graph graph = BuildZooModel("gpt", {"batch=8", "layers=12"});
  const absl::StatusOr<PartitionModel> model = FindCells(graph);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->batch, 8);
  EXPECT_GE(model->cells.size(), 24);
  EXPECT_LE(model->class_example.size(), 10);
}

// Elements that a device sends for the cells of one decoder layer and one microbatch.
double TensorElements(int64_t tensor, AxisSharding boundary) {
  const MachineSpec pod = Pod();
  const Graph graph =
      BuildZooModel("gpt", {"batch=4", "parameters=1.7b", "tokens=1024", "layers=4"});
  const PartitionModel model = *FindCells(graph);
  const DevicePool pool = *LargestPool(pod);
  double bytes = 0;
  for (const PartitionCell& cell : model.cells) {
    if (graph.node(cell.nodes[0]).name.find("layer2/") == std::string::npos) continue;
    const absl::StatusOr<CellPlan> plan = PlanCell(
        graph, model, cell, pool, kMixed, {.tensor = tensor, .samples = 2, .boundary = boundary});
    EXPECT_TRUE(plan.ok());
    bytes += plan->tensor_bytes;
  }
  return bytes / 2;
}

TEST(AutoMeshTest, TensorParallelLayersSendNoMoreThanMegatron) {
  const double activation = 2.0 * 1024 * 2304;  // samples, tokens, width
  for (const int64_t tensor : {2, 4, 8}) {
    const double t = static_cast<double>(tensor);
    EXPECT_DOUBLE_EQ(TensorElements(tensor, Replicate()), 8 * activation * (t - 1) / t);
    // The same bytes with activations cut along tokens between the branches.
    EXPECT_DOUBLE_EQ(TensorElements(tensor, ShardDim(1)), 8 * activation * (t - 1) / t);
  }
}

TEST(AutoMeshTest, BubblesAreWhatTheScheduleSays) {
  const Graph graph = BuildZooModel("gpt", {"batch=64", "parameters=1.7b", "layers=16"});
  const MachineSpec pod = Pod();
  for (const int64_t stages : {2, 4, 8}) {
    const absl::StatusOr<MeshSearch> search = SearchMeshes(graph, pod, kMixed,
                                                           {.data = 1,
                                                            .tensor = 1,
                                                            .pipeline = stages,
                                                            .samples = 1,
                                                            .devices = stages,
                                                            .recompute = 0});
    ASSERT_TRUE(search.ok()) << search.status().message();
    const MeshPlan& plan = search->plans[0];
    const double busy = plan.seconds.compute + plan.seconds.tensor + plan.seconds.pipeline;
    EXPECT_NEAR(plan.seconds.bubble / busy, static_cast<double>(stages - 1) / 64.0, 1e-9);
    // No stage is longer than the rest by more than a cell.
    EXPECT_EQ(plan.stages.size(), stages);
    EXPECT_EQ(plan.stages.back().end_cell, search->model.cells.size());
  }
}

TEST(AutoMeshTest, WhatIsFixedStaysFixed) {
  const Graph graph = BuildZooModel("gpt", {"batch=64", "parameters=1.7b"});
  const absl::StatusOr<MeshSearch> search =
      SearchMeshes(graph, Pod(), kMixed, {.tensor = 4, .pipeline = 2, .samples = 2, .devices = 32});
  ASSERT_TRUE(search.ok()) << search.status().message();
  for (const MeshPlan& plan : search->plans) {
    EXPECT_EQ(plan.tensor, 4);
    EXPECT_EQ(plan.pipeline, 2);
    EXPECT_EQ(plan.data, 4);
    EXPECT_EQ(plan.samples, 2);
    EXPECT_EQ(plan.microbatches, 8);
  }
}

TEST(AutoMeshTest, MemoryMakesItCutOrRecompute) {
  const Graph graph =
      BuildZooModel("gpt", {"batch=64", "parameters=7.5b", "tokens=2048", "vocabulary=50000"});
  MachineSpec pod = Pod();
  const auto free = SearchMeshes(graph, pod, kMixed, {.devices = 16});
  ASSERT_TRUE(free.ok());
  pod.devices[0].memory_bytes = int64_t{16} << 30;
  const auto tight = SearchMeshes(graph, pod, kMixed, {.devices = 16});
  ASSERT_TRUE(tight.ok()) << tight.status().message();
  EXPECT_LE(tight->plans[0].peak_bytes, static_cast<double>(int64_t{16} << 30));
  EXPECT_GT(tight->plans[0].step_seconds, free->plans[0].step_seconds);
}

TEST(AutoMeshTest, SaysWhatIsMissingWhereNothingFits) {
  const Graph graph = BuildZooModel("gpt", {"batch=8", "parameters=175b"});
  const auto search = SearchMeshes(graph, Pod(), kMixed, {.devices = 8});
  EXPECT_EQ(ExitCode(search.status()), 4);
  EXPECT_THAT(std::string(search.status().message()), HasSubstr("are missing"));
}

TEST(AutoMeshTest, ModelsWhoseSamplesCannotBeToldApartHaveNoDataAxis) {
  const Graph graph = BuildZooModel("mixture-of-experts", {"batch=4", "layers=1"});
  const auto search = SearchMeshes(graph, Pod(), {}, {.devices = 4});
  ASSERT_TRUE(search.ok()) << search.status().message();
  EXPECT_THAT(search->model.whole_batch_because, HasSubstr("cannot be cut by samples"));
  for (const MeshPlan& plan : search->plans) EXPECT_EQ(plan.data, 1);
}

TEST(AutoMeshTest, TheSameAskGivesTheSamePage) {
  const Graph graph = BuildZooModel("gpt", {"batch=256", "parameters=18b", "tokens=2048"});
  const MachineSpec pod = Pod();
  const MeshRequest request = {.devices = 64};
  const auto page = [&] {
    const auto search = SearchMeshes(graph, pod, kMixed, request);
    return search.ok() ? AutoPage(graph, pod, kMixed, request, *search) : std::string("nothing");
  };
  const std::string first = page();
  EXPECT_EQ(first, page());
  EXPECT_THAT(first, HasSubstr("a prediction"));
  EXPECT_THAT(first, HasSubstr("loses by"));
  EXPECT_THAT(first, Not(HasSubstr("nothing fits")));
}

TEST(AutoMeshTest, AxesLeaveTheNodeOnlyWhereTheyMust) {
  const MachineSpec machine = Pod();
  const DevicePool pool = *LargestPool(machine);
  const double bytes = 1e9;
  const double within = AxisCollectiveSeconds(pool, {8, 1}, CommKind::kAllReduce, bytes);
  const double between = AxisCollectiveSeconds(pool, {8, 8}, CommKind::kAllReduce, bytes);
  // Ring over NVLink at 300 GB/s; over a node's 200 GB/s, which its eight devices share.
  EXPECT_NEAR(within, 2 * 7.0 / 8 * bytes / 300e9, 1e-4);
  EXPECT_NEAR(between, 2 * 7.0 / 8 * bytes / 25e9, 1e-3);
}

}  // namespace
}  // namespace millrace
