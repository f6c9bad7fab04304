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

constexpr RecurrentLayer kRnn = {RnnKind, {Step, StepBack}};

}  // namespace

OpDef RNNOp() { return RecurrentOp<kRnn>("A recurrent layer of one gate"); }

OpDef GradRNNOp() { return RecurrentGradOp<kRnn>(); }

}  // namespace millrace
