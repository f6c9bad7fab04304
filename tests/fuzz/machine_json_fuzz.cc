// A machine file: parsing returns; what parses saves to a fixed point.
#include <cstddef>
#include <cstdint>

#include "graph/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const auto machine = ParseMachine({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!machine.ok()) return 0;
  const std::string saved = MachineToJson(*machine);
  const auto again = ParseMachine(saved, "saved.json");
  MILLRACE_CHECK(again.ok() && MachineToJson(*again) == saved);
  ToText(*machine);
  return 0;
}
