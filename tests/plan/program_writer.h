// ProgramWriter: writes a Program by hand, with names where a Program has ids. For tests; a name
// that does not exist is a CHECK failure.
#ifndef MILLRACE_TESTS_PLAN_PROGRAM_WRITER_H_
#define MILLRACE_TESTS_PLAN_PROGRAM_WRITER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/plan.h"

namespace millrace {

NodeId FindNode(const Graph& graph, std::string_view name);
ValueId FindValue(const Graph& graph, std::string_view name);

class ProgramWriter {
 public:
  // `graph` outlives the writer.
  ProgramWriter(const Graph& graph, std::string name, std::string device_kind,
                int64_t device_index);

  BufferId AddBuffer(std::string_view name, MemorySpace space, int64_t size_bytes);
  // Of the value's type; `graph` is the bundle's graph index.
  SliceId AddSlice(std::string_view value, BufferId buffer, LinearExpr offset_bytes,
                   std::vector<int64_t> strides = {}, int32_t graph = 0);
  SliceId AddScratch(BufferId buffer, int64_t offset_bytes, int64_t size_bytes);
  StreamId AddStream(std::string_view name, StreamKind kind);
  EventId AddEvent(std::string_view name);

  // Bindings of the slices' own values.
  void Loads(const std::vector<SliceId>& slices) { Bind(slices, program_.loads); }
  void Inputs(const std::vector<SliceId>& slices) { Bind(slices, program_.inputs); }
  void Outputs(const std::vector<SliceId>& slices) { Bind(slices, program_.outputs); }

  // Instructions go to the segment begun last, nodes are of its graph. Variants are "reference".
  SegmentId BeginSegment(std::string_view name, int32_t graph = 0);
  void Launch(StreamId stream, std::string_view node, std::vector<SliceId> inputs,
              std::vector<SliceId> outputs, SliceId scratch = {});
  void Collective(StreamId stream, std::string_view node, std::vector<SliceId> inputs,
                  std::vector<SliceId> outputs);
  void Copy(StreamId stream, SliceId from, SliceId to);
  void Send(StreamId stream, SliceId from, ProgramId to, int32_t channel);
  void Recv(StreamId stream, SliceId to, ProgramId from, int32_t channel);
  void Record(StreamId stream, EventId event);
  void Wait(StreamId stream, EventId event);
  void Call(StreamId stream, std::string_view node, std::vector<SliceId> inputs,
            std::vector<SliceId> outputs, std::vector<CallBody> bodies,
            ControlFlow flow = ControlFlow::kIf);
  void HostCall(StreamId stream, std::string_view node, std::vector<SliceId> inputs,
                std::vector<SliceId> outputs);

  void Schedule(Section section, std::vector<ScheduleItem> items);
  Program Build() && { return std::move(program_); }

 private:
  void Bind(const std::vector<SliceId>& slices, std::vector<Binding>& bindings);
  void Append(StreamId stream, InstructionBody body);
  NodeId Node(std::string_view name) const;

  std::vector<const Graph*> graphs_;
  Program program_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_PLAN_PROGRAM_WRITER_H_
