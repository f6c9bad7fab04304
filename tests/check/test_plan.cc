#include "tests/check/test_plan.h"

#include "graph/assert.h"
#include "graph/strings.h"

namespace millrace {
namespace {

template <typename T>
int32_t FindNamed(const std::vector<T>& items, std::string_view name) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace

Program& TestProgram::program() const { return owner_.plan_.programs[index_]; }

TestProgram& TestProgram::Buffer(std::string name, int64_t size, MemorySpace space) {
  program().buffers.push_back({std::move(name), space, size});
  return *this;
}

SliceId TestProgram::SliceOf(std::string_view operand) {
  if (operand.empty()) return SliceId();
  const auto found = slices_.find(operand);
  if (found != slices_.end()) return found->second;
  const size_t at = operand.find('@');
  MILLRACE_CHECK(at != std::string_view::npos);
  std::string_view name = operand.substr(0, at), place = operand.substr(at + 1);
  Slice slice;
  slice.size_bytes = 2;
  if (const size_t hash = name.find('#'); hash != std::string_view::npos) {
    slice.value.graph = name[hash + 1] - '0';
    name = name.substr(0, hash);
  }
  if (!name.empty()) {
    slice.value.value = owner_.value(name, slice.value.graph);
    const Graph& graph = *FlattenGraphs(owner_.plan_.graph)[slice.value.graph];
    slice.size_bytes = ByteSize(graph.value(slice.value.value).type);
  }
  slice.buffer = BufferId(0);
  if (const size_t colon = place.find(':'); colon != std::string_view::npos) {
    slice.buffer = BufferId(FindNamed(program().buffers, place.substr(0, colon)));
    place = place.substr(colon + 1);
  }
  absl::StatusOr<LinearExpr> offset = ParseLinearExpr(place, owner_.plan_.mesh);
  MILLRACE_CHECK(offset.ok() && slice.buffer.valid());
  slice.offset_bytes = *std::move(offset);
  program().slices.push_back(std::move(slice));
  const SliceId id(program().slices.size() - 1);
  slices_.emplace(operand, id);
  return id;
}

Slice& TestProgram::slice(std::string_view operand) {
  return program().slices[SliceOf(operand).index];
}

std::vector<SliceId> TestProgram::SlicesOf(const std::vector<std::string>& operands) {
  std::vector<SliceId> slices;
  for (const std::string& operand : operands) slices.push_back(SliceOf(operand));
  return slices;
}

TestProgram& TestProgram::Load(std::string_view operand) {
  const SliceId s = SliceOf(operand);
  program().loads.push_back({program().slices[s.index].value.value, s});
  return *this;
}

TestProgram& TestProgram::In(std::string_view operand) {
  const SliceId s = SliceOf(operand);
  program().inputs.push_back({program().slices[s.index].value.value, s});
  return *this;
}

TestProgram& TestProgram::Out(std::string_view operand) {
  const SliceId s = SliceOf(operand);
  program().outputs.push_back({program().slices[s.index].value.value, s});
  return *this;
}

TestProgram& TestProgram::Segment(std::string name, int32_t graph) {
  program().segments.push_back({std::move(name), graph, {}});
  return *this;
}

StreamId TestProgram::StreamOf(std::string_view name) {
  int32_t s = FindNamed(program().streams, name);
  if (s < 0) {
    s = static_cast<int32_t>(program().streams.size());
    program().streams.push_back({std::string(name), StreamKind::kCompute, 1, 0});
  }
  return StreamId(s);
}

EventId TestProgram::EventOf(std::string_view name) {
  std::vector<std::string>& events = program().events;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i] == name) return EventId(i);
  }
  events.emplace_back(name);
  return EventId(events.size() - 1);
}

SegmentId TestProgram::SegmentOf(std::string_view name) const {
  const int32_t s = FindNamed(program().segments, name);
  MILLRACE_CHECK(s >= 0);
  return SegmentId(s);
}

TestProgram& TestProgram::Append(std::string_view stream, InstructionBody body) {
  const StreamId s = StreamOf(stream);
  if (program().segments.empty()) Segment("step");
  program().segments.back().instructions.push_back({s, std::move(body)});
  return *this;
}

TestProgram& TestProgram::Launch(std::string_view stream, std::string_view node,
                                 std::vector<std::string> inputs, std::vector<std::string> outputs,
                                 std::string_view scratch) {
  const int32_t graph = program().segments.empty() ? 0 : program().segments.back().graph;
  return Append(stream, millrace::Launch{owner_.node_id(node, graph), graph, "ref",
                                         SlicesOf(inputs), SlicesOf(outputs), SliceOf(scratch)});
}

TestProgram& TestProgram::HostCall(std::string_view stream, std::string_view node,
                                   std::vector<std::string> inputs,
                                   std::vector<std::string> outputs) {
  return Append(stream,
                millrace::HostCall{owner_.node_id(node), 0, SlicesOf(inputs), SlicesOf(outputs)});
}

TestProgram& TestProgram::Collective(std::string_view stream, std::string_view node,
                                     std::string_view input, std::string_view output) {
  return Append(stream, millrace::Collective{
                            owner_.node_id(node), {SliceOf(input)}, {SliceOf(output)}, SliceId()});
}

TestProgram& TestProgram::Copy(std::string_view stream, std::string_view to,
                               std::string_view from) {
  return Append(stream, millrace::Copy{SliceOf(from), SliceOf(to)});
}

TestProgram& TestProgram::Record(std::string_view stream, std::string_view event) {
  return Append(stream, millrace::Record{EventOf(event)});
}

TestProgram& TestProgram::Wait(std::string_view stream, std::string_view event) {
  return Append(stream, millrace::Wait{EventOf(event)});
}

TestProgram& TestProgram::Send(std::string_view stream, std::string_view from, int peer,
                               int channel) {
  return Append(stream, millrace::Send{SliceOf(from), {ProgramId(peer), {}}, channel});
}

TestProgram& TestProgram::Recv(std::string_view stream, std::string_view to, int peer,
                               int channel) {
  return Append(stream, millrace::Recv{SliceOf(to), {ProgramId(peer), {}}, channel});
}

TestProgram& TestProgram::Publish(std::string_view stream, std::string_view node,
                                  std::string_view from) {
  return Append(stream, millrace::Publish{owner_.node_id(node), "box", SliceOf(from)});
}

TestProgram& TestProgram::TakeLatest(std::string_view stream, std::string_view node,
                                     std::string_view to) {
  return Append(stream, millrace::TakeLatest{owner_.node_id(node), "box", SliceOf(to)});
}

TestProgram& TestProgram::Call(std::string_view stream, std::string_view node,
                               std::vector<std::string> inputs, std::vector<std::string> outputs,
                               std::vector<Body> bodies) {
  const int32_t graph = program().segments.back().graph;
  millrace::Call call{owner_.node_id(node, graph), graph, SlicesOf(inputs), SlicesOf(outputs), {}};
  const Graph& in = *FlattenGraphs(owner_.plan_.graph)[graph];
  call.flow = TestTraits().at(in.node(call.node).op).control_flow;
  for (const Body& body : bodies) {
    call.bodies.push_back({SegmentOf(body.segment), SlicesOf(body.inputs), SlicesOf(body.outputs)});
  }
  return Append(stream, std::move(call));
}

TestProgram& TestProgram::AtCoordinate(int axis, std::string_view expr) {
  InstructionBody& body = program().segments.back().instructions.back().body;
  Peer& peer = std::holds_alternative<millrace::Send>(body) ? std::get<millrace::Send>(body).to
                                                            : std::get<millrace::Recv>(body).from;
  absl::StatusOr<LinearExpr> coordinate = ParseLinearExpr(expr, owner_.plan_.mesh);
  MILLRACE_CHECK(coordinate.ok());
  peer.coordinates.push_back({axis, *std::move(coordinate)});
  return *this;
}

TestProgram& TestProgram::Schedule(Section section,
                                   std::vector<std::pair<std::string, int>> items) {
  std::vector<ScheduleItem>& schedule = section == Section::kInit   ? program().init
                                        : section == Section::kStep ? program().step
                                                                    : program().finish;
  for (const auto& [segment, microbatch] : items) {
    schedule.push_back({SegmentOf(segment), microbatch});
  }
  return *this;
}

OpTraitsTable TestTraits() {
  OpTraitsTable traits;
  traits["Fn"] = {};
  traits["InPlace"].in_place = {{0, 0}};
  traits["Whole"].view = ViewKind::kWhole;
  traits["Join"].view = ViewKind::kJoin;
  traits["Split"].view = ViewKind::kSplit;
  traits["Random"].deterministic = false;
  traits["Effect"].has_effects = true;
  traits["HostIn"].host_inputs = {0};
  traits["Dyn"].host_call = true;
  traits["If"].control_flow = ControlFlow::kIf;
  traits["Loop"].control_flow = ControlFlow::kLoop;
  traits["Scan"].control_flow = ControlFlow::kScan;
  traits["comm.AllReduce"].comm = CommKind::kAllReduce;
  traits["comm.AllReduce"].in_place = {{0, 0}};
  traits["comm.AllGather"].comm = CommKind::kAllGather;
  traits["comm.ReduceScatter"].comm = CommKind::kReduceScatter;
  traits["comm.Publish"].comm = CommKind::kPublish;
  traits["comm.Publish"].has_effects = true;
  traits["comm.TakeLatest"].comm = CommKind::kTakeLatest;
  traits["comm.TakeLatest"].deterministic = false;
  return traits;
}

TestPlan::TestPlan(int microbatches) {
  plan_.name = "test";
  plan_.microbatches = microbatches;
}

ValueId TestPlan::value(std::string_view name, int32_t graph) const {
  const int32_t v = FindNamed(FlattenGraphs(plan_.graph)[graph]->values, name);
  MILLRACE_CHECK(v >= 0);
  return ValueId(v);
}

NodeId TestPlan::node_id(std::string_view name, int32_t graph) const {
  const int32_t n = FindNamed(FlattenGraphs(plan_.graph)[graph]->nodes, name);
  MILLRACE_CHECK(n >= 0);
  return NodeId(n);
}

millrace::Node& TestPlan::node(std::string_view name) { return plan_.graph.node(node_id(name)); }

TestPlan& TestPlan::Input(std::string name, Shape shape, DType dtype) {
  GraphBuilder b(std::move(plan_.graph));
  b.Input(name, {dtype, shape});
  plan_.graph = std::move(b).Build();
  return *this;
}

TestPlan& TestPlan::Param(std::string name, Shape shape) {
  GraphBuilder b(std::move(plan_.graph));
  b.Param(name, {DType::kU8, shape}, InitData({}));
  plan_.graph = std::move(b).Build();
  return *this;
}

TestPlan& TestPlan::Constant(std::string name, Shape shape) {
  GraphBuilder b(std::move(plan_.graph));
  b.Constant(name, Tensor::Zeros({DType::kU8, shape}));
  plan_.graph = std::move(b).Build();
  return *this;
}

TestPlan& TestPlan::Node(std::string op, std::vector<std::string> inputs,
                         std::vector<std::string> outputs, Shape shape) {
  std::vector<ValueId> ids;
  for (const std::string& name : inputs) ids.push_back(name.empty() ? ValueId() : value(name));
  GraphBuilder b(std::move(plan_.graph));
  millrace::Node& node =
      b.AddNode(op, ids, {}, outputs.empty() ? op : outputs[0], static_cast<int>(outputs.size()));
  const std::vector<ValueId> results = node.outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value& value = b.graph().value(results[i]);
    value.name = outputs[i];
    value.type = {DType::kU8, shape};
    value.typed = true;
  }
  plan_.graph = std::move(b).Build();
  return *this;
}

TestPlan& TestPlan::Output(std::string_view name) {
  plan_.graph.outputs.push_back(value(name));
  return *this;
}

TestPlan& TestPlan::Update(std::string_view param, std::string_view v) {
  plan_.graph.updates.push_back({value(param), value(v)});
  return *this;
}

TestProgram& TestPlan::Program(std::string name, std::string kind) {
  millrace::Program& program = plan_.programs.emplace_back();
  program.name = std::move(name);
  program.device_kind = std::move(kind);
  programs_.push_back(
      std::make_unique<TestProgram>(*this, static_cast<int>(plan_.programs.size()) - 1));
  return *programs_.back();
}

PlanBundle TestPlan::Build() {
  PlanBundle plan = plan_;
  for (millrace::Program& program : plan.programs) {
    if (!program.init.empty() || !program.step.empty() || !program.finish.empty()) continue;
    for (int32_t mb = 0; mb < plan.microbatches; ++mb) {
      for (size_t s = 0; s < program.segments.size(); ++s) {
        if (program.segments[s].graph == 0) program.step.push_back({SegmentId(s), mb});
      }
    }
  }
  return plan;
}

CheckReport TestPlan::Check(const MachineSpec* machine) {
  return CheckPlan(Build(), TestTraits(), machine);
}

void DeclareChain(TestPlan& plan) {
  plan.Input("x").Node("Fn", {"x"}, {"h"}).Node("Fn", {"h"}, {"y"}).Output("y");
}

std::string Verdict(TestPlan& plan, const MachineSpec* machine) {
  const CheckReport report = plan.Check(machine);
  return report.ok() ? "" : report.errors[0].message;
}

}  // namespace millrace
