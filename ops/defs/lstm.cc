// LSTM, with gates i (input), o (output), f (forget) and g (cell), stored in this order:
//   i = f(Wi x + Ri h + Wbi + Rbi + Pi * c),  f likewise (1 - i with input_forget),
//   g = g(Wg x + Rg h + Wbg + Rbg),  c' = f * c + i * g,
//   o = f(Wo x + Ro h + Wbo + Rbo + Po * c'),  h' = o * h(c')
// where f, g, h on the right are the activations.
#include "ops/recurrent.h"

namespace millrace {
namespace {

using Doubles = std::vector<double>;

struct Gates {
  Doubles before;  // what the activations are given: i, o, f, g
  Doubles i, o, f, g, c;
};

Gates GatesOf(const CellWeights& m, const CellFunctions& fn, const double* x,
              const CellState& state) {
  const size_t n = state.h.size();
  Gates gates;
  Doubles& a = gates.before = m.wb;
  for (size_t k = 0; k < a.size(); ++k) a[k] += m.rb[k];
  AddProduct(m.w, {x, static_cast<size_t>(m.inputs)}, a);
  AddProduct(m.r, state.h, a);
  for (size_t k = 0; k < n; ++k) {
    a[k] += m.p[k] * state.c[k];
    a[2 * n + k] += m.p[2 * n + k] * state.c[k];
    gates.i.push_back(fn.Apply(0, a[k]));
    gates.f.push_back(fn.flag ? 1 - gates.i[k] : fn.Apply(0, a[2 * n + k]));
    gates.g.push_back(fn.Apply(1, a[3 * n + k]));
    gates.c.push_back(gates.f[k] * state.c[k] + gates.i[k] * gates.g[k]);
    a[n + k] += m.p[n + k] * gates.c[k];
    gates.o.push_back(fn.Apply(0, a[n + k]));
  }
  return gates;
}

CellState Step(const CellWeights& m, const CellFunctions& fn, const double* x,
               const CellState& before) {
  Gates gates = GatesOf(m, fn, x, before);
  CellState state;
  for (size_t k = 0; k < gates.c.size(); ++k) {
    state.h.push_back(gates.o[k] * fn.Apply(2, gates.c[k]));
  }
  state.c = std::move(gates.c);
  return state;
}

// Gradients of what the activations are given, in the order of the gates; d.c becomes that of the
// cell state before the step.
Doubles GateGradients(const CellWeights& m, const CellFunctions& fn, const Gates& gates,
                      const Doubles& c_before, CellState& d) {
  const size_t n = gates.c.size();
  const Doubles& a = gates.before;
  Doubles da(4 * n);
  for (size_t k = 0; k < n; ++k) {
    da[n + k] = d.h[k] * fn.Apply(2, gates.c[k]) * fn.Slope(0, a[n + k]);
    const double dc =
        d.c[k] + d.h[k] * gates.o[k] * fn.Slope(2, gates.c[k]) + da[n + k] * m.p[n + k];
    const double di = dc * (fn.flag ? gates.g[k] - c_before[k] : gates.g[k]);
    da[k] = di * fn.Slope(0, a[k]);
    da[2 * n + k] = fn.flag ? 0 : dc * c_before[k] * fn.Slope(0, a[2 * n + k]);
    da[3 * n + k] = dc * gates.i[k] * fn.Slope(1, a[3 * n + k]);
    d.c[k] = dc * gates.f[k] + da[k] * m.p[k] + da[2 * n + k] * m.p[2 * n + k];
  }
  return da;
}

void StepBack(const CellWeights& m, const CellFunctions& fn, const double* x,
              const CellState& before, CellState& d, CellWeights& grads, double* dx) {
  const Gates gates = GatesOf(m, fn, x, before);
  const Doubles da = GateGradients(m, fn, gates, before.c, d);
  const size_t n = gates.c.size();
  const std::span<const double> in(x, static_cast<size_t>(m.inputs));
  AddOuterProduct(da, in, grads.w);
  AddOuterProduct(da, before.h, grads.r);
  for (size_t k = 0; k < 4 * n; ++k) {
    grads.wb[k] += da[k];
    grads.rb[k] += da[k];
  }
  for (size_t k = 0; k < n; ++k) {
    grads.p[k] += da[k] * before.c[k];
    grads.p[n + k] += da[n + k] * gates.c[k];
    grads.p[2 * n + k] += da[2 * n + k] * before.c[k];
  }
  AddTransposedProduct(m.w, da, {dx, in.size()});
  std::fill(d.h.begin(), d.h.end(), 0);
  AddTransposedProduct(m.r, da, d.h);
}

constexpr RecurrentLayer kLstm = {
    LstmKind, {Step, StepBack}, "input_forget", "the forget gate is 1 - the input gate"};

}  // namespace

OpDef LSTMOp() {
  return RecurrentOp<kLstm>("A recurrent layer of input, output and forget gates and a cell");
}

OpDef GradLSTMOp() { return RecurrentGradOp<kLstm>(); }

}  // namespace millrace
