// The walk over directions, rows of the batch and steps, all in f64. A row runs its own number of
// steps; in a reversed direction it begins at its last one. Y is zero beyond them.
#include <algorithm>

#include "graph/strings.h"
#include "ops/doubles.h"
#include "ops/recurrent.h"

namespace millrace {
namespace {

using Doubles = std::vector<double>;

// Elements as f64; `size` zeros for an operand that is not there.
Doubles Load(const ReferenceContext& c, int i, int64_t size) {
  const Tensor* tensor = OptionalOperand(c, static_cast<size_t>(i));
  return tensor == nullptr || size == 0 ? Doubles(size) : ToDoubles(*tensor);
}

Doubles Slice(const Doubles& from, int64_t index, int64_t size) {
  return Doubles(from.begin() + index * size, from.begin() + (index + 1) * size);
}

void Put(const Doubles& values, Doubles& to, int64_t at) {
  std::copy(values.begin(), values.end(), to.begin() + at);
}

// Rows do something: they have data, or a state that someone wants. If not, there may be any number
// of them.
bool HasRows(const Recurrent& r, const ReferenceContext& c) {
  if (c.inputs[kX].num_elements() > 0) return true;
  return std::any_of(c.outputs.begin(), c.outputs.end(), [&](const Tensor& t) {
    return t.has_data() && t.shape() == r.StateShape() && t.num_elements() > 0;
  });
}

// A node at hand: operands as f64, and how many steps each row runs.
struct Walk {
  Recurrent r;
  int64_t rows = 0;  // of W and R, gates * hidden
  bool has_cell = false, flag = false;
  Doubles x, w, recurrent, b, p, h0, c0;
  std::vector<int64_t> lengths;

  CellWeights WeightsOf(int64_t direction) const {
    const Doubles both = Slice(b, direction, 2 * rows);
    return {r.inputs,
            r.hidden,
            Slice(w, direction, rows * r.inputs),
            Slice(recurrent, direction, rows * r.hidden),
            Slice(both, 0, rows),
            Slice(both, 1, rows),
            has_cell ? Slice(p, direction, 3 * r.hidden) : Doubles()};
  }
  CellFunctions FunctionsOf(int64_t direction) const {
    const size_t count = r.activations.size() / static_cast<size_t>(r.directions);
    return {std::span(r.activations).subspan(static_cast<size_t>(direction) * count, count), r.clip,
            flag};
  }
  CellState InitialState(int64_t direction, int64_t row) const {
    const int64_t index = r.StateAt(direction, row) / std::max<int64_t>(1, r.hidden);
    return {Slice(h0, index, r.hidden), has_cell ? Slice(c0, index, r.hidden) : Doubles()};
  }
  // The step of X that a row sees as its k-th.
  int64_t StepOf(int64_t direction, int64_t row, int64_t k) const {
    return r.IsReversed(direction) ? lengths[row] - 1 - k : k;
  }
};

absl::StatusOr<Walk> LoadWalk(const RecurrentLayer& layer, const ReferenceContext& c) {
  const RecurrentKind& kind = layer.kind();
  Walk walk;
  MILLRACE_ASSIGN_OR_RETURN(walk.r,
                            RecurrentOf(kind, c.attrs, c.inputs[kX].shape(), c.inputs[kR].shape()));
  if (!HasRows(walk.r, c)) walk.r.batch = 0;
  const Recurrent& r = walk.r;
  walk.rows = kind.gates * r.hidden;
  walk.has_cell = kind.has_cell;
  walk.flag = !layer.flag.empty() && c.attrs.Bool(layer.flag, false);
  const int64_t states = NumElements(r.StateShape());
  walk.x = Load(c, kX, c.inputs[kX].num_elements());
  walk.w = Load(c, kW, c.inputs[kW].num_elements());
  walk.recurrent = Load(c, kR, c.inputs[kR].num_elements());
  walk.b = Load(c, kB, r.directions * 2 * walk.rows);
  walk.h0 = Load(c, kInitialH, states);
  if (kind.has_cell) {
    walk.c0 = Load(c, kInitialC, states);
    walk.p = Load(c, kP, r.directions * 3 * r.hidden);
  }
  const Tensor* lengths = OptionalOperand(c, kSequenceLens);
  for (int64_t row = 0; row < r.batch; ++row) {
    const int64_t length = lengths == nullptr ? r.steps : lengths->AsInt64(row);
    if (length < 0 || length > r.steps) {
      return BadInputError(StrCat(kind.name, ": sequence_lens[", row, "] is ", length,
                                  ", allowed are 0 to ", r.steps));
    }
    walk.lengths.push_back(length);
  }
  return walk;
}

// The states before each step of one row, and after the last.
std::vector<CellState> StatesOf(const Walk& walk, const Cell& cell, const CellWeights& weights,
                                int64_t direction, int64_t row) {
  std::vector<CellState> states = {walk.InitialState(direction, row)};
  for (int64_t k = 0; k < walk.lengths[row]; ++k) {
    const double* x = walk.x.data() + walk.r.XAt(walk.StepOf(direction, row, k), row);
    states.push_back(cell.forward(weights, walk.FunctionsOf(direction), x, states.back()));
  }
  return states;
}

// Adds one direction's gradients to those of all.
void Collect(const CellWeights& grads, int64_t direction, Doubles& w, Doubles& r, Doubles& b,
             Doubles& p) {
  const auto size = static_cast<int64_t>(grads.wb.size());
  Put(grads.w, w, direction * static_cast<int64_t>(grads.w.size()));
  Put(grads.r, r, direction * static_cast<int64_t>(grads.r.size()));
  Put(grads.wb, b, direction * 2 * size);
  Put(grads.rb, b, (direction * 2 + 1) * size);
  Put(grads.p, p, direction * static_cast<int64_t>(grads.p.size()));
}

}  // namespace

absl::Status RunRecurrent(const RecurrentLayer& layer, const ReferenceContext& c) {
  const RecurrentKind& kind = layer.kind();
  MILLRACE_ASSIGN_OR_RETURN(const Walk walk, LoadWalk(layer, c));
  const Recurrent& r = walk.r;
  Doubles y(NumElements(r.YShape())), h(walk.h0.size()), last_c(walk.c0.size());
  for (int64_t d = 0; d < r.directions; ++d) {
    const CellWeights weights = walk.WeightsOf(d);
    for (int64_t row = 0; row < r.batch; ++row) {
      const std::vector<CellState> states = StatesOf(walk, layer.cell, weights, d, row);
      for (int64_t k = 0; k < walk.lengths[row]; ++k) {
        Put(states[k + 1].h, y, r.YAt(walk.StepOf(d, row, k), d, row));
      }
      Put(states.back().h, h, r.StateAt(d, row));
      if (kind.has_cell) Put(states.back().c, last_c, r.StateAt(d, row));
    }
  }
  MILLRACE_RETURN_IF_ERROR(StoreDoubles(y, c, 0));
  MILLRACE_RETURN_IF_ERROR(StoreDoubles(h, c, 1));
  return kind.has_cell ? StoreDoubles(last_c, c, 2) : absl::OkStatus();
}

absl::Status RunRecurrentGrad(const RecurrentLayer& layer, const ReferenceContext& c) {
  const RecurrentKind& kind = layer.kind();
  MILLRACE_ASSIGN_OR_RETURN(const Walk walk, LoadWalk(layer, c));
  const Recurrent& r = walk.r;
  const int first = kind.num_inputs();
  const auto states = static_cast<int64_t>(walk.h0.size());
  const Doubles dy = Load(c, first, NumElements(r.YShape()));
  const Doubles dy_h = Load(c, first + 1, states);
  const Doubles dy_c = kind.has_cell ? Load(c, first + 2, states) : Doubles();
  Doubles dx(walk.x.size()), dw(walk.w.size()), dr(walk.recurrent.size()), db(walk.b.size());
  Doubles dp(walk.p.size()), dh0(walk.h0.size()), dc0(walk.c0.size());

  for (int64_t d = 0; d < r.directions; ++d) {
    const CellWeights weights = walk.WeightsOf(d);
    CellWeights grads = weights;
    for (Doubles* values : {&grads.w, &grads.r, &grads.wb, &grads.rb, &grads.p}) {
      std::fill(values->begin(), values->end(), 0);
    }
    for (int64_t row = 0; row < r.batch; ++row) {
      const std::vector<CellState> before = StatesOf(walk, layer.cell, weights, d, row);
      const int64_t at = r.StateAt(d, row), index = at / std::max<int64_t>(1, r.hidden);
      CellState flow = {Slice(dy_h, index, r.hidden),
                        kind.has_cell ? Slice(dy_c, index, r.hidden) : Doubles()};
      for (int64_t k = walk.lengths[row] - 1; k >= 0; --k) {
        const int64_t step = walk.StepOf(d, row, k), x_at = r.XAt(step, row);
        for (int64_t i = 0; i < r.hidden; ++i) flow.h[i] += dy[r.YAt(step, d, row) + i];
        layer.cell.backward(weights, walk.FunctionsOf(d), walk.x.data() + x_at, before[k], flow,
                            grads, dx.data() + x_at);
      }
      Put(flow.h, dh0, at);
      if (kind.has_cell) Put(flow.c, dc0, at);
    }
    Collect(grads, d, dw, dr, db, dp);
  }
  const Doubles* results[] = {&dx, &dw, &dr, &db, &dh0, &dc0, &dp};
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(StoreDoubles(*results[i], c, i));
  }
  return absl::OkStatus();
}

void AddProduct(std::span<const double> m, std::span<const double> v, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t j = 0; j < v.size(); ++j) out[i] += m[i * v.size() + j] * v[j];
  }
}

void AddTransposedProduct(std::span<const double> m, std::span<const double> v,
                          std::span<double> out) {
  for (size_t i = 0; i < v.size(); ++i) {
    for (size_t j = 0; j < out.size(); ++j) out[j] += m[i * out.size() + j] * v[i];
  }
}

void AddOuterProduct(std::span<const double> a, std::span<const double> b, std::span<double> m) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) m[i * b.size() + j] += a[i] * b[j];
  }
}

}  // namespace millrace
