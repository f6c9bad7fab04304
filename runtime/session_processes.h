// What sessions of several processes tell each other.
#ifndef MILLRACE_RUNTIME_SESSION_PROCESSES_H_
#define MILLRACE_RUNTIME_SESSION_PROCESSES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.h"
#include "graph/status.h"
#include "graph/tensor.h"
#include "runtime/communicator.h"
#include "runtime/wire.h"

namespace millrace {

// The process of each endpoint that binds `value`, in program order.
std::vector<int> HoldersOf(const PlanBundle& plan, ValueId value,
                           std::vector<Binding> Program::*bindings,
                           const Communicator& communicator);

std::string EncodeTensor(const Tensor& tensor);
absl::StatusOr<Tensor> DecodeTensor(std::string_view bytes);

// Parts of a value, one after another: each with where it begins in the whole, and its bytes,
// dense.
void PutPart(int64_t offset_bytes, const Tensor& part, WireWriter& writer);
// Copies all parts, each of `type`, to their places in `whole`, which they step through by
// `strides` (elements).
absl::Status TakeParts(std::string_view parts, const TensorType& type,
                       std::span<const int64_t> strides, Tensor& whole);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SESSION_PROCESSES_H_
