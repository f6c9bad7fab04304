#include <type_traits>

#include "absl/functional/function_ref.h"
#include "passes/memory/coalesce.h"

namespace millrace {
namespace {

void ForEachSlice(InstructionBody& body, absl::FunctionRef<void(SliceId&)> visit) {
  const auto all = [&](std::vector<SliceId>& slices) {
    for (SliceId& slice : slices) visit(slice);
  };
  std::visit(
      [&](auto& i) {
        using T = std::decay_t<decltype(i)>;
        if constexpr (std::is_same_v<T, Copy>) {
          visit(i.from);
          visit(i.to);
        } else if constexpr (std::is_same_v<T, Send> || std::is_same_v<T, Publish>) {
          visit(i.from);
        } else if constexpr (std::is_same_v<T, Recv> || std::is_same_v<T, TakeLatest>) {
          visit(i.to);
        } else if constexpr (!std::is_same_v<T, Record> && !std::is_same_v<T, Wait>) {
          all(i.inputs);
          all(i.outputs);
          if constexpr (std::is_same_v<T, Launch> || std::is_same_v<T, Collective>) {
            visit(i.scratch);
          }
          if constexpr (std::is_same_v<T, Call>) {
            for (CallBody& b : i.bodies) {
              all(b.inputs);
              all(b.outputs);
            }
          }
        }
      },
      body);
}

void ForEachSlice(Program& program, absl::FunctionRef<void(SliceId&)> visit) {
  for (auto* bindings : {&program.loads, &program.inputs, &program.outputs}) {
    for (Binding& binding : *bindings) visit(binding.slice);
  }
  for (Segment& segment : program.segments) {
    for (Instruction& instruction : segment.instructions) ForEachSlice(instruction.body, visit);
  }
}

}  // namespace

void DropUnusedSlices(Program& program, std::vector<SlicePlace>& places) {
  std::vector<SliceId> renumbered(program.slices.size());
  ForEachSlice(program, [&](SliceId& slice) {
    if (slice.valid()) renumbered[slice.index] = slice;
  });
  int32_t count = 0;
  for (size_t s = 0; s < renumbered.size(); ++s) {
    if (!renumbered[s].valid()) continue;
    renumbered[s] = SliceId(count);
    if (static_cast<size_t>(count) != s) {
      program.slices[count] = std::move(program.slices[s]);
      places[count] = places[s];
    }
    ++count;
  }
  program.slices.resize(count);
  places.resize(count);
  ForEachSlice(program, [&](SliceId& slice) {
    if (slice.valid()) slice = renumbered[slice.index];
  });
}

}  // namespace millrace
