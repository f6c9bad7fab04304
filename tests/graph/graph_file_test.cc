// Graph files on disk, with their weights beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "graph/builder.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class GraphFileTest : public ::testing::Test {
 protected:
  GraphFileTest() { std::filesystem::create_directory(Path("other")); }

  std::string Path(std::string_view name) const { return folder_.File(name); }

  static Tensor Counting(int64_t n) {
    Tensor t = Tensor::Zeros({DType::kF32, {n}});
    for (int64_t i = 0; i < n; ++i) t.Set(i, static_cast<double>(i));
    return t;
  }

  // A large and a small constant, and a nested graph with a large one of the same name.
  static Graph LargeAndSmall() {
    GraphBuilder inner;
    inner.Output(inner.Constant("large", Counting(3000)));
    GraphBuilder b("g");
    const ValueId large = b.Constant("large", Counting(2000));
    b.Output(b.Op("Add", {large, b.Constant("small", Counting(3))}));
    b.AddNode("If", {large}, {}, "if")
        .subgraphs.push_back({"then_branch", std::move(inner).Build()});
    return std::move(b).Build();
  }

  static void ExpectData(const Graph& graph) {
    WeightStore store(graph);
    for (const auto& [i, size] : {std::pair(0, 2000), std::pair(1, 3)}) {
      const absl::StatusOr<Tensor> tensor = store.Get(graph.constants[i]);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      EXPECT_TRUE(BitEqual(*tensor, Counting(size)));
    }
    const Graph& inner = graph.nodes[1].subgraphs[0].graph;
    WeightStore inner_store(inner);
    const absl::StatusOr<Tensor> tensor = inner_store.Get(inner.constants[0]);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_TRUE(BitEqual(*tensor, Counting(3000)));
  }

  const TemporaryFolder folder_;
};

TEST_F(GraphFileTest, LargeDataGoToAFileBesideTheGraph) {
  ASSERT_TRUE(SaveGraph(LargeAndSmall(), Path("m.json")).ok());
  const absl::StatusOr<Graph> graph = LoadGraph(Path("m.json"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->data_of(graph->constants[0]).kind, DataSource::Kind::kFile);
  EXPECT_EQ(graph->data_of(graph->constants[1]).kind, DataSource::Kind::kInline);
  EXPECT_EQ(graph->weight_files[0].path, "m.safetensors");
  ExpectData(*graph);
}

TEST_F(GraphFileTest, SavingBackOverItselfKeepsTheWeights) {
  ASSERT_TRUE(SaveGraph(LargeAndSmall(), Path("m.json")).ok());
  const std::string before = *ReadFile(Path("m.json"));
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<Graph> graph = LoadGraph(Path("m.json"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    ASSERT_TRUE(SaveGraph(*graph, Path("m.json")).ok());
    ExpectData(*graph);  // still mapped from the file that was replaced
  }
  EXPECT_EQ(*ReadFile(Path("m.json")), before);
  ExpectData(*LoadGraph(Path("m.json")));
}

TEST_F(GraphFileTest, BesideItsOldFileAGraphSharesTheWeights) {
  ASSERT_TRUE(SaveGraph(LargeAndSmall(), Path("m.json")).ok());
  ASSERT_TRUE(SaveGraph(*LoadGraph(Path("m.json")), Path("n.json")).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("n.safetensors")));
  ExpectData(*LoadGraph(Path("n.json")));
}

TEST_F(GraphFileTest, InAnotherFolderItTakesTheWeightsAlong) {
  ASSERT_TRUE(SaveGraph(LargeAndSmall(), Path("m.json")).ok());
  ASSERT_TRUE(SaveGraph(*LoadGraph(Path("m.json")), Path("other/m.json")).ok());
  std::filesystem::remove(Path("m.safetensors"));
  ExpectData(*LoadGraph(Path("other/m.json")));
}

TEST_F(GraphFileTest, AMissingFileIsAnInputError) {
  const absl::StatusOr<Graph> graph = LoadGraph(Path("gone.json"));
  EXPECT_EQ(ExitCode(graph.status()), 3);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("gone.json': No such file"));
}

}  // namespace
}  // namespace millrace
