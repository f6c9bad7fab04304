// Lets the streams of a program wait for each other: the last part of planning streams.
#ifndef MILLRACE_PASSES_SCHEDULE_SYNC_STREAMS_H_
#define MILLRACE_PASSES_SCHEDULE_SYNC_STREAMS_H_

#include <cstdint>
#include <span>

#include "graph/graph.h"
#include "graph/plan.h"

namespace millrace {

// Of a program whose step is one segment and has no events yet. Adds the fewest Records and Waits
// (FewestEvents) with which, in whatever order streams then run, each read of an allocation comes
// after the writes before it in issue order, and each write after the reads and writes before it.
// `graphs` are the bundle's (FlattenGraphs); `allocation_of_slice` says which slices share bytes,
// before any memory is reused: reuse has to follow the order of events, not the other way round.
void SyncStreams(std::span<const Graph* const> graphs, std::span<const int32_t> allocation_of_slice,
                 Program& program);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_SYNC_STREAMS_H_
