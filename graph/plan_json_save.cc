// Writes plan files. How things are referred to:
//
//  * Nodes and values by name (the graph part keeps names, and may order values anew), within the
//    graph whose index stands beside them.
//  * Programs, buffers, streams, events and segments by name when that name is unique among its
//    kind; by index otherwise. So inserting one changes no other line.
//  * Slices have no names: by index.
//
// An id that refers to nothing is written as its number, and the reader refuses it: saving works on
// any plan, so that a wrong one can be looked at.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/control_flow.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/json_text.h"
#include "graph/plan_json.h"
#include "graph/strings.h"

namespace millrace {
namespace {

const std::string& NameOf(const std::string& name) { return name; }
template <typename T>
const std::string& NameOf(const T& item) {
  return item.name;
}

// For each item the JSON that refers to it.
template <typename T>
std::vector<std::string> References(const std::vector<T>& items) {
  absl::flat_hash_map<absl::string_view, int> uses;
  for (const T& item : items) ++uses[NameOf(item)];
  std::vector<std::string> references;
  references.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string& name = NameOf(items[i]);
    references.push_back(!name.empty() && uses[name] == 1 ? JsonString(name) : StrCat(i));
  }
  return references;
}

class PlanWriter {
 public:
  explicit PlanWriter(const PlanBundle& plan)
      : plan_(plan), graphs_(FlattenGraphs(plan.graph)), programs_(References(plan.programs)) {}

  std::string Write() && {
    StrAppend(&out_, "{\n\"format\": \"millrace-plan\",\n\"version\": \"1.0\",\n\"name\": ",
              JsonString(plan_.name), ",\n\"machine\": ", JsonString(plan_.machine),
              ",\n\"microbatches\": ", plan_.microbatches, ",\n");
    if (!plan_.mesh.axes.empty()) {
      StrAppend(&out_, "\"mesh\": ", JsonString(ToString(plan_.mesh)), ",\n");
    }
    std::string graph = GraphToJson(plan_.graph, /*with_types=*/true);
    while (!graph.empty() && graph.back() == '\n') graph.pop_back();
    StrAppend(&out_, "\"graph\": ", graph, ",\n\"programs\": [");
    for (size_t i = 0; i < plan_.programs.size(); ++i) {
      out_ += i == 0 ? "\n" : ",\n";
      WriteProgram(plan_.programs[i]);
    }
    out_ += "\n]\n}\n";
    return std::move(out_);
  }

 private:
  // `"key": [` and one item a line, written by `write(item)`.
  template <typename T, typename F>
  void WriteLines(std::string_view key, std::string_view indent, const std::vector<T>& items,
                  F write) {
    StrAppend(&out_, indent, "\"", key, "\": [");
    for (size_t i = 0; i < items.size(); ++i) {
      StrAppend(&out_, i == 0 ? "\n" : ",\n", indent, "  ");
      write(items[i]);
    }
    if (!items.empty()) StrAppend(&out_, "\n", indent);
    out_ += "]";
  }

  void WriteProgram(const Program& p) {
    buffers_ = References(p.buffers);
    streams_ = References(p.streams);
    events_ = References(p.events);
    segments_ = References(p.segments);
    StrAppend(&out_, "{\n  \"name\": ", JsonString(p.name),
              ",\n  \"device_kind\": ", JsonString(p.device_kind), ",\n  \"device_index\": ");
    WriteExpr(p.device_index);
    out_ += ",\n";
    WriteLines("buffers", "  ", p.buffers, [&](const PlanBuffer& b) {
      StrAppend(&out_, "{\"name\": ", JsonString(b.name), ", \"space\": \"",
                MemorySpaceName(b.space), "\", \"size\": ", b.size_bytes, "}");
    });
    out_ += ",\n";
    WriteLines("slices", "  ", p.slices, [&](const Slice& s) { WriteSlice(s); });
    out_ += ",\n";
    WriteLines("streams", "  ", p.streams, [&](const PlanStream& s) {
      StrAppend(&out_, "{\"name\": ", JsonString(s.name), ", \"kind\": \"", StreamKindName(s.kind),
                "\", \"threads\": ", s.threads, ", \"priority\": ", s.priority, "}");
    });
    out_ += ",\n";
    WriteLines("events", "  ", p.events,
               [&](const std::string& name) { AppendJsonString(&out_, name); });
    out_ += ",\n";
    WriteLines("segments", "  ", p.segments, [&](const Segment& s) { WriteSegment(s); });
    out_ += ",\n";
    for (const Section section : {Section::kInit, Section::kStep, Section::kFinish}) {
      WriteLines(SectionName(section), "  ", p.schedule(section), [&](const ScheduleItem& item) {
        StrAppend(&out_, "[", Ref(segments_, item.segment.index), ", ", item.microbatch, "]");
      });
      out_ += ",\n";
    }
    WriteBindings("loads", p.loads);
    out_ += ",\n";
    WriteBindings("inputs", p.inputs);
    out_ += ",\n";
    WriteBindings("outputs", p.outputs);
    out_ += "\n}";
  }

  void WriteSlice(const Slice& s) {
    out_ += "{";
    if (s.value.value.valid()) {
      out_ += "\"value\": ";
      WriteValue(s.value.graph, s.value.value);
      if (s.value.graph != 0) StrAppend(&out_, ", \"graph\": ", s.value.graph);
      out_ += ", ";
    }
    StrAppend(&out_, "\"buffer\": ", Ref(buffers_, s.buffer.index), ", \"offset\": ");
    WriteExpr(s.offset_bytes);
    StrAppend(&out_, ", \"size\": ", s.size_bytes);
    if (s.layout != Layout::kStrided) {
      StrAppend(&out_, ", \"layout\": \"", LayoutName(s.layout), "\"");
    }
    if (!s.strides.empty()) {
      out_ += ", \"strides\": [";
      for (size_t i = 0; i < s.strides.size(); ++i) {
        StrAppend(&out_, i == 0 ? "" : ", ", s.strides[i]);
      }
      out_ += "]";
    }
    out_ += "}";
  }

  void WriteSegment(const Segment& s) {
    segment_graph_ = s.graph;
    StrAppend(&out_, "{\"name\": ", JsonString(s.name));
    if (s.graph != 0) StrAppend(&out_, ", \"graph\": ", s.graph);
    out_ += ",\n";
    WriteLines("instructions", "   ", s.instructions, [&](const Instruction& i) {
      StrAppend(&out_, "{\"stream\": ", Ref(streams_, i.stream.index));
      std::visit([&](const auto& body) { WriteBody(body); }, i.body);
      out_ += "}";
    });
    out_ += "}";
  }

  void WriteBindings(std::string_view key, const std::vector<Binding>& bindings) {
    WriteLines(key, "  ", bindings, [&](const Binding& b) {
      out_ += "{\"value\": ";
      WriteValue(0, b.value);
      StrAppend(&out_, ", \"slice\": ", b.slice.index, "}");
    });
  }

  void WriteBody(const Launch& i) {
    WriteNode("launch", i.node, i.graph, segment_graph_);
    StrAppend(&out_, ", \"variant\": ", JsonString(i.variant));
    WriteOperands(i.inputs, i.outputs);
    WriteScratch(i.scratch);
  }
  void WriteBody(const Copy& i) {
    StrAppend(&out_, ", \"do\": \"copy\", \"from\": ", i.from.index, ", \"to\": ", i.to.index);
  }
  void WriteBody(const Collective& i) {
    WriteNode("collective", i.node, 0, 0);
    WriteOperands(i.inputs, i.outputs);
    WriteScratch(i.scratch);
  }
  void WriteBody(const Send& i) {
    StrAppend(&out_, ", \"do\": \"send\", \"slice\": ", i.from.index);
    WritePeer(i.to, i.channel);
  }
  void WriteBody(const Recv& i) {
    StrAppend(&out_, ", \"do\": \"recv\", \"slice\": ", i.to.index);
    WritePeer(i.from, i.channel);
  }
  void WriteBody(const Record& i) {
    StrAppend(&out_, ", \"do\": \"record\", \"event\": ", Ref(events_, i.event.index));
  }
  void WriteBody(const Wait& i) {
    StrAppend(&out_, ", \"do\": \"wait\", \"event\": ", Ref(events_, i.event.index));
  }
  void WriteBody(const Call& i) {
    WriteNode("call", i.node, i.graph, segment_graph_);
    if (i.flow != ControlFlow::kIf) {
      StrAppend(&out_, ", \"flow\": ", JsonString(ControlFlowName(i.flow)));
    }
    WriteOperands(i.inputs, i.outputs);
    out_ += ", \"bodies\": [";
    for (size_t b = 0; b < i.bodies.size(); ++b) {
      StrAppend(&out_, b == 0 ? "" : ", ",
                "{\"segment\": ", Ref(segments_, i.bodies[b].segment.index));
      WriteOperands(i.bodies[b].inputs, i.bodies[b].outputs);
      out_ += "}";
    }
    out_ += "]";
  }
  void WriteBody(const HostCall& i) {
    WriteNode("hostcall", i.node, i.graph, segment_graph_);
    WriteOperands(i.inputs, i.outputs);
  }
  void WriteBody(const Publish& i) {
    WriteNode("publish", i.node, 0, 0);
    StrAppend(&out_, ", \"mailbox\": ", JsonString(i.mailbox), ", \"slice\": ", i.from.index);
  }
  void WriteBody(const TakeLatest& i) {
    WriteNode("takelatest", i.node, 0, 0);
    StrAppend(&out_, ", \"mailbox\": ", JsonString(i.mailbox), ", \"slice\": ", i.to.index);
  }

  // Without a graph: the segment's, and graph 0 for kinds that only run nodes of that.
  void WriteNode(std::string_view kind, NodeId node, int32_t graph, int32_t implied_graph) {
    StrAppend(&out_, ", \"do\": \"", kind, "\", \"node\": ");
    const Graph* g = GraphAt(graph);
    if (g != nullptr && Has(g->nodes, node.index)) {
      AppendJsonString(&out_, g->node(node).name);
    } else {
      StrAppend(&out_, node.index);
    }
    if (graph != implied_graph) StrAppend(&out_, ", \"graph\": ", graph);
  }

  void WriteValue(int32_t graph, ValueId value) {
    const Graph* g = GraphAt(graph);
    if (g != nullptr && Has(g->values, value.index)) {
      AppendJsonString(&out_, g->value(value).name);
    } else {
      StrAppend(&out_, value.index);
    }
  }

  void WriteSliceList(std::string_view key, const std::vector<SliceId>& slices) {
    StrAppend(&out_, ", \"", key, "\": [");
    for (size_t i = 0; i < slices.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (slices[i].valid()) {
        StrAppend(&out_, slices[i].index);
      } else {
        out_ += "null";
      }
    }
    out_ += "]";
  }
  void WriteOperands(const std::vector<SliceId>& inputs, const std::vector<SliceId>& outputs) {
    WriteSliceList("in", inputs);
    WriteSliceList("out", outputs);
  }
  void WriteScratch(SliceId scratch) {
    if (scratch.valid()) StrAppend(&out_, ", \"scratch\": ", scratch.index);
  }

  void WritePeer(const Peer& peer, int32_t channel) {
    StrAppend(&out_, ", \"peer\": ", Ref(programs_, peer.program.index));
    if (!peer.coordinates.empty()) {
      out_ += ", \"at\": [";
      for (size_t i = 0; i < peer.coordinates.size(); ++i) {
        const auto& [axis, coordinate] = peer.coordinates[i];
        StrAppend(&out_, i == 0 ? "[" : ", [", AxisRef(axis), ", ");
        WriteExpr(coordinate);
        out_ += "]";
      }
      out_ += "]";
    }
    StrAppend(&out_, ", \"channel\": ", channel);
  }

  std::string AxisRef(int axis) const {
    return Has(plan_.mesh.axes, axis) ? JsonString(plan_.mesh.axes[axis].name) : StrCat(axis);
  }

  // A number, or text as in graph/expr.h.
  void WriteExpr(const LinearExpr& e) {
    if (e.IsConstant()) {
      StrAppend(&out_, e.base);
    } else {
      AppendJsonString(&out_, ToString(e, plan_.mesh));
    }
  }

  template <typename T>
  static bool Has(const std::vector<T>& items, int64_t index) {
    return index >= 0 && index < static_cast<int64_t>(items.size());
  }
  static std::string Ref(const std::vector<std::string>& references, int32_t index) {
    return Has(references, index) ? references[index] : StrCat(index);
  }
  const Graph* GraphAt(int32_t index) const {
    return Has(graphs_, index) ? graphs_[index] : nullptr;
  }

  const PlanBundle& plan_;
  const std::vector<const Graph*> graphs_;
  const std::vector<std::string> programs_;
  // Of the program being written.
  std::vector<std::string> buffers_, streams_, events_, segments_;
  int32_t segment_graph_ = 0;
  std::string out_;
};

}  // namespace

std::string PlanToJson(const PlanBundle& plan) { return PlanWriter(plan).Write(); }

absl::Status SavePlan(const PlanBundle& plan, const std::string& path) {
  return WriteFileAtomically(path, PlanToJson(plan));
}

std::string ContentHash(const PlanBundle& plan) { return Sha256Hex(PlanToJson(plan)); }

}  // namespace millrace
