// MemoryModel: the bytes of all sites, and the two questions asked of each access to them: does it
// race, and does it find what it must. Accesses are given in an order that happens-before allows.
#ifndef MILLRACE_GRAPH_CHECK_MEMORY_MODEL_H_
#define MILLRACE_GRAPH_CHECK_MEMORY_MODEL_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "graph/check/byte_map.h"
#include "graph/check/error_list.h"
#include "graph/check/happens_before.h"
#include "graph/check/plan_model.h"
#include "graph/check/plan_names.h"
#include "graph/check/section_index.h"
#include "graph/check/terms.h"
#include "graph/view.h"

namespace millrace {

// Who accesses: an instance, or an instruction in a body it calls.
struct Accessor {
  int32_t site = 0;
  int32_t instance = kSession;
  const Instruction* instruction = nullptr;
  int32_t microbatch = 0;
  ClockView clock;
};

// A slice at its microbatch and coordinate.
struct PlacedSlice {
  SliceId slice;
  BufferId buffer;
  int64_t begin = 0;
  int32_t image = kRowMajorImage;
  const Footprint* footprint = nullptr;
};

// What a range of bytes was found to hold, to be written elsewhere: bytes [offset, offset + size)
// of the source hold those of `term` in `image` from `term_offset` on.
struct MovedPiece {
  int64_t offset = 0, size = 0;
  int32_t term = kNothingTerm;
  int32_t image = kRowMajorImage;
  int64_t term_offset = 0;
};

// What bytes held before they were overwritten.
struct OldContent {
  int32_t site = 0;
  BufferId buffer;
  int64_t begin = 0, end = 0;
  Content content;
};

class MemoryModel {
 public:
  MemoryModel(const PlanNames& names, const MeshClasses& classes, std::span<const PlanSite> sites,
              const Terms& terms, ErrorList& errors);

  // `index` and `order` are used until EndSection, `index` for naming its instances as long as
  // bytes remember them.
  void BeginSection(const SectionIndex& index, const HappensBefore& order);
  void EndSection();
  // A barrier: nothing that comes later races with what was. EndSection is one.
  void Settle();

  // Where a slice lies; false, with a kBounds error, when that is not inside its buffer. Packed
  // layouts are told apart by `packing`: who packed for whom.
  bool Place(const Accessor& who, SliceId slice, std::string_view packing, PlacedSlice& place);

  // Reads `place`, which must hold `term`.
  void Read(const Accessor& who, const PlacedSlice& place, int32_t term);
  void Write(const Accessor& who, const PlacedSlice& place, int32_t term);

  // Moves whatever lies there: a Copy, element by element; a transfer of `size_bytes` plain bytes.
  void ReadElements(const Accessor& who, const PlacedSlice& from, std::vector<MovedPiece>& pieces);
  void WriteElements(const Accessor& who, const PlacedSlice& to, const PlacedSlice& from,
                     std::span<const MovedPiece> pieces);
  void ReadBytes(const Accessor& who, const PlacedSlice& from, int64_t size_bytes,
                 std::vector<MovedPiece>& pieces);
  void WriteBytes(const Accessor& who, const PlacedSlice& to, std::span<const MovedPiece> pieces);

  // The first cell of `place` that does not hold `term`, if any. No access.
  std::optional<ByteMap::Cell> FindOther(int32_t site, const PlacedSlice& place, int32_t term);
  // What `place` holds, under whatever name, is `term` from now on. No access.
  void NameContent(int32_t site, const PlacedSlice& place, int32_t term);
  // The session writes, between sections. Two such writes to one place before the next barrier
  // leave nothing there, since their order is not the plan's to say.
  void Fill(int32_t site, const PlacedSlice& place, int32_t term);

  // While a journal is set, writes add what they overwrite to it. Contents can be put back,
  // accesses cannot.
  std::vector<OldContent>* set_journal(std::vector<OldContent>* journal);
  void SetContent(const OldContent& content);
  // Replaces contents by change(content), journaled.
  void ChangeContent(int32_t site, BufferId buffer, int64_t begin, int64_t end,
                     absl::FunctionRef<Content(const Content&)> change);

  ByteMap& map(int32_t site, BufferId buffer) { return maps_[site][buffer.index]; }
  std::vector<std::vector<ByteMap>>& maps() { return maps_; }
  int64_t accesses() const { return accesses_; }
  // Work is counted in cells looked at; after too much of it the check should give up, since no
  // plan worth checking takes as much.
  void AddWork(int64_t cells) { work_ += cells; }
  bool exhausted() const { return work_ > kMaxWork; }

  // "'h' of microbatch 1, written by stream ..."
  std::string Describe(int32_t site, const ByteMap::Cell& cell) const;

 private:
  static constexpr int64_t kMaxWork = int64_t{1} << 29;  // cells: some ten seconds

  // Whether a cell holds its bytes of a place that must hold `term`.
  bool IsAsExpected(const PlacedSlice& place, const ByteMap::Cell& cell, int32_t term,
                    int64_t origin);
  // Whether bytes [begin, begin + size), which hold `content`, are bytes [offset, offset + size) of
  // `term`, because of what ops that are views mean. Row-major.
  bool IsViewed(const Content& content, int64_t begin, int64_t size, int32_t term, int64_t offset);
  std::span<const ViewPart> ViewPartsOf(int32_t node, int output);
  // The type of the value that a term stands for; null when it stands for none.
  const TensorType* TypeOf(int32_t term) const;

  bool Races(const Accessor& who, int32_t instance) const {
    return instance != who.instance && !order_->IsBefore(who.site, instance, who.clock);
  }
  // Visits the cells of a range that is read, after checking them for races. visit(cell, raced).
  template <typename Visit>
  void ReadRange(const Accessor& who, BufferId buffer, int64_t begin, int64_t end, Visit&& visit);
  void WriteRange(const Accessor& who, BufferId buffer, int64_t begin, int64_t end,
                  const Content& content);
  void ReportRace(const Accessor& who, bool writes, int32_t other, bool other_writes,
                  BufferId buffer, const ByteMap::Cell& cell);
  void ReportStale(const Accessor& who, const PlacedSlice& place, int32_t term,
                   const ByteMap::Cell& cell);
  bool IsComputed(const SectionIndex& index, int32_t node, int32_t microbatch) const;
  PlanRule StaleRule(const Accessor& who, ValueRef value, const ByteMap::Cell& cell,
                     std::string& why) const;
  std::string Difference(int32_t expected, int32_t found) const;
  std::string Where(int32_t site) const;
  uint64_t ReadKey(int32_t site, int32_t instance, BufferId buffer) const;
  ErrorPlace PlaceOf(const Accessor& who) const;
  int32_t PackedImage(std::string_view packing);

  const PlanNames& names_;
  const MeshClasses& classes_;
  std::span<const PlanSite> sites_;
  const Terms& terms_;
  ErrorList& errors_;
  const SectionIndex* index_ = nullptr;
  const HappensBefore* order_ = nullptr;
  const SectionIndex* known_sections_[3] = {};
  std::vector<std::vector<ByteMap>> maps_;  // by site and buffer
  absl::flat_hash_map<std::pair<int32_t, int>, std::vector<ViewPart>> view_parts_;
  std::vector<OldContent>* journal_ = nullptr;
  std::vector<std::string> packings_;
  int64_t accesses_ = 0, work_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_MEMORY_MODEL_H_
