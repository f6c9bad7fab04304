#include "graph/check/byte_map.h"

#include <iterator>

#include "graph/assert.h"

namespace millrace {

ByteMap::ByteMap(int64_t size_bytes) {
  if (size_bytes <= 0) return;
  cells_.emplace_back().end = size_bytes;
  index_.emplace(0, 0);
}

int32_t ByteMap::NewCell() {
  if (!free_cells_.empty()) {
    const int32_t cell = free_cells_.back();
    free_cells_.pop_back();
    return cell;
  }
  cells_.emplace_back();
  return static_cast<int32_t>(cells_.size()) - 1;
}

ByteMap::Index::iterator ByteMap::SplitAt(int64_t at) {
  auto it = index_.upper_bound(at);
  MILLRACE_CHECK(it != index_.begin());
  --it;
  if (it->first == at) return it;
  const int32_t left = it->second;
  if (cells_[left].end <= at) return std::next(it);
  const int32_t right = NewCell();
  cells_[right] = cells_[left];
  cells_[right].begin = cells_[left].end = at;
  // Each half has a list of its own.
  cells_[right].more_readers = -1;
  for (int32_t i = cells_[left].more_readers; i >= 0; i = readers_[i].next) {
    PushReader(cells_[right], readers_[i].instance);
  }
  return index_.emplace_hint(std::next(it), at, right);
}

ByteMap::Cell& ByteMap::Merge(int64_t begin, int64_t end) {
  auto it = SplitAt(begin);
  const int32_t first = it->second;
  if (cells_[first].end != end) {
    if (cells_[first].end > end) {
      SplitAt(end);
    } else {
      SplitAt(end);
      auto from = index_.upper_bound(begin);
      auto to = from;
      for (; to != index_.end() && to->first < end; ++to) {
        ClearReaders(cells_[to->second]);
        free_cells_.push_back(to->second);
      }
      index_.erase(from, to);
      cells_[first].end = end;
    }
  }
  ClearReaders(cells_[first]);
  return cells_[first];
}

void ByteMap::PushReader(Cell& cell, int32_t instance) {
  int32_t link = free_readers_;
  if (link >= 0) {
    free_readers_ = readers_[link].next;
  } else {
    link = static_cast<int32_t>(readers_.size());
    readers_.emplace_back();
  }
  readers_[link] = {instance, cell.more_readers};
  cell.more_readers = link;
}

void ByteMap::ClearReaders(Cell& cell) {
  cell.reader = kNobody;
  while (cell.more_readers >= 0) {
    const int32_t link = cell.more_readers;
    cell.more_readers = readers_[link].next;
    readers_[link].next = free_readers_;
    free_readers_ = link;
  }
}

}  // namespace millrace
