// Programs are read backwards from their output: each instruction must apply one post-op to a value
// that is a chain of post-ops itself, down to the product. Patterns are those that the ops' formulas
// write (ops/defs/activations.cc, Between in ops/scalar_program.h).
#include "ops/cpu/onednn_epilogue.h"

#include <cmath>
#include <limits>

namespace millrace {
namespace {

using Algorithm = dnnl::algorithm;

constexpr size_t kMaxPostOps = 16;
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

  std::optional<std::vector<PostOp>> Run() {
    if (program_.outputs.size() != 1 || !Chain(program_.outputs[0].value)) return std::nullopt;
    if (chain_.size() > kMaxPostOps) return std::nullopt;
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

  bool Eltwise(Algorithm algorithm, float alpha = 0, float beta = 0) {
    chain_.push_back({algorithm, alpha, beta, -1});
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
        return Chain(s.a) && Eltwise(Algorithm::eltwise_tanh);
      case ScalarOp::kSigmoid:
        return Chain(s.a) && Eltwise(Algorithm::eltwise_logistic);
      case ScalarOp::kGelu:
        return Chain(s.a) && Eltwise(Algorithm::eltwise_gelu_erf);
      case ScalarOp::kGeluTanh:
        return Chain(s.a) && Eltwise(Algorithm::eltwise_gelu_tanh);
      case ScalarOp::kAbs:
        return Chain(s.a) && Eltwise(Algorithm::eltwise_abs);
      case ScalarOp::kSqrt:
        return Chain(s.a) && Eltwise(Algorithm::eltwise_sqrt);
      case ScalarOp::kNeg:
        return Chain(s.a) && Eltwise(Algorithm::eltwise_linear, -1);
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
      if (s.op == ScalarOp::kMul) return Eltwise(Algorithm::eltwise_linear, *c, 0);
      return Eltwise(Algorithm::eltwise_linear, 1, s.op == ScalarOp::kSub ? -*c : *c);
    }
    if (!Is(other, ScalarOp::kLoad) || At(other).dtype != DType::kF32) return false;
    chain_.push_back({s.op == ScalarOp::kAdd   ? Algorithm::binary_add
                      : s.op == ScalarOp::kSub ? Algorithm::binary_sub
                      : s.op == ScalarOp::kMul ? Algorithm::binary_mul
                                               : Algorithm::binary_div,
                      0, 0, At(other).a - 1});
    return true;
  }

  bool Linear(const ScalarInstruction& s) {
    const bool first = reads_product_[s.a];
    const std::optional<float> factor = ConstantAt(first ? s.b : s.a), shift = ConstantAt(s.c);
    return factor.has_value() && shift.has_value() && Chain(first ? s.a : s.b) &&
           Eltwise(Algorithm::eltwise_linear, *factor, *shift);
  }

  // x * sigmoid(alpha x), and x * Between(x / 6 + 1 / 2, 0, 1).
  bool Gated(const ScalarInstruction& s) {
    if (s.op != ScalarOp::kMul || !reads_product_[s.a] || !reads_product_[s.b]) return false;
    for (const auto& [x, gate] : {std::pair(s.a, s.b), std::pair(s.b, s.a)}) {
      if (const std::optional<float> alpha = SigmoidOf(gate, x)) {
        return Chain(x) && Eltwise(Algorithm::eltwise_swish, *alpha);
      }
      if (IsHardGate(gate, x)) return Chain(x) && Eltwise(Algorithm::eltwise_hardswish);
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
      return *low == 0 ? Eltwise(Algorithm::eltwise_relu)
                       : Eltwise(Algorithm::eltwise_clip, *low, kInfinity);
    }
    const std::optional<float> high = UpperBoundOf(s, x);
    if (!high.has_value() || !Chain(x)) return false;
    if (!chain_.empty() && MergeUpperBound(chain_.back(), *high)) return true;
    return Eltwise(Algorithm::eltwise_clip, -kInfinity, *high);
  }

  // One clip instead of two. The upper bound wins over a larger lower one.
  static bool MergeUpperBound(PostOp& last, float high) {
    const bool relu = last.algorithm == Algorithm::eltwise_relu && last.alpha == 0;
    const bool raised = last.algorithm == Algorithm::eltwise_clip && last.beta == kInfinity;
    if (last.operand >= 0 || (!relu && !raised)) return false;
    const float low = relu ? 0 : last.alpha;
    if (low > high) return false;
    last = {Algorithm::eltwise_clip, low, high, -1};
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
    return Eltwise(leaky ? Algorithm::eltwise_relu : Algorithm::eltwise_elu, *alpha);
  }

  const FusedProgram& program_;
  std::vector<bool> reads_product_;  // by instruction
  std::vector<PostOp> chain_;
};

// An operand's dims at the result's rank; nullopt: neither whole, nor for each channel, nor one.
std::optional<DnnlDims> OperandDims(const Shape& operand, const Shape& result) {
  DnnlDims dims(result.rank(), 1);
  if (NumElements(operand) == 1) return dims;
  if (operand.rank() > result.rank()) return std::nullopt;
  for (int d = 0; d < operand.rank(); ++d) dims[result.rank() - operand.rank() + d] = operand[d];
  const DnnlDims whole(result.begin(), result.end());
  DnnlDims channels(result.rank(), 1);
  if (result.rank() > 1) channels[1] = result[1];
  if (dims == whole || dims == channels) return dims;
  return std::nullopt;
}

}  // namespace

std::optional<EpiloguePlan> PlanEpilogue(const FusedProduct& product) {
  EpiloguePlan plan;
  std::optional<std::vector<PostOp>> post_ops = EpilogueReader(product.epilogue).Run();
  if (!post_ops.has_value()) return std::nullopt;
  plan.post_ops = *std::move(post_ops);
  for (const TensorType& operand : product.operands) {
    if (operand.dtype != DType::kF32) return std::nullopt;
    std::optional<DnnlDims> dims = OperandDims(operand.shape, product.plain.outputs[0]->shape);
    if (!dims.has_value()) return std::nullopt;
    plan.operand_dims.push_back(*std::move(dims));
  }
  return plan;
}

dnnl::primitive_attr AttrFor(const EpiloguePlan& plan, const DnnlDims& dst,
                             dnnl::memory::desc (*whole)(const DnnlDims& dims)) {
  dnnl::post_ops ops;
  for (const PostOp& op : plan.post_ops) {
    if (op.operand < 0) {
      ops.append_eltwise(1, op.algorithm, op.alpha, op.beta);
    } else {
      const DnnlDims& dims = plan.operand_dims[op.operand];
      ops.append_binary(op.algorithm, plan.IsWhole(dst, op.operand) ? whole(dims) : PlainDesc(dims));
    }
  }
  dnnl::primitive_attr attr = UserScratchpad();
  attr.set_post_ops(ops);
  return attr;
}

}  // namespace millrace
