// Writes one ProgramStep of a node: loads, formulas (ops/scalar_program.h), stores.
#ifndef MILLRACE_OPS_CUDA_STEP_WRITER_H_
#define MILLRACE_OPS_CUDA_STEP_WRITER_H_

#include <vector>

#include "ops/cuda/node_programs.h"
#include "ops/scalar_program.h"

namespace millrace {

// What floats of this type are computed in.
inline DType WideFloat(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

class StepWriter {
 public:
  StepWriter(const NodeQuery& query, std::vector<IndexDim> dims) : query_(query) {
    step_.program.dims = std::move(dims);
  }

  // An element of input i, with a stride for each dim.
  ScalarTerm Load(size_t i, std::vector<int64_t> strides, int64_t offset = 0) {
    return LoadFrom(InputParam(query_, i), query_.inputs[i]->dtype, std::move(strides), offset);
  }
  // The same as floats are computed with.
  ScalarTerm LoadWide(size_t i, std::vector<int64_t> strides) {
    return CastTo(Load(i, std::move(strides)), WideFloat(query_.inputs[i]->dtype));
  }
  ScalarTerm LoadFrom(const CudaParam& from, DType dtype, std::vector<int64_t> strides,
                      int64_t offset = 0) {
    FusedProgram& p = step_.program;
    const auto operand = static_cast<int32_t>(p.operands.size());
    p.operands.push_back({.dtype = dtype, .offset = offset, .strides = std::move(strides)});
    step_.operands.push_back(from);
    return AppendScalar(p, {.op = ScalarOp::kLoad, .dtype = dtype, .a = operand});
  }
  ScalarTerm Index(int dim) {
    return AppendScalar(step_.program, {.op = ScalarOp::kIndex, .dtype = DType::kI64, .a = dim});
  }
  ScalarTerm Number(DType dtype, double value) {
    return ScalarConstant({&step_.program, -1, dtype}, value);
  }

  void Store(size_t output, const ScalarTerm& value, std::vector<int64_t> strides) {
    StoreTo(OutputParam(query_, output), CastTo(value, query_.outputs[output]->dtype),
            std::move(strides));
  }
  void StoreTo(const CudaParam& to, const ScalarTerm& value, std::vector<int64_t> strides) {
    step_.program.outputs.push_back(
        {.value = value.value, .dtype = value.dtype, .offset = 0, .strides = std::move(strides)});
    step_.outputs.push_back(to);
  }

  // Terms hold the address of the program: nothing is written after.
  ProgramStep Take() { return std::move(step_); }

 private:
  const NodeQuery& query_;
  ProgramStep step_;
};

inline IndexDim OuterDim(int64_t size) { return {.size = size, .role = DimRole::kOuter}; }
inline IndexDim ReduceDim(int64_t size) { return {.size = size, .role = DimRole::kReduce}; }

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_STEP_WRITER_H_
