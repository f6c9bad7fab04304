// A cost table: parsing returns; what parses saves to a fixed point.
#include <cstddef>
#include <cstdint>

#include "graph/assert.h"
#include "graph/cost_table.h"
#include "graph/query_key.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const auto table = ParseCostTable({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!table.ok()) return 0;
  const std::string saved = CostTableToJson(*table);
  const auto again = ParseCostTable(saved, "saved.json");
  MILLRACE_CHECK(again.ok() && CostTableToJson(*again) == saved);
  for (const auto& [name, device] : table->devices) {
    for (const auto& [key, kernel] : device.kernels) DTypesOfQueryKey(key.query);
  }
  return 0;
}
