#include "tests/check/every_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int kSteps = 4;

using Bytes = std::vector<int>;                  // a symbol for each byte; 0: garbage
using Memory = std::vector<std::vector<Bytes>>;  // by program and buffer

// A byte range of one program's buffer.
struct Range {
  int program = 0, buffer = 0;
  int64_t begin = 0, end = 0;
  bool Touches(const Range& o) const {
    return program == o.program && buffer == o.buffer && begin < o.end && o.begin < end;
  }
};

// One instruction of the unrolled section.
struct Op {
  int program = 0, stream = 0, item = 0, microbatch = 0;
  const Instruction* instruction = nullptr;
  int record = -1;                     // Wait: the op of its Record
  int partner = -1;                    // Send, Recv: whom it meets
  std::vector<Range> inputs, outputs;  // of both bodies, for a Call
};

class EveryOrder {
 public:
  EveryOrder(const PlanBundle& plan, const OpTraitsTable& traits)
      : plan_(plan), traits_(traits), graphs_(FlattenGraphs(plan.graph)) {}

  std::string Run() {
    Memory memory;
    for (const Program& p : plan_.programs) {
      auto& buffers = memory.emplace_back();
      for (const PlanBuffer& b : p.buffers) buffers.emplace_back(b.size_bytes, 0);
    }
    for (ValueId p : plan_.graph.params) params_[p] = Symbols("p", p, 0);
    Fill(&Program::loads, 1, memory);
    RunSection(Section::kInit, memory);
    for (step_ = 0; step_ < kSteps && wrong_.empty(); ++step_) {
      Fill(&Program::inputs, plan_.microbatches, memory);
      RunSection(Section::kStep, memory);
    }
    return wrong_;
  }

 private:
  bool Wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
    return false;
  }

  // --- What the graph says ---
  Bytes Symbols(std::string_view what, ValueId value, int microbatch) {
    Bytes bytes;
    for (int64_t i = 0; i < ByteSize(plan_.graph.value(value).type); ++i) {
      bytes.push_back(Intern(StrCat(what, value.index, ".", microbatch, "[", i, "]")));
    }
    return bytes;
  }
  int Intern(const std::string& text) {
    return symbols_.try_emplace(text, static_cast<int>(symbols_.size()) + 1).first->second;
  }

  // What a node makes of these inputs.
  Bytes Apply(int graph, NodeId node, int output, const std::vector<Bytes>& inputs) {
    std::string key = StrCat("n", graph, ".", node.index, ".", output);
    for (const Bytes& in : inputs) {
      for (int s : in) StrAppend(&key, ",", s);
      key += ";";
    }
    Bytes bytes;
    const ValueId value = graphs_[graph]->node(node).outputs[output];
    for (int64_t i = 0; i < ByteSize(graphs_[graph]->value(value).type); ++i) {
      bytes.push_back(Intern(StrCat(key, "[", i, "]")));
    }
    return bytes;
  }

  bool Runs(const Program& program, const InstructionBody& body, int graph, NodeId node) const {
    if (const Launch* l = std::get_if<Launch>(&body)) return l->graph == graph && l->node == node;
    const Call* call = std::get_if<Call>(&body);
    if (call == nullptr) return false;
    if (graph == 0 && call->node == node) return true;
    for (const CallBody& b : call->bodies) {
      for (const Instruction& i : program.segments[b.segment.index].instructions) {
        if (Runs(program, i.body, graph, node)) return true;
      }
    }
    return false;
  }

  // Schedule items of a program that run the node for a microbatch.
  std::vector<int> ItemsOf(int program, int graph, NodeId node, int microbatch) const {
    std::vector<int> items;
    for (const Op& op : ops_) {
      if (op.program == program && op.microbatch == microbatch &&
          Runs(plan_.programs[program], op.instruction->body, graph, node)) {
        items.push_back(op.item);
      }
    }
    return items;
  }

  // The updates of a param in a program, as (item, microbatch), first computations only.
  std::vector<std::pair<int, int>> Updates(int program, ValueId param) const {
    std::vector<std::pair<int, int>> result;
    for (const Update& u : plan_.graph.updates) {
      if (u.param != param || section_ != Section::kStep) continue;
      const Value& value = plan_.graph.value(u.value);
      if (value.kind != ValueKind::kResult) continue;
      for (int mb = 0; mb < plan_.microbatches; ++mb) {
        const std::vector<int> items = ItemsOf(program, 0, value.producer, mb);
        if (!items.empty()) result.push_back({items[0], mb});
      }
    }
    std::sort(result.begin(), result.end());
    return result;
  }
  ValueId UpdateValue(ValueId param) const {
    for (const Update& u : plan_.graph.updates) {
      if (u.param == param) return u.value;
    }
    return ValueId();
  }

  Bytes Reference(ValueId id, int microbatch, int program, int item) {
    return Reference({0, id}, microbatch, program, item, 0);
  }
  Bytes Reference(ValueRef ref, int microbatch, int program, int item, int depth) {
    if (depth > 20) return {Intern("endless"), Intern("endless")};
    const Graph& graph = *graphs_[ref.graph];
    const Value& value = graph.value(ref.value);
    if (ref.graph != 0 && value.kind == ValueKind::kInput) {
      const auto place =
          std::find(graph.inputs.begin(), graph.inputs.end(), ref.value) - graph.inputs.begin();
      return Reference({0, CallerOf(ref.graph).inputs[place + 1]}, microbatch, program, item,
                       depth + 1);
    }
    switch (value.kind) {
      case ValueKind::kInput:
        return Symbols(StrCat("x", step_, "."), ref.value, microbatch);
      case ValueKind::kConstant:
        return Symbols("c", ref.value, 0);
      case ValueKind::kParam: {
        const std::pair<int, int>* last = nullptr;
        const auto updates = Updates(program, ref.value);
        for (const auto& u : updates) {
          if (u.first < item) last = &u;
        }
        return last == nullptr
                   ? params_[ref.value]
                   : Reference({0, UpdateValue(ref.value)}, last->second, program, item, depth + 1);
      }
      case ValueKind::kResult:
        break;
    }
    FindFirst(ref.graph, value.producer, microbatch, program, item);
    std::vector<Bytes> inputs;
    for (ValueId in : graph.node(value.producer).inputs) {
      inputs.push_back(Reference({ref.graph, in}, microbatch, program, item, depth + 1));
    }
    return Apply(ref.graph, value.producer, value.result_index, inputs);
  }

  // The place that computes an instance first decides what it reads; if none does, the reader's.
  void FindFirst(int graph, NodeId node, int microbatch, int& program, int& item) const {
    for (int p = 0; p < static_cast<int>(plan_.programs.size()); ++p) {
      const std::vector<int> items = ItemsOf(p, graph, node, microbatch);
      if (items.empty()) continue;
      program = p;
      item = items[0];
      return;
    }
  }

  // The node of graph 0 that a nested graph belongs to.
  const Node& CallerOf(int graph) const {
    for (const Node& node : plan_.graph.nodes) {
      for (const Subgraph& sub : node.subgraphs) {
        if (&sub.graph == graphs_[graph]) return node;
      }
    }
    return plan_.graph.nodes[0];
  }

  // --- Where things lie ---
  Range RangeOf(int program, SliceId id, int microbatch) {
    const Slice& s = plan_.programs[program].slices[id.index];
    const int64_t begin = Evaluate(s.offset_bytes, {.coordinates = {}, .microbatch = microbatch});
    const Range r{program, s.buffer.index, begin, begin + s.size_bytes};
    if (begin < 0 || r.end > plan_.programs[program].buffers[r.buffer].size_bytes) {
      Wrong("outside");
      return {program, r.buffer, 0, 0};
    }
    return r;
  }
  static Bytes Get(const Memory& memory, const Range& r) {
    const Bytes& b = memory[r.program][r.buffer];
    return Bytes(b.begin() + r.begin, b.begin() + r.end);
  }
  static void Put(Memory& memory, const Range& r, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), memory[r.program][r.buffer].begin() + r.begin);
  }

  void Fill(std::vector<Binding> Program::*bindings, int microbatches, Memory& memory) {
    std::vector<std::pair<Range, Bytes>> done;
    for (int p = 0; p < static_cast<int>(plan_.programs.size()); ++p) {
      for (const Binding& b : plan_.programs[p].*bindings) {
        for (int mb = 0; mb < microbatches; ++mb) {
          const Range r = RangeOf(p, b.slice, mb);
          if (!wrong_.empty()) return;
          Bytes bytes = Reference(b.value, mb, p, 0);
          for (const auto& [other, unused] : done) {
            if (!r.Touches(other)) continue;
            // Whose bytes stay is up to the session.
            for (int64_t i = std::max(r.begin, other.begin); i < std::min(r.end, other.end); ++i) {
              if (memory[p][r.buffer][i] != bytes[i - r.begin]) bytes[i - r.begin] = 0;
            }
          }
          Put(memory, r, bytes);
          done.push_back({r, bytes});
        }
      }
    }
  }

  // --- One section ---
  void RunSection(Section section, Memory& memory) {
    section_ = section;
    Unroll();
    if (!wrong_.empty()) return;
    std::set<std::pair<std::vector<int>, Memory>> seen;
    std::set<Memory> ends;
    Explore(std::vector<int>(streams_.size(), 0), memory, seen, ends);
    if (!wrong_.empty()) return;
    std::map<ValueId, Bytes> newest = params_;
    if (section == Section::kStep) newest = NewestParams();
    for (const Memory& end : ends) {
      if (section == Section::kStep) {
        CheckEnd(&Program::outputs, plan_.microbatches, end,
                 [&](ValueId v, int mb, int p) { return Reference(v, mb, p, 0); });
      }
      CheckEnd(&Program::loads, 1, end, [&](ValueId v, int, int) {
        return plan_.graph.value(v).kind == ValueKind::kParam ? newest[v] : Bytes();
      });
    }
    params_ = newest;
    // Without races only branches make ends differ; bytes that do are good for nothing.
    memory = *ends.begin();
    for (const Memory& end : ends) {
      for (size_t p = 0; p < memory.size(); ++p) {
        for (size_t b = 0; b < memory[p].size(); ++b) {
          for (size_t i = 0; i < memory[p][b].size(); ++i) {
            if (memory[p][b][i] != end[p][b][i]) memory[p][b][i] = 0;
          }
        }
      }
    }
  }

  std::map<ValueId, Bytes> NewestParams() {
    std::map<ValueId, Bytes> newest = params_;
    for (const Update& u : plan_.graph.updates) {
      std::vector<Bytes> found;
      for (int p = 0; p < static_cast<int>(plan_.programs.size()); ++p) {
        const auto updates = Updates(p, u.param);
        if (!updates.empty()) found.push_back(Reference(u.value, updates.back().second, p, 0));
      }
      if (found.empty()) found.push_back(Reference(u.value, plan_.microbatches - 1, 0, 0));
      for (const Bytes& b : found) {
        if (b != found[0]) Wrong("programs disagree on a param");
      }
      newest[u.param] = found[0];
    }
    return newest;
  }

  template <typename Expected>
  void CheckEnd(std::vector<Binding> Program::*bindings, int microbatches, const Memory& memory,
                Expected expected) {
    for (int p = 0; p < static_cast<int>(plan_.programs.size()); ++p) {
      for (const Binding& b : plan_.programs[p].*bindings) {
        for (int mb = 0; mb < microbatches; ++mb) {
          const Bytes want = expected(b.value, mb, p);
          const Range r = RangeOf(p, b.slice, mb);
          if (!want.empty() && Get(memory, r) != want) Wrong("not there at the end");
        }
      }
    }
  }

  void Unroll() {
    ops_.clear();
    streams_.clear();
    std::map<std::pair<int, int>, int> stream_of;
    for (int p = 0; p < static_cast<int>(plan_.programs.size()); ++p) {
      const Program& program = plan_.programs[p];
      std::map<int, int> last_record;
      const auto& schedule = program.schedule(section_);
      for (int item = 0; item < static_cast<int>(schedule.size()); ++item) {
        for (const Instruction& i : program.segments[schedule[item].segment.index].instructions) {
          const auto [it, is_new] =
              stream_of.try_emplace({p, i.stream.index}, static_cast<int>(streams_.size()));
          if (is_new) streams_.emplace_back();
          const int id = static_cast<int>(ops_.size());
          streams_[it->second].push_back(id);
          ops_.push_back({p, it->second, item, schedule[item].microbatch, &i, -1, -1, {}, {}});
          Prepare(ops_.back(), id, last_record);
        }
      }
    }
    PairUp();
  }

  void Prepare(Op& op, int id, std::map<int, int>& last_record) {
    const InstructionBody& body = op.instruction->body;
    const auto range = [&](SliceId s) { return RangeOf(op.program, s, op.microbatch); };
    if (const Record* r = std::get_if<Record>(&body)) {
      const auto it = last_record.find(r->event.index);
      if (it != last_record.end() && ops_[it->second].stream != op.stream) {
        Wrong("event on two streams");
      }
      last_record[r->event.index] = id;
    } else if (const Wait* w = std::get_if<Wait>(&body)) {
      const auto it = last_record.find(w->event.index);
      if (it == last_record.end()) Wrong("wait without record");
      op.record = it != last_record.end() ? it->second : 0;
    } else if (const Launch* l = std::get_if<Launch>(&body)) {
      for (SliceId s : l->inputs) op.inputs.push_back(range(s));
      for (SliceId s : l->outputs) op.outputs.push_back(range(s));
      CheckAlias(*l, op.inputs, op.outputs);
    } else if (const Call* call = std::get_if<Call>(&body)) {
      PrepareCall(op, *call);
    } else if (const Copy* c = std::get_if<Copy>(&body)) {
      op.inputs = {range(c->from)};
      op.outputs = {range(c->to)};
      if (op.inputs[0].Touches(op.outputs[0])) Wrong("copy onto itself");
    } else if (const Send* s = std::get_if<Send>(&body)) {
      op.inputs = {range(s->from)};
    } else if (const Recv* r = std::get_if<Recv>(&body)) {
      op.outputs = {range(r->to)};
    }
  }

  void PrepareCall(Op& op, const Call& call) {
    const Program& program = plan_.programs[op.program];
    const auto range = [&](SliceId s) { return RangeOf(op.program, s, op.microbatch); };
    const auto same_bytes = [&](SliceId a, SliceId b) {
      const Range x = range(a), y = range(b);
      if (x.buffer != y.buffer || x.begin != y.begin) Wrong("border of a body");
    };
    op.inputs = {range(call.inputs[0])};
    for (SliceId s : call.outputs) op.outputs.push_back(range(s));
    for (const CallBody& body : call.bodies) {
      for (size_t k = 0; k < body.inputs.size(); ++k) {
        same_bytes(body.inputs[k], call.inputs[k + 1]);
      }
      for (size_t k = 0; k < body.outputs.size(); ++k) same_bytes(body.outputs[k], call.outputs[k]);
      for (const Instruction& i : program.segments[body.segment.index].instructions) {
        if (i.stream != op.instruction->stream) Wrong("body on another stream");
        const Launch& launch = std::get<Launch>(i.body);
        std::vector<Range> inputs, outputs;
        for (SliceId s : launch.inputs) inputs.push_back(range(s));
        for (SliceId s : launch.outputs) outputs.push_back(range(s));
        CheckAlias(launch, inputs, outputs);
        op.inputs.insert(op.inputs.end(), inputs.begin(), inputs.end());
        op.outputs.insert(op.outputs.end(), outputs.begin(), outputs.end());
      }
    }
  }

  void CheckAlias(const Launch& launch, const std::vector<Range>& inputs,
                  const std::vector<Range>& outputs) {
    const OpTraits& traits = traits_.at(graphs_[launch.graph]->node(launch.node).op);
    for (size_t o = 0; o < outputs.size(); ++o) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Range &out = outputs[o], &in = inputs[i];
        if (!out.Touches(in)) continue;
        bool allowed = false;
        for (const InPlacePair& pair : traits.in_place) {
          allowed |= pair.output == static_cast<int>(o) && pair.input == static_cast<int>(i);
        }
        if (!allowed || out.begin != in.begin || out.end != in.end) Wrong("alias");
      }
    }
  }

  void PairUp() {
    std::map<std::tuple<int, int, int>, std::vector<int>> sends, recvs;  // from, to, channel
    for (int id = 0; id < static_cast<int>(ops_.size()); ++id) {
      const Op& op = ops_[id];
      if (const Send* s = std::get_if<Send>(&op.instruction->body)) {
        sends[{op.program, s->to.program.index, s->channel}].push_back(id);
      } else if (const Recv* r = std::get_if<Recv>(&op.instruction->body)) {
        recvs[{r->from.program.index, op.program, r->channel}].push_back(id);
      }
    }
    for (const auto& [key, list] : sends) {
      for (size_t i = 0; i < std::min(list.size(), recvs[key].size()); ++i) {
        ops_[list[i]].partner = recvs[key][i];
        ops_[recvs[key][i]].partner = list[i];
      }
    }
  }

  // --- All orders ---
  bool IsDone(const std::vector<int>& at, int op) const {
    const std::vector<int>& stream = streams_[ops_[op].stream];
    const auto place = std::find(stream.begin(), stream.end(), op) - stream.begin();
    return place < at[ops_[op].stream];
  }
  bool IsHead(const std::vector<int>& at, int op) const {
    const int s = ops_[op].stream;
    return at[s] < static_cast<int>(streams_[s].size()) && streams_[s][at[s]] == op;
  }

  void Explore(std::vector<int> at, Memory memory,
               std::set<std::pair<std::vector<int>, Memory>>& seen, std::set<Memory>& ends) {
    if (!wrong_.empty() || !seen.insert({at, memory}).second) return;
    std::vector<int> heads, enabled;
    for (size_t s = 0; s < streams_.size(); ++s) {
      if (at[s] == static_cast<int>(streams_[s].size())) continue;
      const int id = streams_[s][at[s]];
      heads.push_back(id);
      const Op& op = ops_[id];
      const bool is_wait = std::holds_alternative<Wait>(op.instruction->body);
      const bool meets = std::holds_alternative<Send>(op.instruction->body) ||
                         std::holds_alternative<Recv>(op.instruction->body);
      if (is_wait ? IsDone(at, op.record) : !meets || (op.partner >= 0 && IsHead(at, op.partner))) {
        enabled.push_back(id);
      }
    }
    if (heads.empty()) {
      ends.insert(memory);
      return;
    }
    if (enabled.empty()) {
      Wrong("deadlock");
      return;
    }
    CheckTogether(heads, enabled);
    for (int id : enabled) {
      std::vector<int> next = at;
      Memory after = memory;
      const Op& op = ops_[id];
      ++next[op.stream];
      if (op.partner >= 0) {
        if (op.partner < id) continue;  // the other one stands for both
        ++next[ops_[op.partner].stream];
      }
      const bool branches = std::holds_alternative<Call>(op.instruction->body);
      for (int branch = 0; branch < (branches ? 2 : 1); ++branch) {
        Memory result = after;
        Execute(op, branch, result);
        Explore(next, std::move(result), seen, ends);
      }
    }
  }

  // Two that can happen at once may not touch the same bytes, nor compete for a channel.
  void CheckTogether(const std::vector<int>& heads, const std::vector<int>& enabled) {
    for (int a : enabled) {
      for (int b : enabled) {
        if (a >= b) continue;
        for (const Range& x : ops_[a].outputs) {
          for (const Range& y : ops_[b].outputs) {
            if (x.Touches(y)) Wrong("race");
          }
          for (const Range& y : ops_[b].inputs) {
            if (x.Touches(y)) Wrong("race");
          }
        }
        for (const Range& x : ops_[a].inputs) {
          for (const Range& y : ops_[b].outputs) {
            if (x.Touches(y)) Wrong("race");
          }
        }
      }
    }
    std::set<std::tuple<bool, int, int, int>> channels;
    for (int id : heads) {
      const Op& op = ops_[id];
      if (const Send* s = std::get_if<Send>(&op.instruction->body)) {
        if (!channels.insert({true, op.program, s->to.program.index, s->channel}).second) {
          Wrong("channel");
        }
      } else if (const Recv* r = std::get_if<Recv>(&op.instruction->body)) {
        if (!channels.insert({false, op.program, r->from.program.index, r->channel}).second) {
          Wrong("channel");
        }
      }
    }
  }

  void ExecuteLaunch(const Op& op, const Launch& launch, Memory& memory) {
    int program = op.program, item = op.item;
    FindFirst(launch.graph, launch.node, op.microbatch, program, item);
    const Node& node = graphs_[launch.graph]->node(launch.node);
    std::vector<Bytes> inputs;
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      inputs.push_back(Get(memory, RangeOf(op.program, launch.inputs[i], op.microbatch)));
      const ValueRef wanted{launch.graph, node.inputs[i]};
      if (inputs[i] != Reference(wanted, op.microbatch, program, item, 0)) {
        Wrong(StrCat("wrong input ", i, " of ", node.name));
      }
    }
    for (size_t o = 0; o < launch.outputs.size(); ++o) {
      Put(memory, RangeOf(op.program, launch.outputs[o], op.microbatch),
          Apply(launch.graph, launch.node, static_cast<int>(o), inputs));
    }
  }

  void ExecuteCall(const Op& op, const Call& call, int branch, Memory& memory) {
    int program = op.program, item = op.item;
    FindFirst(0, call.node, op.microbatch, program, item);
    const Node& node = plan_.graph.node(call.node);
    std::vector<Bytes> inputs;
    for (ValueId in : node.inputs) inputs.push_back(Reference(in, op.microbatch, program, item));
    if (Get(memory, op.inputs[0]) != inputs[0]) Wrong("wrong condition");
    const CallBody& body = call.bodies[branch];
    const Program& p = plan_.programs[op.program];
    for (const Instruction& i : p.segments[body.segment.index].instructions) {
      ExecuteLaunch(op, std::get<Launch>(i.body), memory);
    }
    for (size_t k = 0; k < body.outputs.size(); ++k) {
      const Range r = RangeOf(op.program, body.outputs[k], op.microbatch);
      const ValueRef output = p.slices[body.outputs[k].index].value;
      if (Get(memory, r) != Reference(output, op.microbatch, op.program, op.item, 0)) {
        Wrong("a body does not leave its output");
      }
      Put(memory, r, Apply(0, call.node, static_cast<int>(k), inputs));
    }
  }

  void Execute(const Op& op, int branch, Memory& memory) {
    if (!wrong_.empty()) return;
    const InstructionBody& body = op.instruction->body;
    if (const Launch* launch = std::get_if<Launch>(&body)) {
      ExecuteLaunch(op, *launch, memory);
    } else if (const Call* call = std::get_if<Call>(&body)) {
      ExecuteCall(op, *call, branch, memory);
    } else if (std::holds_alternative<Copy>(body)) {
      Put(memory, op.outputs[0], Get(memory, op.inputs[0]));
    } else if (op.partner >= 0) {
      const Op& send = std::holds_alternative<Send>(body) ? op : ops_[op.partner];
      const Op& recv = std::holds_alternative<Send>(body) ? ops_[op.partner] : op;
      if (send.inputs[0].Touches(recv.outputs[0])) Wrong("transfer onto itself");
      Put(memory, recv.outputs[0], Get(memory, send.inputs[0]));
    }
  }

  const PlanBundle& plan_;
  const OpTraitsTable& traits_;
  const std::vector<const Graph*> graphs_;
  std::string wrong_;
  std::map<std::string, int> symbols_;
  std::map<ValueId, Bytes> params_;  // at the start of the step
  int step_ = -1;
  Section section_ = Section::kInit;
  std::vector<Op> ops_;
  std::vector<std::vector<int>> streams_;
};

}  // namespace

std::string TryEveryOrder(const PlanBundle& plan, const OpTraitsTable& traits) {
  return EveryOrder(plan, traits).Run();
}

}  // namespace millrace
