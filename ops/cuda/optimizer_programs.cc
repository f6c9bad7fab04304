// Optimizers: the formulas of ops/defs/optim_*.cc, in f32 (f64 for f64 params). Learning rate and
// step are read from memory.
#include <cmath>

#include "ops/cuda/node_programs.h"
#include "ops/optimizer.h"
#include "ops/scalar_program.h"

namespace millrace {
namespace {

struct Result {
  size_t output = 0;
  ScalarTerm value;
};

// Loads operands of an optimizer as they are computed with, and writes its results.
class OptimizerWriter {
 public:
  explicit OptimizerWriter(const NodeQuery& query)
      : query_(query), type_(*query.inputs[kParam]), step_(steps_.steps.emplace_back()) {
    step_.program = ProgramOver(type_.shape);
  }

  ScalarTerm In(size_t i) {
    if (i >= query_.inputs.size() || !query_.inputs[i].has_value()) {
      return Number(0);  // a state that is omitted
    }
    step_.operands.push_back(InputParam(query_, i));
    const DType wide = type_.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    return CastTo(LoadOperand(step_.program, *query_.inputs[i], type_.shape), wide);
  }
  ScalarTerm Number(double value) {
    const DType wide = type_.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    return ScalarConstant({&step_.program, -1, wide}, value);
  }
  double Attr(std::string_view name, double otherwise) const {
    return query_.attrs.Float(name, otherwise);
  }
  void Out(size_t k, const ScalarTerm& value) {
    if (k >= query_.outputs.size() || !query_.outputs[k].has_value()) return;
    StoreOutput(step_.program, CastTo(value, type_.dtype));
    step_.outputs.push_back(OutputParam(query_, k));
  }
  ProgramSteps Take() { return std::move(steps_); }

 private:
  const NodeQuery& query_;
  const TensorType& type_;
  ProgramSteps steps_;
  ProgramStep& step_;
};

void WriteSgd(const NodeQuery& query, OptimizerWriter& w) {
  const ScalarTerm param = w.In(kParam), rate = w.In(kLearningRate);
  const ScalarTerm g = w.In(kGrad) + w.Attr("weight_decay", 0) * param;
  const double momentum = w.Attr("momentum", 0);
  const ScalarTerm velocity = momentum == 0 ? g : momentum * w.In(3) + g;
  const bool nesterov = query.attrs.Bool("nesterov", false);
  w.Out(0, param - rate * (nesterov ? g + momentum * velocity : velocity));
  w.Out(1, velocity);
}

void WriteAdagrad(const NodeQuery&, OptimizerWriter& w) {
  const ScalarTerm param = w.In(kParam), rate = w.In(kLearningRate);
  const ScalarTerm g = w.In(kGrad) + w.Attr("weight_decay", 0) * param;
  const ScalarTerm sum = w.In(3) + g * g;
  const ScalarTerm root = ScalarUnary(ScalarOp::kSqrt, sum);
  w.Out(0, param - rate * g / (root + w.Attr("epsilon", 1e-10)));
  w.Out(1, sum);
}

void WriteRmsProp(const NodeQuery& query, OptimizerWriter& w) {
  const ScalarTerm param = w.In(kParam), rate = w.In(kLearningRate);
  const ScalarTerm g = w.In(kGrad) + w.Attr("weight_decay", 0) * param;
  const double alpha = w.Attr("alpha", 0.99);
  const ScalarTerm squares = alpha * w.In(3) + (1 - alpha) * (g * g);
  ScalarTerm variance = squares, mean = w.Number(0);
  if (query.attrs.Bool("centered", false)) {
    mean = alpha * w.In(5) + (1 - alpha) * g;
    variance = ScalarBinary(ScalarOp::kMax, w.Number(0), squares - mean * mean);
  }
  const ScalarTerm root = ScalarUnary(ScalarOp::kSqrt, variance) + w.Attr("epsilon", 1e-8);
  const ScalarTerm velocity = w.Attr("momentum", 0) * w.In(4) + g / root;
  w.Out(0, param - rate * velocity);
  w.Out(1, squares);
  w.Out(2, velocity);
  w.Out(3, mean);
}

void WriteAdam(const NodeQuery& query, OptimizerWriter& w) {
  constexpr size_t kM = 4, kV = 5;
  ScalarTerm param = w.In(kParam);
  const ScalarTerm rate = w.In(kLearningRate), grad = w.In(kGrad);
  const ScalarTerm t = w.In(kStep) + 1;
  const double beta1 = w.Attr("beta1", 0.9), beta2 = w.Attr("beta2", 0.999);
  const double decay = w.Attr("weight_decay", 0);
  const bool decoupled = query.op == "optim.AdamW";
  const ScalarTerm g = decoupled ? grad : grad + decay * param;
  if (decoupled) param = param - rate * (decay * param);
  const ScalarTerm m = beta1 * w.In(kM) + (1 - beta1) * g;
  const ScalarTerm v = beta2 * w.In(kV) + (1 - beta2) * (g * g);
  // 1 - beta^t without the cancellation that beta^t near 1 has in f32.
  const auto bias = [&](double beta) {
    return w.Number(0) - ScalarUnary(ScalarOp::kExpm1, std::log(beta) * t);
  };
  const ScalarTerm root = ScalarUnary(ScalarOp::kSqrt, v / bias(beta2));
  w.Out(0, param - rate * (m / bias(beta1)) / (root + w.Attr("epsilon", 1e-8)));
  w.Out(1, m);
  w.Out(2, v);
}

}  // namespace

std::optional<ProgramSteps> OptimizerSteps(const NodeQuery& query) {
  if (!query.op.starts_with("optim.")) return std::nullopt;
  OptimizerWriter writer(query);
  if (query.op == "optim.SGD") {
    WriteSgd(query, writer);
  } else if (query.op == "optim.Adagrad") {
    WriteAdagrad(query, writer);
  } else if (query.op == "optim.RMSProp") {
    WriteRmsProp(query, writer);
  } else if (query.op == "optim.Adam" || query.op == "optim.AdamW") {
    WriteAdam(query, writer);
  } else {
    return std::nullopt;
  }
  ProgramSteps steps = writer.Take();
  if (steps.steps[0].outputs.empty()) return std::nullopt;
  return steps;
}

}  // namespace millrace
