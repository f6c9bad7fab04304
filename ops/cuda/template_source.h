// Functions that instantiate a template of ops/cuda/device: a signature, constants, and one call.
#ifndef MILLRACE_OPS_CUDA_TEMPLATE_SOURCE_H_
#define MILLRACE_OPS_CUDA_TEMPLATE_SOURCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/cuda/cuda_launch.h"
#include "ops/window.h"

namespace millrace {

// A parameter of the function: "in0" of type "const f32*", or "out0" of type "f32*". One that is
// not there is a null pointer in the call.
struct TemplateParam {
  CudaParam param;
  DType dtype = DType::kF32;
  bool is_there = true;
};
TemplateParam InputOf(const NodeQuery& query, size_t i);
TemplateParam OutputOf(const NodeQuery& query, size_t i);
// In a place of input i's type; for operands that are omitted.
TemplateParam Absent(DType dtype);

struct TemplateCall {
  std::string_view header;       // "pool.cuh"
  std::string_view name;         // of the function, begins with
  std::string constants = {};    // lines before the call
  std::string_view callee = {};  // "MaxPool<kWindow>"
  std::vector<TemplateParam> params = {};
  std::string more_arguments = {};  // after the operands: ", 64, true"
  int64_t blocks = 1;
  int threads = 256;
};
// The caller saw to it that blocks are at most kMaxBlocks.
CudaLaunch LaunchOf(const TemplateCall& call);

// Blocks of 256 threads with one for each of `count`.
int64_t BlocksFor(int64_t count);

// "{1, 2}".
std::string ListSource(std::span<const int64_t> values);
// "{.in = {1, 28, 28}, ...}", a WindowShape of device/window.cuh.
std::string WindowSource(const Window& window);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_TEMPLATE_SOURCE_H_
