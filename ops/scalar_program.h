// Elementwise ops as scalar instructions: what definitions write their formulas with
// (`Select(x < 0, alpha * Expm1(x), x)`), and how a node becomes part of a FusedProgram.
#ifndef MILLRACE_OPS_SCALAR_PROGRAM_H_
#define MILLRACE_OPS_SCALAR_PROGRAM_H_

#include <optional>
#include <span>

#include "ops/op_def.h"

namespace millrace {

// Appends the instruction, unless the program has the very same one already.
ScalarTerm AppendScalar(FusedProgram& program, const ScalarInstruction& instruction);

// The op over terms of one program; the result has the dtype of `a` (`like` for comparisons: bool).
ScalarTerm ScalarUnary(ScalarOp op, const ScalarTerm& a);
ScalarTerm ScalarBinary(ScalarOp op, const ScalarTerm& a, const ScalarTerm& b);
// A constant of the dtype of `like`.
ScalarTerm ScalarConstant(const ScalarTerm& like, double value);
// `condition` ? a : b.
ScalarTerm Select(const ScalarTerm& condition, const ScalarTerm& a, const ScalarTerm& b);
// a * b + c, rounded once.
ScalarTerm Fma(const ScalarTerm& a, const ScalarTerm& b, const ScalarTerm& c);
// `x` itself when it has that dtype.
ScalarTerm CastTo(const ScalarTerm& x, DType dtype);

inline ScalarTerm operator+(const ScalarTerm& a, const ScalarTerm& b) {
  return ScalarBinary(ScalarOp::kAdd, a, b);
}
inline ScalarTerm operator-(const ScalarTerm& a, const ScalarTerm& b) {
  return ScalarBinary(ScalarOp::kSub, a, b);
}
inline ScalarTerm operator*(const ScalarTerm& a, const ScalarTerm& b) {
  return ScalarBinary(ScalarOp::kMul, a, b);
}
inline ScalarTerm operator/(const ScalarTerm& a, const ScalarTerm& b) {
  return ScalarBinary(ScalarOp::kDiv, a, b);
}
inline ScalarTerm operator<(const ScalarTerm& a, const ScalarTerm& b) {
  return ScalarBinary(ScalarOp::kLess, a, b);
}
inline ScalarTerm operator+(const ScalarTerm& a, double s) { return a + ScalarConstant(a, s); }
inline ScalarTerm operator-(const ScalarTerm& a, double s) { return a - ScalarConstant(a, s); }
inline ScalarTerm operator*(double s, const ScalarTerm& a) { return ScalarConstant(a, s) * a; }
inline ScalarTerm operator<(const ScalarTerm& a, double s) { return a < ScalarConstant(a, s); }
inline ScalarTerm operator<(double s, const ScalarTerm& a) { return ScalarConstant(a, s) < a; }
// At least `low`, at most `high`, which wins; NaN stays NaN. A bound that is not valid is none.
ScalarTerm Between(const ScalarTerm& x, const ScalarTerm& low, const ScalarTerm& high);

// Of reductions, over the reduced dims of the program.
inline ScalarTerm RowSum(const ScalarTerm& x) { return ScalarUnary(ScalarOp::kReduceSum, x); }
inline ScalarTerm RowMax(const ScalarTerm& x) { return ScalarUnary(ScalarOp::kReduceMax, x); }
// `count`: of the elements that are reduced.
inline ScalarTerm RowMean(const ScalarTerm& x, double count) {
  return RowSum(x) / ScalarConstant(x, count);
}
// How many elements of `shape` become one over `axes`.
double RowCount(const Shape& shape, std::span<const int> axes);

// Whether a node with this query is one scalar of each element of its inputs: its op says how, and
// for these types and attributes. Omitted outputs are fine.
bool IsScalarNode(const NodeQuery& query);

// Appends what the node computes to the program its inputs are in, and gives its result, of the
// dtype of output 0. `inputs[i]`: an element of input i, of its dtype; not valid: omitted. f16 and
// bf16 are computed in f32 and rounded where the node's result is. IsScalarNode(query) holds.
ScalarTerm AppendNode(const NodeQuery& query, std::span<const ScalarTerm> inputs);

// The same for nodes that reduce the index space of their input 0 (OpDef::row): the axes they
// reduce, in order; nullopt for others. AppendNode takes them too.
std::optional<std::vector<int>> RowAxesOf(const NodeQuery& query);

// An operand of `type`, broadcast over `space`, and a load of it. The program's dims are those of
// `space`.
ScalarTerm LoadOperand(FusedProgram& program, const TensorType& type, const Shape& space);
// A program over all points of `space`, all dims outer.
FusedProgram ProgramOver(const Shape& space);
// Stores `value` densely over the program's dims; `reduced`: but for the reduced ones.
void StoreOutput(FusedProgram& program, const ScalarTerm& value, bool reduced = false);

// The node alone as a program; its operands are the inputs that are there, in order, but for those
// on the host. IsScalarNode(query) holds, or RowAxesOf(query) is there.
FusedProgram NodeProgram(const NodeQuery& query);

}  // namespace millrace

#endif  // MILLRACE_OPS_SCALAR_PROGRAM_H_
