#include "bench/models/tower.h"

#include "graph/builder.h"
#include "ops/infer.h"

namespace millrace {
namespace {

Graph Inferred(GraphBuilder builder) {
  Graph graph = std::move(builder).Build();
  MILLRACE_CHECK(InferTypes(graph).ok());
  return graph;
}

}  // namespace

Graph TowerGraph(int64_t num_nodes, int64_t width) {
  GraphBuilder b("tower");
  const TensorType type{DType::kF32, Shape{width}};
  ValueId x = b.Input("x", type);
  const ValueId scale = b.Param("scale", type, InitData({InitKind::kUniform, 1, 0.5, 1.5, 1}));
  const ValueId shift = b.Param("shift", type, InitData({InitKind::kUniform, 2, -0.1, 0.1, 1}));
  for (int64_t block = 0; block < num_nodes / 10; ++block) {
    const ValueId scaled = b.Op("Mul", {x, scale});
    const ValueId shifted = b.Op("Add", {scaled, shift});
    const ValueId query = b.Op("Tanh", {shifted});
    const ValueId key = b.Op("Sigmoid", {shifted});
    const ValueId value = b.Op("Relu", {shifted});
    const ValueId scores = b.Op("Mul", {query, key});
    const ValueId mixed = b.Op("Mul", {scores, value});
    const ValueId projected = b.Op("Mul", {mixed, scale});
    const ValueId centred = b.Op("Sub", {projected, shift});
    x = b.Op("Add", {centred, x});
  }
  b.Output(x);
  return Inferred(std::move(b));
}

Graph ChainGraph(int64_t num_nodes, int64_t width) {
  GraphBuilder b("chain");
  ValueId x = b.Input("x", {DType::kF32, Shape{width}});
  for (int64_t i = 0; i < num_nodes; ++i) x = b.Op("Relu", {x});
  b.Output(x);
  return Inferred(std::move(b));
}

}  // namespace millrace
