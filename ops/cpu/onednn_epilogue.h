// Epilogues as oneDNN post-ops. Included by onednn_*.cc only.
#ifndef MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_
#define MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_

#include "ops/cpu/epilogue_plan.h"
#include "ops/cpu/onednn_primitive.h"

namespace millrace {

// Whether oneDNN computes these steps: of two of one function, 2.6 gives the second the numbers of
// the first (two linear ones in a row: tests/ops/fused_product_test.cc).
bool ArePostOps(const EpiloguePlan& plan);

// A post-op for each step, and UserScratchpad. The result of a sum holds its operand to begin with.
dnnl::primitive_attr AttrFor(const EpiloguePlan& plan);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_
