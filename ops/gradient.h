// What gradient builders are written with: the forward node as they need it, and formulas over
// values (`dy * (1 - y * y)`) that append ordinary nodes.
#ifndef MILLRACE_OPS_GRADIENT_H_
#define MILLRACE_OPS_GRADIENT_H_

#include <string_view>
#include <vector>

#include "ops/op_def.h"

namespace millrace {

// A value in a formula. Operators append a node and give its result.
struct Term {
  GraphBuilder* builder = nullptr;
  ValueId id = {};
  DType dtype = DType::kF32;
};

// The result has the dtype of operand 0, as far as formulas need to know.
Term Apply(std::string_view op, const std::vector<Term>& operands, Attrs attrs = {});
// A constant of one element, rank 0, as an operand beside `like`.
Term Scalar(const Term& like, double value);
// A constant list of ints: a shape, axes.
Term Ints(GraphBuilder& builder, std::span<const int64_t> values);
// `condition` ? a : b.
Term Select(const Term& condition, const Term& a, const Term& b);
// `x` itself when it has that dtype.
Term CastTo(const Term& x, DType dtype);
Term ExpandTo(const Term& x, const Shape& shape);
// Zeros of `type`.
Term Zeros(GraphBuilder& builder, const TensorType& type);
// Attributes {"axis": axis}.
Attrs AxisAttr(int64_t axis);

inline Term operator+(const Term& a, const Term& b) { return Apply("Add", {a, b}); }
inline Term operator-(const Term& a, const Term& b) { return Apply("Sub", {a, b}); }
inline Term operator*(const Term& a, const Term& b) { return Apply("Mul", {a, b}); }
inline Term operator/(const Term& a, const Term& b) { return Apply("Div", {a, b}); }
inline Term operator-(const Term& a) { return Apply("Neg", {a}); }
inline Term operator+(const Term& a, double s) { return a + Scalar(a, s); }
inline Term operator*(const Term& a, double s) { return a * Scalar(a, s); }
inline Term operator*(double s, const Term& a) { return a * Scalar(a, s); }
inline Term operator-(double s, const Term& a) { return Scalar(a, s) - a; }
inline Term operator-(const Term& a, double s) { return a - Scalar(a, s); }
inline Term operator/(const Term& a, double s) { return a / Scalar(a, s); }
inline Term operator/(double s, const Term& a) { return Scalar(a, s) / a; }
Term Compare(std::string_view op, const Term& a, const Term& b);  // a bool
inline Term operator<(const Term& a, const Term& b) { return Compare("Less", a, b); }
inline Term operator>(const Term& a, const Term& b) { return Compare("Greater", a, b); }
inline Term operator<(const Term& a, double s) { return a < Scalar(a, s); }
inline Term operator<(double s, const Term& a) { return Scalar(a, s) < a; }
inline Term EqualTo(const Term& a, const Term& b) { return Compare("Equal", a, b); }
inline Term EqualTo(const Term& a, double s) { return EqualTo(a, Scalar(a, s)); }

// `x` summed over `axes`, which stay as dims of 1 when `keep`.
Term Sum(const Term& x, std::span<const int64_t> axes, bool keep);
Term Reshape(const Term& x, const Shape& shape);
Term Transpose(const Term& x, std::span<const int64_t> perm);
// The last two dims swapped; rank >= 2.
Term SwapLastDims(const Term& x, int rank);
// `x`, of shape `from`, summed over what broadcasting repeated, back to shape `to`.
Term SumTo(const Term& x, const Shape& from, const Shape& to);

// The derivative of a product by one of its factors: the product of the others. `rest` is the
// factor, 1 where it is zero; `product` that of all rests, `zeros` how many factors are zero.
Term ProductSlope(const Term& is_zero, const Term& rest, const Term& product, const Term& zeros);

// The gradient of ops that are constant between jumps: zero wherever it exists.
absl::Status ZeroGradient(GradientContext& context);

// The forward node, copied: appending nodes moves the graph's own.
class Forward {
 public:
  // Also sizes context.input_grads.
  explicit Forward(GradientContext& context);

  const Attrs& attrs() const { return attrs_; }  // defaults filled in
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  bool has_input(int i) const { return i < num_inputs() && inputs_[i].valid(); }
  bool has_output(int i) const { return i < num_outputs() && outputs_[i].valid(); }
  Term input(int i) const { return ToTerm(inputs_[i]); }
  Term output(int i) const { return ToTerm(outputs_[i]); }
  const TensorType& input_type(int i) const { return input_types_[i]; }
  const TensorType& output_type(int i) const { return output_types_[i]; }

  bool has_output_grad(int i) const {
    return i < static_cast<int>(context_.output_grads.size()) && context_.output_grads[i].valid();
  }
  Term output_grad(int i) const {
    return {&context_.builder, context_.output_grads[i], output_types_[i].dtype};
  }
  // Operand i as a list, which inference had to know: a shape, axes, sizes. An error where the
  // graph at hand does not say (a body whose caller knows).
  absl::StatusOr<std::vector<int64_t>> KnownInts(int i) const;
  bool wants(int i) const { return has_input(i) && context_.wanted[i]; }
  void set_grad(int i, const Term& grad) { context_.input_grads[i] = grad.id; }

 private:
  Term ToTerm(ValueId id) const;

  GradientContext& context_;
  std::vector<ValueId> inputs_, outputs_;
  std::vector<TensorType> input_types_, output_types_;  // {} for what is omitted
  Attrs attrs_;
};

}  // namespace millrace

#endif  // MILLRACE_OPS_GRADIENT_H_
