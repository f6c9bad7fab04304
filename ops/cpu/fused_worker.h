// Runs a share of a fused program's index space.
#ifndef MILLRACE_OPS_CPU_FUSED_WORKER_H_
#define MILLRACE_OPS_CPU_FUSED_WORKER_H_

#include "ops/cpu/fused_prepared.h"
#include "runtime/kernel.h"

namespace millrace {

// What shares are cut out of. kMap: points, in whole blocks but for the last; kRows: rows;
// kColumns: blocks of columns.
struct FusedShares {
  int64_t count = 0;
  int64_t unit = 1;  // shares begin at multiples of it
};
FusedShares SharesOf(const PreparedFused& prepared);

// Shares [begin, end). `memory`: WorkerBytes() of the caller's own, aligned to 64 bytes.
void RunFusedShares(const PreparedFused& prepared, const KernelArgs& args, std::byte* memory,
                    int64_t begin, int64_t end);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_FUSED_WORKER_H_
