// Coalescing: allocations that need not lie apart become one, and instructions that then have
// nothing left to do go away.
//  * Views (graph/view.h) lie in the bytes of what they are views of, or its parts in theirs: a
//    Reshape, a Split or a Concat along the outermost axis costs nothing.
//  * A kernel that may (OpTraits::in_place) writes its result over an operand that dies there.
//  * What is copied to another place as soon as that is free (an update to its param, what a loop
//    carries to the next trip) is written there in the first place.
#ifndef MILLRACE_PASSES_MEMORY_COALESCE_H_
#define MILLRACE_PASSES_MEMORY_COALESCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

namespace millrace {

// A run of bytes that must be contiguous; one or more slices lie in it.
struct Allocation {
  BufferId buffer;
  int64_t size_bytes = 0;
};

// Where a slice begins.
struct SlicePlace {
  int32_t allocation = -1;
  int64_t offset_bytes = 0;
};

// Allocations that became parts of others are no slice's any more.
void Coalesce(std::span<const Graph* const> graphs, Program& program,
              std::span<const Allocation> allocations, std::vector<SlicePlace>& places);

// Takes out slices that nothing refers to, and renumbers the others.
void DropUnusedSlices(Program& program, std::vector<SlicePlace>& places);

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_COALESCE_H_
