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

// Of a map over rows of `columns` points: `width` columns from `column_begin` on of some rows.
struct FusedRegion {
  int64_t columns = 0, column_begin = 0, width = 0;
  int64_t row_begin = 0, row_end = 0;
};
void RunFusedRegion(const PreparedFused& prepared, const KernelArgs& args, std::byte* memory,
                    const FusedRegion& region);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_FUSED_WORKER_H_
