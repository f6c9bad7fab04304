// Runs one kernel variant on tensors, the way an executor would: types inferred, kernel prepared,
// operands and scratch at addresses of their own. Memory the kernel must write is filled with
// garbage first, and bytes beyond each operand are checked afterwards.
#ifndef MILLRACE_TESTS_OPS_CPU_KERNEL_RUNNER_H_
#define MILLRACE_TESTS_OPS_CPU_KERNEL_RUNNER_H_

#include <random>
#include <string>
#include <vector>

#include "graph/op_traits.h"
#include "graph/target.h"
#include "graph/tensor.h"
#include "runtime/kernel.h"

namespace millrace {

// A node with its operands' data.
struct KernelCase {
  NodeQuery query;
  std::vector<Tensor> inputs;  // without data: omitted
};

// Infers the outputs, all `outputs` of them wanted; aborts when the op's rules refuse.
KernelCase MakeCase(std::string op, Attrs attrs, std::vector<Tensor> inputs, int outputs = 1);
Attrs MakeAttrs(std::initializer_list<std::pair<std::string_view, AttrValue>> attrs);
std::string Describe(const KernelCase& c);  // "Add(f32[2,3], f32[3])"

struct RunOptions {
  int threads = 1;
  InPlacePair in_place = {-1, -1};  // the output that lies on the input's bytes; -1: none
};

absl::StatusOr<std::vector<Tensor>> RunVariant(KernelLibrary& library, const KernelCase& c,
                                               const KernelVariant& variant,
                                               const RunOptions& options = {});

// A request for `variant` with dense operands.
KernelRequest RequestFor(const KernelCase& c, const KernelVariant& variant, int threads = 1);
// The variant of that name CpuTarget offers; aborts when there is none.
KernelVariant OfferedVariant(const KernelCase& c, std::string_view name);

// Elements uniform in [-limit, limit] (unsigned: [0, limit]; bool: either).
Tensor RandomTensor(std::mt19937& random, DType dtype, const Shape& shape, double limit = 2);

}  // namespace millrace

#endif  // MILLRACE_TESTS_OPS_CPU_KERNEL_RUNNER_H_
