// Autodiff: gradients as ordinary nodes of the graph, by the ops' own builders (OpDef::gradient).
// Whatever works on graphs works on them: rewrites, planners, and autodiff itself, which makes
// gradients of gradients.
#ifndef MILLRACE_PASSES_AUTODIFF_H_
#define MILLRACE_PASSES_AUTODIFF_H_

#include <span>
#include <vector>

#include "graph/builder.h"
#include "graph/status.h"

namespace millrace {

// Appends what computes d loss / d value for each of `wanted`, and gives those gradients in the
// same order; !valid() where the loss does not depend on the value. Only nodes on a way from a
// wanted value to the loss are differentiated. The gradient of value `x` is called "grad/x",
// further nodes "grad/<forward node>/<op>"; they ask for the device and scope of the forward node.
//
// The graph is typed, and is so afterwards. The loss is a float of one element. BadInputError when
// it is not, and for a node on the way that is not differentiable, named with the reason; the graph
// is of no use then.
absl::StatusOr<std::vector<ValueId>> AppendGradients(GraphBuilder& builder, ValueId loss,
                                                     std::span<const ValueId> wanted);

}  // namespace millrace

#endif  // MILLRACE_PASSES_AUTODIFF_H_
