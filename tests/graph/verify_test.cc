#include "graph/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph/builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// x, param w; h = MatMul(x, w), y = Relu(h); output y, update w <- u.
Graph Good() {
  GraphBuilder b("good");
  const TensorType type{DType::kF32, Shape{2, 2}};
  const ValueId x = b.Input("x", type);
  const ValueId w = b.Param("w", type, InitData(Init{}));
  const ValueId k = b.Constant("k", Tensor::Zeros(type));
  const ValueId h = b.Op("MatMul", {x, w}, {}, "h");
  const ValueId y = b.Op("Relu", {h}, {}, "y");
  const ValueId u = b.Op("Add", {w, k}, {}, "u");
  for (ValueId v : {h, y, u}) {
    b.graph().value(v).type = type;
    b.graph().value(v).typed = true;
  }
  b.Output(y);
  b.AddUpdate(w, u);
  return std::move(b).Build();
}

std::string Findings(const Graph& graph) {
  Diagnostics diagnostics;
  VerifyGraph(graph, diagnostics);
  return std::string(diagnostics.ToStatus().message());
}

TEST(VerifyGraph, AcceptsAGoodGraph) { EXPECT_EQ(Findings(Good()), ""); }

struct Break {
  const char* finding;
  std::function<void(Graph&)> apply;
};

TEST(VerifyGraph, FindsEachBreak) {
  const ValueId x(0), w(1), h(3), y(4), u(5);
  const Break kBreaks[] = {
      {"an input id is out of range", [](Graph& g) { g.nodes[0].inputs[0] = ValueId(99); }},
      {"an output id is out of range", [](Graph& g) { g.nodes[0].outputs[0] = ValueId(99); }},
      {"a graph input, param", [](Graph& g) { g.outputs[0] = ValueId(); }},
      {"an update's id is out of range", [](Graph& g) { g.updates[0].value = ValueId(99); }},
      {"value 'y': nothing produces it", [=](Graph& g) { g.value(y).producer = NodeId(); }},
      {"value 'h': the name is used twice", [=](Graph& g) { g.value(y).name = "h"; }},
      {"has no name", [=](Graph& g) { g.value(y).name = ""; }},
      {"is not a possible size", [=](Graph& g) { g.value(y).type.shape = Shape{-1}; }},
      {"value 'x': has no type", [=](Graph& g) { g.value(x).typed = false; }},
      {"is missing from the list of its kind", [](Graph& g) { g.inputs.clear(); }},
      {"does not belong in params", [=](Graph& g) { g.params.push_back(x); }},
      {"is listed twice in inputs", [=](Graph& g) { g.inputs.push_back(x); }},
      {"does not give it back as its output", [=](Graph& g) { g.value(y).result_index = 1; }},
      {"its output 'y' is not its to produce", [=](Graph& g) { g.value(y).producer = NodeId(0); }},
      {"only params and constants have data", [=](Graph& g) { g.value(x).data = 0; }},
      {"has no data", [=](Graph& g) { g.value(w).data = 7; }},
      {"has data of type f32[1]",
       [](Graph& g) {
         g.data[1].tensor = Tensor::Zeros({DType::kF32, Shape{1}});
       }},
      {"the graph has no weight file 'w'",
       [](Graph& g) {
         g.data[0].kind = DataSource::Kind::kFile;
         g.data[0].file = "w";
       }},
      {"its splat is not one element", [](Graph& g) { g.data[1].kind = DataSource::Kind::kSplat; }},
      {"reads 'y' before node 'y' makes it", [=](Graph& g) { g.nodes[0].inputs[0] = y; }},
      {"node 'h': the name is used twice", [](Graph& g) { g.nodes[1].name = "h"; }},
      {"node 'y': has no op", [](Graph& g) { g.nodes[1].op = ""; }},
      {"runs `after` a node", [](Graph& g) { g.nodes[1].after.push_back(NodeId(1)); }},
      {"is updated, but is no param", [=](Graph& g) { g.updates[0].param = x; }},
      {"is updated twice",
       [=](Graph& g) {
         g.updates.push_back({w, u});
       }},
      {"of type f32[2,2] is updated with 'h' of type f32[4]",
       [=](Graph& g) {
         g.value(h).type.shape = Shape{4};
         g.updates[0].value = h;
       }},
      {"is listed twice in outputs", [=](Graph& g) { g.outputs.push_back(y); }},
      {"one entry per mesh axis", [=](Graph& g) { g.shardings[y].axes.resize(1); }},
      {"is sharded along dim 2, but has rank 2",
       [=](Graph& g) {
         g.mesh.axes.push_back({"data", 2});
         g.shardings[y].axes.push_back({AxisSharding::Kind::kShard, 2});
       }},
      {"has params of its own",
       [](Graph& g) {
         g.nodes[0].subgraphs.push_back({"body", Good()});
       }},
  };
  for (const Break& b : kBreaks) {
    Graph graph = Good();
    b.apply(graph);
    EXPECT_THAT(Findings(graph), HasSubstr(b.finding));
  }
}

TEST(VerifyGraph, LooksIntoNestedGraphs) {
  Graph graph = Good();
  GraphBuilder body("body");
  body.Output(body.Op("Relu", {body.Input("a", {DType::kF32, Shape{}})}));
  graph.nodes[1].subgraphs.push_back({"then_branch", std::move(body).Build()});
  EXPECT_EQ(Findings(graph), "");
  graph.nodes[1].subgraphs[0].graph.outputs[0] = ValueId(17);
  EXPECT_THAT(Findings(graph), HasSubstr("out of range"));
}

TEST(VerifyGraphAfter, BlamesThePass) {
  Graph graph = Good();
  graph.nodes[1].name = "h";
  const absl::Status status = VerifyGraphAfter(graph, "my-pass");
  EXPECT_EQ(ExitCode(status), 70);
  EXPECT_THAT(status.message(), HasSubstr("pass 'my-pass' broke the graph"));
}

}  // namespace
}  // namespace millrace
