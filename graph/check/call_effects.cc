// An If runs one of its bodies, and nobody knows which. Each is run from the state before the call;
// both must leave the call's outputs. Bytes that both leave alike are known afterwards, others are
// not. All accesses of both count for races: they are the Call's instance's. Loops are run in
// loop_effects.cc.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "graph/check/section_effects.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// By begin; made disjoint. Pieces that overlap agree, since they were read from one state.
void MakeDisjoint(std::vector<OldContent>& pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const OldContent& a, const OldContent& b) {
    return std::tie(a.buffer, a.begin, b.end) < std::tie(b.buffer, b.begin, a.end);
  });
  std::vector<OldContent> disjoint;
  for (OldContent& piece : pieces) {
    if (!disjoint.empty() && disjoint.back().buffer == piece.buffer) {
      piece.begin = std::max(piece.begin, disjoint.back().end);
    }
    if (piece.begin < piece.end) disjoint.push_back(piece);
  }
  pieces = std::move(disjoint);
}

// What the pieces say of one byte; null when it was not written.
const Content* Find(const std::vector<OldContent>& pieces, BufferId buffer, int64_t at) {
  auto it = std::upper_bound(pieces.begin(), pieces.end(), std::make_pair(buffer, at),
                             [](const auto& key, const OldContent& piece) {
                               return key < std::make_pair(piece.buffer, piece.begin);
                             });
  if (it == pieces.begin()) return nullptr;
  --it;
  return it->buffer == buffer && at < it->end ? &it->content : nullptr;
}

}  // namespace

void SectionEffects::RunCall(const Accessor& who, const Call& call) {
  memory_.AddWork(1);  // a call of nothing is work too
  if (memory_.exhausted()) return;
  const int32_t node = model_.graphs.GlobalNode(call.graph, call.node);
  CheckAfter(who, node);
  const int32_t application = ApplicationOf(who, node);
  const std::span<const int32_t> terms = terms_.children(application);
  const std::vector<int32_t> inputs(terms.begin(), terms.end());  // bodies add terms
  const absl::StatusOr<CallForm> form = FormOf(call.flow, *model_.graphs.nodes[node].node);
  MILLRACE_CHECK(form.ok());  // or the call's structure would have been refused
  const CallRun run{call, *form, node, inputs};
  if (form->condition >= 0) ReadInput(who, run, form->condition);
  if (form->trip_count >= 0) ReadInput(who, run, form->trip_count);
  if (form->IsLoop()) {
    RunLoop(who, run);
  } else {
    RunBranches(who, run);
  }
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    PlacedSlice output;
    if (!call.outputs[k].valid() || !memory_.Place(who, call.outputs[k], "", output)) continue;
    memory_.Write(who, output, terms_.application(application).first_result + k);
  }
}

void SectionEffects::ReadInput(const Accessor& who, const CallRun& run, int input) {
  PlacedSlice place;
  if (memory_.Place(who, run.call.inputs[input], "", place)) {
    memory_.Read(who, place, run.inputs[input]);
  }
}

void SectionEffects::RunBranches(const Accessor& who, const CallRun& run) {
  const auto& [call, form, node, inputs] = run;
  std::vector<std::vector<OldContent>> results;
  for (size_t b = 0; b < call.bodies.size(); ++b) {
    const CallBody& body = call.bodies[b];
    for (size_t k = 0; k < form.inputs.size(); ++k) {
      CheckBorder(who, run, body, body.inputs[k], call.inputs[form.inputs[k].operand]);
    }
    for (size_t k = 0; k < form.outputs.size(); ++k) {
      CheckBorder(who, run, body, body.outputs[k], call.outputs[form.outputs[k].operand]);
    }
    results.push_back(Rehearse([&] {
      RunInstructions(who, body);
      const int32_t graph = model_.graphs.Nested(node, static_cast<int>(b));
      for (size_t k = 0; k < body.outputs.size(); ++k) ReadOutput(who, graph, body, k);
    }));
  }
  MergeBodies(who.site, kBranchTerm, std::move(results));
}

// Entering and leaving a body moves nothing: its slices lie on the very bytes of the call's.
void SectionEffects::CheckBorder(const Accessor& who, const CallRun& run, const CallBody& body,
                                 SliceId inside, SliceId outside) {
  PlacedSlice in, out;
  if (!inside.valid() || !outside.valid() || !memory_.Place(who, inside, "", in) ||
      !memory_.Place(who, outside, "", out)) {
    return;
  }
  if (in.buffer == out.buffer && in.begin == out.begin &&
      SamePlaces(*in.footprint, *out.footprint)) {
    return;
  }
  const PlanSite site = sites_[who.site];
  const Program& program = model_.program(site.program);
  const ErrorPlace place{static_cast<int32_t>(index_.section), who.instance, who.site};
  errors_.AddOnce(
      PlanRule::kAlias, absl::HashOf(who.instruction, inside.index, 'k'), place, 0, [&] {
        const auto name = [&](const PlacedSlice& s) {
          return model_.graphs.value(program.slices[s.slice.index].value).name;
        };
        const auto bytes = [&](const PlacedSlice& s) {
          return names_.BytesName(site, s.buffer, s.begin, s.begin + s.footprint->span_bytes);
        };
        const Node& node = *model_.graphs.nodes[run.node].node;
        return StrCat("alias in ", names_.SiteName(site), " ", SectionName(index_.section), ": ",
                      names_.InstanceName(site, index_, who.instance), ": ", node.op, " '",
                      node.name, "' body '", program.segments[body.segment.index].name, "': '",
                      name(in), "' does not lie on the very bytes of '", name(out), "', but in ",
                      bytes(in), " instead of ", bytes(out));
      });
}

std::vector<OldContent> SectionEffects::Rehearse(absl::FunctionRef<void()> body) {
  std::vector<OldContent> journal;
  std::vector<OldContent>* outer = memory_.set_journal(&journal);
  body();
  memory_.set_journal(outer);

  std::vector<OldContent> after;
  for (const OldContent& old : journal) {
    memory_.map(old.site, old.buffer).ForEach(old.begin, old.end, [&](const ByteMap::Cell& cell) {
      after.push_back({old.site, old.buffer, cell.begin, cell.end, cell.content});
    });
  }
  for (auto it = journal.rbegin(); it != journal.rend(); ++it) memory_.SetContent(*it);
  MakeDisjoint(after);
  return after;
}

void SectionEffects::RunInstructions(const Accessor& who, const CallBody& body) {
  const Program& program = model_.program(sites_[who.site].program);
  for (const Instruction& instruction : program.segments[body.segment.index].instructions) {
    Accessor inside = who;
    inside.instruction = &instruction;
    Run(inside, instruction);
  }
}

void SectionEffects::ReadOutput(const Accessor& who, int32_t graph, const CallBody& body,
                                size_t output) {
  PlacedSlice place;
  if (!body.outputs[output].valid() || !memory_.Place(who, body.outputs[output], "", place)) return;
  const ValueId value = model_.graphs.graphs[graph].graph->outputs[output];
  memory_.Read(who, place,
               expectations_.TermOf(sites_[who.site].coordinate, {graph, value}, who.microbatch,
                                    PositionOf(who)));
}

void SectionEffects::MergeBodies(int32_t site, int32_t otherwise,
                                 std::vector<std::vector<OldContent>> results) {
  // Between two neighbouring bounds, each body wrote all bytes from one piece, or none.
  std::vector<std::pair<BufferId, int64_t>> bounds;
  for (const std::vector<OldContent>& pieces : results) {
    for (const OldContent& piece : pieces) {
      bounds.push_back({piece.buffer, piece.begin});
      bounds.push_back({piece.buffer, piece.end});
    }
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto [buffer, begin] = bounds[i];
    if (bounds[i + 1].first != buffer) continue;
    std::vector<const Content*> written;
    for (const auto& pieces : results) written.push_back(Find(pieces, buffer, begin));
    if (std::ranges::all_of(written, [](const Content* c) { return c == nullptr; })) continue;
    memory_.ChangeContent(site, buffer, begin, bounds[i + 1].second, [&](const Content& before) {
      const Content& first = written[0] != nullptr ? *written[0] : before;
      const bool agree = std::ranges::all_of(
          written, [&](const Content* c) { return (c != nullptr ? *c : before) == first; });
      return agree ? first : Content{.term = otherwise};
    });
  }
}

}  // namespace millrace
