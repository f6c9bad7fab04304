#include "tests/parallel/perceptron.h"

#include <utility>

#include "graph/assert.h"
#include "graph/builder.h"
#include "ops/infer.h"

namespace millrace {

Graph PerceptronGraph() {
  GraphBuilder b("perceptron");
  const auto weights = [&](std::string_view name, Shape shape, uint64_t seed) {
    return b.Param(name, {DType::kF32, shape},
                   InitData({.kind = InitKind::kNormal, .seed = seed, .std = 0.3}));
  };
  const ValueId x = b.Input("x", {DType::kF32, {12, 12}});
  const ValueId w1 = weights("w1", {12, 16}, 1), b1 = weights("b1", {16}, 2);
  const ValueId w2 = weights("w2", {16, 4}, 3), b2 = weights("b2", {4}, 4);
  const ValueId h = b.Op("Relu", {b.Op("Add", {b.Op("MatMul", {x, w1}), b1})});
  b.Output(b.Op("Add", {b.Op("MatMul", {h, w2}), b2}, {}, "scores"));
  Graph graph = std::move(b).Build();
  MILLRACE_CHECK(InferTypes(graph).ok());
  return graph;
}

TrainingGraph TrainedPerceptron() {
  TrainingSpec spec;
  spec.loss.kind = *ParseLossKind("softmax-cross-entropy");
  spec.optimizer.kind = *ParseOptimizerKind("adam");
  spec.rate.rate = 0.05;
  auto trained = BuildTrainingGraph(PerceptronGraph(), spec);
  MILLRACE_CHECK(trained.ok());
  return *std::move(trained);
}

}  // namespace millrace
