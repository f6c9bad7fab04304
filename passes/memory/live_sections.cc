#include "passes/memory/live_sections.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kMaxHeight = int64_t{1} << 62;

bool IsEmpty(const TimedBuffer& b) { return b.size_bytes == 0 || b.lower >= b.upper; }

// Offsets are multiples of the *grain*, so sizes may be rounded up to it. Where all alignments are
// equal, offsets are moreover sums of sizes so rounded.
struct Units {
  int64_t grain = 1;
  int64_t unit = 1;
  bool one_alignment = true;
};

Units UnitsOf(std::span<const TimedBuffer> buffers) {
  int64_t grain = 0, coarsest = 1, unit = 0;
  for (const TimedBuffer& b : buffers) {
    if (IsEmpty(b)) continue;
    grain = std::gcd(grain, b.alignment);
    coarsest = std::max(coarsest, b.alignment);
  }
  if (grain == 0) return {};
  if (grain != coarsest) return {grain, grain, false};
  for (const TimedBuffer& b : buffers) {
    if (!IsEmpty(b)) unit = std::gcd(unit, AlignUp(b.size_bytes, grain));
    if (unit == grain) break;
  }
  return {grain, unit, true};
}

struct Endpoint {
  int64_t time = 0;
  int32_t item = 0;
  bool starts = false;
  bool operator<(const Endpoint& other) const {
    return std::tie(time, starts, item) < std::tie(other.time, other.starts, other.item);
  }
};

// A section ends where a buffer ends after another has started.
void NumberSections(std::span<const TimedBuffer> buffers, LiveSections& result) {
  std::vector<Endpoint> endpoints;
  endpoints.reserve(2 * result.items.size());
  for (int32_t i = 0; i < result.num_items(); ++i) {
    const TimedBuffer& b = buffers[result.items[i].buffer];
    endpoints.push_back({b.lower, i, true});
    endpoints.push_back({b.upper, i, false});
  }
  std::sort(endpoints.begin(), endpoints.end());
  bool open = false;
  int32_t section = 0;
  int64_t since = endpoints.empty() ? 0 : endpoints.front().time;
  int64_t live = 0;
  for (const Endpoint& e : endpoints) {
    PackItem& item = result.items[e.item];
    if (e.starts) {
      item.first = section;
      live += item.size;
      if (live > result.max_load) {
        result.max_load = live;
        result.peak_time = e.time;
      }
      open = true;
      continue;
    }
    if (open) {
      result.load.push_back(live);
      result.duration.push_back(e.time - since);
      since = e.time;
      ++section;
      open = false;
    }
    item.last = section - 1;
    live -= item.size;
  }
}

// By section, the most that one of its buffers falls short of the units it takes: painted in order
// of that amount, each section once.
std::vector<int64_t> GreatestShortfalls(std::span<const TimedBuffer> buffers,
                                        const LiveSections& sections) {
  std::vector<std::pair<int64_t, int32_t>> order;  // (-shortfall, item)
  for (int32_t i = 0; i < sections.num_items(); ++i) {
    const PackItem& item = sections.items[i];
    const int64_t shortfall = item.size * sections.unit_bytes - buffers[item.buffer].size_bytes;
    if (shortfall > 0) order.push_back({-shortfall, i});
  }
  std::sort(order.begin(), order.end());
  const int32_t n = sections.num_sections();
  std::vector<int64_t> greatest(n, 0);
  std::vector<int32_t> unpainted(n + 1);  // the first unpainted section at or after this one
  std::iota(unpainted.begin(), unpainted.end(), 0);
  const auto find = [&](int32_t s) {
    while (unpainted[s] != s) s = unpainted[s] = unpainted[unpainted[s]];
    return s;
  };
  for (const auto& [negative, i] : order) {
    const PackItem& item = sections.items[i];
    for (int32_t s = find(item.first); s <= item.last; s = find(s)) {
      greatest[s] = -negative;
      unpainted[s] = s + 1;
    }
  }
  return greatest;
}

}  // namespace

int64_t LiveSections::total_span() const {
  int64_t total = 0;
  for (const PackItem& item : items) total += item.last - item.first + 1;
  return total;
}

absl::StatusOr<LiveSections> CutIntoSections(std::span<const TimedBuffer> buffers) {
  LiveSections result;
  const Units units = UnitsOf(buffers);
  result.unit_bytes = units.unit;
  result.one_alignment = units.one_alignment;
  int64_t total_bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const TimedBuffer& b = buffers[i];
    if (IsEmpty(b)) continue;
    // Rounding and alignment gaps: at most twice the alignment a buffer.
    int64_t room;
    if (__builtin_add_overflow(b.size_bytes, 2 * b.alignment, &room) ||
        __builtin_add_overflow(total_bytes, room, &total_bytes) || total_bytes > kMaxHeight) {
      return InfeasibleError("the buffers together are larger than any memory");
    }
    result.items.push_back({.size = AlignUp(b.size_bytes, units.grain) / units.unit,
                            .alignment = units.one_alignment ? 1 : b.alignment / units.unit,
                            .buffer = static_cast<int32_t>(i)});
  }
  NumberSections(buffers, result);
  std::stable_sort(result.items.begin(), result.items.end(), [](auto& a, auto& b) {
    return a.first != b.first ? a.first < b.first : a.last > b.last;
  });
  const std::vector<int64_t> shortfalls = GreatestShortfalls(buffers, result);
  for (int32_t s = 0; s < result.num_sections(); ++s) {
    result.lower_bound_bytes =
        std::max(result.lower_bound_bytes, result.load[s] * result.unit_bytes - shortfalls[s]);
    result.greatest_shortfall_bytes = std::max(result.greatest_shortfall_bytes, shortfalls[s]);
  }
  return result;
}

int64_t HeightOf(const LiveSections& sections, const ItemOffsets& offsets) {
  int64_t height = 0;
  for (int32_t i = 0; i < sections.num_items(); ++i) {
    height = std::max(height, offsets[i] + sections.items[i].size);
  }
  return height;
}

}  // namespace millrace
