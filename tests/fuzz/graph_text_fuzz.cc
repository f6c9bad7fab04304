// The text form: parsing returns, and what parses prints to a fixed point.
#include <cstddef>
#include <cstdint>

#include "graph/text.h"
#include "graph/verify.h"
#include "ops/infer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  auto graph = ParseGraphText({reinterpret_cast<const char*>(data), size});
  if (!graph.ok()) return 0;
  const std::string text = ToText(*graph);
  const auto again = ParseGraphText(text);
  MILLRACE_CHECK(again.ok() && ToText(*again) == text);
  Diagnostics diagnostics;
  VerifyGraph(*graph, diagnostics);
  if (diagnostics.ok()) InferTypes(*graph, diagnostics);
  return 0;
}
