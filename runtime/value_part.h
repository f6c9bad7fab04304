// Which part of a value a device holds, for who gives it out and collects it.
#ifndef MILLRACE_RUNTIME_VALUE_PART_H_
#define MILLRACE_RUNTIME_VALUE_PART_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace millrace {

// The part lies in the whole, dense and row-major, at `offset_bytes` and steps through it by
// `strides` (elements, one per dim; empty: the part is the whole).
struct ValuePart {
  int64_t offset_bytes = 0;
  std::vector<int64_t> strides;
};

// Of the device at `coordinate` of graph.mesh.
ValuePart PartOf(const Graph& graph, ValueId value, std::span<const int64_t> coordinate);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_VALUE_PART_H_
