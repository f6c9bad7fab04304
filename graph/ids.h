// Dense strong integer ids. An id is an index into the vector that owns the thing; -1 is "none".
#ifndef MILLRACE_GRAPH_IDS_H_
#define MILLRACE_GRAPH_IDS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace millrace {

template <typename Tag>
struct Id {
  int32_t index = -1;

  constexpr Id() = default;
  template <typename Int>
  constexpr explicit Id(Int i) : index(static_cast<int32_t>(i)) {}

  constexpr bool valid() const { return index >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.index);
  }
};

using NodeId = Id<struct NodeTag>;        // Graph::nodes
using ValueId = Id<struct ValueTag>;      // Graph::values
using ProgramId = Id<struct ProgramTag>;  // PlanBundle::programs
using BufferId = Id<struct BufferTag>;    // Program::buffers
using SliceId = Id<struct SliceTag>;      // Program::slices
using StreamId = Id<struct StreamTag>;    // Program::streams
using EventId = Id<struct EventTag>;      // Program::events
using SegmentId = Id<struct SegmentTag>;  // Program::segments

}  // namespace millrace

#endif  // MILLRACE_GRAPH_IDS_H_
