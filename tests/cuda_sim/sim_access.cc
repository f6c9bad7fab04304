// Tracked bytes are cut into cells of equal history. A read must come after the cell's last write;
// a write after its last write and all reads since. "After" is by vector clocks, that is, by stream
// order, events, flags and what the host waited for. So a missing dependency shows in every order
// of execution, not only in the unlucky one.
#include "tests/cuda_sim/sim_access.h"

namespace millrace::sim {

void AccessMap::Add(ByteRange range, bool initialized) {
  cells_[range.begin] = {.end = range.end, .initialized = initialized, .write = {}, .reads = {}};
}

std::optional<OpStamp> AccessMap::Remove(ByteRange range, const Clock& host) {
  std::optional<OpStamp> pending;
  auto note = [&](const OpStamp& op) {
    if (op.valid() && !op.IsBefore(host) && !pending.has_value()) pending = op;
  };
  auto cell = Cut(range);
  while (cell != cells_.end() && cell->first < range.end) {
    note(cell->second.write);
    for (const OpStamp& read : cell->second.reads) note(read);
    cell = cells_.erase(cell);
  }
  return pending;
}

void AccessMap::CutAt(uint64_t address) {
  auto next = cells_.upper_bound(address);
  if (next == cells_.begin()) return;
  auto cell = std::prev(next);
  if (cell->first == address || cell->second.end <= address) return;
  Cell tail = cell->second;
  cell->second.end = address;
  cells_.emplace_hint(next, address, std::move(tail));
}

AccessMap::Cells::iterator AccessMap::Cut(ByteRange range) {
  CutAt(range.begin);
  CutAt(range.end);
  return cells_.lower_bound(range.begin);
}

std::vector<AccessFault> AccessMap::Touch(ByteRange range, bool write, const OpStamp& op,
                                          const Clock& clock) {
  std::optional<AccessFault> race, uninitialized;
  auto check = [&](const OpStamp& earlier, bool earlier_wrote, ByteRange bytes) {
    if (!earlier.valid() || earlier.IsBefore(clock) || race.has_value()) return;
    race = AccessFault{AccessFault::Kind::kRace, bytes, earlier, earlier_wrote};
  };
  const auto first = Cut(range);
  auto cell = first;
  for (; cell != cells_.end() && cell->first < range.end; ++cell) {
    Cell& c = cell->second;
    const ByteRange bytes{cell->first, c.end};
    check(c.write, true, bytes);
    if (write) {
      for (const OpStamp& read : c.reads) check(read, false, bytes);
      continue;
    }
    if (!c.initialized && !uninitialized.has_value()) {
      uninitialized = AccessFault{AccessFault::Kind::kUninitialized, bytes, {}, false};
    }
    std::erase_if(c.reads,
                  [&](const OpStamp& r) { return r.lane == op.lane || r.IsBefore(clock); });
    c.reads.push_back(op);
  }
  if (write && first != cell) {
    first->second = {.end = range.end, .initialized = true, .write = op, .reads = {}};
    cells_.erase(std::next(first), cell);
  }
  std::vector<AccessFault> faults;
  if (race.has_value()) faults.push_back(*race);
  if (uninitialized.has_value()) faults.push_back(*uninitialized);
  return faults;
}

}  // namespace millrace::sim
