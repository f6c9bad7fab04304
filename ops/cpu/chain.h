// The machine that runs fused programs on the CPU: straight-line code whose running value stays in
// vector registers.
//
// A block is a few vectors of 32-bit lanes. Code is a list of steps; each does one operation
// on the running block (the accumulator) and at most two slots, and jumps to the next, so that a
// chain of operations touches memory only for its operands. A slot is a block in memory (an operand,
// a value that is needed later) or one number, in all lanes of a vector; which of the two is part of
// the code.
//
// Lanes hold f32, i32, or bools as all ones and all zeros. f16 and bf16 are f32 rounded by a step of
// their own.
#ifndef MILLRACE_OPS_CPU_CHAIN_H_
#define MILLRACE_OPS_CPU_CHAIN_H_

#include <cstddef>
#include <cstdint>

namespace millrace {

// The operations, by the operands they take: acc, the accumulator, and the slots x and y.
// simd_chain.cc says what they do.
#define MILLRACE_CHAIN_UNARY(OP)                                                               \
  OP(Neg) OP(Abs) OP(Sign) OP(Exp) OP(Log) OP(Sqrt) OP(Rsqrt) OP(Reciprocal) OP(Tanh) OP(Erf)  \
  OP(Sigmoid) OP(Expm1) OP(Softplus) OP(Gelu) OP(GeluTanh) OP(Floor) OP(Ceil) OP(Round)        \
  OP(Not) OP(IsNaN) OP(NegI) OP(AbsI) OP(RoundF16) OP(RoundBF16) OP(FloatOfBool)               \
  OP(BoolOfFloat) OP(FloatOfInt) OP(IntOfFloat) OP(IntOfBool) OP(BoolOfInt)
#define MILLRACE_CHAIN_BINARY(OP)                                                               \
  OP(Add) OP(Sub) OP(SubFrom) OP(Mul) OP(Div) OP(DivInto) OP(Min) OP(MinOf) OP(Max) OP(MaxOf)   \
  OP(AtLeast) OP(LeastFor) OP(AtMost) OP(MostFor)                                               \
  OP(And) OP(Or) OP(Xor) OP(Equal) OP(NotEqual) OP(Less) OP(LessEqual) OP(Greater)              \
  OP(GreaterEqual) OP(AddI) OP(SubI) OP(SubFromI) OP(MulI) OP(MinI) OP(MaxI) OP(EqualI)         \
  OP(NotEqualI) OP(LessI) OP(LessEqualI) OP(GreaterI) OP(GreaterEqualI)
#define MILLRACE_CHAIN_TERNARY(OP) \
  OP(SelectByAcc) OP(SelectAcc) OP(SelectAccElse) OP(FmaFactor) OP(FmaAddend)
// y: the lanes that count, as a bool; x is what they were reduced to so far.
#define MILLRACE_CHAIN_REDUCE(OP) OP(ReduceSum) OP(ReduceMax) OP(ReduceMin) OP(ReduceProd)

#define MILLRACE_CHAIN_NAME(name) k##name,
enum class ChainOp : uint8_t {
  kEnd,
  kLoad,   // acc = x
  kStore,  // x = acc
  MILLRACE_CHAIN_UNARY(MILLRACE_CHAIN_NAME) MILLRACE_CHAIN_BINARY(MILLRACE_CHAIN_NAME)
      MILLRACE_CHAIN_TERNARY(MILLRACE_CHAIN_NAME) MILLRACE_CHAIN_REDUCE(MILLRACE_CHAIN_NAME) kCount,
};
#undef MILLRACE_CHAIN_NAME

struct ChainStep;

// Code for one instruction set.
struct ChainMachine {
  int lanes = 0;  // of a vector; block / lanes of them make a block
  int block = 0;  // lanes of a block
  using StepFn = void (*)();  // of a type that only simd_chain.cc knows
  // By operation; bit 0: x is one number, bit 1: y is. kNarrow: all are, and so is the accumulator.
  static constexpr int kNarrow = 4;
  StepFn step[static_cast<int>(ChainOp::kCount)][5] = {};
  // Runs code that ends with kEnd. slots[i]: where slot i lies.
  void (*run)(const ChainStep* code, float* const* slots) = nullptr;
  // `vectors` vectors of `value`.
  void (*fill)(float* to, float value, int vectors) = nullptr;
  // The lanes of a block as one number, by kReduceSum, ..., kReduceProd.
  float (*fold)(ChainOp op, const float* block) = nullptr;
};

struct ChainStep {
  ChainMachine::StepFn function = nullptr;
  int32_t x = 0, y = 0;  // slots
};

// For this processor.
const ChainMachine& GetChainMachine();

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_CHAIN_H_
