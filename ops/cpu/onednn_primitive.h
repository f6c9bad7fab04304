// Running a oneDNN primitive over the operands of a node: those it wants in another layout than
// theirs are reordered into scratch, and the result back. Included by onednn_*.cc only.
//
// The scratchpad is the plan's (user mode), after the reordered operands. Memory objects are made
// when a kernel is prepared; a run sets their addresses. oneDNN throws dnnl::error from whatever
// makes an object; nothing leaves the onednn_*.cc files as an exception. Running throws nothing.
#ifndef MILLRACE_OPS_CPU_ONEDNN_PRIMITIVE_H_
#define MILLRACE_OPS_CPU_ONEDNN_PRIMITIVE_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnnl.hpp"
#include "graph/status.h"
#include "ops/cpu/kernel_family.h"

namespace millrace {

using DnnlDims = dnnl::memory::dims;

const dnnl::engine& CpuEngine();
std::string OneDnnVariant();  // "onednn:avx512_core"
absl::Status ToStatus(dnnl_status_t status, std::string_view what);

// oneDNN counts in int: larger operands, and empty ones, are left to other families.
bool AllSized(const std::vector<std::optional<TensorType>>& types);

// Fewer multiply-adds than a team is worth waking for: the caller alone.
int TeamFor(double multiply_adds, int threads);

// f32, row-major; and in whatever layout the primitive likes.
dnnl::memory::desc PlainDesc(const DnnlDims& dims);
dnnl::memory::desc AnyDesc(const DnnlDims& dims);
DnnlDims ToDnnlDims(const Shape& shape);

// f32, channels last: dims [N, C, spatial...].
dnnl::memory::desc ChannelsLastDesc(const DnnlDims& dims);
// The scratchpad is ours.
dnnl::primitive_attr UserScratchpad();

// An operand of a primitive: input or output `index` of the node.
struct PrimitiveOperand {
  int arg = 0;  // DNNL_ARG_...
  bool is_output = false;
  size_t index = 0;
  dnnl::memory::desc given, wanted;  // as it lies, and as the primitive takes or gives it
  int starts_from = -1;  // an output that is added to: which input, lying likewise, is there first

  bool reordered() const { return wanted != given; }
};

struct PrimitiveOperands {
  std::vector<PrimitiveOperand> operands;
  dnnl::memory::desc scratchpad;

  int64_t scratch_bytes() const;
};

class PrimitiveKernel final : public Kernel {
 public:
  // Throws. At most one output.
  PrimitiveKernel(const dnnl::primitive& primitive, const PrimitiveOperands& operands, int threads);
  absl::Status Run(const KernelArgs& args) override;

 private:
  // A primitive with its arguments, callable without building a map of them each time.
  struct Call {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args = {};

    void Add(int arg, const dnnl::memory& memory) { args.push_back({arg, memory.get()}); }
  };
  struct PlacedOperand {
    dnnl::memory memory;  // where it lies
    bool is_output = false;
    size_t index = 0;
    int starts_from = -1;
    size_t size_bytes = 0;
  };

  dnnl::memory InScratch(const dnnl::memory::desc& desc);

  const int threads_;
  const dnnl::stream stream_;
  std::vector<PlacedOperand> operands_;
  std::vector<std::pair<dnnl::memory, int64_t>> in_scratch_;  // with byte offsets
  int64_t scratch_bytes_ = 0;
  void* scratch_ = nullptr;  // where they are placed now
  std::vector<Call> calls_;
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ONEDNN_PRIMITIVE_H_
