#include "graph/plan.h"

#include <limits>

namespace millrace {

std::string_view MemorySpaceName(MemorySpace space) {
  constexpr std::string_view kNames[] = {"device", "host", "file"};
  return kNames[static_cast<int>(space)];
}

std::string_view StreamKindName(StreamKind kind) {
  constexpr std::string_view kNames[] = {"compute", "copy", "comm"};
  return kNames[static_cast<int>(kind)];
}

std::string_view SectionName(Section section) {
  constexpr std::string_view kNames[] = {"init", "step", "finish"};
  return kNames[static_cast<int>(section)];
}

std::string_view InstructionKindName(const InstructionBody& body) {
  constexpr std::string_view kNames[] = {"Launch",   "Copy",    "Collective", "Send",
                                         "Recv",     "Record",  "Wait",       "Call",
                                         "HostCall", "Publish", "TakeLatest"};
  static_assert(std::size(kNames) == std::variant_size_v<InstructionBody>);
  return kNames[body.index()];
}

int64_t DeviceBytes(const Program& program) {
  int64_t total = 0;
  for (const PlanBuffer& buffer : program.buffers) {
    if (buffer.space != MemorySpace::kDevice) continue;
    if (__builtin_add_overflow(total, buffer.size_bytes, &total)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return total;
}

int64_t CountInstructions(const Program& program, Section section) {
  int64_t count = 0;
  for (const ScheduleItem& item : program.schedule(section)) {
    count += static_cast<int64_t>(program.segments[item.segment.index].instructions.size());
  }
  return count;
}

}  // namespace millrace
