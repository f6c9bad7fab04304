#include "tests/plan/program_writer.h"

#include "graph/assert.h"

namespace millrace {
namespace {

template <typename IdType, typename T>
IdType FindByName(const std::vector<T>& items, std::string_view name) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].name == name) return IdType(i);
  }
  return IdType();
}

}  // namespace

NodeId FindNode(const Graph& graph, std::string_view name) {
  return FindByName<NodeId>(graph.nodes, name);
}

ValueId FindValue(const Graph& graph, std::string_view name) {
  return FindByName<ValueId>(graph.values, name);
}

ProgramWriter::ProgramWriter(const Graph& graph, std::string name, std::string device_kind,
                             int64_t device_index)
    : graphs_(FlattenGraphs(graph)) {
  program_.name = std::move(name);
  program_.device_kind = std::move(device_kind);
  program_.device_index = device_index;
}

BufferId ProgramWriter::AddBuffer(std::string_view name, MemorySpace space, int64_t size_bytes) {
  program_.buffers.push_back({std::string(name), space, size_bytes});
  return BufferId(program_.buffers.size() - 1);
}

SliceId ProgramWriter::AddSlice(std::string_view value, BufferId buffer, LinearExpr offset_bytes,
                                std::vector<int64_t> strides, int32_t graph) {
  const ValueId id = FindValue(*graphs_[graph], value);
  MILLRACE_CHECK(id.valid());
  const TensorType& type = graphs_[graph]->value(id).type;
  Slice slice;
  slice.value = {graph, id};
  slice.buffer = buffer;
  slice.offset_bytes = std::move(offset_bytes);
  slice.size_bytes = ByteSize(type);
  if (!strides.empty()) {  // from the first element to past the last one
    int64_t last = 0;
    for (int i = 0; i < type.shape.rank(); ++i) last += (type.shape[i] - 1) * strides[i];
    slice.size_bytes = (last + 1) * SizeOf(type.dtype);
  }
  slice.strides = std::move(strides);
  program_.slices.push_back(std::move(slice));
  return SliceId(program_.slices.size() - 1);
}

SliceId ProgramWriter::AddScratch(BufferId buffer, int64_t offset_bytes, int64_t size_bytes) {
  Slice slice;
  slice.buffer = buffer;
  slice.offset_bytes = offset_bytes;
  slice.size_bytes = size_bytes;
  program_.slices.push_back(std::move(slice));
  return SliceId(program_.slices.size() - 1);
}

StreamId ProgramWriter::AddStream(std::string_view name, StreamKind kind) {
  program_.streams.push_back({.name = std::string(name), .kind = kind});
  return StreamId(program_.streams.size() - 1);
}

EventId ProgramWriter::AddEvent(std::string_view name) {
  program_.events.emplace_back(name);
  return EventId(program_.events.size() - 1);
}

void ProgramWriter::Bind(const std::vector<SliceId>& slices, std::vector<Binding>& bindings) {
  for (const SliceId s : slices) {
    bindings.push_back({program_.slices[s.index].value.value, s});
  }
}

SegmentId ProgramWriter::BeginSegment(std::string_view name, int32_t graph) {
  program_.segments.push_back({.name = std::string(name), .graph = graph, .instructions = {}});
  return SegmentId(program_.segments.size() - 1);
}

void ProgramWriter::Append(StreamId stream, InstructionBody body) {
  program_.segments.back().instructions.push_back({stream, std::move(body)});
}

NodeId ProgramWriter::Node(std::string_view name) const {
  const NodeId id = FindNode(*graphs_[program_.segments.back().graph], name);
  MILLRACE_CHECK(id.valid());
  return id;
}

void ProgramWriter::Launch(StreamId stream, std::string_view node, std::vector<SliceId> inputs,
                           std::vector<SliceId> outputs, SliceId scratch) {
  Append(stream, millrace::Launch{Node(node), program_.segments.back().graph, "reference",
                                  std::move(inputs), std::move(outputs), scratch});
}

void ProgramWriter::Collective(StreamId stream, std::string_view node,
                               std::vector<SliceId> inputs, std::vector<SliceId> outputs) {
  Append(stream, millrace::Collective{Node(node), std::move(inputs), std::move(outputs), {}});
}

void ProgramWriter::Copy(StreamId stream, SliceId from, SliceId to) {
  Append(stream, millrace::Copy{from, to});
}

void ProgramWriter::Send(StreamId stream, SliceId from, ProgramId to, int32_t channel) {
  Append(stream, millrace::Send{from, {to, {}}, channel});
}

void ProgramWriter::Recv(StreamId stream, SliceId to, ProgramId from, int32_t channel) {
  Append(stream, millrace::Recv{to, {from, {}}, channel});
}

void ProgramWriter::Record(StreamId stream, EventId event) {
  Append(stream, millrace::Record{event});
}

void ProgramWriter::Wait(StreamId stream, EventId event) { Append(stream, millrace::Wait{event}); }

void ProgramWriter::Call(StreamId stream, std::string_view node, std::vector<SliceId> inputs,
                         std::vector<SliceId> outputs, std::vector<CallBody> bodies,
                         ControlFlow flow) {
  Append(stream, millrace::Call{Node(node), program_.segments.back().graph, std::move(inputs),
                                std::move(outputs), std::move(bodies), flow});
}

void ProgramWriter::HostCall(StreamId stream, std::string_view node, std::vector<SliceId> inputs,
                             std::vector<SliceId> outputs) {
  Append(stream, millrace::HostCall{Node(node), program_.segments.back().graph, std::move(inputs),
                                    std::move(outputs)});
}

void ProgramWriter::Schedule(Section section, std::vector<ScheduleItem> items) {
  switch (section) {
    case Section::kInit:
      program_.init = std::move(items);
      break;
    case Section::kStep:
      program_.step = std::move(items);
      break;
    case Section::kFinish:
      program_.finish = std::move(items);
      break;
  }
}

}  // namespace millrace
