// What the comm.* ops have in common.
#ifndef MILLRACE_OPS_COMM_H_
#define MILLRACE_OPS_COMM_H_

#include <string_view>

#include "ops/op_def.h"

namespace millrace {

// Attribute "axis": the mesh axes whose devices meet.
AttrSpec MeshAxesAttr();
// BadInputError when it names none, or one twice.
absl::Status CheckMeshAxes(const InferContext& c);

// Attribute "parts": how many devices meet. Types alone do not say so, and have to be right on one
// device already; the plan's checker compares it with the mesh.
AttrSpec PartsAttr();

// Attribute "op": the reduction.
AttrSpec ReductionAttr();

// An op over one input and one output; no kernel: it runs as a Collective of a plan.
OpDef CollectiveOp(std::string_view name, std::string_view doc, std::vector<AttrSpec> attrs,
                   CommKind kind, InferFn infer);

}  // namespace millrace

#endif  // MILLRACE_OPS_COMM_H_
