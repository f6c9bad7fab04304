// Besides unrolling, this decides by counting what the schedule alone decides:
//  * A node with effects runs at most once for a microbatch, a random one too; neither outside the
//    step. An effect, and an update, that depends on the microbatch happens for all of them or for
//    one: in a plan with gradient accumulation, the accumulation runs for each microbatch and the
//    optimizer once. Anything in between has lost a microbatch.
//  * An update takes effect at the end of the item that first computes its value for a microbatch.
#include "graph/check/section_index.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kMaxSectionInstances = int64_t{1} << 24;

class SectionIndexer {
 public:
  SectionIndexer(const PlanModel& model, SectionIndex& index, ErrorList& errors)
      : model_(model), plan_(*model.plan), index_(index), errors_(errors) {
    updates_of_.resize(plan_.graph.nodes.size());
    for (size_t u = 0; u < plan_.graph.updates.size(); ++u) {
      const Value& value = plan_.graph.value(plan_.graph.updates[u].value);
      if (value.kind != ValueKind::kResult) continue;
      updates_of_[value.producer.index].push_back(static_cast<int32_t>(u));
    }
  }

  bool Run() {
    int64_t total = 0;
    for (const Program& program : plan_.programs) {
      for (const ScheduleItem& item : program.schedule(index_.section)) {
        total += CountWithBodies(program, item.segment);
        if (total > kMaxSectionInstances) {
          errors_.Add(PlanRule::kStructure,
                      StrCat("the ", SectionName(index_.section), " section has more than ",
                             kMaxSectionInstances, " instructions; it is too long to check"));
          return false;
        }
      }
    }
    for (size_t p = 0; p < plan_.programs.size(); ++p) IndexProgram(static_cast<int32_t>(p));
    return true;
  }

 private:
  // A segment's instructions, those of called bodies included; saturates. Nesting of graphs bounds
  // the depth, the memory of counts the time.
  int64_t CountWithBodies(const Program& program, SegmentId segment) {
    const auto key = std::make_pair(&program, segment.index);
    const auto found = counts_.find(key);
    if (found != counts_.end()) return found->second;
    int64_t count = 0;
    for (const Instruction& i : program.segments[segment.index].instructions) {
      ++count;
      if (const Call* call = std::get_if<Call>(&i.body)) {
        for (const CallBody& body : call->bodies) count += CountWithBodies(program, body.segment);
      }
      count = std::min(count, kMaxSectionInstances + 1);
    }
    counts_[key] = count;
    return count;
  }

  void IndexProgram(int32_t p) {
    p_ = p;
    const Program& program = plan_.programs[p];
    section_ = &index_.programs.emplace_back();
    section_->firings.resize(plan_.graph.updates.size());
    dense_stream_.assign(program.streams.size(), -1);
    records_.assign(program.events.size(), {});
    const std::vector<ScheduleItem>& schedule = program.schedule(index_.section);
    for (item_ = 0; item_ < std::ssize(schedule); ++item_) {
      section_->updates_before.push_back(num_firings_);
      microbatch_ = schedule[item_].microbatch;
      const Segment& segment = program.segments[schedule[item_].segment.index];
      for (size_t i = 0; i < segment.instructions.size(); ++i) {
        AddInstance(program, segment, static_cast<int32_t>(i));
      }
    }
    num_firings_ = 0;
  }

  void AddInstance(const Program& program, const Segment& segment, int32_t i) {
    const Instruction& instruction = segment.instructions[i];
    int32_t& stream = dense_stream_[instruction.stream.index];
    if (stream < 0) {
      stream = static_cast<int32_t>(section_->streams.size());
      section_->streams.emplace_back();
      section_->stream_ids.push_back(instruction.stream);
    }
    const int32_t id = static_cast<int32_t>(section_->instances.size());
    section_->streams[stream].push_back(id);
    section_->instances.push_back(
        {.item = item_,
         .index = i,
         .stream = stream,
         .sequence = static_cast<int32_t>(section_->streams[stream].size())});
    Link(program, segment, instruction, id);
    Execute(program, instruction.body, /*top=*/true);
  }

  void Link(const Program& program, const Segment& segment, const Instruction& instruction,
            int32_t id) {
    IssuedInstance& instance = section_->instances[id];
    if (const Record* record = std::get_if<Record>(&instruction.body)) {
      EventUse& use = records_[record->event.index];
      if (use.stream >= 0 && use.stream != instance.stream) {
        ReportEvent(program, segment, id,
                    StrCat("event '", program.events[record->event.index],
                           "' is recorded on two streams, '", StreamName(program, use.stream),
                           "' and '", StreamName(program, instance.stream), "'"));
      }
      use = {instance.stream, id};
      instance.link = 0;
    } else if (const Wait* wait = std::get_if<Wait>(&instruction.body)) {
      const EventUse& use = records_[wait->event.index];
      instance.link = use.instance;
      if (use.instance >= 0) {
        ++section_->instances[use.instance].link;
      } else {
        ReportEvent(program, segment, id,
                    StrCat("stream '", StreamName(program, instance.stream), "' waits for event '",
                           program.events[wait->event.index],
                           "', but no record of it comes before in the section"));
      }
    } else if (std::holds_alternative<Send>(instruction.body) ||
               std::holds_alternative<Recv>(instruction.body) ||
               std::holds_alternative<Collective>(instruction.body)) {
      instance.link = static_cast<int32_t>(section_->communications.size());
      section_->communications.push_back(id);
    }
  }

  std::string StreamName(const Program& program, int32_t dense) const {
    return program.streams[section_->stream_ids[dense].index].name;
  }

  void ReportEvent(const Program& program, const Segment& segment, int32_t id,
                   std::string_view what) {
    const IssuedInstance& i = section_->instances[id];
    const ErrorPlace place{static_cast<int32_t>(index_.section), id, p_};
    errors_.AddOnce(PlanRule::kEvent, absl::HashOf(p_, &segment, i.index, 'e'), place, 0, [&] {
      return StrCat("event in program '", program.name, "' ", SectionName(index_.section), " #", id,
                    " (segment '", segment.name, "' microbatch ", microbatch_, "): ", what);
    });
  }

  void Execute(const Program& program, const InstructionBody& body, bool top) {
    const auto [graph, node] = NodeOf(body);
    if (!node.valid()) return;
    const int32_t global = model_.graphs.GlobalNode(graph, node);
    const auto [it, is_new] =
        index_.executions.try_emplace(SectionIndex::ExecutionKey(global, microbatch_),
                                      NodeExecution{.program = p_, .item = item_, .count = 0});
    ++it->second.count;
    if (top && graph == 0 && index_.section == Section::kStep) Fire(node, is_new);
    if (const Call* call = std::get_if<Call>(&body)) {
      for (const CallBody& b : call->bodies) {
        for (const Instruction& i : program.segments[b.segment.index].instructions) {
          Execute(program, i.body, /*top=*/false);
        }
      }
    }
  }

  void Fire(NodeId node, bool first_anywhere) {
    for (int32_t update : updates_of_[node.index]) {
      auto& firings = section_->firings[update];
      if (!first_anywhere && std::ranges::any_of(firings, [&](const auto& f) {
            return f.microbatch == microbatch_;
          })) {
        continue;  // computed again, not anew
      }
      firings.push_back({item_, microbatch_});
      ++num_firings_;
    }
  }

  struct EventUse {
    int32_t stream = -1;
    int32_t instance = -1;
  };

  const PlanModel& model_;
  const PlanBundle& plan_;
  SectionIndex& index_;
  ErrorList& errors_;
  std::vector<std::vector<int32_t>> updates_of_;  // by node of graph 0
  absl::flat_hash_map<std::pair<const Program*, int32_t>, int64_t> counts_;

  // Of the program being indexed.
  int32_t p_ = 0, item_ = 0, microbatch_ = 0, num_firings_ = 0;
  ProgramSection* section_ = nullptr;
  std::vector<int32_t> dense_stream_;
  std::vector<EventUse> records_;
};

// Which nodes give another result for another microbatch: those that an input or a node that is not
// deterministic flows into. Updates of params inside the step make a difference too, but one of the
// schedule's choosing.
std::vector<bool> DependsOnMicrobatch(const PlanModel& model) {
  const Graph& graph = model.plan->graph;
  std::vector<bool> value(graph.values.size(), false), node(graph.nodes.size(), false);
  for (ValueId id : graph.inputs) value[id.index] = graph.value(id).type.shape.rank() > 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    node[n] = !model.graphs.nodes[n].deterministic;
    for (ValueId in : graph.nodes[n].inputs) node[n] = node[n] || (in.valid() && value[in.index]);
    for (ValueId out : graph.nodes[n].outputs) {
      if (out.valid()) value[out.index] = node[n];
    }
  }
  return node;
}

class ComputeCounter {
 public:
  ComputeCounter(const PlanModel& model, const SectionIndex& index, ErrorList& errors)
      : model_(model), index_(index), errors_(errors) {}

  void Run() {
    for (const auto& [key, execution] : index_.executions) {
      const int32_t node = static_cast<int32_t>(key >> 17);
      const NodeEntry& entry = model_.graphs.nodes[node];
      if (!entry.deterministic || entry.has_effects) {
        found_.push_back({node, static_cast<int32_t>(key & 0x1ffff), execution.count});
      }
    }
    std::sort(found_.begin(), found_.end());  // the map's order is no order
    for (const Found& f : found_) CheckTimes(f);
    if (index_.section != Section::kStep) return;
    const std::vector<bool> depends = DependsOnMicrobatch(model_);
    const Graph& graph = model_.plan->graph;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (model_.graphs.nodes[n].has_effects) CheckEvery(static_cast<int32_t>(n), depends[n], "");
    }
    for (const Update& update : graph.updates) {
      const Value& value = graph.value(update.value);
      if (value.kind != ValueKind::kResult) continue;
      CheckEvery(value.producer.index, depends[value.producer.index],
                 graph.value(update.param).name);
    }
  }

 private:
  struct Found {
    int32_t node, microbatch, count;
    auto operator<=>(const Found&) const = default;
  };

  std::string NodeName(int32_t node) const {
    const Node& n = *model_.graphs.nodes[node].node;
    return StrCat(n.op, " '", n.name, "'");
  }

  void CheckTimes(const Found& f) {
    const NodeEntry& entry = model_.graphs.nodes[f.node];
    if (entry.has_effects && index_.section != Section::kStep) {
      errors_.Add(PlanRule::kCompute,
                  StrCat("compute: ", NodeName(f.node), " has effects and runs in the ",
                         SectionName(index_.section), " section; it belongs to the step"));
    } else if (f.count > 1) {
      errors_.Add(PlanRule::kCompute,
                  StrCat("compute: ", NodeName(f.node), " runs ", f.count, " times for microbatch ",
                         f.microbatch,
                         entry.has_effects ? "; it has effects, so once is right"
                                           : "; each time its result is another"));
    }
  }

  // `param`: whose update it computes, or empty.
  void CheckEvery(int32_t node, bool depends, std::string_view param) {
    std::vector<int32_t> missing;
    for (int32_t mb = 0; mb < model_.plan->microbatches; ++mb) {
      if (index_.FindExecution(node, mb) == nullptr) missing.push_back(mb);
    }
    const int32_t done = model_.plan->microbatches - static_cast<int32_t>(missing.size());
    if (missing.empty() || (done >= 1 && !depends) || done == 1) return;
    if (done == 0 && !param.empty()) return;  // the end of the step looks at what the param holds
    const std::string why =
        param.empty() ? "it has effects" : StrCat("it updates param '", param, "'");
    errors_.Add(PlanRule::kCompute,
                done == 0
                    ? StrCat("compute: ", NodeName(node), " never runs in the step, but ", why)
                    : StrCat("compute: ", NodeName(node), " runs for ", done, " microbatches of ",
                             model_.plan->microbatches, ", not for microbatch ", missing[0], "; ",
                             why, ", so all or one is right"));
  }

  const PlanModel& model_;
  const SectionIndex& index_;
  ErrorList& errors_;
  std::vector<Found> found_;
};

}  // namespace

std::pair<int32_t, NodeId> NodeOf(const InstructionBody& body) {
  return std::visit(
      [](const auto& i) -> std::pair<int32_t, NodeId> {
        if constexpr (requires { i.graph; }) {
          return {i.graph, i.node};
        } else if constexpr (requires { i.node; }) {
          return {0, i.node};
        } else {
          return {0, NodeId()};
        }
      },
      body);
}

bool IndexSection(const PlanModel& model, Section section, SectionIndex& index, ErrorList& errors) {
  index.section = section;
  if (!SectionIndexer(model, index, errors).Run()) return false;
  ComputeCounter(model, index, errors).Run();
  return true;
}

}  // namespace millrace
