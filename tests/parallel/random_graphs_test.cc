// Random graphs with random inputs cut over random meshes: what they compute is what they mean.
#include <random>

#include "graph/strings.h"
#include "gtest/gtest.h"
#include "tests/parallel/run_sharded.h"
#include "tests/random_graph/random_graph.h"
#include "tools/differential.h"

namespace millrace {
namespace {

constexpr uint64_t kSeeds = 400;

// Each input along a random dim (or none) of each axis, where that cuts it evenly.
std::vector<std::string> RandomHints(const Graph& graph, const Mesh& mesh, std::mt19937& random) {
  std::vector<std::string> hints;
  for (const ValueId id : graph.inputs) {
    Shape shape = graph.value(id).type.shape;
    std::string sharding;
    for (const MeshAxis& axis : mesh.axes) {
      if (shape.rank() == 0) continue;
      const int dim = static_cast<int>(random() % shape.rank());
      if (shape[dim] == 0 || shape[dim] % axis.size != 0) continue;
      shape[dim] /= axis.size;
      StrAppend(&sharding, sharding.empty() ? "" : ",", axis.name, ":", dim);
    }
    if (!sharding.empty()) hints.push_back(StrCat(graph.value(id).name, "=", sharding));
  }
  return hints;
}

TEST(SpreadRandomGraphs, MeanWhatTheyMeant) {
  int spread = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RandomGraph random_graph = MakeRandomGraph(seed);
    std::mt19937 random(static_cast<uint32_t>(seed));
    constexpr std::string_view kMeshes[] = {"a=2", "a=3", "a=2,b=2", "a=2,b=3"};
    PlanningOptions options;
    options.mesh = kMeshes[random() % std::size(kMeshes)];
    options.shards = RandomHints(random_graph.graph, *ParseMesh(options.mesh), random);
    options.threads = 1;
    if (options.shards.empty()) continue;
    ++spread;
    SCOPED_TRACE(StrCat("seed ", seed, ", mesh ", options.mesh));
    const auto inputs = InputsFor(random_graph.graph, random_graph.inputs, seed);
    const auto run = RunSharded(random_graph.graph, inputs, options);
    // Where an index is out of range, both have to refuse.
    absl::StatusOr<std::vector<Tensor>> outputs = std::vector<Tensor>();
    if (!run.ok()) outputs = run.status();
    for (const ValueId id : random_graph.graph.outputs) {
      if (run.ok()) outputs->push_back(run->outputs.at(random_graph.graph.value(id).name));
    }
    EXPECT_EQ(CompareWithMeaning(random_graph.graph, inputs, outputs), "");
  }
  EXPECT_GT(spread, static_cast<int>(kSeeds) / 3);
}

}  // namespace
}  // namespace millrace
