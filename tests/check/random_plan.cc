#include "tests/check/random_plan.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/strings.h"

namespace millrace {
namespace {

class Generator {
 public:
  explicit Generator(std::mt19937& random) : random_(random) {}

  PlanBundle Make() {
    plan_.name = "random";
    plan_.microbatches = Below(3) == 0 ? 2 : 1;
    MakeGraph();
    const size_t programs = Below(3) == 0 ? 2 : 1;
    cut_ = programs == 2 ? 1 + Below(plan_.graph.nodes.size() - 1) : plan_.graph.nodes.size();
    for (size_t p = 0; p < programs; ++p) MakeProgram(p);
    return std::move(plan_);
  }

 private:
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool Chance(int percent) { return Below(100) < static_cast<size_t>(percent); }

  void MakeGraph() {
    GraphBuilder b("random");
    const TensorType type{DType::kU8, {2}};
    std::vector<ValueId> values = {b.Input("x", type), b.Param("w", type, InitData({})),
                                   b.Constant("c", Tensor::Zeros(type))};
    const size_t nodes = 2 + Below(3);
    const size_t branch = Chance(30) ? Below(nodes) : nodes;  // the If, if any
    const ValueId condition = branch < nodes ? b.Input("k", {DType::kBool, {1}}) : ValueId();
    for (size_t n = 0; n < nodes; ++n) {
      std::vector<ValueId> inputs = {Chance(60) ? values.back() : values[Below(values.size())]};
      if (Chance(40)) inputs.push_back(values[Below(values.size())]);
      ValueId v;
      if (n == branch) {
        const size_t captures = inputs.size();
        inputs.insert(inputs.begin(), condition);
        Node& node = b.AddNode("If", inputs, {}, StrCat("n", n));
        node.subgraphs.push_back({"then_branch", MakeBody("then", captures, type)});
        node.subgraphs.push_back({"else_branch", MakeBody("else", captures, type)});
        v = node.outputs[0];
      } else {
        v = b.Op(Chance(30) ? "InPlace" : "Fn", inputs, {}, StrCat("n", n));
      }
      b.graph().value(v).type = type;
      b.graph().value(v).typed = true;
      values.push_back(v);
    }
    b.Output(values.back());
    if (Chance(30)) b.Output(values[3]);
    if (b.graph().outputs.size() == 2 && b.graph().outputs[0] == b.graph().outputs[1]) {
      b.graph().outputs.pop_back();
    }
    if (Chance(50)) b.AddUpdate(values[1], values[3 + Below(nodes)]);
    plan_.graph = std::move(b).Build();
  }

  Graph MakeBody(const std::string& name, size_t captures, const TensorType& type) {
    GraphBuilder b(name);
    std::vector<ValueId> values;
    for (size_t i = 0; i < captures; ++i) values.push_back(b.Input(StrCat(name, "_a", i), type));
    const size_t nodes = 1 + Below(2);
    for (size_t n = 0; n < nodes; ++n) {
      const ValueId v = b.Op(Chance(30) ? "InPlace" : "Fn", {values[Below(values.size())]}, {},
                             StrCat(name, "_n", n));
      b.graph().value(v).type = type;
      b.graph().value(v).typed = true;
      values.push_back(v);
    }
    b.Output(values.back());
    return std::move(b).Build();
  }

  bool IsIn(size_t program, size_t node) const { return (node < cut_) == (program == 0); }

  // A place of its own for a value in the program being made, one for each microbatch or one for
  // all.
  SliceId SliceOf(ValueId v) {
    const auto found = slices_.find(v);
    if (found != slices_.end()) return found->second;
    const Value& value = plan_.graph.value(v);
    const bool is_output = std::count(plan_.graph.outputs.begin(), plan_.graph.outputs.end(), v);
    const bool each = value.kind == ValueKind::kInput || is_output ||
                      (value.kind == ValueKind::kResult && Chance(50));
    Slice slice;
    slice.value = {0, v};
    slice.buffer = BufferId(0);
    slice.offset_bytes = size_;
    slice.size_bytes = ByteSize(value.type);
    if (each) slice.offset_bytes.terms.push_back({.variable = kMicrobatchVar, .scale = 2});
    size_ += each ? 2 * plan_.microbatches : 2;
    program_->slices.push_back(slice);
    return slices_[v] = SliceId(program_->slices.size() - 1);
  }

  void Append(StreamId stream, InstructionBody body) {
    program_->segments.back().instructions.push_back({stream, std::move(body)});
  }

  EventId NewEvent() {
    program_->events.push_back(StrCat("e", program_->events.size()));
    return EventId(program_->events.size() - 1);
  }

  StreamId AnyStream() { return StreamId(Below(program_->streams.size())); }

  // `stream` waits for what `producer` has done so far.
  void Follow(StreamId stream, StreamId producer) {
    if (stream == producer || Chance(2)) return;
    const EventId event = NewEvent();
    Append(producer, Record{event});
    Append(stream, Wait{event});
  }

  void Join() {
    for (int s = 1; s < std::ssize(program_->streams); ++s) Follow(StreamId(0), StreamId(s));
    for (int s = 1; s < std::ssize(program_->streams); ++s) Follow(StreamId(s), StreamId(0));
  }

  void MakeProgram(size_t p) {
    program_ = &plan_.programs.emplace_back();
    program_->name = StrCat("p", p);
    program_->device_kind = "cpu";
    program_->buffers.push_back({"arena", MemorySpace::kDevice, 0});
    const size_t streams = 1 + Below(plan_.programs.size() == 2 ? 2 : 3);
    for (size_t s = 0; s < streams; ++s) program_->streams.push_back({StrCat("s", s)});
    slices_.clear();
    written_on_.clear();
    size_ = 0;
    const size_t nodes = plan_.graph.nodes.size();
    for (size_t n = 0; n < nodes; ++n) {
      if (plan_.graph.nodes[n].op != "If" || !IsIn(p, n)) continue;
      program_->segments.push_back({"then", 1, {}});
      program_->segments.push_back({"else", 2, {}});
    }
    program_->segments.push_back({"first", 0, {}});
    const size_t split = Chance(50) ? Below(nodes) : nodes;  // where the second segment begins
    for (size_t n = 0; n < nodes; ++n) {
      if (n == split && n > 0) {
        if (Chance(70)) Join();
        program_->segments.push_back({"second", 0, {}});
      }
      if (IsIn(p, n)) AddNode(p, NodeId(n));
      if (plan_.programs.size() == 2 && p == 1 && n < cut_) ReceiveResult(n);
    }
    FinishUpdate(p);
    if (Chance(80)) Join();
    Bind();
    MakeSchedule();
    program_->buffers[0].size_bytes = size_ + Below(3);
  }

  bool CrossesCut(ValueId v) const {
    for (size_t n = cut_; n < plan_.graph.nodes.size(); ++n) {
      for (ValueId in : plan_.graph.nodes[n].inputs) {
        if (in == v) return true;
      }
    }
    return false;
  }

  void AddNode(size_t p, NodeId id) {
    const Node& node = plan_.graph.node(id);
    const StreamId stream = AnyStream();
    Launch launch{id, 0, "ref", {}, {}, SliceId()};
    for (ValueId in : node.inputs) {
      const auto producer = written_on_.find(in);
      if (producer != written_on_.end()) Follow(stream, producer->second);
      launch.inputs.push_back(SliceOf(in));
    }
    const ValueId out = node.outputs[0];
    if (node.op == "If") {
      AddCall(id, stream, launch.inputs);
      written_on_[out] = stream;
      SendResult(p, out, stream);
      return;
    }
    if (node.op == "InPlace" && Chance(70)) {  // over its input, whoever else needs that
      Slice slice = program_->slices[launch.inputs[0].index];
      slice.value = {0, out};
      program_->slices.push_back(slice);
      slices_[out] = SliceId(program_->slices.size() - 1);
    }
    launch.outputs.push_back(SliceOf(out));
    Append(stream, std::move(launch));
    written_on_[out] = stream;
    SendResult(p, out, stream);
  }

  // A slice of a body's value on the bytes of one outside.
  SliceId SameBytes(ValueRef inside, SliceId outside) {
    Slice slice = program_->slices[outside.index];
    slice.value = inside;
    program_->slices.push_back(slice);
    return SliceId(program_->slices.size() - 1);
  }

  void AddCall(NodeId id, StreamId stream, const std::vector<SliceId>& inputs) {
    const Node& node = plan_.graph.node(id);
    Call call{id, 0, inputs, {SliceOf(node.outputs[0])}, {}};
    for (int32_t g = 1; g <= 2; ++g) {
      const Graph& body = node.subgraphs[g - 1].graph;
      std::map<ValueId, SliceId> slices;
      CallBody result;
      result.segment = SegmentId(g - 1);
      for (size_t k = 0; k < body.inputs.size(); ++k) {
        slices[body.inputs[k]] = SameBytes({g, body.inputs[k]}, inputs[k + 1]);
        result.inputs.push_back(slices[body.inputs[k]]);
      }
      slices[body.outputs[0]] = SameBytes({g, body.outputs[0]}, call.outputs[0]);
      result.outputs.push_back(slices[body.outputs[0]]);
      for (size_t n = 0; n < body.nodes.size(); ++n) {
        const ValueId out = body.nodes[n].outputs[0];
        if (!slices.contains(out)) {
          slices[out] = SameBytes({g, out}, call.outputs[0]);
          program_->slices.back().offset_bytes = size_;
          size_ += 2;
        }
        program_->segments[g - 1].instructions.push_back(
            {stream, Launch{NodeId(n),
                            g,
                            "ref",
                            {slices[body.nodes[n].inputs[0]]},
                            {slices[out]},
                            SliceId()}});
      }
      call.bodies.push_back(std::move(result));
    }
    Append(stream, std::move(call));
  }

  void SendResult(size_t p, ValueId out, StreamId stream) {
    if (p == 0 && cut_ < plan_.graph.nodes.size() && CrossesCut(out)) {
      const StreamId sender = AnyStream();
      Follow(sender, stream);
      Append(sender, Send{SliceOf(out), {ProgramId(1), {}}, out.index});
    }
  }

  void ReceiveResult(size_t n) {
    const ValueId v = plan_.graph.nodes[n].outputs[0];
    if (!CrossesCut(v)) return;
    const StreamId stream = AnyStream();
    Append(stream, Recv{SliceOf(v), {ProgramId(0), {}}, v.index});
    written_on_[v] = stream;
  }

  // The new version goes home once all who read the old one are done.
  void FinishUpdate(size_t p) {
    if (plan_.graph.updates.empty()) return;
    const Update& update = plan_.graph.updates[0];
    if (!IsIn(p, plan_.graph.value(update.value).producer.index)) return;
    if (Chance(90)) Join();
    Slice home = program_->slices[SliceOf(update.param).index];
    home.value = {0, update.value};
    program_->slices.push_back(home);
    const SliceId to(program_->slices.size() - 1);
    const StreamId stream = AnyStream();
    const auto producer = written_on_.find(update.value);
    if (producer != written_on_.end()) Follow(stream, producer->second);
    Append(stream, Copy{SliceOf(update.value), to});
  }

  void Bind() {
    for (const auto& [v, slice] : slices_) {
      const Value& value = plan_.graph.value(v);
      if (value.kind == ValueKind::kInput) program_->inputs.push_back({v, slice});
      if (value.kind == ValueKind::kParam || value.kind == ValueKind::kConstant) {
        program_->loads.push_back({v, slice});
      }
      const auto& outputs = plan_.graph.outputs;
      if (written_on_.contains(v) && std::count(outputs.begin(), outputs.end(), v) > 0) {
        program_->outputs.push_back({v, slice});
      }
    }
  }

  void MakeSchedule() {
    std::vector<SegmentId> segments;
    for (size_t s = 0; s < program_->segments.size(); ++s) {
      if (program_->segments[s].graph == 0) segments.push_back(SegmentId(s));
    }
    if (Chance(10)) program_->init.push_back({segments[0], 0});
    const bool by_segment = segments.size() == 2 && Chance(30);
    const int inner = by_segment ? plan_.microbatches : static_cast<int>(segments.size());
    const int outer = by_segment ? static_cast<int>(segments.size()) : plan_.microbatches;
    for (int i = 0; i < outer; ++i) {
      for (int j = 0; j < inner; ++j) {
        program_->step.push_back({segments[by_segment ? i : j], by_segment ? j : i});
      }
    }
  }

  std::mt19937& random_;
  PlanBundle plan_;
  size_t cut_ = 0;  // nodes from here on are program 1's
  Program* program_ = nullptr;
  std::map<ValueId, SliceId> slices_;
  std::map<ValueId, StreamId> written_on_;
  int64_t size_ = 0;
};

}  // namespace

PlanBundle RandomPlan(std::mt19937& random) { return Generator(random).Make(); }

void Mutate(std::mt19937& random, PlanBundle& plan) {
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  Program& program = plan.programs[below(plan.programs.size())];
  Segment& segment = program.segments[below(program.segments.size())];
  std::vector<Instruction>& list = segment.instructions;
  if (list.empty()) return;
  const size_t i = below(list.size());
  Slice& slice = program.slices[below(program.slices.size())];
  switch (below(10)) {
    case 0:
      list.erase(list.begin() + i);
      break;
    case 1:
      list.insert(list.begin() + below(list.size() + 1), list[i]);
      break;
    case 2:
      if (i + 1 < list.size()) std::swap(list[i], list[i + 1]);
      break;
    case 3:
      list[i].stream = StreamId(below(program.streams.size()));
      break;
    case 4:
      slice.offset_bytes.base += static_cast<int64_t>(below(5)) - 2;
      break;
    case 5:
      slice.offset_bytes = program.slices[below(program.slices.size())].offset_bytes;
      break;
    case 6:
      if (Wait* wait = std::get_if<Wait>(&list[i].body)) {
        wait->event = EventId(below(program.events.size()));
      } else if (Record* record = std::get_if<Record>(&list[i].body)) {
        record->event = EventId(below(program.events.size()));
      }
      break;
    case 7:  // another slice of the same value
      if (Launch* launch = std::get_if<Launch>(&list[i].body)) {
        auto& operands = below(2) == 0 ? launch->inputs : launch->outputs;
        SliceId& operand = operands[below(operands.size())];
        const SliceId other(below(program.slices.size()));
        if (program.slices[other.index].value == program.slices[operand.index].value) {
          operand = other;
        }
      }
      break;
    case 8:
      if (program.step.size() > 1) {
        const size_t s = below(program.step.size() - 1);
        std::swap(program.step[s], program.step[s + 1]);
      }
      break;
    case 9:
      for (LinearTerm& term : slice.offset_bytes.terms) term.modulus = 1;
      break;
  }
}

void Corrupt(std::mt19937& random, PlanBundle& plan) {
  const auto below = [&](size_t n) {
    return n == 0 ? 0 : std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const auto any_of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[below(values.size())];
  };
  const auto id = [&] {
    return static_cast<int32_t>(any_of({-2147483648LL, -1, 0, 1, 2, 3, 7, 1000, 2147483647LL}));
  };
  const auto number = [&] {
    return any_of({std::numeric_limits<int64_t>::min(), -(int64_t{1} << 48), -3, -1, 0, 1, 2, 5,
                   int64_t{1} << 48, std::numeric_limits<int64_t>::max()});
  };
  Program& program = plan.programs[below(plan.programs.size())];
  Slice& slice = program.slices[below(program.slices.size())];
  Segment& segment = program.segments[below(program.segments.size())];
  switch (below(16)) {
    case 0:
      slice.buffer.index = id();
      return;
    case 1:
      slice.value = {id(), ValueId(id())};
      return;
    case 2:
      slice.offset_bytes.base = number();
      return;
    case 3:
      slice.offset_bytes.terms.push_back({id(), number(), number(), number()});
      return;
    case 4:
      slice.size_bytes = number();
      return;
    case 5:
      slice.strides.assign(below(4), number());
      return;
    case 6:
      slice.layout = static_cast<Layout>(below(5));
      return;
    case 7:
      program.buffers[0].size_bytes = number();
      return;
    case 8:
      segment.graph = id();
      return;
    case 9:
      plan.microbatches = id();
      return;
    case 10:
      program.step.push_back({SegmentId(id()), id()});
      return;
    case 11:
      program.loads.push_back({ValueId(id()), SliceId(id())});
      return;
    case 12:
      plan.mesh.axes.push_back({"data", number()});
      return;
    case 13:
      program.outputs.push_back({ValueId(id()), SliceId(id())});
      return;
    default:
      break;
  }
  if (segment.instructions.empty()) return;
  Instruction& instruction = segment.instructions[below(segment.instructions.size())];
  if (below(4) == 0) instruction.stream.index = id();
  InstructionBody& body = instruction.body;
  if (Launch* i = std::get_if<Launch>(&body)) {
    if (below(2) == 0) i->node.index = id();
    if (below(2) == 0) i->graph = id();
    i->inputs.assign(below(4), SliceId(id()));
    i->scratch.index = id();
  } else if (Copy* i = std::get_if<Copy>(&body)) {
    i->from.index = id();
  } else if (Record* i = std::get_if<Record>(&body)) {
    i->event.index = id();
  } else if (Send* i = std::get_if<Send>(&body)) {
    i->to.program.index = id();
    i->to.coordinates.push_back({id(), LinearExpr(number())});
  } else if (Recv* i = std::get_if<Recv>(&body)) {
    i->to.index = id();
    i->channel = id();
  } else if (Call* i = std::get_if<Call>(&body)) {
    i->bodies.resize(below(4));
    for (CallBody& b : i->bodies) b.segment.index = id();
    i->inputs.assign(below(4), SliceId(id()));
  }
}

}  // namespace millrace
