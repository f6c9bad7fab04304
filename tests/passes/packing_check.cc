#include "tests/passes/packing_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "graph/files.h"
#include "graph/strings.h"
#include "passes/memory/instance_csv.h"

namespace millrace {
namespace {

bool Exists(const TimedBuffer& b) { return b.lower < b.upper && b.size_bytes > 0; }

}  // namespace

std::string WrongWith(std::span<const TimedBuffer> buffers, std::span<const int64_t> offsets) {
  if (buffers.size() != offsets.size()) return "an offset for each buffer is expected";
  // Ends before starts; what is live is kept by offset, so that only neighbours can overlap.
  std::vector<std::pair<int64_t, int64_t>> events;  // (time, index + 1 of who starts or -1 - index)
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0) return StrCat("buffer ", i, " lies at ", offsets[i]);
    if (offsets[i] % buffers[i].alignment != 0) return StrCat("buffer ", i, " is misaligned");
    if (!Exists(buffers[i])) continue;
    events.push_back({buffers[i].lower, static_cast<int64_t>(i) + 1});
    events.push_back({buffers[i].upper, -static_cast<int64_t>(i) - 1});
  }
  std::sort(events.begin(), events.end());
  std::map<int64_t, size_t> live;  // by offset
  for (const auto& [time, who] : events) {
    const size_t i = static_cast<size_t>(std::abs(who)) - 1;
    if (who < 0) {
      live.erase(offsets[i]);
      continue;
    }
    const auto [it, is_new] = live.emplace(offsets[i], i);
    const bool hits_next =
        std::next(it) != live.end() && std::next(it)->first < offsets[i] + buffers[i].size_bytes;
    const bool hits_previous =
        it != live.begin() &&
        std::prev(it)->first + buffers[std::prev(it)->second].size_bytes > offsets[i];
    if (!is_new || hits_next || hits_previous) {
      return StrCat("buffer ", i, " overlaps another at time ", time);
    }
  }
  return "";
}

std::string WrongWith(std::span<const TimedBuffer> buffers, const Packing& packing) {
  std::string wrong = WrongWith(buffers, packing.offsets);
  if (!wrong.empty()) return wrong;
  int64_t height = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (Exists(buffers[i])) {
      height = std::max(height, packing.offsets[i] + buffers[i].size_bytes);
    }
  }
  if (height != packing.height_bytes) return StrCat("the height is ", height);
  const int64_t most = MostLiveBytes(buffers);
  if (packing.lower_bound_bytes < most) return StrCat(most, " bytes are live at once");
  if (packing.lower_bound_bytes > height) return "the bound is above the height";
  int64_t at_peak = 0;
  for (const TimedBuffer& b : buffers) {
    if (b.lower <= packing.peak_time && packing.peak_time < b.upper) at_peak += b.size_bytes;
  }
  const bool aligned =
      std::ranges::any_of(buffers, [](const TimedBuffer& b) { return b.alignment > 1; });
  if (!aligned && at_peak != most) return StrCat("at the peak only ", at_peak, " bytes are live");
  return "";
}

int64_t MostLiveBytes(std::span<const TimedBuffer> buffers) {
  int64_t most = 0;
  for (const TimedBuffer& at : buffers) {
    if (!Exists(at)) continue;
    int64_t live = 0;
    for (const TimedBuffer& b : buffers) {
      if (Exists(b) && b.lower <= at.lower && at.lower < b.upper) live += b.size_bytes;
    }
    most = std::max(most, live);
  }
  return most;
}

int64_t LeastHeight(std::span<const TimedBuffer> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](size_t i) { return !Exists(buffers[i]); });
  int64_t least = INT64_MAX;
  std::vector<int64_t> offsets(buffers.size());
  do {
    int64_t height = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      const TimedBuffer& b = buffers[order[k]];
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j = 0; j < k; ++j) {
          const TimedBuffer& other = buffers[order[j]];
          const int64_t begin = offsets[order[j]], end = begin + other.size_bytes;
          if (other.upper <= b.lower || b.upper <= other.lower) continue;
          if (end <= offset || offset + b.size_bytes <= begin) continue;
          offset = (end + b.alignment - 1) / b.alignment * b.alignment;
          moved = true;
        }
      }
      offsets[order[k]] = offset;
      height = std::max(height, offset + b.size_bytes);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

std::vector<TimedBuffer> RandomBuffers(std::mt19937& random, const RandomShape& shape) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<TimedBuffer> buffers;
  for (int i = 0; i < shape.buffers; ++i) {
    TimedBuffer b;
    b.lower = below(shape.times);
    b.upper = b.lower + below(static_cast<int>(shape.times - b.lower + 1));
    b.size_bytes = below(shape.sizes + 1);
    b.alignment = int64_t{1} << below(shape.alignments + 1);
    buffers.push_back(b);
  }
  return buffers;
}

std::vector<TimedBuffer> CutRectangle(std::mt19937& random, int times, int height, int buffers) {
  std::vector<TimedBuffer> cut = {{0, times, height, 1}};
  while (std::ssize(cut) < buffers) {
    TimedBuffer& b = cut[random() % cut.size()];
    TimedBuffer other = b;
    if (random() % 2 == 0 && b.upper - b.lower > 1) {
      b.upper = other.lower =
          b.lower + 1 + static_cast<int64_t>(random() % (b.upper - b.lower - 1));
    } else if (b.size_bytes > 1) {
      other.size_bytes = 1 + static_cast<int64_t>(random() % (b.size_bytes - 1));
      b.size_bytes -= other.size_bytes;
    } else {
      continue;
    }
    cut.push_back(other);
  }
  std::shuffle(cut.begin(), cut.end(), random);
  return cut;
}

std::vector<TimedBuffer> LoadInstance(const std::string& name) {
  const std::string path = StrCat(MILLRACE_SOURCE_DIR, "/tests/data/packing/", name, ".csv");
  const absl::StatusOr<std::string> text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  absl::StatusOr<std::vector<TimedBuffer>> buffers = ParseInstanceCsv(*text, path);
  EXPECT_TRUE(buffers.ok()) << buffers.status();
  return *std::move(buffers);
}

}  // namespace millrace
