// Epilogues as oneDNN post-ops. Included by onednn_*.cc only.
#ifndef MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_
#define MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_

#include "ops/cpu/epilogue_plan.h"
#include "ops/cpu/onednn_primitive.h"

namespace millrace {

// A post-op for each step, and UserScratchpad. The result of a sum holds its operand to begin with.
dnnl::primitive_attr AttrFor(const EpiloguePlan& plan);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_
