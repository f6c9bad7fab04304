// fuse-programs where sizes matter: hubs that many read.
#include <gtest/gtest.h>

#include <chrono>

#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/infer.h"
#include "passes/analytic_target.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

// A value that `readers` products and as many elementwise nodes read.
Graph HubGraph(int readers) {
  GraphBuilder b("hub");
  const ValueId x = b.Input("x", {DType::kF32, {4, 4}});
  const ValueId hub = b.Op("Tanh", {x});
  for (int i = 0; i < readers; ++i) {
    const ValueId product = b.Op("MatMul", {hub, x});
    b.Output(b.Op("Add", {hub, product}));
  }
  return std::move(b).Build();
}

double SecondsFor(int readers) {
  Graph graph = HubGraph(readers);
  EXPECT_TRUE(InferTypes(graph).ok());
  const AnalyticTarget target("cpu");
  PassContext context;
  context.target = &target;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(FusePrograms(graph, context).ok());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(FusePrograms, AHubOfManyReadersTakesNoQuadraticTime) {
  const double few = SecondsFor(2000), many = SecondsFor(16000);
  EXPECT_LT(many, 8 * 4 * few + 0.1);  // quadratic: 64 times
}

}  // namespace
}  // namespace millrace
