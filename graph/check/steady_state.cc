// Renaming makes steps comparable. If a step is right when it begins in state S (which bytes hold
// which terms over params and constants), it is right in every state that holds at least S, and
// leaves at least as much: reads look for certain terms, copies carry more where there is more. So
// with S' the state after a step from S, S' holding S proves all later steps. Usually that takes
// one step; a plan that loses something first (a stale copy of a param made by init) takes two.
#include "graph/check/steady_state.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace millrace {
namespace {

bool MayBeRead(const Terms& terms, int32_t term) {
  const TermKind kind = terms.term(term).kind;
  return kind == TermKind::kConstant || kind == TermKind::kParam || kind == TermKind::kResult;
}

// By term of the step that ended: its name in the next. Terms come after those they are made of.
class Renamer {
 public:
  Renamer(Terms& terms, const absl::flat_hash_map<int32_t, int32_t>& newest)
      : terms_(terms), newest_(newest), names_(terms.size(), kNothingTerm) {
    const int32_t size = terms.size();
    for (int32_t t = 0; t < size; ++t) names_[t] = Rename(t);
  }
  int32_t operator()(int32_t term) const { return names_[term]; }

 private:
  int32_t Rename(int32_t t) {
    const ContentTerm term = terms_.term(t);
    if (term.kind == TermKind::kConstant) return t;
    if (term.kind == TermKind::kResult && !terms_.unique(term.subject)) {
      const int32_t same = RenameResult(term);
      if (same != kNothingTerm) return same;
    }
    const auto it = newest_.find(t);
    return it != newest_.end() ? it->second : terms_.Earlier(t);
  }

  // A node applied to what lives on, gives the same in the next step; kNothingTerm if it is not.
  int32_t RenameResult(const ContentTerm& term) {
    const NodeApplication application = terms_.application(term.subject);
    children_.clear();
    for (int32_t child : terms_.children(term.subject)) {
      const int32_t renamed = names_[child];
      if (child != kNothingTerm && !MayBeRead(terms_, renamed)) return kNothingTerm;
      children_.push_back(renamed);
    }
    const int32_t same = terms_.Apply(application.node, children_, terms_.salt(term.subject),
                                      application.num_results, term.microbatch);
    return terms_.application(same).first_result + term.output;
  }

  Terms& terms_;
  const absl::flat_hash_map<int32_t, int32_t>& newest_;
  std::vector<int32_t> names_, children_;
};

}  // namespace

ParamTerms LoadedParams(const PlanModel& model, const MeshClasses& classes,
                        Expectations& expectations) {
  ParamTerms params;
  params.num_params = static_cast<int32_t>(model.plan->graph.params.size());
  for (int32_t c = 0; c < std::ssize(classes.coordinates); ++c) {
    for (ValueId param : model.plan->graph.params) {
      params.terms.push_back(expectations.LeafTerm(c, {0, param}, 0));
    }
  }
  params.loaded = params.terms;
  return params;
}

void BeginNextStep(const PlanModel& model, const MeshClasses& classes, Terms& terms,
                   ParamTerms& params, MemoryModel& memory) {
  const std::vector<ValueId>& ids = model.plan->graph.params;
  // Terms that params share get one name, terms that differ get different ones.
  absl::flat_hash_map<int32_t, int32_t> newest;
  absl::flat_hash_set<int32_t> used;
  for (int32_t c = 0; c < std::ssize(classes.coordinates); ++c) {
    for (int32_t p = 0; p < params.num_params; ++p) {
      const auto [it, is_new] = newest.try_emplace(params.at(c, p), kNothingTerm);
      if (!is_new) continue;
      const int32_t own = params.loaded[c * params.num_params + p];
      const int32_t value = model.graphs.GlobalValue({0, ids[p]});
      it->second =
          used.insert(own).second ? own : terms.Leaf(TermKind::kParam, value, 0, kFirstReplica + c);
    }
  }
  const Renamer rename(terms, newest);
  for (int32_t& term : params.terms) term = rename(term);
  for (std::vector<ByteMap>& maps : memory.maps()) {
    for (ByteMap& map : maps) {
      map.ForEachCell([&](ByteMap::Cell& cell) { cell.content.term = rename(cell.content.term); });
    }
  }
}

MemorySnapshot TakeSnapshot(const Terms& terms, MemoryModel& memory) {
  MemorySnapshot snapshot;
  for (int32_t site = 0; site < std::ssize(memory.maps()); ++site) {
    std::vector<ByteMap>& maps = memory.maps()[site];
    for (size_t b = 0; b < maps.size(); ++b) {
      maps[b].ForEachCell([&](const ByteMap::Cell& cell) {
        if (!MayBeRead(terms, cell.content.term)) return;
        snapshot.pieces.push_back({site, BufferId(b), cell.begin, cell.end, cell.content});
      });
    }
  }
  return snapshot;
}

bool Holds(MemoryModel& memory, const MemorySnapshot& snapshot) {
  bool holds = true;
  for (const MemorySnapshot::Piece& piece : snapshot.pieces) {
    memory.map(piece.site, piece.buffer)
        .ForEach(piece.begin, piece.end,
                 [&](const ByteMap::Cell& cell) { holds &= cell.content == piece.content; });
  }
  return holds;
}

}  // namespace millrace
