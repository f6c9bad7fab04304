// A graph file: whatever the bytes, loading returns; what loads is inferred, and saving is stable.
#include <cstddef>
#include <cstdint>

#include "graph/graph_json.h"
#include "ops/infer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  auto graph = ParseGraphJson({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!graph.ok()) return 0;
  const std::string saved = GraphToJson(*graph);
  const auto again = ParseGraphJson(saved, "saved.json");
  MILLRACE_CHECK(again.ok() && GraphToJson(*again) == saved);
  Diagnostics diagnostics;
  InferTypes(*graph, diagnostics);
  return 0;
}
