// The index space of a fused program as GPU kernels see it: the dims that give each thread, or
// group of threads, its place, and those that a group reduces over.
#ifndef MILLRACE_OPS_CUDA_PROGRAM_SPACE_H_
#define MILLRACE_OPS_CUDA_PROGRAM_SPACE_H_

#include <cstdint>
#include <vector>

#include "graph/fused_program.h"

namespace millrace {

// Strides are in elements, by operand and by output of the program.
struct SpaceDim {
  int64_t size = 1;
  std::vector<int64_t> in_strides, out_strides;
};

// Where a dim of the program went. Dims of size 1 went nowhere; a dim that an instruction asks the
// index of is never merged with others.
struct DimPlace {
  enum class Part : uint8_t { kNone, kOuter, kReduce };
  Part part = Part::kNone;
  int dim = 0;
};

// Dims of size 1 are dropped, neighbours of a part that no operand can tell apart merge.
struct ProgramSpace {
  std::vector<SpaceDim> outer, reduce;  // row-major
  std::vector<DimPlace> places;         // by dim of the program
  bool is_map = false;                  // nothing is reduced; all dims are outer
  bool inner_is_outer = false;          // the last dim of the program with a size is an outer one

  int64_t Rows() const;    // points of `outer`
  int64_t Length() const;  // points of `reduce`
};

ProgramSpace MakeProgramSpace(const FusedProgram& program);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_PROGRAM_SPACE_H_
