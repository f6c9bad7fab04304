#include "tests/graph/sample_plan.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.h"

namespace millrace {
namespace {

const TensorType kVector = {DType::kF32, {4}};

void SetType(Graph& graph, ValueId value, const TensorType& type) {
  graph.value(value).type = type;
  graph.value(value).typed = true;
}

Graph Branch(const std::string& prefix, std::string_view op) {
  GraphBuilder b(prefix);
  const ValueId x = b.Input(prefix + "_x", kVector);
  const ValueId y = b.Op(op, {x}, {}, prefix + "_y");
  SetType(b.graph(), y, kVector);
  b.Output(y);
  return std::move(b).Build();
}

// Nodes of every kind of instruction. Params are declared after results, so that a graph file's own
// order of values is another.
Graph SampleGraph() {
  GraphBuilder b("sample");
  const ValueId x = b.Input("x", kVector);
  const ValueId c = b.Input("c", {DType::kBool, {}});
  const ValueId h = b.Op("Relu", {x}, {}, "h");
  const ValueId w = b.Param("w", kVector, InitData({}));
  const ValueId mm = b.AddNode("Clip", {h, ValueId(), w}, {}, "mm").outputs[0];
  Node& branch = b.AddNode("If", {c, mm}, {}, "z");
  branch.subgraphs.push_back({"then_branch", Branch("t", "Tanh")});
  branch.subgraphs.push_back({"else_branch", Branch("e", "Neg")});
  const ValueId z = branch.outputs[0];
  const ValueId s = b.Op("comm.AllReduce", {z}, {}, "s");
  const ValueId n = b.Op("NonZero", {s}, {}, "n");
  b.AddNode("comm.Publish", {s}, {}, "pub", 0);
  const ValueId latest = b.Op("comm.TakeLatest", {}, {}, "latest");
  for (const ValueId v : {h, mm, z, s, latest}) SetType(b.graph(), v, kVector);
  SetType(b.graph(), n, {DType::kI64, {1, 4}});
  b.graph().value(n).bounded = true;
  b.Output(n);
  b.AddUpdate(w, latest);
  return std::move(b).Build();
}

LinearExpr Expr(int64_t base, const LinearTerm& term) {
  LinearExpr e(base);
  e.terms.push_back(term);
  return e;
}

Slice Place(const ValueRef& value, BufferId buffer, LinearExpr offset_bytes, int64_t size_bytes,
            Layout layout = Layout::kStrided, std::vector<int64_t> strides = {}) {
  return {value, buffer, std::move(offset_bytes), size_bytes, layout, std::move(strides)};
}

}  // namespace

PlanBundle SamplePlan() {
  PlanBundle plan;
  plan.name = "sample";
  plan.machine = "two \"boxes\"";
  plan.microbatches = 3;
  plan.mesh.axes = {{"data", 2}, {"tensor", 4}};
  plan.graph = SampleGraph();
  const auto value = [&](std::string_view name) {
    for (size_t i = 0; i < plan.graph.values.size(); ++i) {
      if (plan.graph.values[i].name == name) return ValueId(i);
    }
    return ValueId();
  };
  const auto node = [&](std::string_view name) { return plan.graph.value(value(name)).producer; };

  Program p;
  p.name = "stage0";
  p.device_kind = "cuda";
  p.device_index = Expr(0, {.variable = 0, .scale = 4});
  p.buffers = {{"arena", MemorySpace::kDevice, 4096},
               {"pinned", MemorySpace::kHost, 256},
               {"swap", MemorySpace::kFile, 128}};
  p.streams = {{"main", StreamKind::kCompute, 4, 0},
               {"copy", StreamKind::kCopy, 1, -1},
               {"comm", StreamKind::kComm, 1, 2}};
  p.events = {"ready", "done"};
  const BufferId arena(0), pinned(1), swap(2);
  p.slices = {
      /*0*/ Place({0, value("x")}, arena, Expr(0, {.variable = kMicrobatchVar, .scale = 64}), 16),
      /*1*/
      Place({0, value("h")}, arena,
            Expr(256, {.variable = kMicrobatchVar, .scale = 64, .add = 1, .modulus = 2}), 16),
      /*2*/ Place({0, value("w")}, arena, 512, 16),
      /*3*/
      Place({0, value("mm")}, arena, Expr(576, {.variable = 1, .scale = -64}), 28, Layout::kStrided,
            {2}),
      /*4*/ Place({0, value("mm")}, swap, 0, 64, Layout::kPacked),
      /*5*/ Place({}, arena, 1024, 64),
      /*6*/ Place({0, value("c")}, pinned, 0, 1),
      /*7*/ Place({0, value("z")}, arena, 1088, 16),
      /*8*/ Place({0, value("s")}, arena, 1152, 16),
      /*9*/ Place({0, value("n")}, pinned, 64, 32),
      /*10*/ Place({0, value("latest")}, arena, 1216, 16),
      /*11*/ Place({1, ValueId(0)}, arena, 576, 16),
      /*12*/ Place({1, ValueId(1)}, arena, 1088, 16),
      /*13*/ Place({2, ValueId(0)}, arena, 576, 16),
      /*14*/ Place({2, ValueId(1)}, arena, 1088, 16),
  };
  const StreamId main(0), copy(1), comm(2);
  const auto id = [](int i) { return SliceId(i); };
  p.segments = {
      {"forward",
       0,
       {
           {main, Launch{node("h"), 0, "reference", {id(0)}, {id(1)}, {}}},
           {main, Launch{node("mm"), 0, "onednn.jit:avx2", {id(1), {}, id(2)}, {id(3)}, id(5)}},
           {main, Record{EventId(0)}},
           {copy, Wait{EventId(0)}},
           {copy, Copy{id(3), id(4)}},
           {main, Call{node("z"),
                       0,
                       {id(6), id(3)},
                       {id(7)},
                       {{SegmentId(1), {id(11)}, {id(12)}}, {SegmentId(2), {id(13)}, {id(14)}}}}},
           {comm, Collective{node("s"), {id(7)}, {id(8)}, id(5)}},
           {comm, Send{id(8), {ProgramId(1), {}}, 7}},
           {comm,
            Recv{
                id(8), {ProgramId(0), {{1, Expr(0, {.variable = 1, .add = 3, .modulus = 4})}}}, 8}},
           {main, HostCall{node("n"), 0, {id(8)}, {id(9)}}},
           {comm, Publish{NodeId(5), "grads", id(8)}},
           {comm, TakeLatest{node("latest"), "grads", id(10)}},
       }},
      {"then", 1, {{main, Launch{NodeId(0), 1, "reference", {id(11)}, {id(12)}, {}}}}},
      {"else", 2, {{main, Launch{NodeId(0), 2, "reference", {id(13)}, {id(14)}, {}}}}},
      {"empty", 0, {}},
  };
  p.init = {{SegmentId(3), 0}};
  p.step = {{SegmentId(0), 0}, {SegmentId(0), 1}, {SegmentId(0), 2}};
  p.finish = {{SegmentId(3), 1}};
  p.loads = {{value("w"), id(2)}};
  p.inputs = {{value("x"), id(0)}, {value("c"), id(6)}};
  p.outputs = {{value("n"), id(9)}};
  plan.programs.push_back(std::move(p));

  Program q;
  q.name = "stage1";
  q.device_kind = "cpu";
  plan.programs.push_back(std::move(q));
  return plan;
}

}  // namespace millrace
