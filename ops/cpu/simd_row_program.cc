// Runs an epilogue (row_program.h) over rows of a product that have just been written: kRowChunk
// elements at a time, instruction by instruction, each a loop over vectors that stay in L1.
// Operands are read where they lie, numbers and single elements are spread once; the last
// instruction writes the result over the product.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_row_program.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/row_program.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// What an instruction computes over `count` elements. `out` may be an operand.
HWY_INLINE void RunRowStep(ScalarOp op, const float* a, const float* b, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const auto unary = [&](auto f) HWY_ATTR { UnaryRow(a, out, count, f); };
  const auto binary = [&](auto f) HWY_ATTR { RowMap(a, b, out, count, f); };
  switch (op) {
    case ScalarOp::kNeg:
      return unary([&](auto x) HWY_ATTR { return hn::Neg(x); });
    case ScalarOp::kAbs:
      return unary([&](auto x) HWY_ATTR { return hn::Abs(x); });
    case ScalarOp::kExp:
      return unary([&](auto x) HWY_ATTR { return Exp(d, x); });
    case ScalarOp::kTanh:
      return unary([&](auto x) HWY_ATTR { return Tanh(d, x); });
    case ScalarOp::kErf:
      return unary([&](auto x) HWY_ATTR { return Erf(d, x); });
    case ScalarOp::kSigmoid:
      return unary([&](auto x) HWY_ATTR { return Sigmoid(d, x); });
    case ScalarOp::kGelu:
      return unary([&](auto x) HWY_ATTR { return Gelu(d, x); });
    case ScalarOp::kGeluTanh:
      return unary([&](auto x) HWY_ATTR { return GeluTanh(d, x); });
    case ScalarOp::kAdd:
      return binary([&](auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
    case ScalarOp::kSub:
      return binary([&](auto x, auto y) HWY_ATTR { return hn::Sub(x, y); });
    case ScalarOp::kMul:
      return binary([&](auto x, auto y) HWY_ATTR { return hn::Mul(x, y); });
    default:  // kDiv: RowProgramOf lets nothing else through
      return binary([&](auto x, auto y) HWY_ATTR { return hn::Div(x, y); });
  }
}

void RunRows(const RowRun& run, int64_t begin, int64_t end) {
  using Source = RowStep::Source;
  const std::vector<RowStep>& steps = run.program->steps;
  const float* values[kMaxRowSteps];
  for (size_t i = 0; i < steps.size(); ++i) {
    float* slot = run.scratch + static_cast<int64_t>(i) * kRowChunk;
    values[i] = slot;
    const Source source = steps[i].source;
    if (source == Source::kNumber) std::fill(slot, slot + kRowChunk, steps[i].number);
    if (source == Source::kEach) std::fill(slot, slot + kRowChunk, *run.operands[steps[i].operand]);
  }
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t c = 0; c < run.width; c += kRowChunk) {
      const int64_t column = run.column + c;
      const auto count = static_cast<size_t>(HWY_MIN(kRowChunk, run.width - c));
      float* out = run.out + row * run.n + column;
      for (size_t i = 0; i < steps.size(); ++i) {
        const RowStep& step = steps[i];
        const bool last = i + 1 == steps.size();
        if (step.source == Source::kResult) values[i] = out;
        if (step.source == Source::kRow) values[i] = run.operands[step.operand] + column;
        if (step.source == Source::kAll) {
          values[i] = run.operands[step.operand] + row * run.n + column;
        }
        if (step.source == Source::kValue) {
          float* slot = run.scratch + static_cast<int64_t>(i) * kRowChunk;
          RunRowStep(step.op, values[step.a], step.b < 0 ? nullptr : values[step.b],
                     last ? out : slot, count);
        } else if (last && values[i] != out) {
          std::copy(values[i], values[i] + count, out);
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/cpu/simd_dispatch.h"

namespace millrace {
namespace {
HWY_EXPORT(RunRows);
}  // namespace

RunRowsFn FindRunRows() { return MILLRACE_SIMD_FUNCTION(RunRows); }

}  // namespace millrace
#endif  // HWY_ONCE
