#include "tests/plan/plan_edit.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "graph/plan_json.h"
#include "graph/strings.h"

namespace millrace {
namespace {

[[noreturn]] void NotThere(std::string_view path) {
  std::fprintf(stderr, "the plan has no '%.*s'\n", static_cast<int>(path.size()), path.data());
  std::abort();
}

// "a/b/c" -> ("a", "b/c").
std::pair<std::string_view, std::string_view> SplitFirst(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return {path, ""};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

template <typename IdType, typename T>
IdType IdAt(const std::vector<T>& items, std::string_view name, std::string_view path) {
  for (size_t i = 0; i < items.size(); ++i) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (items[i] == name) return IdType(i);
    } else {
      if (items[i].name == name) return IdType(i);
    }
  }
  NotThere(path);
}

struct InstructionPlace {
  Segment* segment = nullptr;
  size_t index = 0;
};

InstructionPlace PlaceAt(PlanBundle& plan, std::string_view path) {
  const auto [program_name, rest] = SplitFirst(path);
  const auto [segment_name, prefix] = SplitFirst(rest);
  Program& program = ProgramAt(plan, program_name);
  Segment& segment = program.segments[IdAt<SegmentId>(program.segments, segment_name, path).index];
  for (size_t i = 0; i < segment.instructions.size(); ++i) {
    if (DescribeInstruction(plan, program, segment.instructions[i]).starts_with(prefix)) {
      return {&segment, i};
    }
  }
  NotThere(path);
}

}  // namespace

Program& ProgramAt(PlanBundle& plan, std::string_view name) {
  return plan.programs[IdAt<ProgramId>(plan.programs, name, name).index];
}

BufferId BufferIdAt(PlanBundle& plan, std::string_view path) {
  const auto [program, name] = SplitFirst(path);
  return IdAt<BufferId>(ProgramAt(plan, program).buffers, name, path);
}

PlanBuffer& BufferAt(PlanBundle& plan, std::string_view path) {
  return ProgramAt(plan, SplitFirst(path).first).buffers[BufferIdAt(plan, path).index];
}

StreamId StreamIdAt(PlanBundle& plan, std::string_view path) {
  const auto [program, name] = SplitFirst(path);
  return IdAt<StreamId>(ProgramAt(plan, program).streams, name, path);
}

EventId EventIdAt(PlanBundle& plan, std::string_view path) {
  const auto [program, name] = SplitFirst(path);
  return IdAt<EventId>(ProgramAt(plan, program).events, name, path);
}

SegmentId SegmentIdAt(PlanBundle& plan, std::string_view path) {
  const auto [program, name] = SplitFirst(path);
  return IdAt<SegmentId>(ProgramAt(plan, program).segments, name, path);
}

Segment& SegmentAt(PlanBundle& plan, std::string_view path) {
  return ProgramAt(plan, SplitFirst(path).first).segments[SegmentIdAt(plan, path).index];
}

SliceId SliceIdAt(PlanBundle& plan, std::string_view path) {
  const auto [program_name, slice_path] = SplitFirst(path);
  const size_t at = slice_path.find('@');
  const size_t hash = slice_path.find('#');
  int skip = 0;
  if (hash != std::string_view::npos) skip = slice_path[hash + 1] - '1';
  const std::string_view value = slice_path.substr(0, at);
  const std::string_view buffer = slice_path.substr(at + 1, hash - at - 1);
  const Program& program = ProgramAt(plan, program_name);
  const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
  for (size_t i = 0; i < program.slices.size(); ++i) {
    const Slice& s = program.slices[i];
    const std::string_view name =
        s.value.value.valid() ? std::string_view(graphs[s.value.graph]->value(s.value.value).name)
                              : std::string_view("scratch");
    if (name == value && program.buffers[s.buffer.index].name == buffer && skip-- == 0) {
      return SliceId(i);
    }
  }
  NotThere(path);
}

Slice& SliceAt(PlanBundle& plan, std::string_view path) {
  return ProgramAt(plan, SplitFirst(path).first).slices[SliceIdAt(plan, path).index];
}

SliceId AddSliceLike(PlanBundle& plan, std::string_view path, LinearExpr offset_bytes) {
  Program& program = ProgramAt(plan, SplitFirst(path).first);
  Slice slice = SliceAt(plan, path);
  slice.offset_bytes = std::move(offset_bytes);
  program.slices.push_back(std::move(slice));
  return SliceId(program.slices.size() - 1);
}

Instruction& InstructionAt(PlanBundle& plan, std::string_view path) {
  const InstructionPlace place = PlaceAt(plan, path);
  return place.segment->instructions[place.index];
}

void Erase(PlanBundle& plan, std::string_view path) {
  const InstructionPlace place = PlaceAt(plan, path);
  place.segment->instructions.erase(place.segment->instructions.begin() + place.index);
}

void InsertBefore(PlanBundle& plan, std::string_view path, Instruction instruction) {
  const InstructionPlace place = PlaceAt(plan, path);
  place.segment->instructions.insert(place.segment->instructions.begin() + place.index,
                                     std::move(instruction));
}

void InsertAfter(PlanBundle& plan, std::string_view path, Instruction instruction) {
  const InstructionPlace place = PlaceAt(plan, path);
  place.segment->instructions.insert(place.segment->instructions.begin() + place.index + 1,
                                     std::move(instruction));
}

void MoveBefore(PlanBundle& plan, std::string_view path, std::string_view to) {
  const Instruction instruction = InstructionAt(plan, path);
  Erase(plan, path);
  const auto [program, rest] = SplitFirst(path);
  InsertBefore(plan, StrCat(program, "/", SplitFirst(rest).first, "/", to), instruction);
}

void MoveAfter(PlanBundle& plan, std::string_view path, std::string_view to) {
  const Instruction instruction = InstructionAt(plan, path);
  Erase(plan, path);
  const auto [program, rest] = SplitFirst(path);
  InsertAfter(plan, StrCat(program, "/", SplitFirst(rest).first, "/", to), instruction);
}

EventId AddEvent(PlanBundle& plan, std::string_view program, std::string_view name) {
  std::vector<std::string>& events = ProgramAt(plan, program).events;
  events.emplace_back(name);
  return EventId(events.size() - 1);
}

void SetStep(PlanBundle& plan, std::string_view program, std::string_view schedule) {
  std::vector<ScheduleItem> items;
  for (const absl::string_view text : absl::StrSplit(AbslView(schedule), ", ")) {
    const std::pair<std::string, std::string> words = absl::StrSplit(text, ' ');
    ScheduleItem item;
    item.segment = SegmentIdAt(plan, StrCat(program, "/", words.first));
    MILLRACE_CHECK(absl::SimpleAtoi(words.second, &item.microbatch));
    items.push_back(item);
  }
  ProgramAt(plan, program).step = std::move(items);
}

LinearExpr SlotExpr(int64_t base, int64_t stride, int64_t modulus) {
  LinearExpr e(base);
  e.terms.push_back({.variable = kMicrobatchVar, .scale = stride, .modulus = modulus});
  return e;
}

}  // namespace millrace
