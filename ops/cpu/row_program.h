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
  bool is_identity() const { return steps[result].source == RowStep::Source::kResult; }
};

inline constexpr size_t kMaxRowSteps = 24;

// nullopt: it has instructions, types or operands that the kernel lacks.
std::optional<RowProgram> RowProgramOf(const FusedProduct& product);

// A program at work on the columns [column, column + width) of a result with n columns.
struct RowRun {
  const RowProgram* program = nullptr;
  const float* const* operands = nullptr;  // the further ones
  float* out = nullptr;                    // [rows, n]: the product, and then the result
  int64_t n = 0, column = 0, width = 0;
  float* scratch = nullptr;  // RowScratchFloats, the thread's own
};
inline constexpr int64_t kRowChunk = 512;  // elements that go through the program together
int64_t RowScratchFloats(const RowProgram& program);

// For rows [begin, end); for this processor (simd_row_program.cc).
using RunRowsFn = void (*)(const RowRun& run, int64_t begin, int64_t end);
RunRowsFn FindRunRows();

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ROW_PROGRAM_H_
