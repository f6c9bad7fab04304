// `millrace plan --dump-kernels DIR`: what a plan's cuda kernels are, for people and for nvcc.
#ifndef MILLRACE_TOOLS_DUMP_KERNELS_H_
#define MILLRACE_TOOLS_DUMP_KERNELS_H_

#include <string>

#include "graph/plan.h"
#include "graph/status.h"

namespace millrace {

// Writes FUNCTION.cu for each function that the plan launches, the headers they include, and
// launches.txt, which says what each node launches, in order. The folder is made. UsageError for
// plans without a cuda device, and where nothing can be written.
absl::Status DumpKernels(const PlanBundle& plan, const std::string& folder);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_DUMP_KERNELS_H_
