// Reads one instruction of a plan file. An instruction names its kind ("do"); the table at the end
// says which members each kind has and who reads them, so that a member that belongs to another
// kind is an error.
#include <iterator>

#include "graph/control_flow.h"
#include "graph/plan_json_load.h"
#include "graph/strings.h"

namespace millrace::plan_json {
namespace {

enum Field : int {
  kStream,
  kDo,
  kNode,
  kGraph,
  kVariant,
  kIn,
  kOut,
  kScratch,
  kFrom,
  kTo,
  kSlice,
  kPeer,
  kAt,
  kChannel,
  kEvent,
  kBodies,
  kMailbox,
  kFlow,
};
constexpr std::string_view kFieldNames[] = {
    "stream", "do",    "node", "graph", "variant", "in",    "out",    "scratch", "from",
    "to",     "slice", "peer", "at",    "channel", "event", "bodies", "mailbox", "flow"};
constexpr size_t kNumFields = std::size(kFieldNames);
static_assert(kNumFields == kFlow + 1);

class InstructionReader {
 public:
  InstructionReader(const JsonReader& reader, int32_t segment_graph, const Names& names)
      : reader_(reader), segment_graph_(segment_graph), names_(names) {}

  Instruction Read() {
    Instruction instruction;
    if (!reader_.Members(kFieldNames, fields_)) return instruction;
    instruction.stream = StreamId(names_.streams.Resolve(Required(kStream)));
    ReadBody(instruction.body);
    return instruction;
  }

 private:
  struct Kind {
    std::string_view name;
    InstructionBody (InstructionReader::*read)() const;
    std::initializer_list<Field> fields;
  };
  static const Kind kKinds[];

  void ReadBody(InstructionBody& body) const;

  InstructionBody ReadLaunch() const {
    Launch i;
    i.graph = GraphIndex();
    i.node = Node(i.graph);
    i.variant = ReadString(Required(kVariant));
    i.inputs = SliceList(fields_[kIn]);
    i.outputs = SliceList(fields_[kOut]);
    i.scratch = ReadSliceId(fields_[kScratch], names_);
    return i;
  }
  InstructionBody ReadCopy() const { return Copy{RequiredSlice(kFrom), RequiredSlice(kTo)}; }
  InstructionBody ReadCollective() const {
    Collective i;
    i.node = Node(0);
    i.inputs = SliceList(fields_[kIn]);
    i.outputs = SliceList(fields_[kOut]);
    i.scratch = ReadSliceId(fields_[kScratch], names_);
    return i;
  }
  InstructionBody ReadSend() const { return Send{RequiredSlice(kSlice), PeerAt(), Channel()}; }
  InstructionBody ReadRecv() const { return Recv{RequiredSlice(kSlice), PeerAt(), Channel()}; }
  InstructionBody ReadRecord() const { return Record{Event()}; }
  InstructionBody ReadWait() const { return Wait{Event()}; }
  InstructionBody ReadCall() const {
    Call i;
    i.graph = GraphIndex();
    i.node = Node(i.graph);
    i.inputs = SliceList(fields_[kIn]);
    i.outputs = SliceList(fields_[kOut]);
    if (fields_[kFlow]) i.flow = ReadFlow(*fields_[kFlow]);
    ForEach(fields_[kBodies], [&](const JsonReader& reader) {
      static constexpr std::string_view kKeys[] = {"segment", "in", "out"};
      std::optional<JsonReader> m[std::size(kKeys)];
      if (!reader.Members(kKeys, m)) return;
      CallBody& body = i.bodies.emplace_back();
      body.segment = SegmentId(names_.segments.Resolve(Need(reader, m[0], "segment")));
      body.inputs = SliceList(m[1]);
      body.outputs = SliceList(m[2]);
    });
    return i;
  }
  static ControlFlow ReadFlow(const JsonReader& reader) {
    const std::string name = ReadString(reader, /*allow_empty=*/false);
    for (const ControlFlow flow : {ControlFlow::kIf, ControlFlow::kLoop, ControlFlow::kScan}) {
      if (name == ControlFlowName(flow)) return flow;
    }
    if (!name.empty())
      reader.Error("unknown control flow", "'if', 'loop' or 'scan'", reader.Describe());
    return ControlFlow::kIf;
  }
  InstructionBody ReadHostCall() const {
    HostCall i;
    i.graph = GraphIndex();
    i.node = Node(i.graph);
    i.inputs = SliceList(fields_[kIn]);
    i.outputs = SliceList(fields_[kOut]);
    return i;
  }
  InstructionBody ReadPublish() const {
    return Publish{Node(0), ReadString(Required(kMailbox)), RequiredSlice(kSlice)};
  }
  InstructionBody ReadTakeLatest() const {
    return TakeLatest{Node(0), ReadString(Required(kMailbox)), RequiredSlice(kSlice)};
  }

  std::optional<JsonReader> Required(Field field) const {
    return Need(reader_, fields_[field], kFieldNames[field]);
  }
  SliceId RequiredSlice(Field field) const { return ReadSliceId(Required(field), names_); }
  int32_t GraphIndex() const { return ReadGraphIndex(fields_[kGraph], names_, segment_graph_); }
  NodeId Node(int32_t graph) const {
    return NodeId(names_.graphs[graph].nodes.Resolve(Required(kNode), /*by_index=*/false));
  }
  EventId Event() const { return EventId(names_.events.Resolve(Required(kEvent))); }
  int32_t Channel() const {
    return static_cast<int32_t>(ReadInt(Required(kChannel), 0, kMaxInt32));
  }

  std::vector<SliceId> SliceList(const std::optional<JsonReader>& list) const {
    std::vector<SliceId> slices;
    if (list && list->IsArray()) slices.reserve(list->value().size);
    ForEach(list, [&](const JsonReader& r) {
      slices.push_back(r.IsNull() ? SliceId() : ReadSliceId(r, names_));
    });
    return slices;
  }

  Peer PeerAt() const {
    Peer peer;
    peer.program = ProgramId(names_.programs.Resolve(Required(kPeer)));
    ForEach(fields_[kAt], [&](const JsonReader& reader) {
      std::optional<JsonReader> pair[2];
      if (!ReadPair(reader, "[axis, coordinate]", pair)) return;
      const int axis = names_.mesh.FindAxis(ReadString(pair[0]));
      if (axis < 0) pair[0]->Error("the mesh has no such axis", "", pair[0]->Describe());
      peer.coordinates.emplace_back(axis, ReadExpr(pair[1], names_.mesh));
    });
    return peer;
  }

  const JsonReader& reader_;
  const int32_t segment_graph_;
  const Names& names_;
  std::optional<JsonReader> fields_[kNumFields];
};

const InstructionReader::Kind InstructionReader::kKinds[] = {
    {"launch", &InstructionReader::ReadLaunch, {kNode, kGraph, kVariant, kIn, kOut, kScratch}},
    {"copy", &InstructionReader::ReadCopy, {kFrom, kTo}},
    {"collective", &InstructionReader::ReadCollective, {kNode, kIn, kOut, kScratch}},
    {"send", &InstructionReader::ReadSend, {kSlice, kPeer, kAt, kChannel}},
    {"recv", &InstructionReader::ReadRecv, {kSlice, kPeer, kAt, kChannel}},
    {"record", &InstructionReader::ReadRecord, {kEvent}},
    {"wait", &InstructionReader::ReadWait, {kEvent}},
    {"call", &InstructionReader::ReadCall, {kNode, kGraph, kIn, kOut, kBodies, kFlow}},
    {"hostcall", &InstructionReader::ReadHostCall, {kNode, kGraph, kIn, kOut}},
    {"publish", &InstructionReader::ReadPublish, {kNode, kMailbox, kSlice}},
    {"takelatest", &InstructionReader::ReadTakeLatest, {kNode, kMailbox, kSlice}},
};

void InstructionReader::ReadBody(InstructionBody& body) const {
  const std::optional<JsonReader> kind_reader = Required(kDo);
  if (!kind_reader || !kind_reader->IsString()) {
    ReadString(kind_reader);  // says what it is instead
    return;
  }
  const std::string_view name = kind_reader->value().string();
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    uint32_t allowed = 1u << kStream | 1u << kDo;
    for (const Field field : kind.fields) allowed |= 1u << field;
    for (size_t f = 0; f < kNumFields; ++f) {
      if (fields_[f] && (allowed >> f & 1) == 0) {
        fields_[f]->Error(StrCat("a ", name, " has no '", kFieldNames[f], "'"));
      }
    }
    body = (this->*kind.read)();
    return;
  }
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  ReadChoice(kind_reader, names);  // says which there are
}

}  // namespace

Instruction ReadInstruction(const JsonReader& reader, int32_t segment_graph, const Names& names) {
  return InstructionReader(reader, segment_graph, names).Read();
}

}  // namespace millrace::plan_json
