// Programs are read backwards from their output: each instruction must apply one step to a value
// that is a chain of steps itself, down to the product. Patterns are those that the ops' formulas
// write (ops/defs/activations.cc, Between in ops/scalar_program.h).
#include "ops/cpu/epilogue_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace {
namespace {

constexpr size_t kMaxSteps = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class EpilogueReader {
 public:
  explicit EpilogueReader(const FusedProgram& program) : program_(program) {
    for (const ScalarInstruction& s : program.instructions) {
      bool reads = s.op == ScalarOp::kLoad && s.a == 0;
      if (s.op != ScalarOp::kLoad && s.op != ScalarOp::kConstant && s.op != ScalarOp::kIndex) {
        for (int32_t from : {s.a, s.b, s.c}) reads |= from >= 0 && reads_product_[from];
      }
      reads_product_.push_back(reads);
    }
  }

  std::optional<std::vector<EpilogueStep>> Run() {
    if (program_.outputs.size() != 1 || !Chain(program_.outputs[0].value)) return std::nullopt;
    if (chain_.size() > kMaxSteps) return std::nullopt;
    return std::move(chain_);
  }

 private:
  const ScalarInstruction& At(int32_t v) const { return program_.instructions[v]; }
  bool Is(int32_t v, ScalarOp op) const { return At(v).op == op; }
  std::optional<float> ConstantAt(int32_t v) const {
    if (!Is(v, ScalarOp::kConstant)) return std::nullopt;
    return static_cast<float>(At(v).constant);
  }
  bool IsConstant(int32_t v, double value) const {
    return Is(v, ScalarOp::kConstant) && At(v).constant == value;
  }

  bool Eltwise(EpilogueOp op, float alpha = 0, float beta = 0) {
    chain_.push_back({op, alpha, beta, -1});
    return true;
  }

  // Appends what makes value `v` of the product.
  bool Chain(int32_t v) {
    const ScalarInstruction& s = At(v);
    if (s.dtype != DType::kF32 || !reads_product_[v]) return false;
    switch (s.op) {
      case ScalarOp::kLoad:
        return true;
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
      case ScalarOp::kMul:
      case ScalarOp::kDiv:
        return Gated(s) || Binary(s);
      case ScalarOp::kFma:
        return Linear(s);
      case ScalarOp::kSelect:
        return Bound(s) || Slope(s);
      case ScalarOp::kTanh:
        return Chain(s.a) && Eltwise(EpilogueOp::kTanh);
      case ScalarOp::kSigmoid:
        return Chain(s.a) && Eltwise(EpilogueOp::kSigmoid);
      case ScalarOp::kGelu:
        return Chain(s.a) && Eltwise(EpilogueOp::kGelu);
      case ScalarOp::kGeluTanh:
        return Chain(s.a) && Eltwise(EpilogueOp::kGeluTanh);
      case ScalarOp::kAbs:
        return Chain(s.a) && Eltwise(EpilogueOp::kAbs);
      case ScalarOp::kSqrt:
        return Chain(s.a) && Eltwise(EpilogueOp::kSqrt);
      case ScalarOp::kNeg:
        return Chain(s.a) && Eltwise(EpilogueOp::kLinear, -1);
      default:
        return false;
    }
  }

  // The product's side with an operand or a constant.
  bool Binary(const ScalarInstruction& s) {
    const bool commutes = s.op == ScalarOp::kAdd || s.op == ScalarOp::kMul;
    if (reads_product_[s.a] && reads_product_[s.b]) return false;
    const bool product_first = reads_product_[s.a];
    if (!product_first && !commutes) return false;
    const int32_t other = product_first ? s.b : s.a;
    if (!Chain(product_first ? s.a : s.b)) return false;
    if (const std::optional<float> c = ConstantAt(other)) {
      if (s.op == ScalarOp::kDiv) return false;  // rounds otherwise than a product
      if (s.op == ScalarOp::kMul) return Eltwise(EpilogueOp::kLinear, *c, 0);
      return Eltwise(EpilogueOp::kLinear, 1, s.op == ScalarOp::kSub ? -*c : *c);
    }
    if (!Is(other, ScalarOp::kLoad) || At(other).dtype != DType::kF32) return false;
    chain_.push_back({s.op == ScalarOp::kAdd   ? EpilogueOp::kAdd
                      : s.op == ScalarOp::kSub ? EpilogueOp::kSub
                      : s.op == ScalarOp::kMul ? EpilogueOp::kMul
                                               : EpilogueOp::kDiv,
                      0, 0, At(other).a - 1});
    return true;
  }

  bool Linear(const ScalarInstruction& s) {
    const bool first = reads_product_[s.a];
    const std::optional<float> factor = ConstantAt(first ? s.b : s.a), shift = ConstantAt(s.c);
    return factor.has_value() && shift.has_value() && Chain(first ? s.a : s.b) &&
           Eltwise(EpilogueOp::kLinear, *factor, *shift);
  }

  // x * sigmoid(alpha x), and x * Between(x / 6 + 1 / 2, 0, 1).
  bool Gated(const ScalarInstruction& s) {
    if (s.op != ScalarOp::kMul || !reads_product_[s.a] || !reads_product_[s.b]) return false;
    for (const auto& [x, gate] : {std::pair(s.a, s.b), std::pair(s.b, s.a)}) {
      if (const std::optional<float> alpha = SigmoidOf(gate, x)) {
        return Chain(x) && Eltwise(EpilogueOp::kSwish, *alpha);
      }
      if (IsHardGate(gate, x)) return Chain(x) && Eltwise(EpilogueOp::kHardSwish);
    }
    return false;
  }

  // The alpha of sigmoid(alpha x).
  std::optional<float> SigmoidOf(int32_t v, int32_t x) const {
    if (!Is(v, ScalarOp::kSigmoid)) return std::nullopt;
    const int32_t in = At(v).a;
    if (in == x) return 1;
    if (!Is(in, ScalarOp::kMul)) return std::nullopt;
    if (At(in).b == x) return ConstantAt(At(in).a);
    return At(in).a == x ? ConstantAt(At(in).b) : std::nullopt;
  }

  bool IsHardGate(int32_t v, int32_t x) const {
    int32_t raised = -1, inner = -1;
    const std::optional<float> high = UpperBoundOf(At(v), raised);
    if (high != 1 || !Is(raised, ScalarOp::kSelect)) return false;
    if (LowerBoundOf(At(raised), inner) != 0 || !Is(inner, ScalarOp::kFma)) return false;
    const ScalarInstruction& fma = At(inner);
    return fma.b == x && IsConstant(fma.a, 1.0 / 6) && IsConstant(fma.c, 0.5);
  }

  // select(x < low, low, x): low, and x.
  std::optional<float> LowerBoundOf(const ScalarInstruction& s, int32_t& x) const {
    if (s.op != ScalarOp::kSelect || !Is(s.a, ScalarOp::kLess)) return std::nullopt;
    const ScalarInstruction& less = At(s.a);
    if (less.a != s.c || less.b != s.b) return std::nullopt;
    x = s.c;
    return ConstantAt(s.b);
  }
  // select(high < x, high, x).
  std::optional<float> UpperBoundOf(const ScalarInstruction& s, int32_t& x) const {
    if (s.op != ScalarOp::kSelect || !Is(s.a, ScalarOp::kLess)) return std::nullopt;
    const ScalarInstruction& less = At(s.a);
    if (less.a != s.b || less.b != s.c) return std::nullopt;
    x = s.c;
    return ConstantAt(s.b);
  }

  bool Bound(const ScalarInstruction& s) {
    int32_t x = -1;
    if (const std::optional<float> low = LowerBoundOf(s, x)) {
      if (!Chain(x)) return false;
      const bool is_relu = !chain_.empty() && chain_.back().op == EpilogueOp::kRelu;
      if (*low == 0 && is_relu && chain_.back().alpha == 0) return true;
      return *low == 0 ? Eltwise(EpilogueOp::kRelu) : Eltwise(EpilogueOp::kClip, *low, kInfinity);
    }
    const std::optional<float> high = UpperBoundOf(s, x);
    if (!high.has_value() || !Chain(x)) return false;
    if (!chain_.empty() && MergeUpperBound(chain_.back(), *high)) return true;
    return Eltwise(EpilogueOp::kClip, -kInfinity, *high);
  }

  // One clip instead of two. The upper bound wins over a larger lower one.
  static bool MergeUpperBound(EpilogueStep& last, float high) {
    const bool relu = last.op == EpilogueOp::kRelu && last.alpha == 0;
    const bool raised = last.op == EpilogueOp::kClip && last.beta == kInfinity;
    if ((!relu && !raised)) return false;
    const float low = relu ? 0 : last.alpha;
    if (low > high) return false;
    last.op = EpilogueOp::kClip;
    last.alpha = low;
    last.beta = high;
    return true;
  }

  // select(x < 0, f(x), x), where f is a slope or an exponential.
  bool Slope(const ScalarInstruction& s) {
    if (!Is(s.a, ScalarOp::kLess)) return false;
    const ScalarInstruction &less = At(s.a), &below = At(s.b);
    if (less.a != s.c || !IsConstant(less.b, 0) || below.op != ScalarOp::kMul) return false;
    const std::optional<float> alpha = ConstantAt(below.a);
    if (!alpha.has_value()) return false;
    const bool leaky = below.b == s.c;
    const bool elu = Is(below.b, ScalarOp::kExpm1) && At(below.b).a == s.c;
    if ((!leaky && !elu) || !Chain(s.c)) return false;
    return Eltwise(leaky ? EpilogueOp::kRelu : EpilogueOp::kElu, *alpha);
  }

  const FusedProgram& program_;
  std::vector<bool> reads_product_;  // by instruction
  std::vector<EpilogueStep> chain_;
};

// An operand's shape at the result's rank; nullopt: neither whole, nor for each channel, nor one.
std::optional<Shape> OperandShapeFor(const Shape& operand, const Shape& result) {
  if (operand.rank() > result.rank() && NumElements(operand) != 1) return std::nullopt;
  Shape one, padded, channels;
  for (int d = 0; d < result.rank(); ++d) {
    const int own = d - (result.rank() - operand.rank());
    one.push_back(1);
    padded.push_back(own >= 0 ? operand[own] : 1);
    channels.push_back(d == 1 ? result[d] : 1);
  }
  if (NumElements(operand) == 1) return one;
  if (padded == result || padded == channels) return padded;
  return std::nullopt;
}

// Turns the addition of an operand of the result's size into a sum; false where operands of that
// size are used in another way, or more than once.
bool MakeSum(const Shape& result, EpiloguePlan& plan) {
  for (EpilogueStep& step : plan.steps) {
    if (step.operand < 0 || plan.operand_shapes[step.operand] != result) continue;
    if (step.op != EpilogueOp::kAdd || plan.sum_operand >= 0) return false;
    step.op = EpilogueOp::kSum;
    plan.sum_operand = step.operand;
  }
  return std::ranges::count(plan.operand_shapes, result) == (plan.sum_operand >= 0 ? 1 : 0);
}

}  // namespace

std::optional<EpiloguePlan> PlanEpilogue(const FusedProduct& product) {
  EpiloguePlan plan;
  std::optional<std::vector<EpilogueStep>> steps = EpilogueReader(product.epilogue).Run();
  if (!steps.has_value()) return std::nullopt;
  plan.steps = *std::move(steps);
  const Shape& result = product.plain.outputs[0]->shape;
  for (const TensorType& operand : product.operands) {
    if (operand.dtype != DType::kF32) return std::nullopt;
    const std::optional<Shape> shape = OperandShapeFor(operand.shape, result);
    if (!shape.has_value()) return std::nullopt;
    plan.operand_shapes.push_back(*shape);
  }
  if (!MakeSum(result, plan)) return std::nullopt;
  return plan;
}

}  // namespace millrace
