// Random graphs, optimized and run on cpu:0, give what they mean (tools/differential.h: to the last
// bit where nothing reassociates). A graph that does not is reduced and kept.
//
//   MILLRACE_RANDOM_GRAPHS=100000    so many instead of a slice
//   MILLRACE_RANDOM_SEED=7           from this seed on; the seed of a failure makes its graph again
#include "tools/differential.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "graph/graph_json.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "tests/random_graph/random_graph.h"
#include "tools/reduce_graph.h"
#include "tools/run_graph.h"

namespace millrace {
namespace {

constexpr int64_t kSlice = 2000;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

std::string MismatchOf(const RandomGraph& random) {
  return CompareWithMeaning(random.graph, random.inputs, RunGraph(random.graph, random.inputs));
}

// The smallest graph that still disagrees, as text, and where it was written.
std::string Reduced(const RandomGraph& random, uint64_t seed) {
  const auto still = [&](const Graph& candidate) -> absl::StatusOr<bool> {
    return !FindMismatch(candidate, random.inputs).empty();
  };
  const absl::StatusOr<Graph> small = ReduceGraph(random.graph, still);
  if (!small.ok())
    return StrCat(ToText(random.graph), "\nnot reduced: ", small.status().ToString());
  const std::string path = StrCat(testing::TempDir(), "/random_graph_", seed, ".json");
  return StrCat(ToText(*small), SaveGraph(*small, path).ok() ? StrCat("in ", path) : "");
}

TEST(RandomGraphs, RunAsTheyMean) {
  const int64_t first = FromEnvironment("MILLRACE_RANDOM_SEED", 1);
  const int64_t count = FromEnvironment("MILLRACE_RANDOM_GRAPHS", kSlice);
  int64_t exact = 0, compared = 0;
  for (int64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    const RandomGraph random = MakeRandomGraph(static_cast<uint64_t>(seed));
    const std::string mismatch = MismatchOf(random);
    EXPECT_EQ(mismatch, "") << "seed " << seed << ":\n" << Reduced(random, seed);
    const std::vector<bool> differs = MayDiffer(random.graph);
    for (const ValueId id : random.graph.outputs) exact += !differs[id.index];
    compared += static_cast<int64_t>(random.graph.outputs.size());
  }
  std::cout << compared << " outputs compared, " << exact << " of them bit for bit\n";
}

TEST(RandomGraphs, AreTheSameForTheSameSeed) {
  EXPECT_EQ(ToText(MakeRandomGraph(5).graph), ToText(MakeRandomGraph(5).graph));
  EXPECT_NE(ToText(MakeRandomGraph(5).graph), ToText(MakeRandomGraph(6).graph));
}

TEST(RandomGraphs, HaveEveryOpOfTierOneAndEveryElementType) {
  std::set<std::string> missing, unused;
  for (const std::string& op : RandomGraphOps()) missing.insert(op);
  for (int d = 0; d < kNumDTypes; ++d) unused.emplace(DTypeName(static_cast<DType>(d)));
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    const Graph graph = MakeRandomGraph(seed).graph;
    for (const Node& node : graph.nodes) missing.erase(node.op);
    for (const Value& value : graph.values) unused.erase(std::string(DTypeName(value.type.dtype)));
  }
  EXPECT_EQ(missing, std::set<std::string>());
  EXPECT_EQ(unused, std::set<std::string>());
}

// An op that computes something else is noticed, and one node shows it.
TEST(RandomGraphs, AFaultIsFoundAndReducedToOneNode) {
  for (uint64_t seed = 1; seed < 100; ++seed) {
    const RandomGraph random = MakeRandomGraph(seed, 20);
    // "Compiles" Neg wrongly.
    const auto wrong = [&](const Graph& graph) -> absl::StatusOr<bool> {
      Graph broken = graph;
      for (Node& node : broken.nodes) {
        if (node.op == "Neg") node.op = "Abs";
      }
      const auto inputs = InputsFor(graph, random.inputs, 1);
      return !CompareWithMeaning(graph, inputs, RunGraph(broken, inputs)).empty();
    };
    if (!wrong(random.graph).value()) continue;  // nothing reads one
    const absl::StatusOr<Graph> small = ReduceGraph(random.graph, wrong);
    ASSERT_TRUE(small.ok()) << small.status();
    ASSERT_EQ(small->nodes.size(), 1u) << ToText(*small);
    EXPECT_EQ(small->nodes[0].op, "Neg") << ToText(*small);
    return;
  }
  FAIL() << "no graph had a Neg";
}

}  // namespace
}  // namespace millrace
