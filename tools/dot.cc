#include "tools/dot.h"

#include <deque>
#include <map>
#include <tuple>

#include "graph/plan_json.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// A quoted DOT string; "\n" in `text` breaks the line.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return quoted + "\"";
}

std::string TypeLabel(const Value& value) {
  return value.typed ? StrCat(" [label=", Quoted(ToString(value.type)), "]") : "";
}

// `prefix` tells apart the graphs of one picture.
void AppendGraph(const Graph& graph, const std::string& prefix, std::string& text) {
  auto id_of = [&](ValueId id) {
    const Value& value = graph.value(id);
    return value.kind == ValueKind::kResult ? StrCat(prefix, "n", value.producer.index)
                                            : StrCat(prefix, "v", id.index);
  };
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind == ValueKind::kResult) continue;
    const char* style = value.kind == ValueKind::kInput ? "shape=ellipse" : "shape=plain";
    StrAppend(&text, "  ", prefix, "v", i, " [", style, " label=", Quoted(value.name), "];\n");
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const std::string self = StrCat(prefix, "n", i);
    StrAppend(&text, "  ", self, " [shape=box label=", Quoted(StrCat(node.name, "\n", node.op)),
              "];\n");
    for (ValueId input : node.inputs) {
      if (!input.valid()) continue;
      StrAppend(&text, "  ", id_of(input), " -> ", self, TypeLabel(graph.value(input)), ";\n");
    }
    for (NodeId after : node.after) {
      StrAppend(&text, "  ", prefix, "n", after.index, " -> ", self, " [style=dashed];\n");
    }
    for (size_t s = 0; s < node.subgraphs.size(); ++s) {
      const std::string inner = StrCat(self, "_", s, "_");
      StrAppend(&text, "  subgraph cluster_", inner,
                " {\n  label=", Quoted(StrCat(node.name, ": ", node.subgraphs[s].name)), ";\n");
      AppendGraph(node.subgraphs[s].graph, inner, text);
      text += "  }\n";
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Value& value = graph.value(graph.outputs[i]);
    const std::string self = StrCat(prefix, "o", i);
    StrAppend(&text, "  ", self, " [shape=ellipse label=", Quoted(value.name), "];\n");
    StrAppend(&text, "  ", id_of(graph.outputs[i]), " -> ", self, TypeLabel(value), ";\n");
  }
}

// Arrows between streams, matched while instructions are listed in issue order.
class PlanArrows {
 public:
  // `self` is the DOT id of an instruction of program `program`.
  void Add(int32_t program, const Instruction& instruction, const std::string& self) {
    if (const auto* record = std::get_if<Record>(&instruction.body)) {
      records_[{program, record->event.index}] = self;
    } else if (const auto* wait = std::get_if<Wait>(&instruction.body)) {
      const auto it = records_.find({program, wait->event.index});
      if (it != records_.end()) Arrow(it->second, self);
    } else if (const auto* send = std::get_if<Send>(&instruction.body)) {
      Meet({program, send->to.program.index, send->channel}, self, /*sends=*/true);
    } else if (const auto* recv = std::get_if<Recv>(&instruction.body)) {
      Meet({recv->from.program.index, program, recv->channel}, self, /*sends=*/false);
    }
  }
  const std::string& text() const { return text_; }

 private:
  using Channel = std::tuple<int32_t, int32_t, int32_t>;  // from, to, channel

  void Meet(const Channel& channel, const std::string& self, bool sends) {
    std::deque<std::string>& others = (sends ? recvs_ : sends_)[channel];
    if (others.empty()) {
      (sends ? sends_ : recvs_)[channel].push_back(self);
      return;
    }
    const std::string other = others.front();
    others.pop_front();
    Arrow(sends ? self : other, sends ? other : self);
  }
  void Arrow(std::string_view from, std::string_view to) {
    StrAppend(&text_, "  ", from, " -> ", to, " [color=blue constraint=false];\n");
  }

  std::map<std::pair<int32_t, int32_t>, std::string> records_;
  std::map<Channel, std::deque<std::string>> sends_, recvs_;
  std::string text_;
};

void AppendProgram(const PlanBundle& plan, int32_t p, PlanArrows& arrows, std::string& text) {
  const Program& program = plan.programs[p];
  std::vector<std::string> streams(program.streams.size()), last(program.streams.size());
  int64_t index = 0;
  for (const ScheduleItem& item : program.step) {
    for (const Instruction& instruction : program.segments[item.segment.index].instructions) {
      const std::string self = StrCat("p", p, "_", index++);
      const int32_t stream = instruction.stream.index;
      StrAppend(&streams[stream], "    ", self,
                " [label=", Quoted(DescribeInstruction(plan, program, instruction)), "];\n");
      if (!last[stream].empty()) {
        StrAppend(&streams[stream], "    ", last[stream], " -> ", self, ";\n");
      }
      last[stream] = self;
      arrows.Add(p, instruction, self);
    }
  }
  StrAppend(&text, "  subgraph cluster_p", p, " {\n  label=", Quoted(program.name), ";\n");
  for (size_t s = 0; s < streams.size(); ++s) {
    StrAppend(&text, "  subgraph cluster_p", p, "_s", s,
              " {\n    label=", Quoted(program.streams[s].name), ";\n", streams[s], "  }\n");
  }
  text += "  }\n";
}

}  // namespace

std::string ToDot(const Graph& graph) {
  std::string text = StrCat("digraph ", Quoted(graph.name), " {\n");
  AppendGraph(graph, "", text);
  return text + "}\n";
}

std::string ToDot(const PlanBundle& plan) {
  std::string text = StrCat("digraph ", Quoted(plan.name), " {\n  node [shape=box];\n");
  PlanArrows arrows;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    AppendProgram(plan, static_cast<int32_t>(p), arrows, text);
  }
  return text + arrows.text() + "}\n";
}

}  // namespace millrace
