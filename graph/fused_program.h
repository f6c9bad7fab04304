// FusedProgram: one small SSA program of scalar operations over an index space, executed for every
// point. The same struct is a fused node's body and an epilogue of a library kernel. It has one CPU
// lowering, one CUDA lowering and one reference; none may give it another meaning.
//
// Index space: dims in row-major order, each `outer`, `reduce` or `inner`. Instructions run in
// order for every point. A reduction combines its operand over all reduce dims; its result does not
// vary over them. After a reduction, instructions may again use values that do vary (softmax: max,
// exp, sum, divide); a lowering sweeps the reduce dims as often as needed.
#ifndef MILLRACE_GRAPH_FUSED_PROGRAM_H_
#define MILLRACE_GRAPH_FUSED_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"
#include "graph/types.h"

namespace millrace {

enum class DimRole : uint8_t { kOuter, kReduce, kInner };

struct IndexDim {
  int64_t size = 1;
  DimRole role = DimRole::kOuter;
  bool operator==(const IndexDim&) const = default;
};

enum class ScalarOp : uint8_t {
  kLoad,      // a: operand index
  kConstant,  // `constant`
  kIndex,     // a: dim; the point's index along it, as i64
  kCast,      // to dtype
  // unary
  kNeg, kAbs, kSign, kExp, kLog, kSqrt, kRsqrt, kReciprocal, kTanh, kErf, kSigmoid, kSin, kCos,
  kExpm1,     // e^x - 1
  kSoftplus,  // log(1 + e^x)
  kGelu,      // x Phi(x)
  kGeluTanh,  // its approximation by tanh
  kFloor, kCeil, kRound, kNot, kIsNaN,
  // binary
  kAdd, kSub, kMul, kDiv, kMin, kMax, kPow, kMod, kAnd, kOr, kXor,
  kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual,
  // ternary
  kSelect,  // a ? b : c
  kFma,     // a * b + c, rounded once
  // reductions over all reduce dims
  kReduceSum, kReduceMax, kReduceMin, kReduceProd,
};
int Arity(ScalarOp op);                        // value operands: 0 to 3
bool IsReduction(ScalarOp op);
bool IsComparison(ScalarOp op);                // kEqual to kGreaterEqual
std::string_view ScalarOpName(ScalarOp op);    // "load", "add", "reduce_sum"
std::optional<ScalarOp> ParseScalarOp(std::string_view name);
std::string_view DimRoleName(DimRole role);    // "outer", "reduce", "inner"
std::optional<DimRole> ParseDimRole(std::string_view name);

struct ScalarInstruction {
  ScalarOp op = ScalarOp::kLoad;
  DType dtype = DType::kF32;  // of the result
  int32_t a = -1, b = -1, c = -1;  // earlier instructions; kLoad: operand, kIndex: dim
  double constant = 0;
  bool operator==(const ScalarInstruction&) const = default;
};

struct FusedOperand {
  DType dtype = DType::kF32;
  int64_t offset = 0;             // elements
  std::vector<int64_t> strides;   // elements per dim; 0: broadcast along it
  bool operator==(const FusedOperand&) const = default;
};

struct FusedOutput {
  int32_t value = -1;  // instruction whose result is stored (converted to dtype)
  DType dtype = DType::kF32;
  int64_t offset = 0;
  std::vector<int64_t> strides;  // stride 0 along reduce dims means: stored once, after reducing
  bool operator==(const FusedOutput&) const = default;
};

struct FusedProgram {
  std::vector<IndexDim> dims;
  std::vector<FusedOperand> operands;
  std::vector<ScalarInstruction> instructions;
  std::vector<FusedOutput> outputs;
  bool operator==(const FusedProgram&) const = default;
};

// SSA order, arities, dtypes, ranks of strides, outputs that vary over a dim with stride 0.
absl::Status VerifyFusedProgram(const FusedProgram& program);

// One line, for a node's "program" attribute and for people; the two directions are exact inverses:
// "dims [64 outer, 768 reduce]; in f32 [768, 1]; %0 = load f32 @0; %1 = constant f32 0.5;
//  %2 = mul f32 %0 %1; %3 = reduce_sum f32 %2; out f32 [1, 0] = %3". An offset is "+16" before "[".
std::string ToText(const FusedProgram& program);
absl::StatusOr<FusedProgram> ParseFusedProgram(std::string_view text);

// JSON object, compact.
std::string FusedProgramToJson(const FusedProgram& program);
absl::StatusOr<FusedProgram> ParseFusedProgramJson(std::string_view json);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_FUSED_PROGRAM_H_
