// GRU, with gates z (update), r (reset) and n (hidden), stored in this order:
//   z = f(Wz x + Rz h + Wbz + Rbz),  r likewise,
//   n = g(Wn x + Wbn + Rn (r * h) + Rbn), or with linear_before_reset g(Wn x + Wbn + r * (Rn h +
//   Rbn)), h' = (1 - z) * n + z * h.
#include "ops/recurrent.h"

namespace millrace {
namespace {

using Doubles = std::vector<double>;

// The parts of W, R and of gates that belong to one gate, or two.
std::span<const double> Part(const Doubles& all, int gate, int count = 1) {
  const size_t size = all.size() / 3;
  return std::span(all).subspan(static_cast<size_t>(gate) * size,
                                static_cast<size_t>(count) * size);
}
std::span<double> Part(Doubles& all, int gate, int count = 1) {
  const size_t size = all.size() / 3;
  return std::span(all).subspan(static_cast<size_t>(gate) * size,
                                static_cast<size_t>(count) * size);
}

struct Gates {
  Doubles before;  // what the activations are given: z, r, n
  Doubles z, r, n;
  Doubles reset;   // what Rn multiplies: r * h, or h
  Doubles linear;  // Rn reset + Rbn
};

Gates GatesOf(const CellWeights& m, const CellFunctions& f, const double* x, const Doubles& h) {
  const size_t hidden = h.size();
  Gates g;
  g.before = m.wb;
  AddProduct(m.w, {x, static_cast<size_t>(m.inputs)}, g.before);
  for (size_t i = 0; i < 2 * hidden; ++i) g.before[i] += m.rb[i];
  AddProduct(Part(m.r, 0, 2), h, Part(g.before, 0, 2));
  for (size_t i = 0; i < hidden; ++i) {
    g.z.push_back(f.Apply(0, g.before[i]));
    g.r.push_back(f.Apply(0, g.before[hidden + i]));
    g.reset.push_back(f.flag ? h[i] : g.r[i] * h[i]);
    g.linear.push_back(m.rb[2 * hidden + i]);
  }
  AddProduct(Part(m.r, 2), g.reset, g.linear);
  for (size_t i = 0; i < hidden; ++i) {
    g.before[2 * hidden + i] += f.flag ? g.r[i] * g.linear[i] : g.linear[i];
    g.n.push_back(f.Apply(1, g.before[2 * hidden + i]));
  }
  return g;
}

CellState Step(const CellWeights& m, const CellFunctions& f, const double* x,
               const CellState& before) {
  const Gates g = GatesOf(m, f, x, before.h);
  CellState state;
  for (size_t i = 0; i < g.z.size(); ++i) {
    state.h.push_back((1 - g.z[i]) * g.n[i] + g.z[i] * before.h[i]);
  }
  return state;
}

void StepBack(const CellWeights& m, const CellFunctions& f, const double* x,
              const CellState& before, CellState& d, CellWeights& grads, double* dx) {
  const Gates g = GatesOf(m, f, x, before.h);
  const size_t hidden = g.z.size();
  Doubles da(3 * hidden), d_linear(hidden), d_reset(hidden), dr(hidden), dh(hidden);
  for (size_t i = 0; i < hidden; ++i) {
    const double dn = d.h[i] * (1 - g.z[i]) * f.Slope(1, g.before[2 * hidden + i]);
    da[i] = d.h[i] * (before.h[i] - g.n[i]) * f.Slope(0, g.before[i]);
    da[2 * hidden + i] = dn;
    d_linear[i] = f.flag ? dn * g.r[i] : dn;
    dr[i] = f.flag ? dn * g.linear[i] : 0;
    dh[i] = d.h[i] * g.z[i];
  }
  AddTransposedProduct(Part(m.r, 2), d_linear, d_reset);
  for (size_t i = 0; i < hidden; ++i) {
    if (!f.flag) dr[i] = d_reset[i] * before.h[i];
    dh[i] += f.flag ? d_reset[i] : d_reset[i] * g.r[i];
    da[hidden + i] = dr[i] * f.Slope(0, g.before[hidden + i]);
  }
  AddTransposedProduct(Part(m.r, 0, 2), Part(da, 0, 2), dh);
  const std::span<const double> in(x, static_cast<size_t>(m.inputs));
  AddTransposedProduct(m.w, da, {dx, in.size()});
  AddOuterProduct(da, in, grads.w);
  AddOuterProduct(Part(da, 0, 2), before.h, Part(grads.r, 0, 2));
  AddOuterProduct(d_linear, g.reset, Part(grads.r, 2));
  for (size_t i = 0; i < 3 * hidden; ++i) {
    grads.wb[i] += da[i];
    grads.rb[i] += i < 2 * hidden ? da[i] : d_linear[i - 2 * hidden];
  }
  d.h = std::move(dh);
}

constexpr RecurrentLayer kGru = {GruKind,
                                 {Step, StepBack},
                                 "linear_before_reset",
                                 "the reset gate scales R h + Rb of the hidden gate, not h"};

}  // namespace

OpDef GRUOp() { return RecurrentOp<kGru>("A recurrent layer of update, reset and hidden gates"); }

OpDef GradGRUOp() { return RecurrentGradOp<kGru>(); }

}  // namespace millrace
