// The elementwise part of a step of RNN, GRU and LSTM on f32, with ONNX's default activations; the
// products are the caller's (onednn_recurrent.cc).
#ifndef MILLRACE_OPS_CPU_RECURRENT_CELLS_H_
#define MILLRACE_OPS_CPU_RECURRENT_CELLS_H_

#include <cstdint>

namespace millrace {

// One step of one direction. Matrices have a row for each of the batch; a stride is the distance of
// rows where they do not lie one after another. Rows that have no such step stay as they are and
// give zeros.
struct CellStep {
  int64_t hidden = 0;
  int64_t step = 0;
  const int32_t* lengths = nullptr;  // null: every row has it

  float* gates = nullptr;  // what products gave; backward: activations, which become gradients
  int64_t gates_stride = 0;
  const float* bias = nullptr;  // of all gates, both biases added (linear_before_reset: n's own)
  float* h = nullptr;           // the state; backward: its gradient, added to and set to 0
  float* c = nullptr;           // LSTM's other state; backward: its gradient
  float* y = nullptr;           // the state goes here too; backward: the gradient of Y. May be null
  int64_t y_stride = 0;

  const float* peepholes = nullptr;    // LSTM: of i, o, f; may be null
  float* linear = nullptr;             // GRU: r * h for Rn, or (linear_before_reset) Rn h
  const float* linear_bias = nullptr;  // GRU with linear_before_reset: Rbn

  // Where the gradient op runs the sequence again: activations stay in `gates`, and the states
  // before the step go here. May be null.
  float* h_before = nullptr;
  float* c_before = nullptr;
  int64_t before_stride = 0;
};

// On rows [begin, end).
struct RecurrentCells {
  using Fn = void (*)(const CellStep& step, int64_t begin, int64_t end);
  Fn rnn, lstm, lstm_back;
  Fn gru_reset;  // z, r, and r * h
  Fn gru_update;
  Fn gru_linear;  // all of a step with linear_before_reset
};
RecurrentCells FindRecurrentCells();  // for this processor

// sums[k] = the sum over rows of m[row * columns + k].
using ColumnSumsFn = void (*)(const float* m, int64_t rows, int64_t columns, float* sums);
ColumnSumsFn FindColumnSums();

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_RECURRENT_CELLS_H_
