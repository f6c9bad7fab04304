// RNN: h' = f(W x + R h + Wb + Rb).
#include "ops/recurrent.h"

namespace millrace {
namespace {

std::vector<double> Before(const CellWeights& m, const double* x, const std::vector<double>& h) {
  std::vector<double> a(m.wb);
  for (size_t i = 0; i < a.size(); ++i) a[i] += m.rb[i];
  AddProduct(m.w, {x, static_cast<size_t>(m.inputs)}, a);
  AddProduct(m.r, h, a);
  return a;
}

CellState Step(const CellWeights& m, const CellFunctions& f, const double* x,
               const CellState& before) {
  CellState state = {Before(m, x, before.h), {}};
  for (double& h : state.h) h = f.Apply(0, h);
  return state;
}

void StepBack(const CellWeights& m, const CellFunctions& f, const double* x,
              const CellState& before, CellState& d, CellWeights& grads, double* dx) {
  std::vector<double> da = Before(m, x, before.h);
  for (size_t i = 0; i < da.size(); ++i) da[i] = d.h[i] * f.Slope(0, da[i]);
  const std::span<const double> in(x, static_cast<size_t>(m.inputs));
  AddOuterProduct(da, in, grads.w);
  AddOuterProduct(da, before.h, grads.r);
  for (size_t i = 0; i < da.size(); ++i) {
    grads.wb[i] += da[i];
    grads.rb[i] += da[i];
  }
  AddTransposedProduct(m.w, da, {dx, in.size()});
  std::fill(d.h.begin(), d.h.end(), 0);
  AddTransposedProduct(m.r, da, d.h);
}

absl::Status Infer(InferContext& c) { return InferRecurrent(RnnKind(), c); }
absl::Status InferGrad(InferContext& c) { return InferRecurrentGrad(RnnKind(), c); }
absl::Status Reference(const ReferenceContext& c) {
  return RunRecurrent(RnnKind(), {Step, StepBack}, "", c);
}
absl::Status GradReference(const ReferenceContext& c) {
  return RunRecurrentGrad(RnnKind(), {Step, StepBack}, "", c);
}
absl::Status Gradient(GradientContext& c) { return RecurrentGradient(RnnKind(), c); }
std::vector<ShardingRule> Rules(const NodeQuery& query) { return RecurrentRules(RnnKind(), query); }

}  // namespace

OpDef RNNOp() {
  OpDef op = RecurrentOp(RnnKind(), "A recurrent layer of one gate");
  op.infer = Infer;
  op.reference = Reference;
  op.gradient = Gradient;
  op.sharding = Rules;
  op.work = RecurrentWork;
  return op;
}

// Not differentiable itself.
OpDef GradRNNOp() {
  OpDef op = RecurrentGradOp(RnnKind());
  op.infer = InferGrad;
  op.reference = GradReference;
  op.sharding = Rules;
  op.work = RecurrentWork;
  return op;
}

}  // namespace millrace
