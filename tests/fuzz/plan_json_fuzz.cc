// A plan file: loading returns; what loads saves to a fixed point, prints, and is checked.
#include <cstddef>
#include <cstdint>

#include "graph/check/check.h"
#include "graph/plan_json.h"
#include "ops/op_def.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const auto plan = ParsePlanJson({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!plan.ok()) return 0;
  const std::string saved = PlanToJson(*plan);
  const auto again = ParsePlanJson(saved, "saved.json");
  MILLRACE_CHECK(again.ok() && PlanToJson(*again) == saved);
  ToText(*plan);
  FormatReport(CheckPlan(*plan, AllOpTraits(), nullptr));
  return 0;
}
