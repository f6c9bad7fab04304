// The readable form of a plan. Nothing here trusts an id: instructions are described in messages
// about plans that are wrong, so what does not exist is printed as "<slice 7?>".
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "graph/text.h"

namespace millrace {
namespace {

template <typename T>
const T* At(const std::vector<T>& items, int64_t index) {
  return index >= 0 && index < static_cast<int64_t>(items.size()) ? &items[index] : nullptr;
}

std::string Unknown(const char* what, int64_t index) { return StrCat("<", what, " ", index, "?>"); }

template <typename T>
std::string NameAt(const std::vector<T>& items, int64_t index, const char* what) {
  const T* item = At(items, index);
  return item != nullptr ? item->name : Unknown(what, index);
}

// Names things of one program. The bundle's graphs are flattened once, and only when an instruction
// of a nested graph asks.
class Describer {
 public:
  explicit Describer(const PlanBundle& plan) : plan_(plan) {}

  std::string Node(int32_t graph, NodeId node) {
    const Graph* g = GraphAt(graph);
    return g != nullptr ? NameAt(g->nodes, node.index, "node") : Unknown("graph", graph);
  }

  std::string ValueName(const ValueRef& ref) {
    if (!ref.value.valid()) return "scratch";
    const Graph* g = GraphAt(ref.graph);
    if (g == nullptr) return Unknown("graph", ref.graph);
    std::string name = NameAt(g->values, ref.value.index, "value");
    return ref.graph == 0 ? name : StrCat(name, "#", ref.graph);
  }

  std::string Bytes(const Program& program, const Slice& slice) {
    const std::string buffer = NameAt(program.buffers, slice.buffer.index, "buffer");
    if (slice.offset_bytes.IsConstant()) {
      const int64_t begin = slice.offset_bytes.base;
      // In unsigned arithmetic, since a wrong plan may hold any number.
      const auto end = static_cast<int64_t>(static_cast<uint64_t>(begin) +
                                            static_cast<uint64_t>(slice.size_bytes));
      return StrCat(buffer, "[", begin, ",", end, ")");
    }
    return StrCat(buffer, "[", ToString(slice.offset_bytes, plan_.mesh), ",+", slice.size_bytes,
                  ")");
  }

  std::string SliceText(const Program& program, SliceId id) {
    if (!id.valid()) return "_";
    const Slice* slice = At(program.slices, id.index);
    if (slice == nullptr) return Unknown("slice", id.index);
    return StrCat(ValueName(slice->value), "@", Bytes(program, *slice));
  }

  std::string SliceTexts(const Program& program, const std::vector<SliceId>& ids) {
    return absl::StrJoin(
        ids, ", ", [&](std::string* out, SliceId id) { StrAppend(out, SliceText(program, id)); });
  }

  std::string Operands(const Program& program, const std::vector<SliceId>& inputs,
                       const std::vector<SliceId>& outputs) {
    return StrCat(SliceTexts(program, outputs), " <- ", SliceTexts(program, inputs));
  }

  std::string PeerText(const Peer& peer) {
    std::string text = NameAt(plan_.programs, peer.program.index, "program");
    for (const auto& [axis, coordinate] : peer.coordinates) {
      StrAppend(&text, " ", NameAt(plan_.mesh.axes, axis, "axis"), "=",
                ToString(coordinate, plan_.mesh));
    }
    return text;
  }

 private:
  const Graph* GraphAt(int32_t index) {
    if (index == 0) return &plan_.graph;
    if (graphs_.empty()) graphs_ = FlattenGraphs(plan_.graph);
    const Graph* const* graph = At(graphs_, index);
    return graph != nullptr ? *graph : nullptr;
  }

  const PlanBundle& plan_;
  std::vector<const Graph*> graphs_;
};

// One overload per instruction: "kind what operands".
struct InstructionText {
  Describer& names;
  const Program& program;

  std::string Scratch(SliceId id) const {
    return id.valid() ? StrCat(" scratch ", names.SliceText(program, id)) : "";
  }
  std::string Event(EventId id) const {
    const std::string* event = At(program.events, id.index);
    return event != nullptr ? *event : Unknown("event", id.index);
  }

  std::string operator()(const Launch& i) const {
    return StrCat("launch ", names.Node(i.graph, i.node), " (", i.variant, ") ",
                  names.Operands(program, i.inputs, i.outputs), Scratch(i.scratch));
  }
  std::string operator()(const Copy& i) const {
    return StrCat("copy ", names.SliceText(program, i.to), " <- ",
                  names.SliceText(program, i.from));
  }
  std::string operator()(const Collective& i) const {
    return StrCat("collective ", names.Node(0, i.node), " ",
                  names.Operands(program, i.inputs, i.outputs), Scratch(i.scratch));
  }
  std::string operator()(const Send& i) const {
    return StrCat("send ", names.SliceText(program, i.from), " -> ", names.PeerText(i.to),
                  " channel ", i.channel);
  }
  std::string operator()(const Recv& i) const {
    return StrCat("recv ", names.SliceText(program, i.to), " <- ", names.PeerText(i.from),
                  " channel ", i.channel);
  }
  std::string operator()(const Record& i) const { return StrCat("record ", Event(i.event)); }
  std::string operator()(const Wait& i) const { return StrCat("wait ", Event(i.event)); }
  std::string operator()(const Call& i) const {
    std::string text = StrCat("call ", names.Node(i.graph, i.node), " ",
                              names.Operands(program, i.inputs, i.outputs));
    for (const CallBody& body : i.bodies) {
      StrAppend(&text, " {", NameAt(program.segments, body.segment.index, "segment"), ": ",
                names.Operands(program, body.inputs, body.outputs), "}");
    }
    return text;
  }
  std::string operator()(const HostCall& i) const {
    return StrCat("hostcall ", names.Node(i.graph, i.node), " ",
                  names.Operands(program, i.inputs, i.outputs));
  }
  std::string operator()(const Publish& i) const {
    return StrCat("publish ", names.Node(0, i.node), " mailbox \"", i.mailbox, "\" <- ",
                  names.SliceText(program, i.from));
  }
  std::string operator()(const TakeLatest& i) const {
    return StrCat("takelatest ", names.Node(0, i.node), " ", names.SliceText(program, i.to),
                  " <- mailbox \"", i.mailbox, "\"");
  }
};

// Lines of cells; all but the last cell of a line are padded to their column.
class Table {
 public:
  explicit Table(std::string indent) : indent_(std::move(indent)) {}

  void Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void Print(std::string& out) const {
    std::vector<size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto& row : rows_) {
      std::string line = indent_;
      for (size_t i = 0; i < row.size(); ++i) {
        line += row[i];
        if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
      }
      line.erase(line.find_last_not_of(' ') + 1);
      StrAppend(&out, line, "\n");
    }
  }

 private:
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;
};

std::string SliceNotes(const Slice& slice) {
  std::string notes;
  if (slice.layout != Layout::kStrided) notes = LayoutName(slice.layout);
  if (!slice.strides.empty()) {
    StrAppend(&notes, notes.empty() ? "" : " ", "strides [", absl::StrJoin(slice.strides, ","),
              "]");
  }
  return notes;
}

void PrintMemory(Describer& names, const Program& program, std::string& out) {
  Table buffers("  ");
  for (const PlanBuffer& b : program.buffers) {
    buffers.Row(
        {"buffer", b.name, std::string(MemorySpaceName(b.space)), StrCat(b.size_bytes, " bytes")});
  }
  buffers.Print(out);
  Table slices("  ");
  for (size_t i = 0; i < program.slices.size(); ++i) {
    const Slice& s = program.slices[i];
    slices.Row(
        {StrCat("slice ", i), names.ValueName(s.value), names.Bytes(program, s), SliceNotes(s)});
  }
  slices.Print(out);
}

void PrintBindings(Describer& names, const Program& program, std::string_view kind,
                   const std::vector<Binding>& bindings, Table& table) {
  for (const Binding& b : bindings) {
    table.Row(
        {std::string(kind), names.ValueName({0, b.value}), names.SliceText(program, b.slice)});
  }
}

void PrintSchedule(const Program& program, Section section, std::string& out) {
  const std::vector<ScheduleItem>& items = program.schedule(section);
  if (items.empty()) return;
  StrAppend(&out, "  ", SectionName(section), ":");
  for (const ScheduleItem& item : items) {
    StrAppend(&out, " ", NameAt(program.segments, item.segment.index, "segment"), "(",
              item.microbatch, ")");
  }
  out += "\n";
}

void PrintSegment(Describer& names, const Program& program, const Segment& segment,
                  std::string& out) {
  StrAppend(&out, "  segment ", segment.name);
  if (segment.graph != 0) StrAppend(&out, " of graph ", segment.graph);
  out += "\n";
  Table table("    ");
  for (size_t i = 0; i < segment.instructions.size(); ++i) {
    const Instruction& instruction = segment.instructions[i];
    table.Row({StrCat("#", i), NameAt(program.streams, instruction.stream.index, "stream"),
               std::visit(InstructionText{names, program}, instruction.body)});
  }
  table.Print(out);
}

void PrintProgram(Describer& names, const Mesh& mesh, const Program& program, std::string& out) {
  StrAppend(&out, "\nprogram ", program.name, " on ", program.device_kind, ":",
            ToString(program.device_index, mesh), "\n");
  PrintMemory(names, program, out);
  Table streams("  ");
  for (const PlanStream& s : program.streams) {
    streams.Row({"stream", s.name, std::string(StreamKindName(s.kind)),
                 StrCat("threads ", s.threads), StrCat("priority ", s.priority)});
  }
  streams.Print(out);
  for (const std::string& event : program.events) StrAppend(&out, "  event  ", event, "\n");
  Table bindings("  ");
  PrintBindings(names, program, "load", program.loads, bindings);
  PrintBindings(names, program, "input", program.inputs, bindings);
  PrintBindings(names, program, "output", program.outputs, bindings);
  bindings.Print(out);
  for (const Segment& segment : program.segments) PrintSegment(names, program, segment, out);
  for (Section s : {Section::kInit, Section::kStep, Section::kFinish}) {
    PrintSchedule(program, s, out);
  }
}

}  // namespace

std::string ToText(const PlanBundle& plan) {
  std::string out = StrCat("plan \"", plan.name, "\" for machine \"", plan.machine,
                           "\", microbatches ", plan.microbatches);
  if (!plan.mesh.axes.empty()) StrAppend(&out, ", mesh ", ToString(plan.mesh));
  out += "\n";
  Describer names(plan);
  for (const Program& program : plan.programs) PrintProgram(names, plan.mesh, program, out);
  StrAppend(&out, "\n", ToText(plan.graph));
  return out;
}

std::string DescribeInstruction(const PlanBundle& plan, const Program& program,
                                const Instruction& instruction) {
  Describer names(plan);
  return std::visit(InstructionText{names, program}, instruction.body);
}

}  // namespace millrace
