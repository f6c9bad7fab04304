// Which kernel variant each node of a plan runs, and thereby in which layout each value lies.
#ifndef MILLRACE_PASSES_ASSIGN_LAYOUTS_H_
#define MILLRACE_PASSES_ASSIGN_LAYOUTS_H_

#include <vector>

#include "graph/graph.h"
#include "graph/target.h"
#include "passes/variant_memo.h"

namespace millrace {

// By node of the outermost graph: one of the target's variants for it, or null where it has none,
// or none is asked for (control flow, communication, sizes that depend on data). Where a variant
// wants an operand in another layout than the one its producer gives, a Copy makes it; of kPacked
// there are no copies, so whoever reads such a value runs the variant that packed it. A value whose
// channels-last and row-major places are the same bytes counts as either (HasChannelsLast).
std::vector<const KernelVariant*> AssignLayouts(const Graph& graph, VariantMemo& variants);

// The layout in which a node's variant gives output `i`, of type `shape`.
Layout GivenLayout(const KernelVariant& variant, size_t i, const Shape& shape);
// The one in which it wants input `i`.
Layout WantedLayout(const KernelVariant& variant, size_t i, const Shape& shape);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ASSIGN_LAYOUTS_H_
