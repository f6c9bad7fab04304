// What MemoryModel says of what it finds.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "graph/check/memory_model.h"
#include "graph/strings.h"

namespace millrace {

ErrorPlace MemoryModel::PlaceOf(const Accessor& who) const {
  return {index_ != nullptr ? static_cast<int32_t>(index_->section) : -1, who.instance, who.site};
}

std::string MemoryModel::Where(int32_t site) const {
  const std::string name = names_.SiteName(sites_[site]);
  return index_ != nullptr ? StrCat(name, " ", SectionName(index_->section)) : name;
}

uint64_t MemoryModel::ReadKey(int32_t site, int32_t instance, BufferId buffer) const {
  return absl::HashOf(site, static_cast<int>(index_->section), instance, buffer.index) | 1;
}

void MemoryModel::ReportRace(const Accessor& who, bool writes, int32_t other, bool other_writes,
                             BufferId buffer, const ByteMap::Cell& cell) {
  if (!other_writes) errors_.RetractRead(ReadKey(who.site, other, buffer));
  if (!writes) errors_.RetractRead(ReadKey(who.site, who.instance, buffer));
  const PlanSite site = sites_[who.site];
  const Program& program = names_.model().program(site.program);
  const IssuedInstance& o = index_->programs[site.program].instances[other];
  const Instruction* other_instruction = &InstructionOf(program, index_->section, o);
  const uint64_t key = absl::HashOf(std::min(who.instruction, other_instruction),
                                    std::max(who.instruction, other_instruction), buffer.index);
  const int32_t first = std::min(who.instance, other), second = std::max(who.instance, other);
  errors_.AddOnce(
      PlanRule::kRace, key, {static_cast<int32_t>(index_->section), first, who.site}, 0, [&] {
        const auto describe = [&](int32_t instance) {
          const bool is_who = instance == who.instance;
          return StrCat(
              names_.InstanceName(site, *index_, instance, is_who ? who.instruction : nullptr),
              (is_who ? writes : other_writes) ? " writes" : " reads");
        };
        const std::string first_stream = names_.StreamName(site, *index_, first);
        const std::string second_stream = names_.StreamName(site, *index_, second);
        return StrCat("race in ", Where(who.site), " ",
                      names_.BytesName(site, buffer, cell.begin, cell.end), ": ", describe(first),
                      " while ", describe(second), "; nothing orders them: a wait on '",
                      second_stream, "' before #", second, " for an event recorded on '",
                      first_stream, "' after #", first, " is missing");
      });
}

std::string MemoryModel::Describe(int32_t site, const ByteMap::Cell& cell) const {
  const bool nothing = cell.content.term == kNothingTerm;
  if (cell.writer == kNobody) return "nothing: they were never written";
  if (cell.writer == kSession) {
    return nothing
               ? "nothing certain: the session puts two values there"
               : StrCat(names_.TermName(terms_, cell.content.term), ", put there by the session");
  }
  const std::string text = nothing ? "scratch, half-written data or a copy of bytes never written"
                                   : names_.TermName(terms_, cell.content.term);
  const SectionIndex& index = *known_sections_[static_cast<int>(cell.section)];
  const bool other_section = index_ == nullptr || index_->section != cell.section;
  return StrCat(text, ", written by ", other_section ? StrCat(SectionName(cell.section), " ") : "",
                names_.InstanceName(sites_[site], index, cell.writer));
}

// Where two terms part: "made from 'w1' of microbatch 0 instead of param 'w'".
std::string MemoryModel::Difference(int32_t expected, int32_t found) const {
  const ContentTerm *e = &terms_.term(expected), *f = &terms_.term(found);
  if (names_.TermName(terms_, expected) != names_.TermName(terms_, found)) return "";
  for (bool deeper = true; deeper;) {
    deeper = false;
    if (e->kind != TermKind::kResult || f->kind != TermKind::kResult) break;
    if (terms_.application(e->subject).node != terms_.application(f->subject).node) break;
    const auto wanted = terms_.children(e->subject), had = terms_.children(f->subject);
    for (size_t i = 0; i < wanted.size() && i < had.size(); ++i) {
      if (wanted[i] == had[i]) continue;
      expected = wanted[i];
      found = had[i];
      e = &terms_.term(expected);
      f = &terms_.term(found);
      deeper = true;
      break;
    }
  }
  return StrCat(" (made from ", names_.TermName(terms_, found), " instead of ",
                names_.TermName(terms_, expected), ")");
}

// What another section computed once is there for every microbatch.
bool MemoryModel::IsComputed(const SectionIndex& index, int32_t node, int32_t microbatch) const {
  if (index.section == index_->section) return index.FindExecution(node, microbatch) != nullptr;
  for (int32_t mb = 0; mb < names_.model().plan->microbatches; ++mb) {
    if (index.FindExecution(node, mb) != nullptr) return true;
  }
  return false;
}

PlanRule MemoryModel::StaleRule(const Accessor& who, ValueRef ref, const ByteMap::Cell& cell,
                                std::string& why) const {
  const Value& value = names_.model().graphs.value(ref);
  if (value.kind == ValueKind::kResult) {
    const int32_t node = names_.model().graphs.GlobalNode(ref.graph, value.producer);
    for (const SectionIndex* index : known_sections_) {
      if (index != nullptr && IsComputed(*index, node, who.microbatch)) return PlanRule::kStaleRead;
    }
    why = StrCat("; no instruction computes '", value.name, "' for microbatch ", who.microbatch);
    return PlanRule::kCompute;
  }
  if (ref.graph != 0) return PlanRule::kStaleRead;
  if (names_.model().is_filled[ref.value.index]) {
    return cell.writer == kNobody ? PlanRule::kBinding : PlanRule::kStaleRead;
  }
  why = StrCat("; no program binds '", value.name, "'");
  return PlanRule::kBinding;
}

void MemoryModel::ReportStale(const Accessor& who, const PlacedSlice& place, int32_t term,
                              const ByteMap::Cell& cell) {
  const PlanSite site = sites_[who.site];
  const Slice& slice = names_.model().program(site.program).slices[place.slice.index];
  const uint64_t key = absl::HashOf(who.instruction, place.slice.index, 's');
  if (errors_.Has(key)) return;
  std::string why;
  const PlanRule rule = StaleRule(who, slice.value, cell, why);
  errors_.AddOnce(rule, key, PlaceOf(who), ReadKey(who.site, who.instance, place.buffer), [&] {
    const bool body_ends =
        cell.writer == who.instance && std::holds_alternative<Call>(who.instruction->body);
    const std::string found =
        body_ends ? StrCat(names_.TermName(terms_, cell.content.term), " when this body ends")
        : cell.content.term == term
            ? StrCat("that at another offset or in another layout, ", Describe(who.site, cell))
            : StrCat(Describe(who.site, cell), Difference(term, cell.content.term));
    return StrCat(PlanRuleName(rule), " in ", Where(who.site), " ",
                  names_.BytesName(site, place.buffer, cell.begin, cell.end), ": ",
                  names_.InstanceName(site, *index_, who.instance, who.instruction), " reads '",
                  names_.model().graphs.value(slice.value).name, "' and must find ",
                  names_.TermName(terms_, term), "; the bytes hold ", found, why);
  });
}

}  // namespace millrace
