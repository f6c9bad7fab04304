// fused.Prepack: which node packed data are for.
#ifndef MILLRACE_OPS_PREPACK_H_
#define MILLRACE_OPS_PREPACK_H_

#include "graph/graph.h"
#include "graph/target.h"

namespace millrace {

inline constexpr std::string_view kPrepack = "fused.Prepack";

// The attributes of a fused.Prepack whose result is input `input` of a node with query `reader`.
Attrs PrepackAttrs(const NodeQuery& reader, int input);

// Whether `node` is one that packs for that input of such nodes.
bool PacksFor(const Node& node, const NodeQuery& reader, int input);

}  // namespace millrace

#endif  // MILLRACE_OPS_PREPACK_H_
