#include "graph/check/section_effects.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"
#include "graph/strings.h"
#include "graph/target.h"

namespace millrace {

SectionEffects::SectionEffects(const PlanNames& names, std::span<const PlanSite> sites,
                               const SectionIndex& index, const HappensBefore& order,
                               Expectations& expectations, const Terms& terms, MemoryModel& memory,
                               ErrorList& errors)
    : names_(names),
      model_(names.model()),
      sites_(sites),
      index_(index),
      order_(order),
      expectations_(expectations),
      terms_(terms),
      memory_(memory),
      errors_(errors) {
  is_awaited_.assign(model_.graphs.nodes.size(), false);
  for (const NodeEntry& entry : model_.graphs.nodes) {
    for (NodeId before : entry.node->after) {
      is_awaited_[model_.graphs.GlobalNode(entry.graph, before)] = true;
    }
  }
}

Accessor SectionEffects::AccessorOf(const Arrival& arrival, ClockView clock) const {
  const int32_t p = sites_[arrival.site].program;
  const Program& program = model_.program(p);
  const IssuedInstance& instance = index_.programs[p].instances[arrival.instance];
  return {arrival.site, arrival.instance, &InstructionOf(program, index_.section, instance),
          ItemOf(program, index_.section, instance).microbatch, clock};
}

void SectionEffects::Visit(std::span<const Arrival> arrivals, ClockView clock) {
  const Accessor first = AccessorOf(arrivals[0], clock);
  if (std::holds_alternative<Send>(first.instruction->body)) {
    Transfer(arrivals[0], arrivals[1], clock);
    return;
  }
  for (const Arrival& arrival : arrivals) {
    const Accessor who = AccessorOf(arrival, clock);
    Run(who, *who.instruction);
  }
}

void SectionEffects::Run(const Accessor& who, const Instruction& instruction) {
  const InstructionBody& body = instruction.body;
  if (const Launch* i = std::get_if<Launch>(&body)) {
    RunNode(who, {i->graph, i->node, i->inputs, i->outputs, i->scratch, i->variant});
  } else if (const HostCall* i = std::get_if<HostCall>(&body)) {
    RunNode(who, {i->graph, i->node, i->inputs, i->outputs, SliceId(), ""});
  } else if (const Collective* i = std::get_if<Collective>(&body)) {
    RunNode(who, {0, i->node, i->inputs, i->outputs, i->scratch, ""});
  } else if (const Publish* i = std::get_if<Publish>(&body)) {
    RunNode(who, {0, i->node, std::span(&i->from, 1), {}, SliceId(), ""});
  } else if (const TakeLatest* i = std::get_if<TakeLatest>(&body)) {
    RunNode(who, {0, i->node, {}, std::span(&i->to, 1), SliceId(), ""});
  } else if (const Copy* i = std::get_if<Copy>(&body)) {
    RunCopy(who, *i);
  } else if (const Call* i = std::get_if<Call>(&body)) {
    RunCall(who, *i);
  }
}

SchedulePosition SectionEffects::PositionOf(const Accessor& who) const {
  const int32_t program = sites_[who.site].program;
  return {program, index_.programs[program].instances[who.instance].item};
}

int32_t SectionEffects::ApplicationOf(const Accessor& who, int32_t global_node) {
  return expectations_.ApplicationOf(sites_[who.site].coordinate, global_node, who.microbatch,
                                     PositionOf(who));
}

void SectionEffects::RunNode(const Accessor& who, const NodeRun& run) {
  const int32_t node = model_.graphs.GlobalNode(run.graph, run.node);
  CheckAfter(who, node);
  absl::InlinedVector<Operand, 8> operands;
  const auto place = [&](SliceId slice, int32_t index, bool is_output) {
    Operand operand{{}, index, is_output};
    if (slice.valid() &&
        memory_.Place(who, slice, PackingOf(who, run, slice, index, is_output), operand.place)) {
      operands.push_back(operand);
    }
  };
  for (size_t k = 0; k < run.inputs.size(); ++k) place(run.inputs[k], k, false);
  place(run.scratch, -1, true);
  for (size_t k = 0; k < run.outputs.size(); ++k) place(run.outputs[k], k, true);
  CheckAlias(who, run, operands);

  const int32_t application = ApplicationOf(who, node);
  const std::span<const int32_t> inputs =
      expectations_.InputsOf(application, sites_[who.site].coordinate);
  for (const Operand& operand : operands) {
    if (!operand.is_output) memory_.Read(who, operand.place, inputs[operand.index]);
  }
  const int32_t first_result = terms_.application(application).first_result;
  for (const Operand& operand : operands) {
    if (!operand.is_output) continue;
    memory_.Write(who, operand.place,
                  operand.index < 0 ? kNothingTerm : first_result + operand.index);
  }
}

// What tells a packed operand's bytes from others: the kernel variant, and the node and input that
// they are packed for. Whoever packs names these in attributes `reader` and `input`.
std::string SectionEffects::PackingOf(const Accessor& who, const NodeRun& run, SliceId slice,
                                      int32_t index, bool is_output) const {
  const int32_t program = sites_[who.site].program;
  if (!model_.footprints[program][slice.index].packed) return "";
  const Graph& graph = *model_.graphs.graphs[run.graph].graph;
  const Node& node = graph.node(run.node);
  const AttrValue* reader = is_output ? node.attrs.Find("reader") : nullptr;
  const AttrValue* input = is_output ? node.attrs.Find("input") : nullptr;
  const auto* query = reader != nullptr ? std::get_if<std::string>(reader) : nullptr;
  const auto* of_input = input != nullptr ? std::get_if<int64_t>(input) : nullptr;
  if (query != nullptr && of_input != nullptr) {
    return StrCat(run.variant, " for input ", *of_input, " of ", *query);
  }
  return StrCat(run.variant, " for input ", index, " of ", QueryToJson(QueryFor(graph, run.node)));
}

void SectionEffects::RunCopy(const Accessor& who, const Copy& copy) {
  PlacedSlice from, to;
  if (!memory_.Place(who, copy.from, "", from) || !memory_.Place(who, copy.to, "", to)) return;
  if (from.buffer == to.buffer && Overlap(*from.footprint, from.begin, *to.footprint, to.begin)) {
    ReportAlias(who, from, to, "a copy needs them apart");
    return;
  }
  memory_.ReadElements(who, from, pieces_);
  memory_.WriteElements(who, to, from, pieces_);
}

void SectionEffects::Transfer(const Arrival& send, const Arrival& recv, ClockView clock) {
  const Accessor sender = AccessorOf(send, clock), receiver = AccessorOf(recv, clock);
  const SliceId from_id = std::get<Send>(sender.instruction->body).from;
  PlacedSlice from, to;
  const bool placed =
      memory_.Place(sender, from_id, "", from) &&
      memory_.Place(receiver, std::get<Recv>(receiver.instruction->body).to, "", to);
  if (!placed) return;
  const int64_t size = model_.program(sites_[send.site].program).slices[from_id.index].size_bytes;
  if (send.site == recv.site && from.buffer == to.buffer && from.begin < to.begin + size &&
      to.begin < from.begin + size) {
    ReportAlias(receiver, from, to, "a transfer needs them apart");
    return;
  }
  memory_.ReadBytes(sender, from, size, pieces_);
  memory_.WriteBytes(receiver, to, pieces_);
}

// Control dependencies: the nodes this one runs `after` have ended, if the plan runs them at all.
void SectionEffects::CheckAfter(const Accessor& who, int32_t global_node) {
  const NodeEntry& entry = model_.graphs.nodes[global_node];
  const int32_t coordinate = sites_[who.site].coordinate;
  for (NodeId id : entry.node->after) {
    const int32_t before = model_.graphs.GlobalNode(entry.graph, id);
    if (index_.FindExecution(before, who.microbatch) == nullptr) continue;
    const auto it =
        executed_.find({coordinate, SectionIndex::ExecutionKey(before, who.microbatch)});
    if (it != executed_.end()) {
      const Arrival& e = it->second;
      if (e.site == who.site && e.instance == who.instance) continue;
      if (order_.IsBefore(e.site, e.instance, who.clock)) continue;
    }
    const ErrorPlace place{static_cast<int32_t>(index_.section), who.instance, who.site};
    errors_.AddOnce(PlanRule::kCompute, absl::HashOf(who.instruction, before, 'a'), place, 0, [&] {
      return StrCat("compute in ", names_.SiteName(sites_[who.site]), " ",
                    SectionName(index_.section), ": ",
                    names_.InstanceName(sites_[who.site], index_, who.instance, who.instruction),
                    " must run after node '", model_.graphs.nodes[before].node->name,
                    "' (its control dependency), and nothing orders them");
    });
  }
  if (is_awaited_[global_node]) {
    executed_.try_emplace({coordinate, SectionIndex::ExecutionKey(global_node, who.microbatch)},
                          Arrival{who.site, who.instance});
  }
}

// Outputs and scratch overlap nothing, except where the op works in place. Operands sorted by
// address; only neighbours can overlap.
void SectionEffects::CheckAlias(const Accessor& who, const NodeRun& run,
                                std::span<const Operand> operands) {
  absl::InlinedVector<const Operand*, 8> sorted;
  for (const Operand& o : operands) {
    if (o.place.footprint->span_bytes > 0) sorted.push_back(&o);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Operand* a, const Operand* b) {
    return std::tie(a->place.buffer, a->place.begin, a->is_output, a->index) <
           std::tie(b->place.buffer, b->place.begin, b->is_output, b->index);
  });
  for (size_t i = 0; i < sorted.size() && !memory_.exhausted(); ++i) {
    const Operand& a = *sorted[i];
    const int64_t end = a.place.begin + a.place.footprint->span_bytes;
    for (size_t j = i + 1; j < sorted.size(); ++j) {
      const Operand& b = *sorted[j];
      if (b.place.buffer != a.place.buffer || b.place.begin >= end) break;
      memory_.AddWork(1);
      if (!a.is_output && !b.is_output) continue;
      if (!Overlap(*a.place.footprint, a.place.begin, *b.place.footprint, b.place.begin)) continue;
      if (a.is_output != b.is_output &&
          IsInPlace(who, run, a.is_output ? a : b, a.is_output ? b : a)) {
        continue;
      }
      ReportAlias(who, a.place, b.place,
                  a.is_output && b.is_output
                      ? "what it writes must lie apart"
                      : "its op does not allow writing there while it reads");
    }
  }
}

bool SectionEffects::IsInPlace(const Accessor& who, const NodeRun& run, const Operand& output,
                               const Operand& input) const {
  const OpTraits& traits =
      *model_.graphs.nodes[model_.graphs.GlobalNode(run.graph, run.node)].traits;
  const InPlacePair pair{output.index, input.index};
  if (std::find(traits.in_place.begin(), traits.in_place.end(), pair) == traits.in_place.end()) {
    return false;
  }
  const Program& program = model_.program(sites_[who.site].program);
  const auto type = [&](const Operand& o) {
    return model_.graphs.value(program.slices[o.place.slice.index].value).type;
  };
  return output.place.begin == input.place.begin && output.place.image == input.place.image &&
         SamePlaces(*output.place.footprint, *input.place.footprint) && type(output) == type(input);
}

void SectionEffects::ReportAlias(const Accessor& who, const PlacedSlice& a, const PlacedSlice& b,
                                 std::string_view what) {
  const PlanSite site = sites_[who.site];
  const ErrorPlace place{static_cast<int32_t>(index_.section), who.instance, who.site};
  const uint64_t key = absl::HashOf(who.instruction, a.slice.index, b.slice.index);
  errors_.AddOnce(PlanRule::kAlias, key, place, 0, [&] {
    const auto end = [](const PlacedSlice& s) { return s.begin + s.footprint->span_bytes; };
    const auto name = [&](const PlacedSlice& s) {
      const ValueRef ref = model_.program(site.program).slices[s.slice.index].value;
      return StrCat(ref.value.valid() ? StrCat("'", model_.graphs.value(ref).name, "'") : "scratch",
                    " [", s.begin, ",", end(s), ")");
    };
    return StrCat(
        "alias in ", names_.SiteName(site), " ", SectionName(index_.section), " ",
        names_.BytesName(site, a.buffer, std::max(a.begin, b.begin), std::min(end(a), end(b))),
        ": ", names_.InstanceName(site, index_, who.instance, who.instruction), " has both ",
        name(a), " and ", name(b), " there; ", what);
  });
}

}  // namespace millrace
