// What collectives are to give: plain loops over all ranks, in rank order.
#ifndef MILLRACE_TESTS_DISTRIBUTED_COLLECTIVE_REFERENCE_H_
#define MILLRACE_TESTS_DISTRIBUTED_COLLECTIVE_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "graph/tensor.h"
#include "runtime/communicator.h"

namespace millrace {

// One tensor a rank, small integers so that sums are exact in every type.
std::vector<Tensor> RandomInputs(int ranks, DType dtype, int64_t count, uint32_t seed);

// What `rank` must hold afterwards.
Tensor Expected(const CollectiveSpec& spec, const std::vector<Tensor>& inputs, int rank);

}  // namespace millrace

#endif  // MILLRACE_TESTS_DISTRIBUTED_COLLECTIVE_REFERENCE_H_
