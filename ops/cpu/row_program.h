// An epilogue of a matrix product (ops/fused_product.h) as its kernel runs it: instruction by
// instruction over a block of the result that lies in cache, all in f32.
#ifndef MILLRACE_OPS_CPU_ROW_PROGRAM_H_
#define MILLRACE_OPS_CPU_ROW_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/fused_product.h"

namespace millrace {

struct RowStep {
  enum class Source : uint8_t { kValue, kNumber, kResult, kEach, kRow, kAll };

  ScalarOp op = ScalarOp::kAdd;
  int a = -1, b = -1;  // earlier steps
  // kLoad: the product itself (kResult), or a further operand, from 0: one element (kEach), a row
  // of columns (kRow), or one for each of the result's (kAll).
  Source source = Source::kValue;
  int operand = -1;
  float number = 0;  // kConstant
};

struct RowProgram {
  std::vector<RowStep> steps;
  int result = -1;  // which step's value is stored
  bool is_identity() const { return steps.size() == 1; }
};

inline constexpr size_t kMaxRowSteps = 24;

// nullopt: it has instructions, types or operands that the kernel lacks.
std::optional<RowProgram> RowProgramOf(const FusedProduct& product);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ROW_PROGRAM_H_
