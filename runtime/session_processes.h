// What sessions of several processes tell each other.
#ifndef MILLRACE_RUNTIME_SESSION_PROCESSES_H_
#define MILLRACE_RUNTIME_SESSION_PROCESSES_H_

#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.h"
#include "graph/status.h"
#include "graph/tensor.h"
#include "runtime/communicator.h"

namespace millrace {

// The process of each endpoint that binds `value`, in program order.
std::vector<int> HoldersOf(const PlanBundle& plan, ValueId value,
                           std::vector<Binding> Program::*bindings,
                           const Communicator& communicator);

std::string EncodeTensor(const Tensor& tensor);
absl::StatusOr<Tensor> DecodeTensor(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SESSION_PROCESSES_H_
