// CudaWork: what a kernel of ours does on a GPU, as plain data: which functions of which source are
// launched, in which shape, on which operands. Everything else (sizes, strides, constants) is
// written into the source, because a plan is made for fixed types. The same data are compiled and
// launched on a GPU, compiled and run on the host by tests, and written out for people to read.
#ifndef MILLRACE_OPS_CUDA_CUDA_LAUNCH_H_
#define MILLRACE_OPS_CUDA_CUDA_LAUNCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/target.h"
#include "ops/cuda/cuda_convolution.h"
#include "ops/cuda/cuda_matmul.h"

namespace millrace {

// A parameter of a function: the address of an operand of the node, or of a part of its scratch.
struct CudaParam {
  enum class Kind : uint8_t { kInput, kOutput, kScratch };
  Kind kind = Kind::kInput;
  int index = 0;             // of the operand
  int64_t offset_bytes = 0;  // kScratch only
  int64_t size_bytes = 0;    // from there on; the function touches nothing beyond
  bool reads = true, writes = false;
  bool operator==(const CudaParam&) const = default;
};

struct CudaLaunch {
  std::string function;  // its name is unique to the source
  std::string source;    // what defines it; includes headers of ops/cuda/device
  uint32_t blocks = 1, threads = 1;
  std::vector<CudaParam> params;
  // A library's call, where there is one: then there is no source, and no shape.
  std::optional<CudaMatMul> matmul = {};
  std::optional<CudaConvolution> convolution = {};
  bool copies = false;  // params[1] becomes params[0]: nothing to do where they are one place

  bool is_library_call() const { return matmul.has_value() || convolution.has_value(); }
};

struct CudaWork {
  std::vector<CudaLaunch> launches;  // in stream order
  int64_t scratch_bytes = 0;
};

// Operand i of the query, read or written from its start on.
CudaParam InputParam(const NodeQuery& query, size_t i);
CudaParam OutputParam(const NodeQuery& query, size_t i);
CudaParam ScratchParam(int64_t offset_bytes, int64_t size_bytes, bool reads, bool writes);

// One call of a library (`launch` holds it), with a workspace after its first three operands that
// it rounds up to `alignment` itself.
CudaWork LibraryWork(CudaLaunch launch, std::vector<CudaParam> operands, int64_t workspace_bytes,
                     int64_t alignment);

// Blocks of one launch, at most; more work than that has no kernel.
inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

// "f32", the type of device/scalar.cuh.
std::string_view DeviceType(DType dtype);

// A function named after what it does and a hash of its text, in which kFunctionName stands for the
// name.
inline constexpr std::string_view kFunctionName = "@name@";
CudaLaunch NamedLaunch(std::string_view what, std::string_view source);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDA_LAUNCH_H_
