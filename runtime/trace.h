// Tracer: what ran when, per stream, for profiles and Chrome traces (chrome://tracing, Perfetto).
// One lane per stream; a lane is written by one thread without locks and read after the run. On an
// asynchronous device a span is the time it took to issue the instruction.
#ifndef MILLRACE_RUNTIME_TRACE_H_
#define MILLRACE_RUNTIME_TRACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/plan.h"
#include "graph/status.h"

namespace millrace {

struct TraceSpan {
  const Instruction* instruction = nullptr;  // of the session's plan
  int32_t microbatch = 0;
  int64_t begin_ns = 0, end_ns = 0;  // steady clock
};

struct TraceLane {
  std::string device;  // "cpu:0"
  std::string stream;  // "main"
  int32_t program = 0;
  std::vector<int64_t> coordinates;  // of the program's instance in the mesh
  std::vector<TraceSpan> spans;
};

class Tracer {
 public:
  // While a session is prepared. The reference stays valid.
  TraceLane& AddLane(std::string device, std::string stream, int32_t program,
                     std::vector<int64_t> coordinates = {});
  const std::vector<std::unique_ptr<TraceLane>>& lanes() const { return lanes_; }
  void Clear();  // drops spans, keeps lanes

 private:
  std::vector<std::unique_ptr<TraceLane>> lanes_;
};

// Chrome trace event JSON: a process per device, a thread per stream, a complete event per
// instruction with its node and microbatch, flow arrows from Record to Wait and Send to Recv.
std::string TraceToJson(const Tracer& tracer, const PlanBundle& plan);

// The node an instruction runs, with its graph's index in the bundle; nullopt for those that move
// or order data.
std::optional<std::pair<int32_t, NodeId>> NodeOf(const Instruction& instruction);

// Time by node over all spans, longest first.
struct NodeTime {
  int32_t graph = 0;
  NodeId node;
  int64_t runs = 0;
  double total_us = 0;
};
std::vector<NodeTime> TimeByNode(const Tracer& tracer);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_TRACE_H_
