// The linear order is issue order, which is one of the orders the plan allows. An owner's interval
// begins with the first moment that touches it. It ends at the first moment from which on *all*
// moments, of whatever stream, come after all its accesses by happens-before: not when the last
// access is issued, for another stream may issue on without having waited for it. So if one owner's
// interval ends before another's begins, each access of the other, issued no earlier than the
// other's first, comes after all accesses of the one. With one stream the end is simply the moment
// after the last access.
//
// Happens-before is by vector clocks: for each moment, up to which moment of each stream all have
// ended. Along a stream clocks only grow, so the last moment of a stream that does not come after
// an access is found by bisection. O(accesses + moments * streams + owners * streams^2 * log).
//
// The interval of what lives across a trip of a loop, and is touched outside the loop too, is
// widened to the whole loop.
#include "passes/memory/lifetimes.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr int32_t kNoMoment = -1;

// What comes after what, between streams.
class StreamOrder {
 public:
  StreamOrder(const Program& program, const AccessLog& log)
      : num_streams_(static_cast<int32_t>(program.streams.size())), queues_(num_streams_) {
    std::vector<std::vector<int32_t>> now(num_streams_,
                                          std::vector<int32_t>(num_streams_, kNoMoment));
    std::vector<std::vector<int32_t>> recorded(program.events.size());
    for (int32_t m = 0; m < log.num_moments(); ++m) {
      const Moment& moment = log.moments[m];
      if (moment.stream < 0) {  // the session comes after all that was, and before all that follows
        for (std::vector<int32_t>& clock : now) clock.assign(num_streams_, m);
        continue;
      }
      std::vector<int32_t>& clock = now[moment.stream];
      if (const Wait* wait = std::get_if<Wait>(&moment.instruction->body)) {
        const std::vector<int32_t>& from = recorded[wait->event.index];
        for (size_t s = 0; s < from.size(); ++s) clock[s] = std::max(clock[s], from[s]);
      }
      Queue& queue = queues_[moment.stream];
      queue.moments.push_back(m);
      queue.clocks.insert(queue.clocks.end(), clock.begin(), clock.end());
      clock[moment.stream] = m;
      if (const Record* record = std::get_if<Record>(&moment.instruction->body)) {
        recorded[record->event.index] = clock;
      }
    }
  }

  int32_t num_streams() const { return num_streams_; }

  // The last moment that does not come after moment `m` of `stream`; `m` itself at least.
  int32_t LastNotAfter(int32_t stream, int32_t m) const {
    int32_t last = m;
    for (int32_t s = 0; s < num_streams_; ++s) {
      if (s == stream) continue;
      const Queue& queue = queues_[s];
      size_t low = 0, high = queue.moments.size();  // the first that comes after
      while (low < high) {
        const size_t middle = (low + high) / 2;
        if (queue.clocks[middle * num_streams_ + stream] >= m) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      if (low > 0) last = std::max(last, queue.moments[low - 1]);
    }
    return last;
  }

 private:
  struct Queue {
    std::vector<int32_t> moments;
    std::vector<int32_t> clocks;  // by moment and stream: all up to there have ended
  };

  const int32_t num_streams_;
  std::vector<Queue> queues_;
};

// The first and last moments, widened to the loops that they live across.
Lifetime AcrossLoops(const AccessLog& log, int32_t first, int32_t last) {
  int32_t loop = log.moments[last].loop;
  while (loop >= 0 && first <= log.loops[loop].begin) {
    last = log.loops[loop].end;
    loop = log.loops[loop].parent;
  }
  loop = log.moments[first].loop;
  while (loop >= 0 && last >= log.loops[loop].end) {
    first = log.loops[loop].begin;
    loop = log.loops[loop].parent;
  }
  return {first, last};
}

}  // namespace

std::vector<Lifetime> LifetimesOf(const Program& program, const AccessLog& log,
                                  std::span<const int32_t> owner_of_slice, int32_t num_owners) {
  // First accesses, and the last ones of each stream and of the session.
  const int32_t num_streams = static_cast<int32_t>(program.streams.size());
  const size_t width = num_streams + 1;
  std::vector<int32_t> first(num_owners, kNoMoment), last(num_owners * width, kNoMoment);
  for (int32_t m = 0; m < log.num_moments(); ++m) {
    for (const Access& access : log.AccessesOf(m)) {
      const int32_t owner = owner_of_slice[access.slice.index];
      if (owner < 0) continue;
      if (first[owner] == kNoMoment) first[owner] = m;
      last[owner * width + log.moments[m].stream + 1] = m;
    }
  }
  const StreamOrder order(program, log);
  std::vector<Lifetime> lifetimes(num_owners);
  for (int32_t owner = 0; owner < num_owners; ++owner) {
    if (first[owner] == kNoMoment) continue;
    Lifetime& lifetime = lifetimes[owner];
    lifetime = {first[owner], first[owner] + 1};
    for (int32_t s = -1; s < num_streams; ++s) {
      const int32_t at = last[owner * width + s + 1];
      if (at == kNoMoment) continue;
      const Lifetime wide = AcrossLoops(log, first[owner], at);
      const int32_t end = s < 0 ? wide.upper : order.LastNotAfter(s, wide.upper);
      lifetime.lower = std::min(lifetime.lower, wide.lower);
      lifetime.upper = std::max(lifetime.upper, end + 1);
    }
  }
  return lifetimes;
}

}  // namespace millrace
