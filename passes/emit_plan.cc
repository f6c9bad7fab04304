// Emission. Each value has at most one slice in device memory and one in host memory, made when
// first needed: where its node writes it, or by a Copy right after it came to be (or a second load,
// for values the session fills). On one stream order alone makes every read right; several are made
// to wait for each other when all instructions stand (passes/schedule/sync_streams.h); the checker
// proves it all the same. Then passes/plan_memory.h says where allocations lie, and which of them
// need not exist.
//
// Three things need care. A branch's outputs must lie on the call's output bytes: the branch's last
// writer of each writes there directly when it can, through a Copy when the branch returns one of
// its own inputs or one value twice. What a loop carries lies on the call's output bytes from the
// first trip on: the end of the body copies it there. And a param's home is overwritten at the end
// of the step: a graph output or another update that still needs the old version gets a copy of it
// first.
#include "passes/emit_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/control_flow.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/assign_layouts.h"
#include "passes/frozen_values.h"
#include "passes/plan_memory.h"
#include "passes/schedule/sync_streams.h"
#include "passes/variant_memo.h"

namespace millrace {
namespace {

class Emitter {
 public:
  Emitter(const Graph& graph, const Target& target, const EmitOptions& options)
      : options_(options),
        variants_(target),
        graphs_(FlattenGraphs(graph)),
        on_cpu_(options.device_kind == "cpu") {
    program_.name = "main";
    program_.device_kind = options.device_kind;
    program_.device_index = options.device_index;
    program_.streams.push_back({"main", StreamKind::kCompute, options.threads, 0});
    for (const int32_t stream : options.stream_of_node) {
      while (std::ssize(program_.streams) <= stream) {
        program_.streams.push_back(
            {StrCat("side", program_.streams.size()), StreamKind::kCompute, options.threads, 0});
      }
    }
    if (HasCollectives(graph)) {
      comm_stream_ = StreamId(program_.streams.size());
      program_.streams.push_back({"comm", StreamKind::kComm, 1, 0});
    }
    program_.buffers.push_back({"arena", MemorySpace::kDevice, 0});
    program_.buffers.push_back({"host", MemorySpace::kHost, 0});
    for (const Graph* g : graphs_) {
      graph_index_.emplace(g, static_cast<int32_t>(homes_.size()));
      homes_.emplace_back(g->values.size());
    }
  }

  absl::StatusOr<Program> Emit() {
    const Graph& graph = *graphs_[0];
    for (const auto* list : {&graph.params, &graph.constants}) {
      for (ValueId id : *list) Load(program_.loads, id);
    }
    for (ValueId id : graph.inputs) Load(program_.inputs, id);
    segment_ = SegmentId(0);
    program_.segments.push_back({"step", 0, {}});
    program_.step.push_back({segment_, 0});
    variant_of_node_ = options_.variant_of_node;
    if (variant_of_node_.empty()) variant_of_node_ = AssignLayouts(graph, variants_);
    const std::vector<uint8_t> in_init = NodesForInit(graph);
    EmitInit(in_init);
    SaveOldVersions(graph);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (in_init[n] != 0) continue;
      if (!options_.stream_of_node.empty()) stream_ = StreamId(options_.stream_of_node[n]);
      EmitNode(0, NodeId(n));
    }
    stream_ = StreamId(0);
    EmitOutputs(graph);
    EmitUpdates(graph);
    MILLRACE_RETURN_IF_ERROR(UnsupportedOps());
    if (program_.streams.size() > 1) {
      std::vector<int32_t> allocation_of_slice;
      for (const SlicePlace& place : places_) allocation_of_slice.push_back(place.allocation);
      SyncStreams(graphs_, allocation_of_slice, program_);
    }
    MILLRACE_RETURN_IF_ERROR(PlanMemory(graphs_, program_, allocations_, places_));
    return std::move(program_);
  }

 private:
  enum Space { kDevice = 0, kHost = 1 };

  // A value's slices; !valid() until made.
  struct Home {
    SliceId slice[2];       // row-major, one per space
    SliceId channels_last;  // in device memory
    SliceId packed;
  };

  Home& HomeOf(ValueRef ref) { return homes_[ref.graph][ref.value.index]; }
  const Value& ValueOf(ValueRef ref) const { return graphs_[ref.graph]->value(ref.value); }

  // On a cpu device, device memory is host memory: only values of unknown size live apart.
  Space SpaceFor(ValueRef ref, bool host) const {
    if (ValueOf(ref).bounded) return kHost;
    return host && !on_cpu_ ? kHost : kDevice;
  }

  // --- Slices ---
  SliceId NewSlice(ValueRef ref, int32_t allocation, int64_t size_bytes) {
    Slice slice;
    slice.value = ref;
    slice.buffer = allocations_[allocation].buffer;
    slice.size_bytes = size_bytes;
    program_.slices.push_back(std::move(slice));
    places_.push_back({allocation, 0});
    return SliceId(program_.slices.size() - 1);
  }

  SliceId NewPlace(ValueRef ref, Space space) {
    return NewPlace(ref, space, ByteSize(ValueOf(ref).type), Layout::kStrided);
  }
  SliceId NewPlace(ValueRef ref, Space space, int64_t size_bytes, Layout layout) {
    allocations_.push_back({BufferId(space), size_bytes});
    const SliceId slice = NewSlice(ref, static_cast<int32_t>(allocations_.size() - 1), size_bytes);
    program_.slices[slice.index].layout = layout;
    return slice;
  }

  // A slice for `ref` on the bytes of `of`.
  SliceId SameBytes(ValueRef ref, SliceId of) {
    return NewSlice(ref, places_[of.index].allocation, program_.slices[of.index].size_bytes);
  }

  bool InHost(SliceId slice) const { return program_.slices[slice.index].buffer.index == kHost; }

  // Where a node writes `ref`: the place prepared for it (a body's output), or a new one.
  SliceId Written(ValueRef ref, bool host) {
    Home& home = HomeOf(ref);
    for (SliceId slice : home.slice) {
      if (slice.valid()) return slice;
    }
    const Space space = SpaceFor(ref, host);
    home.slice[space] = NewPlace(ref, space);
    return home.slice[space];
  }

  // Where `ref`, which exists somewhere already, can be read from the given side.
  SliceId Readable(ValueRef ref, bool host) {
    const Space space = SpaceFor(ref, host);
    Home& home = HomeOf(ref);
    if (home.slice[space].valid()) return home.slice[space];
    if (home.channels_last.valid() && !home.slice[kDevice].valid()) {
      home.slice[kDevice] = NewPlace(ref, kDevice);
      Append(Copy{home.channels_last, home.slice[kDevice]});
      return Readable(ref, host);
    }
    const SliceId from = home.slice[space == kHost ? kDevice : kHost];
    if (on_cpu_) return from;  // all memory can be read
    if (ref.graph == 0 && IsLoaded(ref)) {
      home.slice[space] = NewPlace(ref, space);
      BindingsOf(ref).push_back({ref.value, home.slice[space]});
      return home.slice[space];
    }
    home.slice[space] = NewPlace(ref, space);
    Append(Copy{from, home.slice[space]});
    return home.slice[space];
  }

  // Likewise, in device memory and the layout that a kernel wants.
  SliceId ReadableAs(ValueRef ref, Layout layout) {
    Home& home = HomeOf(ref);
    if (layout == Layout::kStrided) return Readable(ref, /*host=*/false);
    if (layout == Layout::kPacked) return home.packed;
    if (!home.channels_last.valid()) {
      const SliceId from = Readable(ref, /*host=*/false);
      home.channels_last = NewPlace(ref, kDevice, ByteSize(ValueOf(ref).type), layout);
      Append(Copy{from, home.channels_last});
    }
    return home.channels_last;
  }

  // Where a kernel writes `ref` in the layout that it gives.
  SliceId WrittenAs(ValueRef ref, const KernelVariant& variant, size_t output) {
    const Layout layout = GivenLayout(variant, output, ValueOf(ref).type.shape);
    if (layout == Layout::kStrided) return Written(ref, variant.on_host);
    const bool packed = layout == Layout::kPacked;
    const int64_t size = packed ? variant.packed_bytes : ByteSize(ValueOf(ref).type);
    Home& home = HomeOf(ref);
    return (packed ? home.packed : home.channels_last) = NewPlace(ref, kDevice, size, layout);
  }

  bool IsLoaded(ValueRef ref) const { return ValueOf(ref).kind != ValueKind::kResult; }
  std::vector<Binding>& BindingsOf(ValueRef ref) {
    return ValueOf(ref).kind == ValueKind::kInput ? program_.inputs : program_.loads;
  }

  void Load(std::vector<Binding>& bindings, ValueId id) {
    const ValueRef ref{0, id};
    const Space space = SpaceFor(ref, /*host=*/false);
    HomeOf(ref).slice[space] = NewPlace(ref, space);
    bindings.push_back({id, HomeOf(ref).slice[space]});
  }

  void Append(InstructionBody body) {
    program_.segments[segment_.index].instructions.push_back({stream_, std::move(body)});
  }

  // --- Nodes ---
  // What is the same in every step is computed once, after loading.
  void EmitInit(const std::vector<uint8_t>& in_init) {
    if (std::ranges::find(in_init, 1) == in_init.end()) return;
    const SegmentId step = segment_;
    segment_ = SegmentId(program_.segments.size());
    program_.segments.push_back({"init", 0, {}});
    program_.init.push_back({segment_, 0});
    for (size_t n = 0; n < in_init.size(); ++n) {
      if (in_init[n] != 0) EmitNode(0, NodeId(n));
    }
    segment_ = step;
  }

  bool HasBoundedOperand(int32_t graph, const Node& node) const {
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (ValueId id : *list) {
        if (id.valid() && graphs_[graph]->value(id).bounded) return true;
      }
    }
    return false;
  }

  void EmitNode(int32_t graph, NodeId id) {
    const Node& node = graphs_[graph]->node(id);
    const OpDef* op = FindOp(node.op);
    if (op != nullptr && graph == 0 && IsCollective(*op)) {
      EmitCollective(id);
    } else if (op == nullptr || op->traits.comm != CommKind::kNone) {
      ++unsupported_[node.op];
    } else if (op->traits.control_flow != ControlFlow::kNone) {
      EmitCall(graph, id, op->traits.control_flow);
    } else if (op->traits.host_call || HasBoundedOperand(graph, node)) {
      EmitHostCall(graph, id);
    } else {
      EmitLaunch(graph, id, *op);
    }
  }

  static bool IsCollective(const OpDef& op) {
    const CommKind kind = op.traits.comm;
    return kind != CommKind::kNone && kind != CommKind::kPublish && kind != CommKind::kTakeLatest;
  }

  static bool HasCollectives(const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const Node& node) {
      const OpDef* op = FindOp(node.op);
      return op != nullptr && IsCollective(*op);
    });
  }

  // On a stream of its own: devices meet while they compute.
  void EmitCollective(NodeId id) {
    const Node& node = graphs_[0]->node(id);
    Collective collective{id, {Readable({0, node.inputs[0]}, /*host=*/false)}, {}, SliceId()};
    collective.outputs.push_back(Written({0, node.outputs[0]}, /*host=*/false));
    const StreamId compute = std::exchange(stream_, comm_stream_);
    Append(std::move(collective));
    stream_ = compute;
  }

  template <typename IsHost>
  std::vector<SliceId> ReadInputs(int32_t graph, const Node& node, IsHost is_host) {
    std::vector<SliceId> slices;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      slices.push_back(in.valid() ? Readable({graph, in}, is_host(static_cast<int>(i)))
                                  : SliceId());
    }
    return slices;
  }

  std::vector<SliceId> WriteOutputs(int32_t graph, const Node& node, bool host) {
    std::vector<SliceId> slices;
    for (ValueId out : node.outputs) {
      slices.push_back(out.valid() ? Written({graph, out}, host) : SliceId());
    }
    return slices;
  }

  void EmitHostCall(int32_t graph, NodeId id) {
    const Node& node = graphs_[graph]->node(id);
    HostCall call{id, graph, {}, {}};
    call.inputs = ReadInputs(graph, node, [](int) { return true; });
    call.outputs = WriteOutputs(graph, node, /*host=*/true);
    std::vector<Copy> copies;  // to where a body's result must be
    for (size_t k = 0; k < call.outputs.size(); ++k) {
      SliceId& out = call.outputs[k];
      if (on_cpu_ || !out.valid() || InHost(out)) continue;
      const ValueRef ref{graph, node.outputs[k]};
      const SliceId host = HomeOf(ref).slice[kHost] = NewPlace(ref, kHost);
      copies.push_back({host, std::exchange(out, host)});
    }
    Append(std::move(call));
    for (Copy& copy : copies) Append(std::move(copy));
  }

  void EmitLaunch(int32_t graph, NodeId id, const OpDef& op) {
    const Node& node = graphs_[graph]->node(id);
    const KernelVariant* variant = graph == 0
                                       ? variant_of_node_[id.index]
                                       : variants_.BestStrided(QueryFor(*graphs_[graph], id));
    if (variant == nullptr) {
      ++unsupported_[node.op];
      return;
    }
    if (variant->on_host) return EmitHostCall(graph, id);
    Launch launch{id, graph, variant->name, {}, {}, SliceId()};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      launch.inputs.push_back(ReadOperand({graph, node.inputs[i]}, i, *variant, op.traits));
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueRef out{graph, node.outputs[k]};
      launch.outputs.push_back(out.value.valid() ? WrittenAs(out, *variant, k) : SliceId());
    }
    launch.scratch = Scratch(variant->scratch_bytes);
    Append(std::move(launch));
  }

  SliceId ReadOperand(ValueRef ref, size_t i, const KernelVariant& variant,
                      const OpTraits& traits) {
    if (!ref.value.valid()) return SliceId();
    const std::vector<int>& host = traits.host_inputs;
    if (variant.on_host || std::ranges::find(host, static_cast<int>(i)) != host.end()) {
      return Readable(ref, /*host=*/true);
    }
    return ReadableAs(ref, WantedLayout(variant, i, ValueOf(ref).type.shape));
  }

  // Alive during one instruction.
  SliceId Scratch(int64_t size_bytes) {
    if (size_bytes == 0) return SliceId();
    allocations_.push_back({BufferId(kDevice), size_bytes});
    return NewSlice(ValueRef(), static_cast<int32_t>(allocations_.size() - 1), size_bytes);
  }

  // --- Control flow ---
  void EmitCall(int32_t graph, NodeId id, ControlFlow kind) {
    const Node& node = graphs_[graph]->node(id);
    const absl::StatusOr<CallForm> form = FormOf(kind, node);
    MILLRACE_CHECK(form.ok());  // inference saw to it
    Call call{id, graph, {}, {}, {}, kind};
    call.inputs = ReadInputs(graph, node,
                             [&](int i) { return i == form->condition || i == form->trip_count; });
    call.outputs = WriteOutputs(graph, node, /*host=*/false);
    PlaceCarried(graph, node, *form, call);
    for (const Subgraph& sub : node.subgraphs) {
      call.bodies.push_back(EmitBody(sub.graph, *form, call));
    }
    Append(std::move(call));
  }

  // A carried value stays in one place, that of the call's output; the value that enters the first
  // trip is copied there.
  void PlaceCarried(int32_t graph, const Node& node, const CallForm& form, Call& call) {
    if (form.num_carried == 0) return;
    const Graph& body = node.subgraphs[0].graph;
    for (int i = 0; i < form.num_carried; ++i) {
      const int in = form.inputs[form.first_carried_in + i].operand;
      const int out = form.outputs[form.first_carried_out + i].operand;
      const ValueRef initial{graph, node.inputs[in]};
      SliceId place;
      if (call.outputs[out].valid()) {
        place = SameBytes(initial, call.outputs[out]);
      } else {
        const ValueId inside = body.inputs[form.first_carried_in + i];
        place = NewPlace(initial, SpaceFor({graph_index_.at(&body), inside}, /*host=*/false));
      }
      Append(Copy{call.inputs[in], place});
      call.inputs[in] = place;
    }
  }

  CallBody EmitBody(const Graph& body, const CallForm& form, const Call& call) {
    const int32_t graph = graph_index_.at(&body);
    CallBody result;
    const SegmentId caller = segment_;
    result.segment = SegmentId(program_.segments.size());
    segment_ = result.segment;
    program_.segments.push_back({SegmentName(graph), graph, {}});
    EnterBody(graph, form, call, result);
    for (size_t n = 0; n < body.nodes.size(); ++n) EmitNode(graph, NodeId(n));
    if (form.IsLoop()) {
      EndTrip(graph, form, result);
    } else {
      LeaveBranch(graph, call, result);
    }
    segment_ = caller;
    return result;
  }

  // Names of segments are unique, those of nested graphs need not be.
  std::string SegmentName(int32_t graph) const {
    const std::string& name = graphs_[graph]->name;
    const auto same = [&](const Segment& segment) { return segment.name == name; };
    if (name.empty()) return StrCat("body", graph);
    return std::ranges::any_of(program_.segments, same) ? StrCat(name, "#", graph) : name;
  }

  void EnterBody(int32_t graph, const CallForm& form, const Call& call, CallBody& result) {
    const Graph& body = *graphs_[graph];
    const std::vector<bool> is_read = ReadValues(body);
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      const ValueRef ref{graph, body.inputs[i]};
      const BodyPort& port = form.inputs[i];
      Home& home = HomeOf(ref);
      if (port.kind == PortKind::kSame || port.kind == PortKind::kCarried) {
        const SliceId outside = call.inputs[port.operand];
        home.slice[InHost(outside) ? kHost : kDevice] = SameBytes(ref, outside);
        result.inputs.push_back(SameBytes(ref, outside));
      } else if (is_read[body.inputs[i].index]) {
        const Space space = SpaceFor(ref, /*host=*/port.kind != PortKind::kElement);
        home.slice[space] = NewPlace(ref, space);
        result.inputs.push_back(home.slice[space]);
      } else {
        result.inputs.push_back(SliceId());
      }
    }
    if (form.IsLoop()) return;
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      if (!call.outputs[i].valid()) {  // nobody wants it
        result.outputs.push_back(SliceId());
        continue;
      }
      const ValueRef ref{graph, body.outputs[i]};
      result.outputs.push_back(SameBytes(ref, call.outputs[i]));
      Home& home = HomeOf(ref);
      if (home.slice[kDevice].valid() || home.slice[kHost].valid()) continue;  // passed through
      home.slice[InHost(call.outputs[i]) ? kHost : kDevice] = result.outputs[i];
    }
  }

  static std::vector<bool> ReadValues(const Graph& graph) {
    std::vector<bool> is_read(graph.values.size(), false);
    for (const Node& node : graph.nodes) {
      for (ValueId id : node.inputs) {
        if (id.valid()) is_read[id.index] = true;
      }
    }
    for (ValueId id : graph.outputs) is_read[id.index] = true;
    return is_read;
  }

  // What the body did not write to the call's output bytes itself.
  void LeaveBranch(int32_t graph, const Call& call, const CallBody& result) {
    const Graph& body = *graphs_[graph];
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      if (!result.outputs[i].valid()) continue;
      const SliceId from = Readable({graph, body.outputs[i]}, InHost(call.outputs[i]));
      if (!SameAllocation(from, result.outputs[i])) Append(Copy{from, result.outputs[i]});
    }
  }

  bool SameAllocation(SliceId a, SliceId b) const {
    return places_[a.index].allocation == places_[b.index].allocation;
  }

  // All outputs of a trip are in places of their own before the first carried value is overwritten.
  void EndTrip(int32_t graph, const CallForm& form, CallBody& result) {
    const Graph& body = *graphs_[graph];
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      const ValueRef ref{graph, body.outputs[i]};
      const PortKind kind = form.outputs[i].kind;
      if (kind == PortKind::kCondition && form.condition < 0) {  // ignored
        result.outputs.push_back(SliceId());
        continue;
      }
      SliceId from = Readable(ref, /*host=*/kind == PortKind::kCondition);
      if (kind != PortKind::kCarried) {
        if (IsCarriedPlace(from, form, result)) from = CopyTo(ref, from);
        result.outputs.push_back(from);
        continue;
      }
      const SliceId place = result.inputs[form.first_carried_in + i - form.first_carried_out];
      if (IsCarriedPlace(from, form, result) && !SameAllocation(from, place)) {
        from = CopyTo(ref, from);
      }
      result.outputs.push_back(from);
    }
    for (int i = 0; i < form.num_carried; ++i) {
      SliceId& output = result.outputs[form.first_carried_out + i];
      const SliceId from = output, place = result.inputs[form.first_carried_in + i];
      output = SameBytes({graph, body.outputs[form.first_carried_out + i]}, place);
      if (!SameAllocation(from, place)) Append(Copy{from, output});
    }
  }

  bool IsCarriedPlace(SliceId slice, const CallForm& form, const CallBody& body) const {
    for (int i = 0; i < form.num_carried; ++i) {
      if (SameAllocation(slice, body.inputs[form.first_carried_in + i])) return true;
    }
    return false;
  }

  SliceId CopyTo(ValueRef ref, SliceId from) {
    const SliceId to = NewPlace(ref, InHost(from) ? kHost : kDevice);
    Append(Copy{from, to});
    return to;
  }

  // --- Ends of the step ---
  // Params that an update overwrites although an output or another update needs the old version.
  void SaveOldVersions(const Graph& graph) {
    std::set<ValueId> updated, needed(graph.outputs.begin(), graph.outputs.end());
    for (const Update& update : graph.updates) {
      updated.insert(update.param);
      needed.insert(update.value);
    }
    for (ValueId id : needed) {
      if (!updated.contains(id)) continue;
      const ValueRef ref{0, id};
      const SliceId home = HomeOf(ref).slice[kDevice];
      saved_[id] = NewPlace(ref, kDevice);
      Append(Copy{home, saved_[id]});
    }
  }

  SliceId AtEnd(ValueId id) {
    const auto it = saved_.find(id);
    return it != saved_.end() ? it->second : Readable({0, id}, /*host=*/false);
  }

  void EmitOutputs(const Graph& graph) {
    for (ValueId id : graph.outputs) program_.outputs.push_back({id, AtEnd(id)});
  }

  void EmitUpdates(const Graph& graph) {
    for (const Update& update : graph.updates) {
      const SliceId home = HomeOf({0, update.param}).slice[kDevice];
      Append(Copy{AtEnd(update.value), SameBytes({0, update.value}, home)});
      const SliceId host_home = HomeOf({0, update.param}).slice[kHost];
      if (!host_home.valid()) continue;
      Append(Copy{AtEnd(update.value), SameBytes({0, update.value}, host_home)});
    }
  }

  // --- Finish ---
  absl::Status UnsupportedOps() const {
    if (unsupported_.empty()) return absl::OkStatus();
    std::string message = StrCat("no kernel for ", program_.device_kind, ":");
    for (const auto& [op, count] : unsupported_) {
      StrAppend(&message, "\n  ", op, " (", count, count == 1 ? " node)" : " nodes)");
    }
    return BadInputError(message);
  }

  const EmitOptions& options_;
  VariantMemo variants_;
  std::vector<const KernelVariant*> variant_of_node_;  // of the outermost graph
  const std::vector<const Graph*> graphs_;
  absl::flat_hash_map<const Graph*, int32_t> graph_index_;
  const bool on_cpu_;
  Program program_;
  SegmentId segment_;                     // instructions are appended here
  StreamId stream_ = StreamId(0);         // and run on this one
  StreamId comm_stream_;                  // what devices do together runs on this one
  std::vector<std::vector<Home>> homes_;  // by graph and value
  std::vector<Allocation> allocations_;
  std::vector<SlicePlace> places_;  // by slice
  std::map<ValueId, SliceId> saved_;
  std::map<std::string, int64_t> unsupported_;
};

}  // namespace

absl::StatusOr<Program> EmitProgram(const Graph& graph, const Target& target,
                                    const EmitOptions& options) {
  return Emitter(graph, target, options).Emit();
}

}  // namespace millrace
