// Races: each cell knows its last writer and the readers since; earlier accesses need not be known,
// since those were ordered before the last writer or are reported already. A read must come after
// the writer, a write after the writer and all readers.
//
// Contents: a read finds what it must when each of its runs lies on cells whose content is the
// expected term in the same image, shifted so that the image offsets agree. Ops that are views
// (graph/view.h) need not run: bytes of their inputs are bytes of their outputs, so where the term
// is another, the question is asked again of what the expected one is a view of.
#include "graph/check/memory_model.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int32_t kPackedImages = 1 << 29;

// What bytes at `address` hold when a piece's first byte comes to lie there.
Content ContentAt(const MovedPiece& piece, int64_t address) {
  if (piece.term == kNothingTerm) return {};
  return {piece.term, piece.image, address - piece.term_offset};
}

// Appends what `cell` holds to the pieces; `offset` is the place of its first byte in the source.
void AppendPiece(const ByteMap::Cell& cell, int64_t offset, std::vector<MovedPiece>& pieces) {
  MovedPiece piece{offset, cell.end - cell.begin, cell.content.term, cell.content.image, 0};
  if (piece.term != kNothingTerm) piece.term_offset = cell.begin - cell.content.origin;
  if (!pieces.empty()) {
    MovedPiece& last = pieces.back();
    if (last.term == piece.term && last.image == piece.image &&
        (piece.term == kNothingTerm || last.term_offset + last.size == piece.term_offset)) {
      last.size += piece.size;
      return;
    }
  }
  pieces.push_back(piece);
}

}  // namespace

MemoryModel::MemoryModel(const PlanNames& names, const MeshClasses& classes,
                         std::span<const PlanSite> sites, const Terms& terms, ErrorList& errors)
    : names_(names), classes_(classes), sites_(sites), terms_(terms), errors_(errors) {
  for (const PlanSite& site : sites) {
    std::vector<ByteMap>& maps = maps_.emplace_back();
    for (const PlanBuffer& buffer : names.model().program(site.program).buffers) {
      maps.emplace_back(buffer.size_bytes);
    }
  }
}

void MemoryModel::BeginSection(const SectionIndex& index, const HappensBefore& order) {
  index_ = &index;
  order_ = &order;
  known_sections_[static_cast<int>(index.section)] = &index;
}

void MemoryModel::EndSection() {
  index_ = nullptr;
  order_ = nullptr;
  Settle();
}

void MemoryModel::Settle() {
  for (std::vector<ByteMap>& maps : maps_) {
    for (ByteMap& map : maps) {
      map.ForEachCell([&](ByteMap::Cell& cell) {
        cell.settled = true;
        map.ClearReaders(cell);
      });
    }
  }
}

bool MemoryModel::Place(const Accessor& who, SliceId id, std::string_view packing,
                        PlacedSlice& place) {
  ++work_;
  const PlanSite site = sites_[who.site];
  const Program& program = names_.model().program(site.program);
  const Slice& slice = program.slices[id.index];
  place.slice = id;
  place.buffer = slice.buffer;
  place.footprint = &names_.model().footprints[site.program][id.index];
  place.image = place.footprint->packed ? PackedImage(packing) : place.footprint->image;
  place.begin = Evaluate(slice.offset_bytes, {.coordinates = classes_.coordinates[site.coordinate],
                                              .microbatch = who.microbatch});
  const int64_t size = program.buffers[slice.buffer.index].size_bytes;
  const bool inside = place.begin >= 0 && place.begin <= size - slice.size_bytes;
  if (inside && place.begin % place.footprint->element_bytes == 0) return true;
  errors_.AddOnce(
      PlanRule::kBounds, absl::HashOf(site.program, id.index, 'b'), PlaceOf(who), 0, [&] {
        const std::string what =
            slice.value.value.valid()
                ? StrCat("'", names_.model().graphs.value(slice.value).name, "'")
                : "scratch";
        const std::string user =
            who.instance >= 0 ? names_.InstanceName(site, *index_, who.instance, who.instruction)
                              : "the session";
        return StrCat("bounds in ", Where(who.site), " buffer '",
                      program.buffers[slice.buffer.index].name, "' of ", size, " bytes: ", user,
                      " uses slice ", id.index, " of ", what, " with ", slice.size_bytes,
                      " bytes at ", place.begin, " for microbatch ", who.microbatch,
                      inside ? StrCat(", which is no multiple of its element size ",
                                      place.footprint->element_bytes)
                             : ", which does not lie inside");
      });
  return false;
}

template <typename Visit>
void MemoryModel::ReadRange(const Accessor& who, BufferId buffer, int64_t begin, int64_t end,
                            Visit&& visit) {
  ByteMap& bytes = map(who.site, buffer);
  ++accesses_;
  bytes.ForEach(begin, end, [&](ByteMap::Cell& cell) {
    ++work_;
    const bool raced = !cell.settled && Races(who, cell.writer);
    if (raced) ReportRace(who, false, cell.writer, true, buffer, cell);
    visit(cell, raced);
    bytes.AddReader(cell, who.instance, [&](int32_t reader) { return !Races(who, reader); });
  });
}

void MemoryModel::WriteRange(const Accessor& who, BufferId buffer, int64_t begin, int64_t end,
                             const Content& content) {
  if (begin >= end) return;
  ByteMap& bytes = map(who.site, buffer);
  ++accesses_;
  bytes.ForEach(begin, end, [&](ByteMap::Cell& cell) {
    ++work_;
    if (!cell.settled && Races(who, cell.writer)) {
      ReportRace(who, true, cell.writer, true, buffer, cell);
    }
    bytes.ForEachReader(cell, [&](int32_t reader) {
      if (Races(who, reader)) ReportRace(who, true, reader, false, buffer, cell);
    });
    if (journal_ != nullptr) {
      journal_->push_back({who.site, buffer, cell.begin, cell.end, cell.content});
    }
  });
  ByteMap::Cell& cell = bytes.Merge(begin, end);
  cell.content = content;
  cell.writer = who.instance;
  cell.section = index_->section;
  cell.settled = false;
}

bool MemoryModel::IsAsExpected(const PlacedSlice& place, const ByteMap::Cell& cell, int32_t term,
                               int64_t origin) {
  if (!SaysWhat(term)) return false;
  if (cell.content == Content{term, place.image, origin}) return true;
  return place.image == kRowMajorImage && cell.content.image == kRowMajorImage &&
         SaysWhat(cell.content.term) &&
         IsViewed(cell.content, cell.begin, cell.end - cell.begin, term, cell.begin - origin);
}

bool MemoryModel::IsViewed(const Content& content, int64_t begin, int64_t size, int32_t term,
                           int64_t offset) {
  struct Question {
    int32_t term;
    int64_t begin, size, offset;
  };
  std::vector<Question> questions = {{term, begin, size, offset}};
  while (!questions.empty() && !exhausted()) {
    ++work_;
    const Question q = questions.back();
    questions.pop_back();
    if (q.term == content.term && q.begin - q.offset == content.origin) continue;
    const ContentTerm asked = terms_.term(q.term);
    if (asked.kind != TermKind::kResult) return false;
    const std::span<const ViewPart> parts =
        ViewPartsOf(terms_.application(asked.subject).node, asked.output);
    if (parts.empty()) return false;
    const std::span<const int32_t> children = terms_.children(asked.subject);
    const int64_t end = q.offset + q.size;
    auto part = std::ranges::upper_bound(parts, q.offset, {}, &ViewPart::to_bytes);
    for (--part; part != parts.end() && part->to_bytes < end; ++part) {
      const int64_t first = std::max(q.offset, part->to_bytes);
      const int64_t last = std::min(end, part->to_bytes + part->size_bytes);
      questions.push_back({children[part->input], q.begin + first - q.offset, last - first,
                           first - part->to_bytes + part->from_bytes});
    }
  }
  return questions.empty();
}

std::span<const ViewPart> MemoryModel::ViewPartsOf(int32_t node, int output) {
  const NodeEntry& entry = names_.model().graphs.nodes[node];
  if (entry.traits == nullptr || entry.traits->view == ViewKind::kNone) return {};
  const auto [it, is_new] = view_parts_.try_emplace({node, output});
  if (is_new) {
    const Graph& graph = *names_.model().graphs.graphs[entry.graph].graph;
    it->second = millrace::ViewPartsOf(entry.traits->view, graph, *entry.node, output);
  }
  return it->second;
}

const TensorType* MemoryModel::TypeOf(int32_t id) const {
  const GraphIndex& graphs = names_.model().graphs;
  const ContentTerm& term = terms_.term(id);
  switch (term.kind) {
    case TermKind::kInput:
    case TermKind::kConstant:
    case TermKind::kParam:
    case TermKind::kTrip:
      return &graphs.value(graphs.RefOf(term.subject)).type;
    case TermKind::kResult: {
      const NodeEntry& entry = graphs.nodes[terms_.application(term.subject).node];
      const ValueId out = entry.node->outputs[term.output];
      return out.valid() ? &graphs.graphs[entry.graph].graph->value(out).type : nullptr;
    }
    case TermKind::kNothing:
    case TermKind::kEarlier:
    case TermKind::kBranch:
    case TermKind::kTrips:
      return nullptr;
  }
  return nullptr;
}

void MemoryModel::Read(const Accessor& who, const PlacedSlice& place, int32_t term) {
  bool reported = false;
  for (RunCursor run(*place.footprint, place.begin); !run.done(); run.Advance()) {
    const int64_t origin = run.begin() - run.image_offset();
    ReadRange(who, place.buffer, run.begin(), run.end(),
              [&](const ByteMap::Cell& cell, bool raced) {
                reported |= raced;
                if (reported || IsAsExpected(place, cell, term, origin)) return;
                reported = true;
                ReportStale(who, place, term, cell);
              });
  }
}

void MemoryModel::Write(const Accessor& who, const PlacedSlice& place, int32_t term) {
  for (RunCursor run(*place.footprint, place.begin); !run.done(); run.Advance()) {
    Content content;
    if (term != kNothingTerm) content = {term, place.image, run.begin() - run.image_offset()};
    WriteRange(who, place.buffer, run.begin(), run.end(), content);
  }
}

void MemoryModel::ReadElements(const Accessor& who, const PlacedSlice& from,
                               std::vector<MovedPiece>& pieces) {
  pieces.clear();
  for (RunCursor run(*from.footprint, from.begin); !run.done(); run.Advance()) {
    ReadRange(who, from.buffer, run.begin(), run.end(), [&](const ByteMap::Cell& cell, bool) {
      AppendPiece(cell, cell.begin - run.begin() + run.image_offset(), pieces);
    });
  }
}

void MemoryModel::WriteElements(const Accessor& who, const PlacedSlice& to, const PlacedSlice& from,
                                std::span<const MovedPiece> pieces) {
  if (to.image != from.image) {
    // Elements change places: only a whole value keeps a meaning, and only under its own shape.
    const TensorType* type = pieces.size() == 1 ? TypeOf(pieces[0].term) : nullptr;
    const Program& program = names_.model().program(sites_[who.site].program);
    const ValueRef value = program.slices[from.slice.index].value;
    const bool whole = type != nullptr && pieces[0].image == from.image &&
                       pieces[0].term_offset == 0 &&
                       *type == names_.model().graphs.value(value).type;
    Write(who, to, whole ? pieces[0].term : kNothingTerm);
    return;
  }
  size_t p = 0;
  for (RunCursor run(*to.footprint, to.begin); !run.done(); run.Advance()) {
    const int64_t shift = run.begin() - run.image_offset();  // from image offset to address
    const int64_t run_end = run.end() - shift;
    for (int64_t at = run.image_offset(); at < run_end;) {
      while (pieces[p].offset + pieces[p].size <= at) ++p;
      const int64_t end = std::min(run_end, pieces[p].offset + pieces[p].size);
      // The piece begins at its own offset, which may lie before this run.
      WriteRange(who, to.buffer, at + shift, end + shift,
                 ContentAt(pieces[p], pieces[p].offset + shift));
      at = end;
    }
  }
}

void MemoryModel::ReadBytes(const Accessor& who, const PlacedSlice& from, int64_t size_bytes,
                            std::vector<MovedPiece>& pieces) {
  pieces.clear();
  ReadRange(
      who, from.buffer, from.begin, from.begin + size_bytes,
      [&](const ByteMap::Cell& cell, bool) { AppendPiece(cell, cell.begin - from.begin, pieces); });
}

void MemoryModel::WriteBytes(const Accessor& who, const PlacedSlice& to,
                             std::span<const MovedPiece> pieces) {
  for (const MovedPiece& piece : pieces) {
    const int64_t begin = to.begin + piece.offset;
    WriteRange(who, to.buffer, begin, begin + piece.size, ContentAt(piece, begin));
  }
}

std::optional<ByteMap::Cell> MemoryModel::FindOther(int32_t site, const PlacedSlice& place,
                                                    int32_t term) {
  std::optional<ByteMap::Cell> other;  // a copy: later runs split cells
  for (RunCursor run(*place.footprint, place.begin); !run.done() && !other; run.Advance()) {
    const int64_t origin = run.begin() - run.image_offset();
    map(site, place.buffer).ForEach(run.begin(), run.end(), [&](const ByteMap::Cell& cell) {
      ++work_;
      if (other || IsAsExpected(place, cell, term, origin)) return;
      other = cell;
    });
  }
  return other;
}

void MemoryModel::NameContent(int32_t site, const PlacedSlice& place, int32_t term) {
  for (RunCursor run(*place.footprint, place.begin); !run.done(); run.Advance()) {
    const Content content{term, place.image, run.begin() - run.image_offset()};
    map(site, place.buffer).ForEach(run.begin(), run.end(), [&](ByteMap::Cell& cell) {
      ++work_;
      cell.content = content;
    });
  }
}

void MemoryModel::Fill(int32_t site, const PlacedSlice& place, int32_t term) {
  ByteMap& bytes = map(site, place.buffer);
  for (RunCursor run(*place.footprint, place.begin); !run.done(); run.Advance()) {
    Content content{term, place.image, run.begin() - run.image_offset()};
    bytes.ForEach(run.begin(), run.end(), [&](const ByteMap::Cell& cell) {
      ++work_;
      if (!cell.settled && cell.content != content) content = {};
    });
    ByteMap::Cell& cell = bytes.Merge(run.begin(), run.end());
    cell.content = content;
    cell.writer = kSession;
    cell.settled = false;  // until the section begins
  }
}

std::vector<OldContent>* MemoryModel::set_journal(std::vector<OldContent>* journal) {
  return std::exchange(journal_, journal);
}

void MemoryModel::SetContent(const OldContent& old) {
  map(old.site, old.buffer).ForEach(old.begin, old.end, [&](ByteMap::Cell& cell) {
    cell.content = old.content;
  });
}

void MemoryModel::ChangeContent(int32_t site, BufferId buffer, int64_t begin, int64_t end,
                                absl::FunctionRef<Content(const Content&)> change) {
  map(site, buffer).ForEach(begin, end, [&](ByteMap::Cell& cell) {
    if (journal_ != nullptr) {
      journal_->push_back({site, buffer, cell.begin, cell.end, cell.content});
    }
    cell.content = change(cell.content);
  });
}

int32_t MemoryModel::PackedImage(std::string_view packing) {
  const auto it = std::find(packings_.begin(), packings_.end(), packing);
  const int32_t index = static_cast<int32_t>(it - packings_.begin());
  if (it == packings_.end()) packings_.emplace_back(packing);
  return kPackedImages + index;
}

}  // namespace millrace
