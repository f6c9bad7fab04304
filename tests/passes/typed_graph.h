// Graphs for tests, written as text.
#ifndef MILLRACE_TESTS_PASSES_TYPED_GRAPH_H_
#define MILLRACE_TESTS_PASSES_TYPED_GRAPH_H_

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "graph/text.h"
#include "ops/infer.h"

namespace millrace {

// Parsed and inferred, which must succeed.
inline Graph TypedGraph(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const absl::Status status = InferTypes(*graph);
  EXPECT_TRUE(status.ok()) << status;
  return *std::move(graph);
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_PASSES_TYPED_GRAPH_H_
