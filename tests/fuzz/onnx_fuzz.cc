// An ONNX model: reading returns, and what is read is a graph that verifies and saves to a fixed
// point.
#include <cstddef>
#include <cstdint>

#include "graph/graph_json.h"
#include "graph/verify.h"
#include "ops/onnx/onnx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const auto graph = ParseOnnx({reinterpret_cast<const char*>(data), size},
                               "no-such-folder/fuzz.onnx", {.allow_open_symbols = true});
  MILLRACE_CHECK(graph.ok() || !absl::IsInternal(graph.status()));
  if (!graph.ok()) return 0;
  Diagnostics diagnostics;
  VerifyGraph(*graph, diagnostics);
  MILLRACE_CHECK(diagnostics.ok());
  const auto again = ParseGraphJson(GraphToJson(*graph), "saved.json");
  if (again.ok()) MILLRACE_CHECK(GraphToJson(*again) == GraphToJson(*graph));
  return 0;
}
