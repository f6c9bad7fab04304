// A Call runs one of its bodies, and nobody knows which. Each is run from the state before the
// call; both must leave the call's outputs. Bytes that both leave alike are known afterwards,
// others are not. All accesses of both count for races: they are the Call's instance's.
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
  const int32_t node = model_.graphs.GlobalNode(call.graph, call.node);
  CheckAfter(who, node);
  const int32_t application = ApplicationOf(who, node);
  const std::span<const int32_t> inputs = terms_.children(application);
  const std::vector<int32_t> expected(inputs.begin(), inputs.end());  // bodies add terms
  PlacedSlice condition;
  if (memory_.Place(who, call.inputs[0], "", condition)) memory_.Read(who, condition, expected[0]);

  std::vector<std::vector<OldContent>> results;
  for (size_t k = 0; k < call.bodies.size(); ++k) {
    CheckBorder(who, *model_.graphs.nodes[node].node, call.bodies[k], call.bodies[k].inputs,
                std::span(call.inputs).subspan(1));
    CheckBorder(who, *model_.graphs.nodes[node].node, call.bodies[k], call.bodies[k].outputs,
                call.outputs);
    results.push_back(
        RunBody(who, call.bodies[k], model_.graphs.Nested(node, static_cast<int>(k))));
  }
  MergeBodies(who.site, std::move(results));
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    PlacedSlice output;
    if (!call.outputs[k].valid() || !memory_.Place(who, call.outputs[k], "", output)) continue;
    memory_.Write(who, output, terms_.application(application).first_result + k);
  }
}

// Entering and leaving a body moves nothing: its slices lie on the very bytes of the call's.
void SectionEffects::CheckBorder(const Accessor& who, const Node& node, const CallBody& body,
                                 std::span<const SliceId> inside,
                                 std::span<const SliceId> outside) {
  for (size_t k = 0; k < inside.size(); ++k) {
    PlacedSlice in, out;
    if (!inside[k].valid() || !outside[k].valid() || !memory_.Place(who, inside[k], "", in) ||
        !memory_.Place(who, outside[k], "", out)) {
      continue;
    }
    if (in.buffer == out.buffer && in.begin == out.begin &&
        SamePlaces(*in.footprint, *out.footprint)) {
      continue;
    }
    const PlanSite site = sites_[who.site];
    const Program& program = model_.program(site.program);
    const ErrorPlace place{static_cast<int32_t>(index_.section), who.instance, who.site};
    errors_.AddOnce(
        PlanRule::kAlias, absl::HashOf(who.instruction, inside[k].index, 'k'), place, 0, [&] {
          const auto name = [&](const PlacedSlice& s) {
            return model_.graphs.value(program.slices[s.slice.index].value).name;
          };
          const auto bytes = [&](const PlacedSlice& s) {
            return names_.BytesName(site, s.buffer, s.begin, s.begin + s.footprint->span_bytes);
          };
          return StrCat("alias in ", names_.SiteName(site), " ", SectionName(index_.section), ": ",
                        names_.InstanceName(site, index_, who.instance), ": ", node.op, " '",
                        node.name, "' body '", program.segments[body.segment.index].name, "': '",
                        name(in), "' does not lie on the very bytes of '", name(out), "', but in ",
                        bytes(in), " instead of ", bytes(out));
        });
  }
}

std::vector<OldContent> SectionEffects::RunBody(const Accessor& who, const CallBody& body,
                                                int32_t graph) {
  std::vector<OldContent> journal;
  std::vector<OldContent>* outer = memory_.set_journal(&journal);
  const Program& program = model_.program(sites_[who.site].program);
  const Graph& inner = *model_.graphs.graphs[graph].graph;
  for (const Instruction& instruction : program.segments[body.segment.index].instructions) {
    Accessor inside = who;
    inside.instruction = &instruction;
    Run(inside, instruction);
  }
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    PlacedSlice output;
    if (!body.outputs[k].valid() || !memory_.Place(who, body.outputs[k], "", output)) continue;
    const int32_t term = expectations_.TermOf(
        sites_[who.site].coordinate, {graph, inner.outputs[k]}, who.microbatch, PositionOf(who));
    memory_.Read(who, output, term);
  }
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

void SectionEffects::MergeBodies(int32_t site, std::vector<std::vector<OldContent>> results) {
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
      return agree ? first : Content{.term = kBranchTerm};
    });
  }
}

}  // namespace millrace
