// One walk over the moments in issue order keeps, for each buffer, a map from bytes to who wrote
// them last, when, and when they were last read. A write ends the life of what it overwrites; each
// life is an interval of moments and a number of bytes. What is read inside a loop and was written
// before it lives to the loop's end. O(accesses * log).
#include "passes/memory/live_bytes.h"

#include <algorithm>
#include <map>

#include "absl/container/btree_map.h"
#include "graph/expr.h"
#include "passes/memory/access_log.h"

namespace millrace {
namespace {

struct Life {
  int32_t lower = 0, upper = 0;
  ValueRef value;
  int64_t bytes = 0;
};

class ByteLives {
 public:
  void Read(const AccessLog& log, int32_t moment, int64_t begin, int64_t end) {
    Split(begin);
    Split(end);
    for (auto it = cells_.lower_bound(begin); it != cells_.end() && it->first < end; ++it) {
      Cell& cell = it->second;
      int32_t last = moment;
      for (int32_t loop = log.moments[moment].loop; loop >= 0; loop = log.loops[loop].parent) {
        if (cell.born <= log.loops[loop].begin) last = log.loops[loop].end;
      }
      cell.last_read = std::max(cell.last_read, last);
    }
  }

  void Write(ValueRef value, int32_t moment, int64_t begin, int64_t end) {
    if (begin >= end) return;
    Split(begin);
    Split(end);
    auto it = cells_.lower_bound(begin);
    while (it != cells_.end() && it->first < end) {
      Close(it->first, it->second, moment);
      it = cells_.erase(it);
    }
    cells_.emplace(begin, Cell{end, value, moment, moment});
  }

  std::vector<Life> Finish(int32_t num_moments) {
    for (const auto& [begin, cell] : cells_) Close(begin, cell, num_moments);
    return std::move(lives_);
  }

 private:
  struct Cell {
    int64_t end = 0;
    ValueRef value;
    int32_t born = 0, last_read = 0;
  };

  // No cell reaches across `at`.
  void Split(int64_t at) {
    auto it = cells_.lower_bound(at);
    if (it == cells_.begin() || (--it)->second.end <= at) return;
    Cell rest = it->second;
    it->second.end = at;
    cells_.emplace(at, rest);
  }
  void Close(int64_t begin, const Cell& cell, int32_t moment) {
    const int32_t upper = std::min(cell.last_read + 1, moment);
    if (cell.born < upper) lives_.push_back({cell.born, upper, cell.value, cell.end - begin});
  }

  absl::btree_map<int64_t, Cell> cells_;  // by first byte
  std::vector<Life> lives_;
};

LiveBytes SumLives(const AccessLog& log, const std::vector<Life>& lives) {
  std::vector<int64_t> load(log.num_moments() + 1, 0);
  for (const Life& life : lives) {
    load[life.lower] += life.bytes;
    load[life.upper] -= life.bytes;
  }
  for (size_t m = 1; m < load.size(); ++m) load[m] += load[m - 1];
  const auto peak = std::ranges::max_element(load);
  const int32_t at = static_cast<int32_t>(peak - load.begin());
  LiveBytes result{*peak, at < log.num_moments() ? log.moments[at].instruction : nullptr, {}};
  std::map<ValueRef, int64_t> by_value;
  for (const Life& life : lives) {
    if (life.lower <= at && at < life.upper) by_value[life.value] += life.bytes;
  }
  for (const auto& [value, bytes] : by_value) result.at_peak.push_back({value, bytes});
  std::ranges::stable_sort(result.at_peak, std::ranges::greater(), &LiveValue::bytes);
  return result;
}

}  // namespace

std::vector<LiveBytes> MeasureLiveBytes(const PlanBundle& plan, const Program& program) {
  const AccessLog log = LogAccesses(program, FlattenGraphs(plan.graph));
  std::vector<ByteLives> buffers(program.buffers.size());
  const std::vector<int64_t> origin(plan.mesh.axes.size(), 0);
  for (int32_t m = 0; m < log.num_moments(); ++m) {
    for (const Access& access : log.AccessesOf(m)) {
      const Slice& slice = program.slices[access.slice.index];
      const int64_t begin = Evaluate(
          slice.offset_bytes, {.coordinates = origin, .microbatch = log.moments[m].microbatch});
      const int64_t size = program.buffers[slice.buffer.index].size_bytes;
      if (begin < 0 || slice.size_bytes < 0 || begin > size - slice.size_bytes) continue;
      ByteLives& buffer = buffers[slice.buffer.index];
      if (access.writes) {
        buffer.Write(slice.value, m, begin, begin + slice.size_bytes);
      } else {
        buffer.Read(log, m, begin, begin + slice.size_bytes);
      }
    }
  }
  std::vector<LiveBytes> result;
  for (ByteLives& buffer : buffers) result.push_back(SumLives(log, buffer.Finish(log.num_moments())));
  return result;
}

}  // namespace millrace
