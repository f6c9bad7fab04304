// A target file: parsing returns; what parses saves to a fixed point.
#include <cstddef>
#include <cstdint>

#include "graph/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const auto target = SavedTarget::Parse({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!target.ok()) return 0;
  const std::string saved = target->ToJson();
  const auto again = SavedTarget::Parse(saved, "saved.json");
  MILLRACE_CHECK(again.ok() && again->ToJson() == saved);
  return 0;
}
