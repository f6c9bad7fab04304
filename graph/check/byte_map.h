// ByteMap: what the bytes of one buffer hold and who touched them last, as a partition of the
// buffer into cells. Reading and writing a range costs a search and the cells in it; a write leaves
// one cell, so cells are never more than twice the accesses since.
#ifndef MILLRACE_GRAPH_CHECK_BYTE_MAP_H_
#define MILLRACE_GRAPH_CHECK_BYTE_MAP_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "graph/check/footprint.h"

namespace millrace {

// The bytes hold those of term `term` (graph/check/terms.h) in `image`; image offset 0 would be at
// address `origin`. Term 0 means nothing in particular, with image and origin 0.
struct Content {
  int32_t term = 0;
  int32_t image = kRowMajorImage;
  int64_t origin = 0;
  bool operator==(const Content&) const = default;
};

inline constexpr int32_t kNobody = -1;   // no instruction
inline constexpr int32_t kSession = -2;  // the session, between sections

class ByteMap {
 public:
  struct Cell {
    int64_t begin = 0, end = 0;
    Content content;
    int32_t writer = kNobody;          // instance that wrote last
    Section section = Section::kInit;  // of the writer
    bool settled = true;               // a barrier came after that write
    int32_t reader = kNobody;          // an instance that read since, of this section
    int32_t more_readers = -1;         // the others: a list of Reader
  };
  struct Reader {
    int32_t instance = kNobody;
    int32_t next = -1;
  };

  explicit ByteMap(int64_t size_bytes);

  // Calls visit(Cell&) for the cells of [begin, end), split where the range cuts them, in order.
  // visit may change all but begin and end. Calls nothing for an empty range.
  template <typename Visit>
  void ForEach(int64_t begin, int64_t end, Visit&& visit) {
    if (begin >= end) return;
    auto it = SplitAt(begin);
    if (cells_[it->second].end > end) {
      SplitAt(end);
      it = index_.find(begin);
    }
    int64_t at = begin;
    while (at < end) {
      Cell& cell = cells_[it->second];
      if (cell.end > end) {
        SplitAt(end);
        it = index_.find(at);
        continue;
      }
      at = cell.end;
      visit(cell);
      ++it;
    }
  }

  // Makes [begin, end), which is not empty, one cell without readers and returns it; its content
  // and writer are left to be set.
  Cell& Merge(int64_t begin, int64_t end);

  // Adds `instance`, or puts it in the place of a reader that is_before(reader) it: whoever comes
  // after the one comes after the other.
  template <typename IsBefore>
  void AddReader(Cell& cell, int32_t instance, IsBefore&& is_before) {
    if (cell.reader == kNobody || is_before(cell.reader)) {
      cell.reader = instance;
      return;
    }
    for (int32_t i = cell.more_readers; i >= 0; i = readers_[i].next) {
      if (!is_before(readers_[i].instance)) continue;
      readers_[i].instance = instance;
      return;
    }
    PushReader(cell, instance);
  }
  void ClearReaders(Cell& cell);
  template <typename Visit>
  void ForEachReader(const Cell& cell, Visit&& visit) const {
    if (cell.reader != kNobody) visit(cell.reader);
    for (int32_t i = cell.more_readers; i >= 0; i = readers_[i].next) visit(readers_[i].instance);
  }

  template <typename Visit>
  void ForEachCell(Visit&& visit) {
    for (const auto& [begin, cell] : index_) visit(cells_[cell]);
  }

 private:
  using Index = absl::btree_map<int64_t, int32_t>;  // begin -> cells_

  // Makes a cell begin at `at`, which is in [0, size]; its place (end() for size).
  Index::iterator SplitAt(int64_t at);
  int32_t NewCell();
  void PushReader(Cell& cell, int32_t instance);

  Index index_;
  std::vector<Cell> cells_;
  std::vector<int32_t> free_cells_;
  std::vector<Reader> readers_;
  int32_t free_readers_ = -1;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_BYTE_MAP_H_
