#include "runtime/loop.h"

#include <cstring>
#include <limits>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxQueuedTrips = 1024;

// The element of `trip`.
absl::Status CopyElement(const ElementCopy& element, int64_t trip, Stream& stream) {
  return ForEachRegion(element.copy, [&](CopyRegion region) {
    region.to += trip * element.to_step;
    region.from += trip * element.from_step;
    return stream.Copy(region);
  });
}

absl::Status TooManyTrips(const LoopState& loop) {
  return BadInputError(StrCat("it would make more than ", loop.max_trips,
                              loop.max_trips == 1 ? " trip" : " trips",
                              ", the bound it was planned with"));
}

}  // namespace

void MakeLoopFunctions(LoopState& loop) {
  loop.before_trip = [l = &loop] {
    if (l->trip_number != nullptr) std::memcpy(l->trip_number, &l->numbered, sizeof l->numbered);
    if (l->trip_condition != nullptr) *l->trip_condition = std::byte{1};
    ++l->numbered;
    return absl::OkStatus();
  };
  loop.after_last = [l = &loop] {
    for (Shape* shape : l->stack_shapes) (*shape)[0] = l->trips;
    return absl::OkStatus();
  };
}

absl::Status BeginLoop(LoopState& loop, Stream& stream, int32_t& next) {
  // Whatever the host reads has been written, and functions queued by an earlier run have ended.
  if (loop.fixed_trips < 0) MILLRACE_RETURN_IF_ERROR(stream.Synchronize());
  loop.trips = loop.numbered = 0;
  loop.limit = loop.fixed_trips >= 0 ? loop.fixed_trips : kAnyNumber;
  if (loop.trip_count != nullptr) {
    std::memcpy(&loop.limit, loop.trip_count, sizeof loop.limit);
  }
  if (loop.condition != nullptr && *loop.condition == std::byte{0}) loop.limit = 0;
  if (loop.limit <= 0) next = loop.end_step;
  return absl::OkStatus();
}

absl::Status BeginTrip(LoopState& loop, Stream& stream) {
  if (loop.cancellation->requested()) return absl::CancelledError("another lane failed");
  if (loop.max_trips >= 0 && loop.trips >= loop.max_trips) return TooManyTrips(loop);
  if (loop.trip_number != nullptr || loop.trip_condition != nullptr) {
    MILLRACE_RETURN_IF_ERROR(stream.RunOnHost(loop.before_trip));
  }
  for (const ElementCopy& sequence : loop.sequences) {
    MILLRACE_RETURN_IF_ERROR(CopyElement(sequence, loop.trips, stream));
  }
  return absl::OkStatus();
}

absl::Status EndTrip(LoopState& loop, Stream& stream, int32_t& next) {
  for (const ElementCopy& stack : loop.stacks) {
    MILLRACE_RETURN_IF_ERROR(CopyElement(stack, loop.trips, stream));
  }
  ++loop.trips;
  if (loop.trips >= loop.limit) return absl::OkStatus();
  if (loop.next_condition != nullptr || loop.trips % kMaxQueuedTrips == 0) {
    MILLRACE_RETURN_IF_ERROR(stream.Synchronize());
  }
  if (loop.next_condition == nullptr || *loop.next_condition != std::byte{0}) {
    next = loop.first_step;
  }
  return absl::OkStatus();
}

absl::Status EndLoop(LoopState& loop, Stream& stream) {
  for (int64_t size : loop.exact_sizes) {
    if (loop.trips == size) continue;
    return InternalError(StrCat("it made ", loop.trips, " trips where ", size, " were planned"));
  }
  return loop.stack_shapes.empty() ? absl::OkStatus() : stream.RunOnHost(loop.after_last);
}

}  // namespace millrace
