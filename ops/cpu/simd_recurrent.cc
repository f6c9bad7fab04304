// Steps of recurrent cells, a vector of hidden units at a time; formulas: ops/defs/lstm.cc, gru.cc,
// rnn.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_recurrent.cc"
#include <algorithm>

#include "ops/cpu/recurrent_cells.h"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The rows of a step, as pointers that move from one to the next.
struct CellRow {
  float *gates, *h, *c, *y, *linear, *h_before, *c_before;

  CellRow(const CellStep& s, int64_t row)
      : gates(s.gates + row * s.gates_stride),
        h(s.h + row * s.hidden),
        c(Or(s.c, row * s.hidden)),
        y(Or(s.y, row * s.y_stride)),
        linear(Or(s.linear, row * s.hidden)),
        h_before(Or(s.h_before, row * s.before_stride)),
        c_before(Or(s.c_before, row * s.before_stride)) {}
  static float* Or(float* base, int64_t offset) { return base == nullptr ? base : base + offset; }
};

HWY_INLINE bool Skips(const CellStep& s, int64_t row) {
  return s.lengths != nullptr && s.lengths[row] <= s.step;
}

HWY_INLINE void StoreZeros(float* p, int64_t count) {
  if (p != nullptr) std::fill(p, p + count, 0.0f);
}

// A row without this step. What it keeps for the way back is not read there, but multiplied by 0.
HWY_INLINE void SkipRow(const CellStep& s, const CellRow& row) {
  StoreZeros(row.y, s.hidden);
  StoreZeros(row.h_before, s.hidden);
  StoreZeros(row.c_before, s.hidden);
}

// --- RNN ---------------------------------------------------------------------------------------

void RnnCells(const CellStep& s, int64_t begin, int64_t end) {
  const D d;
  for (int64_t r = begin; r < end; ++r) {
    const CellRow row(s, r);
    if (Skips(s, r)) {
      SkipRow(s, row);
      continue;
    }
    ForEachSpan(s.hidden, [&](int64_t i, Span span) HWY_ATTR {
      const V h = Tanh(d, hn::Add(span.Load(row.gates + i), span.Load(s.bias + i)));
      span.Store(h, row.h + i);
      if (row.y != nullptr) span.Store(h, row.y + i);
    });
  }
}

// --- LSTM --------------------------------------------------------------------------------------

HWY_INLINE void LstmUnits(const CellStep& s, const CellRow& row, int64_t i, Span span) {
  const D d;
  const int64_t n = s.hidden;
  const auto gate = [&](int64_t k) HWY_ATTR {
    return hn::Add(span.Load(row.gates + k * n + i), span.Load(s.bias + k * n + i));
  };
  const auto peep = [&](V a, int64_t k, V c) HWY_ATTR {
    return s.peepholes == nullptr ? a : hn::MulAdd(span.Load(s.peepholes + k * n + i), c, a);
  };
  const V before = span.Load(row.c + i);
  const V in = Sigmoid(d, peep(gate(0), 0, before));
  const V forget = Sigmoid(d, peep(gate(2), 2, before));
  const V cell = Tanh(d, gate(3));
  const V c = hn::MulAdd(forget, before, hn::Mul(in, cell));
  const V out = Sigmoid(d, peep(gate(1), 1, c));
  const V h = hn::Mul(out, Tanh(d, c));
  if (row.h_before != nullptr) {
    span.Store(span.Load(row.h + i), row.h_before + i);
    span.Store(before, row.c_before + i);
    span.Store(in, row.gates + i);
    span.Store(out, row.gates + n + i);
    span.Store(forget, row.gates + 2 * n + i);
    span.Store(cell, row.gates + 3 * n + i);
  }
  span.Store(c, row.c + i);
  span.Store(h, row.h + i);
  if (row.y != nullptr) span.Store(h, row.y + i);
}

void LstmCells(const CellStep& s, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const CellRow row(s, r);
    if (Skips(s, r)) {
      SkipRow(s, row);
    } else {
      ForEachSpan(s.hidden, [&](int64_t i, Span span) HWY_ATTR { LstmUnits(s, row, i, span); });
    }
  }
}

HWY_INLINE void LstmUnitsBack(const CellStep& s, const CellRow& row, int64_t i, Span span) {
  const D d;
  const int64_t n = s.hidden;
  const V one = hn::Set(d, 1.0f);
  // x (1 - x): the slope of a sigmoid; 1 - x^2: of a tanh.
  const auto slope = [&](V x) HWY_ATTR { return hn::NegMulAdd(x, x, x); };
  const auto tanh_slope = [&](V x) HWY_ATTR { return hn::NegMulAdd(x, x, one); };
  const V in = span.Load(row.gates + i), out = span.Load(row.gates + n + i);
  const V forget = span.Load(row.gates + 2 * n + i), cell = span.Load(row.gates + 3 * n + i);
  const V before = span.Load(row.c_before + i);
  const V squashed = Tanh(d, hn::MulAdd(forget, before, hn::Mul(in, cell)));
  V dh = span.Load(row.h + i);
  if (row.y != nullptr) dh = hn::Add(dh, span.Load(row.y + i));
  const V dc = hn::MulAdd(hn::Mul(dh, out), tanh_slope(squashed), span.Load(row.c + i));
  span.Store(hn::Mul(hn::Mul(dc, cell), slope(in)), row.gates + i);
  span.Store(hn::Mul(hn::Mul(dh, squashed), slope(out)), row.gates + n + i);
  span.Store(hn::Mul(hn::Mul(dc, before), slope(forget)), row.gates + 2 * n + i);
  span.Store(hn::Mul(hn::Mul(dc, in), tanh_slope(cell)), row.gates + 3 * n + i);
  span.Store(hn::Mul(dc, forget), row.c + i);
  span.Store(hn::Zero(d), row.h + i);
}

void LstmCellsBack(const CellStep& s, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const CellRow row(s, r);
    if (Skips(s, r)) {
      StoreZeros(row.gates, 4 * s.hidden);
    } else {
      ForEachSpan(s.hidden, [&](int64_t i, Span span) HWY_ATTR { LstmUnitsBack(s, row, i, span); });
    }
  }
}

// --- GRU ---------------------------------------------------------------------------------------

// Activates gate k of a row.
HWY_INLINE V GruGate(const CellStep& s, const CellRow& row, int64_t k, int64_t i, Span span) {
  const int64_t at = k * s.hidden + i;
  return Sigmoid(D(), hn::Add(span.Load(row.gates + at), span.Load(s.bias + at)));
}

// h' = n + z (h - n)
HWY_INLINE void GruStore(const CellRow& row, V z, V n, int64_t i, Span span) {
  const V h = hn::MulAdd(z, hn::Sub(span.Load(row.h + i), n), n);
  span.Store(h, row.h + i);
  if (row.y != nullptr) span.Store(h, row.y + i);
}

void GruReset(const CellStep& s, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const CellRow row(s, r);
    ForEachSpan(s.hidden, [&](int64_t i, Span span) HWY_ATTR {
      span.Store(GruGate(s, row, 0, i, span), row.gates + i);
      const V reset = GruGate(s, row, 1, i, span);
      span.Store(hn::Mul(reset, span.Load(row.h + i)), row.linear + i);
    });
  }
}

void GruUpdate(const CellStep& s, int64_t begin, int64_t end) {
  const D d;
  for (int64_t r = begin; r < end; ++r) {
    const CellRow row(s, r);
    if (Skips(s, r)) {
      SkipRow(s, row);
      continue;
    }
    ForEachSpan(s.hidden, [&](int64_t i, Span span) HWY_ATTR {
      const int64_t at = 2 * s.hidden + i;
      const V n = Tanh(d, hn::Add(span.Load(row.gates + at), span.Load(s.bias + at)));
      GruStore(row, span.Load(row.gates + i), n, i, span);
    });
  }
}

void GruLinear(const CellStep& s, int64_t begin, int64_t end) {
  const D d;
  for (int64_t r = begin; r < end; ++r) {
    const CellRow row(s, r);
    if (Skips(s, r)) {
      SkipRow(s, row);
      continue;
    }
    ForEachSpan(s.hidden, [&](int64_t i, Span span) HWY_ATTR {
      const int64_t at = 2 * s.hidden + i;
      const V z = GruGate(s, row, 0, i, span), reset = GruGate(s, row, 1, i, span);
      const V linear = hn::Add(span.Load(row.linear + i), span.Load(s.linear_bias + i));
      const V own = hn::Add(span.Load(row.gates + at), span.Load(s.bias + at));
      GruStore(row, z, Tanh(d, hn::MulAdd(reset, linear, own)), i, span);
    });
  }
}

// --- Sums --------------------------------------------------------------------------------------

// Blocks of rows, so that the error grows with the number of blocks and not of rows.
void ColumnSums(const float* m, int64_t rows, int64_t columns, float* sums) {
  constexpr int64_t kBlock = 256;
  ForEachSpan(columns, [&](int64_t k, Span span) HWY_ATTR {
    V total = hn::Zero(D());
    for (int64_t start = 0; start < rows; start += kBlock) {
      V sum = hn::Zero(D());
      for (int64_t r = start; r < HWY_MIN(rows, start + kBlock); ++r) {
        sum = hn::Add(sum, span.Load(m + r * columns + k));
      }
      total = hn::Add(total, sum);
    }
    span.Store(total, sums + k);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/cpu/simd_dispatch.h"

namespace millrace {

HWY_EXPORT(RnnCells);
HWY_EXPORT(LstmCells);
HWY_EXPORT(LstmCellsBack);
HWY_EXPORT(GruReset);
HWY_EXPORT(GruUpdate);
HWY_EXPORT(GruLinear);
HWY_EXPORT(ColumnSums);

RecurrentCells FindRecurrentCells() {
  return {.rnn = MILLRACE_SIMD_FUNCTION(RnnCells),
          .lstm = MILLRACE_SIMD_FUNCTION(LstmCells),
          .lstm_back = MILLRACE_SIMD_FUNCTION(LstmCellsBack),
          .gru_reset = MILLRACE_SIMD_FUNCTION(GruReset),
          .gru_update = MILLRACE_SIMD_FUNCTION(GruUpdate),
          .gru_linear = MILLRACE_SIMD_FUNCTION(GruLinear)};
}

ColumnSumsFn FindColumnSums() { return MILLRACE_SIMD_FUNCTION(ColumnSums); }

}  // namespace millrace
#endif  // HWY_ONCE
