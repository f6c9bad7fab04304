// Loops at run time: what a Loop or Scan does around the steps of its body. Trips are counted and
// conditions read on the host by the lane that runs the loop; what the body is given (the trip's
// number, elements) is put there in stream order.
#ifndef MILLRACE_RUNTIME_LOOP_H_
#define MILLRACE_RUNTIME_LOOP_H_

#include <cstdint>
#include <vector>

#include "graph/status.h"
#include "runtime/device.h"
#include "runtime/strided_copy.h"

namespace millrace {

// An element of a sequence to the body, or of the body to a stack. `copy` is that of trip 0.
struct ElementCopy {
  StridedCopy copy;
  int64_t to_step = 0, from_step = 0;  // bytes, a trip
};

// Stays where it is: `before_trip` and `after_last` hold its address.
struct LoopState {
  // Prepared.
  const std::byte* trip_count = nullptr;      // i64, on the host; null: none
  const std::byte* condition = nullptr;       // bool, on the host; null: none
  const std::byte* next_condition = nullptr;  // at the end of a trip
  int64_t fixed_trips = -1;  // as many trips as sequences have elements; -1: no Scan
  int64_t max_trips = -1;    // more are an error; -1: any number
  std::vector<ElementCopy> sequences, stacks;
  std::byte* trip_number = nullptr;  // where the body reads them, on the host; null: it does not
  std::byte* trip_condition = nullptr;
  std::vector<Shape*> stack_shapes;  // true shapes of stacks of bounded size: dim 0 is the trips
  std::vector<int64_t> exact_sizes;  // of other stacks: as many trips there must be
  const Cancellation* cancellation = nullptr;
  HostFunction before_trip, after_last;
  int32_t first_step = 0, end_step = 0;  // BeginTrip's and EndLoop's

  // Of the run in progress.
  int64_t trips = 0;     // begun
  int64_t limit = 0;     // trips at most
  int64_t numbered = 0;  // trips whose number was given out, in stream order
};

void MakeLoopFunctions(LoopState& loop);

// In the order of a loop's steps. `next` is the step after this one and is changed where the lane
// is to go on elsewhere: past a loop without trips, back to the first step of another trip.
absl::Status BeginLoop(LoopState& loop, Stream& stream, int32_t& next);
absl::Status BeginTrip(LoopState& loop, Stream& stream);
absl::Status EndTrip(LoopState& loop, Stream& stream, int32_t& next);
absl::Status EndLoop(LoopState& loop, Stream& stream);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_LOOP_H_
