#include "tests/plan/hand_written_plan.h"

#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/status.h"
#include "ops/infer.h"
#include "tests/plan/program_writer.h"

namespace millrace {
namespace {

constexpr int kMicrobatches = 4;

// Such that Relu lets most elements through, and each update changes bits that later reads see.
DataSource Uniform(uint64_t seed, double low, double high) {
  return InitData({.kind = InitKind::kUniform, .seed = seed, .low = low, .high = high});
}

// Shared by both branches: (a, w) -> z.
Graph ThenBranch() {
  GraphBuilder b("then");
  const ValueId a = b.Input("then_a", {DType::kF32, {2, 4}});
  const ValueId w = b.Input("then_w", {DType::kF32, {4}});
  const ValueId th = b.Op("Tanh", {a}, {}, "then_tanh");
  b.Output(b.Op("Mul", {th, w}, {}, "then_z"));
  return std::move(b).Build();
}

Graph ElseBranch() {
  GraphBuilder b("else");
  const ValueId a = b.Input("else_a", {DType::kF32, {2, 4}});
  const ValueId w = b.Input("else_w", {DType::kF32, {4}});
  b.Output(b.Op("Sub", {a, w}, {}, "else_z"));
  return std::move(b).Build();
}

Attrs OneAttr(const char* name, AttrValue value) {
  Attrs attrs;
  attrs.Set(name, std::move(value));
  return attrs;
}

// What each microbatch computes.
Graph HandWrittenGraph() {
  GraphBuilder b("hand-written");
  const ValueId x = b.Input("x", {DType::kF32, {2, 8}});
  const ValueId t = b.Input("t", {DType::kF32, {2, 4}});
  const ValueId w0 = b.Param("w0", {DType::kF32, {4, 8}}, Uniform(1, -0.5, 0.5));
  const ValueId b0 = b.Param("b0", {DType::kF32, {4}}, Uniform(2, 0.5, 1.0));
  const ValueId w2 = b.Param("w2", {DType::kF32, {4}}, Uniform(3, 0.5, 1.5));
  const ValueId lr = b.Constant("lr", Tensor::Scalar(0.125f));
  const ValueId axes = b.Constant("axes", Tensor::Of<int64_t>({1}, {0}));
  const ValueId flat = b.Constant("flat", Tensor::Of<int64_t>({1}, {8}));

  const ValueId wt = b.Op("Transpose", {w0}, OneAttr("perm", std::vector<int64_t>{1, 0}), "wt");
  const ValueId mm = b.Op("MatMul", {x, wt}, {}, "mm");
  const ValueId h = b.Op("Add", {mm, b0}, {}, "h");
  const ValueId a = b.Op("Relu", {h}, {}, "a");

  const ValueId sum = b.Op("ReduceSum", {t}, OneAttr("keepdims", int64_t{0}), "sum");
  const ValueId cond = b.Op("Cast", {sum}, OneAttr("to", std::string("bool")), "cond");
  Node& branch = b.AddNode("If", {cond, a, w2}, {}, "z");
  branch.subgraphs.push_back({"then_branch", ThenBranch()});
  branch.subgraphs.push_back({"else_branch", ElseBranch()});
  const ValueId z = branch.outputs[0];
  const ValueId y = b.Op("Softmax", {z}, OneAttr("axis", int64_t{1}), "y");
  const ValueId g = b.Op("Mul", {z, t}, {}, "g");
  const ValueId nz = b.Op("NonZero", {t}, {}, "nz");
  Attrs mean = OneAttr("axes", std::vector<int64_t>{0});
  mean.Set("keepdims", int64_t{0});
  const ValueId zm = b.Op("ReduceMean", {z}, std::move(mean), "zm");
  const ValueId w2n = b.Op("Add", {w2, zm}, {}, "w2n");

  const ValueId d = b.Op("Mul", {g, a}, {}, "d");
  const ValueId dr = b.Op("Reshape", {d, flat}, {}, "dr");
  const ValueId r = b.Op("ReduceSum", {d, axes}, OneAttr("keepdims", int64_t{0}), "r");
  const ValueId up = b.Op("Mul", {r, lr}, {}, "up");
  const ValueId b0n = b.Op("Sub", {b0, up}, {}, "b0n");

  b.Output(y);
  b.Output(nz);
  b.Output(dr);
  b.AddUpdate(b0, b0n);
  b.AddUpdate(w2, w2n);
  Graph graph = std::move(b).Build();
  MILLRACE_CHECK(InferTypes(graph).ok());
  return graph;
}

// Slot mb of as many as there are microbatches.
LinearExpr EachMicrobatch(int64_t base, int64_t stride) {
  LinearExpr e(base);
  e.terms.push_back({.variable = kMicrobatchVar, .scale = stride});
  return e;
}

// Slot mb mod 2.
LinearExpr TwoSlots(int64_t base, int64_t stride) {
  LinearExpr e(base);
  e.terms.push_back({.variable = kMicrobatchVar, .scale = stride, .modulus = 2});
  return e;
}

Program Stage0(const Graph& graph, const HandWrittenOptions& options) {
  ProgramWriter p(graph, "stage0", options.kind0, 0);
  const BufferId arena = p.AddBuffer("arena", MemorySpace::kDevice, 1536);
  const BufferId weights = p.AddBuffer("weights", MemorySpace::kDevice, 256);
  const BufferId pinned = p.AddBuffer("pinned", MemorySpace::kHost, 128);
  const BufferId swap = p.AddBuffer("swap", options.swap_space, 128);

  const SliceId x = p.AddSlice("x", arena, EachMicrobatch(0, 64));
  const SliceId wt = p.AddSlice("wt", arena, 256);
  const SliceId mm = p.AddSlice("mm", arena, TwoSlots(384, 64));
  const SliceId h = p.AddSlice("h", arena, TwoSlots(384, 64));  // in place of mm
  const SliceId a = p.AddSlice("a", arena, TwoSlots(512, 64));
  const SliceId a_swap = p.AddSlice("a", swap, TwoSlots(0, 64), /*strides=*/{6, 1});
  const SliceId a_back = p.AddSlice("a", arena, TwoSlots(384, 64));  // where h was
  const SliceId g = p.AddSlice("g", arena, TwoSlots(640, 64));
  const SliceId d = p.AddSlice("d", arena, 768);
  const SliceId r = p.AddSlice("r", arena, 832);
  const SliceId up = p.AddSlice("up", arena, 832);  // in place of r
  const SliceId scratch = p.AddScratch(arena, 896, 64);
  const SliceId dr = p.AddSlice("dr", arena, EachMicrobatch(1024, 64));
  const SliceId w0 = p.AddSlice("w0", weights, 0);
  const SliceId b0 = p.AddSlice("b0", weights, 128);
  const SliceId b0n = p.AddSlice("b0n", weights, 128);  // in place of b0
  const SliceId lr = p.AddSlice("lr", weights, 192);
  const SliceId flat = p.AddSlice("flat", pinned, 0);
  const SliceId axes = p.AddSlice("axes", pinned, 64);
  p.Loads({w0, b0, lr, flat, axes});
  p.Inputs({x});
  p.Outputs({dr});

  const StreamId main = p.AddStream("main", StreamKind::kCompute);
  const StreamId copy = p.AddStream("copy", StreamKind::kCopy);
  const EventId a_ready = p.AddEvent("a_ready");
  const EventId back_ready = p.AddEvent("back_ready");

  const SegmentId prepare = p.BeginSegment("prepare");
  p.Launch(main, "wt", {w0}, {wt});

  const SegmentId forward = p.BeginSegment("forward");
  p.Launch(main, "mm", {x, wt}, {mm}, scratch);
  p.Launch(main, "h", {mm, b0}, {h});
  p.Launch(main, "a", {h}, {a});
  p.Record(main, a_ready);
  p.Wait(copy, a_ready);
  p.Send(copy, a, ProgramId(1), /*channel=*/0);
  p.Copy(copy, a, a_swap);

  const SegmentId backward = p.BeginSegment("backward");
  p.Recv(copy, g, ProgramId(1), /*channel=*/1);
  p.Copy(copy, a_swap, a_back);
  p.Record(copy, back_ready);
  p.Wait(main, back_ready);
  p.Launch(main, "d", {g, a_back}, {d});
  p.Launch(main, "dr", {d, flat}, {dr});
  p.Launch(main, "r", {d, axes}, {r}, scratch);
  p.Launch(main, "up", {r, lr}, {up});
  p.Launch(main, "b0n", {b0, up}, {b0n});

  p.Schedule(Section::kInit, {{prepare, 0}});
  p.Schedule(Section::kStep, {{forward, 0},
                              {forward, 1},
                              {backward, 0},
                              {forward, 2},
                              {backward, 1},
                              {forward, 3},
                              {backward, 2},
                              {backward, 3}});
  return std::move(p).Build();
}

Program Stage1(const Graph& graph, const HandWrittenOptions& options) {
  ProgramWriter p(graph, "stage1", options.kind1, options.kind0 == options.kind1 ? 1 : 0);
  const BufferId arena = p.AddBuffer("arena", MemorySpace::kDevice, 1536);
  const BufferId weights = p.AddBuffer("weights", MemorySpace::kDevice, 64);
  const BufferId pinned = p.AddBuffer("pinned", MemorySpace::kHost, 768);

  const SliceId t = p.AddSlice("t", arena, EachMicrobatch(0, 64));
  const SliceId a = p.AddSlice("a", arena, TwoSlots(256, 64));
  const SliceId sum = p.AddSlice("sum", arena, 384);
  const SliceId cond = p.AddSlice("cond", arena, 448);
  const SliceId z = p.AddSlice("z", arena, 512);
  const SliceId then_tanh = p.AddSlice("then_tanh", arena, 576, {}, /*graph=*/1);
  const SliceId g = p.AddSlice("g", arena, TwoSlots(640, 64));
  const SliceId zm = p.AddSlice("zm", arena, 768);
  const SliceId w2n = p.AddSlice("w2n", arena, 832);
  const SliceId y = p.AddSlice("y", arena, EachMicrobatch(1024, 64));
  const SliceId w2 = p.AddSlice("w2", weights, 0);
  const SliceId w2n_home = p.AddSlice("w2n", weights, 0);
  const SliceId cond_host = p.AddSlice("cond", pinned, 0);
  const SliceId t_host = p.AddSlice("t", pinned, TwoSlots(64, 64));
  const SliceId nz = p.AddSlice("nz", pinned, EachMicrobatch(256, 128));
  // The bodies' operands, on the bytes of the call's.
  const SliceId then_a = p.AddSlice("then_a", arena, TwoSlots(256, 64), {}, 1);
  const SliceId then_w = p.AddSlice("then_w", weights, 0, {}, 1);
  const SliceId then_z = p.AddSlice("then_z", arena, 512, {}, 1);
  const SliceId else_a = p.AddSlice("else_a", arena, TwoSlots(256, 64), {}, 2);
  const SliceId else_w = p.AddSlice("else_w", weights, 0, {}, 2);
  const SliceId else_z = p.AddSlice("else_z", arena, 512, {}, 2);
  p.Loads({w2});
  p.Inputs({t});
  p.Outputs({y, nz});

  const StreamId main = p.AddStream("main", StreamKind::kCompute);
  const StreamId copy = p.AddStream("copy", StreamKind::kCopy);
  const EventId a_here = p.AddEvent("a_here");
  const EventId g_ready = p.AddEvent("g_ready");
  const EventId w2n_ready = p.AddEvent("w2n_ready");
  const EventId w2_home = p.AddEvent("w2_home");

  const SegmentId then_body = p.BeginSegment("then", /*graph=*/1);
  p.Launch(main, "then_tanh", {then_a}, {then_tanh});
  p.Launch(main, "then_z", {then_tanh, then_w}, {then_z});
  const SegmentId else_body = p.BeginSegment("else", /*graph=*/2);
  p.Launch(main, "else_z", {else_a, else_w}, {else_z});

  const SegmentId receive = p.BeginSegment("receive");
  p.Recv(copy, a, ProgramId(0), /*channel=*/0);
  p.Copy(copy, t, t_host);
  p.Record(copy, a_here);

  const SegmentId middle = p.BeginSegment("middle");
  p.Wait(main, a_here);
  p.Launch(main, "sum", {t}, {sum});
  p.Launch(main, "cond", {sum}, {cond});
  p.Copy(main, cond, cond_host);
  p.Call(main, "z", {cond_host, a, w2}, {z},
         {{then_body, {then_a, then_w}, {then_z}}, {else_body, {else_a, else_w}, {else_z}}});
  p.Launch(main, "g", {z, t}, {g});
  p.HostCall(main, "nz", {t_host}, {nz});
  p.Record(main, g_ready);
  p.Wait(copy, g_ready);
  p.Send(copy, g, ProgramId(0), /*channel=*/1);
  p.Launch(main, "y", {z}, {y});
  p.Launch(main, "zm", {z}, {zm});
  p.Launch(main, "w2n", {w2, zm}, {w2n});
  p.Record(main, w2n_ready);
  p.Wait(copy, w2n_ready);
  p.Copy(copy, w2n, w2n_home);
  p.Record(copy, w2_home);
  p.Wait(main, w2_home);

  p.Schedule(Section::kStep, {{receive, 0},
                              {receive, 1},
                              {middle, 0},
                              {receive, 2},
                              {middle, 1},
                              {receive, 3},
                              {middle, 2},
                              {middle, 3}});
  return std::move(p).Build();
}

}  // namespace

PlanBundle HandWrittenPlan(const HandWrittenOptions& options) {
  PlanBundle plan;
  plan.name = "hand-written";
  plan.machine = "two-of-each";
  plan.microbatches = kMicrobatches;
  plan.graph = HandWrittenGraph();
  plan.programs.push_back(Stage0(plan.graph, options));
  plan.programs.push_back(Stage1(plan.graph, options));
  return plan;
}

MachineSpec HandWrittenMachine() {
  MachineSpec machine;
  machine.name = "two-of-each";
  for (const char* kind : {"cpu", "cuda"}) {
    DeviceSpec device;
    device.name = kind;
    device.kind = kind;
    device.memory_bytes = 1 << 20;
    device.memory_bandwidth = 1e9;
    device.peak_flops[DType::kF32] = 1e9;
    machine.devices.push_back(std::move(device));
  }
  NodeSpec node;
  node.devices = {{"cpu", 2}, {"cuda", 2}};
  node.host_memory_bytes = 1 << 20;
  node.host_memory_bandwidth = 1e9;
  node.host_link.bandwidth = node.peer_link.bandwidth = 1e9;
  machine.nodes.push_back(std::move(node));
  machine.network.bandwidth = 1e9;
  machine.file_bandwidth = 1e9;
  return machine;
}

std::map<std::string, Tensor> HandWrittenInputs(int step) {
  Tensor x = Tensor::Zeros({DType::kF32, {2 * kMicrobatches, 8}});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.Set(i, static_cast<double>((i * 37 + step * 11) % 23) / 8 - 1.25);
  }
  // Six elements of each microbatch are not zero, at places that move; in even ones they sum to
  // zero.
  Tensor t = Tensor::Zeros({DType::kF32, {2 * kMicrobatches, 4}});
  for (int mb = 0; mb < kMicrobatches; ++mb) {
    const double values[] = {1, 2, 3, -1, -2, mb % 2 == 0 ? -3 : 1.5};
    int next = 0;
    for (int i = 0; i < 8; ++i) {
      if (i != (mb + step) % 8 && i != (mb + step + 3) % 8) t.Set(8 * mb + i, values[next++]);
    }
  }
  return {{"x", std::move(x)}, {"t", std::move(t)}};
}

}  // namespace millrace
