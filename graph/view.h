// What ops with a view trait mean for bytes: an output's parts, each a run of bytes of one input.
// For all who let values share memory, and for who checks them. Like graph/control_flow.h, this is
// the meaning of ops as data.
#ifndef MILLRACE_GRAPH_VIEW_H_
#define MILLRACE_GRAPH_VIEW_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/op_traits.h"

namespace millrace {

// Bytes [to, to + size) of the output are [from, from + size) of the node's input.
struct ViewPart {
  int32_t input = 0;
  int64_t from_bytes = 0, to_bytes = 0, size_bytes = 0;
  bool operator==(const ViewPart&) const = default;
};

// Of dense row-major values. The parts cover the output, in order; none is empty. None at all when
// the output is empty, when sizes are known only at run time or positions not from constants, or
// when it is not made of contiguous parts: along an axis that has others of more than one before.
std::vector<ViewPart> ViewPartsOf(ViewKind kind, const Graph& graph, const Node& node, int output);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_VIEW_H_
