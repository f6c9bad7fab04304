// PlanBundle: everything a run will do, written down before anything runs. The unit of planning,
// hashing, checking and saving. It embeds the graph it implements, and one Program per kind of
// device ("stage"); each program runs on every device of the mesh (SPMD), its numbers being
// expressions of mesh coordinates.
//
// A Program drives exactly one device: buffers (arenas), slices (where values lie), streams,
// events, segments (lists of instructions) and, for each section, the order in which segments run
// and for which microbatch. Instructions of all segments, in schedule order, are the *issue order*.
//
// Meaning of the parts the checker relies on:
//  * Stream order: instructions of one stream take effect one after another, in issue order.
//  * Wait(e) waits for the last Record(e) before it in issue order, within the section. All Records
//    of one event are on one stream.
//  * Send and Recv of one channel meet in order (first with first). Both end when both have begun
//    and the bytes have moved.
//  * A Call's bodies run on the Call's own stream, as if they were part of one long instruction.
//  * Sections and steps are separated by full barriers: a step starts when all streams of all
//    programs have finished what came before.
//  * (node, microbatch) is an instance. A read of a param inside a step sees the version of the
//    schedule position: an Update whose value a segment computes takes effect at the end of that
//    segment's instance; earlier instances and the instance itself read the version before.
#ifndef MILLRACE_GRAPH_PLAN_H_
#define MILLRACE_GRAPH_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/expr.h"
#include "graph/graph.h"
#include "graph/ids.h"
#include "graph/layout.h"
#include "graph/op_traits.h"
#include "graph/status.h"

namespace millrace {

// --- Memory -------------------------------------------------------------------------------------
enum class MemorySpace : uint8_t {
  kDevice,  // the device's own memory; on a cpu device that is host memory with a budget
  kHost,    // host memory the device can copy from and to (pinned on cuda)
  kFile,    // a scratch file in the offload folder: only Copy touches it
};
std::string_view MemorySpaceName(MemorySpace space);  // "device", "host", "file"

struct PlanBuffer {
  std::string name;  // unique in its program
  MemorySpace space = MemorySpace::kDevice;
  int64_t size_bytes = 0;
};
inline constexpr int64_t kBufferAlignment = 256;  // every buffer starts at a multiple
inline constexpr int64_t kSliceAlignment = 64;    // every slice should

// A value of one of the bundle's graphs: 0 is the embedded graph, then nested ones (FlattenGraphs).
struct ValueRef {
  int32_t graph = 0;
  ValueId value;
  bool operator==(const ValueRef&) const = default;
  auto operator<=>(const ValueRef&) const = default;
};

// Where (one microbatch slot of) a value lies. Several slices may hold the same value (device and
// host copies), and slices may overlap where the checker can prove it harmless.
struct Slice {
  ValueRef value;         // !value.valid(): scratch memory
  BufferId buffer;
  LinearExpr offset_bytes;
  int64_t size_bytes = 0;         // from the first byte to one past the last one touched
  Layout layout = Layout::kStrided;
  std::vector<int64_t> strides;   // elements, one per dim, >= 0; empty: dense row-major
};

// --- Streams and instructions -------------------------------------------------------------------
enum class StreamKind : uint8_t { kCompute, kCopy, kComm };
std::string_view StreamKindName(StreamKind kind);  // "compute", "copy", "comm"

struct PlanStream {
  std::string name;
  StreamKind kind = StreamKind::kCompute;
  int threads = 1;   // cpu: the team that runs a kernel of this stream
  int priority = 0;  // lower is more urgent, as CUDA counts
};

// The device a Send goes to or a Recv comes from: a program, at the same mesh coordinates except
// for the axes listed.
struct Peer {
  ProgramId program;
  std::vector<std::pair<int, LinearExpr>> coordinates;  // (mesh axis, coordinate), ascending axes
  bool operator==(const Peer&) const = default;
};

// Runs one node's kernel. Operands in the node's order; an invalid id where the node has none.
struct Launch {
  NodeId node;
  int32_t graph = 0;     // which of the bundle's graphs the node is in
  std::string variant;   // the kernel variant the Target offered
  std::vector<SliceId> inputs, outputs;
  SliceId scratch;       // optional
};

// Moves a value between two of its slices: swap out and in, staging, change of layout. Both have
// the same value; layouts are kStrided or kNHWC.
struct Copy {
  SliceId from, to;
};

// Runs one comm.* node with all devices along the node's mesh axes.
struct Collective {
  NodeId node;
  std::vector<SliceId> inputs, outputs;
  SliceId scratch;
};

// Point to point between programs, or coordinates of one. `channel` pairs a Send with its Recv.
struct Send {
  SliceId from;
  Peer to;
  int32_t channel = 0;
};
struct Recv {
  SliceId to;
  Peer from;
  int32_t channel = 0;
};

struct Record {
  EventId event;
};
struct Wait {
  EventId event;
};

// Runs a control-flow node (graph/control_flow.h has the words). Body inputs and outputs are slices
// of the nested graph's values. Entering and leaving moves nothing: a body input lies on the very
// bytes of the value passed for it, a branch's output on the very bytes of the call's output. So
// does going round: a carried value has one place, shared by the call's input and output and the
// body's. Only elements move, and what the host counts:
//  * the host reads the trip count and the condition before the first trip, the body's condition
//    after each, and before each writes the trip's number and a true condition for the body;
//  * before a trip, the elements of the sequences are copied, in order, to the body's slices of
//    them; after it, the body's elements into the stacks.
// A slice may be missing where the body does not read what it would get, and where nobody wants what
// the body gives.
struct CallBody {
  SegmentId segment;  // instructions on the call's stream only; no Record, Wait, Send, Recv
  std::vector<SliceId> inputs, outputs;
};
struct Call {
  NodeId node;
  int32_t graph = 0;
  std::vector<SliceId> inputs, outputs;
  std::vector<CallBody> bodies;  // in the order of the node's subgraphs
  ControlFlow flow = ControlFlow::kIf;  // that of the node's op
};

// Runs a node on the host, in stream order; operands lie in host memory (on a cpu device, device
// memory is). Output sizes may be known only afterwards: slices give the bound.
struct HostCall {
  NodeId node;
  int32_t graph = 0;
  std::vector<SliceId> inputs, outputs;
};

// Versioned mailboxes: the only asynchronous exchange. TakeLatest gives the newest version.
struct Publish {
  NodeId node;
  std::string mailbox;
  SliceId from;
};
struct TakeLatest {
  NodeId node;
  std::string mailbox;
  SliceId to;
};

using InstructionBody = std::variant<Launch, Copy, Collective, Send, Recv, Record, Wait, Call,
                                     HostCall, Publish, TakeLatest>;
std::string_view InstructionKindName(const InstructionBody& body);  // "Launch", ...

struct Instruction {
  StreamId stream;
  InstructionBody body;
};

// --- Programs -----------------------------------------------------------------------------------
struct Segment {
  std::string name;   // "forward", "backward-input", "then_branch"
  int32_t graph = 0;  // whose nodes its instructions run
  std::vector<Instruction> instructions;
};

struct ScheduleItem {
  SegmentId segment;
  int32_t microbatch = 0;
  bool operator==(const ScheduleItem&) const = default;
};

enum class Section : uint8_t { kInit, kStep, kFinish };
std::string_view SectionName(Section section);  // "init", "step", "finish"

// A value the session fills (inputs, params, constants) or reads (outputs) and the slice where.
struct Binding {
  ValueId value;  // of graph 0
  SliceId slice;
  bool operator==(const Binding&) const = default;
};

struct Program {
  std::string name;         // "stage0"
  std::string device_kind;  // "cpu", "cuda"
  LinearExpr device_index;  // device `kind:index` of the machine, by mesh coordinate

  std::vector<PlanBuffer> buffers;
  std::vector<Slice> slices;
  std::vector<PlanStream> streams;
  std::vector<std::string> events;
  std::vector<Segment> segments;
  std::vector<ScheduleItem> init, step, finish;

  // Filled before init: params and constants this program holds. A param's slice is its home: when
  // a step ends, its newest version lies there.
  std::vector<Binding> loads;
  // Filled before each step, one slot per microbatch; read after it, likewise. When the bundle has
  // m microbatches, the session's tensor is m of the graph's values stacked along dim 0.
  std::vector<Binding> inputs, outputs;

  const std::vector<ScheduleItem>& schedule(Section s) const {
    return s == Section::kInit ? init : s == Section::kStep ? step : finish;
  }
};

struct PlanBundle {
  std::string name;
  std::string machine;       // name of the MachineSpec it was made for
  int32_t microbatches = 1;  // per step
  Mesh mesh;                 // each program runs once per coordinate
  Graph graph;
  std::vector<Program> programs;
};

// Device-memory bytes of one program: the sum of its kDevice buffers.
int64_t DeviceBytes(const Program& program);

// Instances of a section: for each schedule item, segment and microbatch, in issue order.
int64_t CountInstructions(const Program& program, Section section);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_PLAN_H_
