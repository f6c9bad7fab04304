// Chrome's trace event format. Arrows come from the plan: its schedules, walked in issue order, say
// which Record a Wait waits for and which Send a Recv meets; the spans of both ends of an arrow are
// then paired run by run.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "graph/json_text.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "runtime/communicator.h"
#include "runtime/trace.h"

namespace millrace {
namespace {

// An instruction of an endpoint for one microbatch; it has one span a run.
struct Instance {
  Endpoint endpoint;
  const Instruction* instruction = nullptr;
  int32_t microbatch = 0;
  auto operator<=>(const Instance&) const = default;
};

struct Arrow {
  Instance from, to;
  bool transfer = false;  // Send to Recv; else Record to Wait
};

class ArrowFinder {
 public:
  explicit ArrowFinder(const PlanBundle& plan) : plan_(plan) {}

  void AddEndpoint(const Endpoint& endpoint) {
    const Program& program = plan_.programs[endpoint.program];
    for (const Section section : {Section::kInit, Section::kStep, Section::kFinish}) {
      std::vector<Instance> last_record(program.events.size());
      for (const ScheduleItem& item : program.schedule(section)) {
        for (const Instruction& i : program.segments[item.segment.index].instructions) {
          Add({endpoint, &i, item.microbatch}, section, last_record);
        }
      }
    }
  }

  std::vector<Arrow> Finish() {
    for (const auto& [channel, sends] : sends_) {
      const std::vector<Instance>& recvs = recvs_[channel];
      for (size_t i = 0; i < std::min(sends.size(), recvs.size()); ++i) {
        arrows_.push_back({.from = sends[i], .to = recvs[i], .transfer = true});
      }
    }
    return std::move(arrows_);
  }

 private:
  using ChannelKey = std::tuple<Endpoint, Endpoint, Channel>;  // sender, receiver

  void Add(const Instance& at, Section section, std::vector<Instance>& last_record) {
    const InstructionBody& body = at.instruction->body;
    if (const auto* record = std::get_if<Record>(&body)) {
      last_record[record->event.index] = at;
    } else if (const auto* wait = std::get_if<Wait>(&body)) {
      const Instance& from = last_record[wait->event.index];
      if (from.instruction != nullptr) arrows_.push_back({.from = from, .to = at});
    } else if (const auto* send = std::get_if<Send>(&body)) {
      sends_[{at.endpoint, PeerOf(at, send->to), {section, send->channel}}].push_back(at);
    } else if (const auto* recv = std::get_if<Recv>(&body)) {
      recvs_[{PeerOf(at, recv->from), at.endpoint, {section, recv->channel}}].push_back(at);
    }
  }

  static Endpoint PeerOf(const Instance& at, const Peer& peer) {
    Endpoint endpoint{peer.program.index, at.endpoint.coordinates};
    for (const auto& [axis, expr] : peer.coordinates) {
      endpoint.coordinates[axis] =
          Evaluate(expr, {.coordinates = at.endpoint.coordinates, .microbatch = at.microbatch});
    }
    return endpoint;
  }

  const PlanBundle& plan_;
  std::vector<Arrow> arrows_;
  std::map<ChannelKey, std::vector<Instance>> sends_, recvs_;
};

struct SpanPlace {
  int pid = 0, tid = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

class TraceWriter {
 public:
  TraceWriter(const Tracer& tracer, const PlanBundle& plan)
      : tracer_(tracer), plan_(plan), graphs_(FlattenGraphs(plan.graph)) {
    for (const auto& lane : tracer.lanes()) {
      if (!lane->spans.empty()) origin_ns_ = std::min(origin_ns_, lane->spans[0].begin_ns);
    }
  }

  std::string Write() {
    for (size_t lane = 0; lane < tracer_.lanes().size(); ++lane) {
      WriteLane(*tracer_.lanes()[lane], static_cast<int>(lane));
    }
    WriteArrows();
    return StrCat("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", events_, "\n]}\n");
  }

 private:
  // A process per device, numbered as they first occur; a thread per lane.
  void WriteLane(const TraceLane& lane, int tid) {
    const auto [device, added] = pids_.try_emplace(lane.device, static_cast<int>(pids_.size()));
    const int pid = device->second;
    if (added) WriteName("process_name", pid, tid, lane.device);
    WriteName("thread_name", pid, tid, StrCat(plan_.programs[lane.program].name, "/", lane.stream));
    for (const TraceSpan& span : lane.spans) {
      WriteSpan(lane, span, pid, tid);
      spans_[{{lane.program, lane.coordinates}, span.instruction, span.microbatch}].push_back(
          {pid, tid, span.begin_ns, span.end_ns});
    }
  }

  void WriteName(std::string_view what, int pid, int tid, std::string_view name) {
    Add(StrCat("{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", pid, ",\"tid\":", tid,
               ",\"args\":{\"name\":", JsonString(name), "}}"));
  }

  void WriteSpan(const TraceLane& lane, const TraceSpan& span, int pid, int tid) {
    const Instruction& instruction = *span.instruction;
    const auto [name, op] = NameOf(instruction);
    const std::string detail =
        DescribeInstruction(plan_, plan_.programs[lane.program], instruction);
    Add(StrCat("{\"ph\":\"X\",\"name\":", JsonString(name), ",\"cat\":", JsonString(op),
               ",\"pid\":", pid, ",\"tid\":", tid, ",\"ts\":", Us(span.begin_ns - origin_ns_),
               ",\"dur\":", Us(span.end_ns - span.begin_ns), ",\"args\":{\"microbatch\":",
               span.microbatch, ",\"instruction\":", JsonString(detail), "}}"));
  }

  // The node's name and op, or the kind of instruction twice.
  std::pair<std::string, std::string> NameOf(const Instruction& instruction) const {
    if (const auto node = NodeOf(instruction)) {
      const Node& n = graphs_[node->first]->node(node->second);
      return {n.name, n.op};
    }
    const std::string kind(InstructionKindName(instruction.body));
    return {kind, kind};
  }

  void WriteArrows() {
    ArrowFinder finder(plan_);
    std::vector<Endpoint> endpoints;
    for (const auto& lane : tracer_.lanes()) {
      Endpoint endpoint{lane->program, lane->coordinates};
      if (std::ranges::find(endpoints, endpoint) != endpoints.end()) continue;
      finder.AddEndpoint(endpoint);
      endpoints.push_back(std::move(endpoint));
    }
    int64_t id = 0;
    for (const Arrow& arrow : finder.Finish()) {
      const std::vector<SpanPlace>& from = spans_[arrow.from];
      const std::vector<SpanPlace>& to = spans_[arrow.to];
      for (size_t run = 0; run < std::min(from.size(), to.size()); ++run) {
        WriteArrow(arrow.transfer, id++, from[run], to[run]);
      }
    }
  }

  // An end belongs to the span that its time lies in.
  void WriteArrow(bool transfer, int64_t id, const SpanPlace& from, const SpanPlace& to) {
    const std::string_view name = transfer ? "transfer" : "event";
    const auto end = [&](std::string_view phase, const SpanPlace& place, int64_t at_ns) {
      Add(StrCat("{\"ph\":\"", phase, "\",\"id\":", id, ",\"name\":\"", name, "\",\"cat\":\"", name,
                 "\",\"pid\":", place.pid, ",\"tid\":", place.tid,
                 ",\"ts\":", Us(at_ns - origin_ns_), "}"));
    };
    end("s", from, from.begin_ns);
    end("f\",\"bp\":\"e", to, std::max(to.begin_ns, to.end_ns - 1));
  }

  // Nanoseconds as a decimal number of microseconds.
  static std::string Us(int64_t ns) {
    const std::string digits = StrCat(1000 + ns % 1000);
    return StrCat(ns / 1000, ".", std::string_view(digits).substr(1));
  }

  void Add(const std::string& event) { StrAppend(&events_, events_.empty() ? "\n" : ",\n", event); }

  const Tracer& tracer_;
  const PlanBundle& plan_;
  const std::vector<const Graph*> graphs_;
  int64_t origin_ns_ = std::numeric_limits<int64_t>::max();
  std::map<std::string, int> pids_;
  std::map<Instance, std::vector<SpanPlace>> spans_;
  std::string events_;
};

}  // namespace

std::string TraceToJson(const Tracer& tracer, const PlanBundle& plan) {
  return TraceWriter(tracer, plan).Write();
}

}  // namespace millrace
