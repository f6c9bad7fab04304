// What RNN, GRU, LSTM and their gradients share: signature, geometry, activations, and the walk
// over directions, batch and steps. An op adds its cell: one step, forward and backward.
//
// Operands, of all of them: X, W, R, B, sequence_lens, initial_h, and for LSTM initial_c and P. A
// gradient op has these, then the gradients of the results; it gives those of the float operands.
// It runs the sequence again, keeping the states, and each step's gates are computed once more on
// the way back.
#ifndef MILLRACE_OPS_RECURRENT_H_
#define MILLRACE_OPS_RECURRENT_H_

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_def.h"

namespace millrace {

// --- Kinds ---------------------------------------------------------------------------------------
struct RecurrentKind {
  std::string_view name;
  int gates = 1;
  std::vector<std::string> activations;  // by default, of one direction
  bool has_cell = false;                 // a second state, c, and peepholes, P

  int num_inputs() const { return has_cell ? 8 : 6; }
  int num_outputs() const { return has_cell ? 3 : 2; }
};
const RecurrentKind& RnnKind();
const RecurrentKind& GruKind();
const RecurrentKind& LstmKind();
enum RecurrentInput { kX, kW, kR, kB, kSequenceLens, kInitialH, kInitialC, kP };

// The signature of an op and of its gradient, without attributes of their own.
OpDef RecurrentSignature(const RecurrentKind& kind, std::string doc);
OpDef RecurrentGradSignature(const RecurrentKind& kind);

// --- Geometry ------------------------------------------------------------------------------------
struct Activation {
  enum class Kind : uint8_t {
    kAffine,
    kElu,
    kHardSigmoid,
    kLeakyRelu,
    kRelu,
    kScaledTanh,
    kSigmoid,
    kSoftplus,
    kSoftsign,
    kTanh,
    kThresholdedRelu
  };
  Kind kind = Kind::kTanh;
  double alpha = 0, beta = 0;

  double operator()(double x) const;
  double Slope(double x) const;  // the derivative at x
};

struct Recurrent {
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1;
  bool reversed = false;     // the only direction runs backward; the second of two always does
  bool batch_first = false;  // layout 1
  double clip = 0;           // of what activations are given; 0: none
  std::vector<Activation> activations;  // direction by direction

  bool IsReversed(int64_t direction) const { return reversed || direction == 1; }
  // Where rows begin, in elements.
  int64_t XAt(int64_t step, int64_t row) const {
    return (batch_first ? row * steps + step : step * batch + row) * inputs;
  }
  int64_t YAt(int64_t step, int64_t direction, int64_t row) const {
    return (batch_first ? (row * steps + step) * directions + direction
                        : (step * directions + direction) * batch + row) *
           hidden;
  }
  int64_t StateAt(int64_t direction, int64_t row) const {
    return (batch_first ? row * directions + direction : direction * batch + row) * hidden;
  }
  Shape YShape() const;
  Shape StateShape() const;
};

absl::StatusOr<Recurrent> RecurrentOf(const RecurrentKind& kind, const Attrs& attrs, const Shape& x,
                                      const Shape& r);

absl::Status InferRecurrent(const RecurrentKind& kind, InferContext& c);
absl::Status InferRecurrentGrad(const RecurrentKind& kind, InferContext& c);
absl::Status RecurrentGradient(const RecurrentKind& kind, GradientContext& c);
// The batch can be cut; gradients of weights are then sums.
std::vector<ShardingRule> RecurrentRules(const RecurrentKind& kind, const NodeQuery& query);
Work RecurrentWork(const NodeQuery& query);

// --- Cells ---------------------------------------------------------------------------------------
// One direction's weights, or their gradients. What the node omits is zeros.
struct CellWeights {
  int64_t inputs = 0, hidden = 0;
  std::vector<double> w, r;    // [gates * hidden, inputs], [gates * hidden, hidden]
  std::vector<double> wb, rb;  // [gates * hidden]
  std::vector<double> p;       // [3 * hidden]
};

struct CellFunctions {
  std::span<const Activation> activations;
  double clip = 0;
  bool flag = false;  // the op's own attribute

  double Clipped(double x) const { return clip == 0 ? x : std::max(-clip, std::min(clip, x)); }
  double Apply(int i, double x) const { return activations[i](Clipped(x)); }
  double Slope(int i, double x) const {
    return clip != 0 && std::abs(x) > clip ? 0 : activations[i].Slope(x);
  }
};

// The states of one row of the batch; c stays empty where there is none.
struct CellState {
  std::vector<double> h, c;
};

// One step. Backward: `d` holds the gradient of the step's result and becomes that of the state
// before it; `grads` and `dx` are added to.
struct Cell {
  CellState (*forward)(const CellWeights& weights, const CellFunctions& functions, const double* x,
                       const CellState& before);
  void (*backward)(const CellWeights& weights, const CellFunctions& functions, const double* x,
                   const CellState& before, CellState& d, CellWeights& grads, double* dx);
};

// --- Ops -----------------------------------------------------------------------------------------
struct RecurrentLayer {
  const RecurrentKind& (*kind)();
  Cell cell;
  std::string_view flag = "", flag_doc = "";  // the op's own attribute, false when not given
};

absl::Status RunRecurrent(const RecurrentLayer& layer, const ReferenceContext& c);
absl::Status RunRecurrentGrad(const RecurrentLayer& layer, const ReferenceContext& c);
void AddFlag(const RecurrentLayer& layer, OpDef& op);

template <const RecurrentLayer& kLayer>
OpDef RecurrentOp(std::string doc) {
  OpDef op = RecurrentSignature(kLayer.kind(), std::move(doc));
  AddFlag(kLayer, op);
  op.infer = [](InferContext& c) { return InferRecurrent(kLayer.kind(), c); };
  op.reference = [](const ReferenceContext& c) { return RunRecurrent(kLayer, c); };
  op.gradient = [](GradientContext& c) { return RecurrentGradient(kLayer.kind(), c); };
  op.sharding = [](const NodeQuery& query) { return RecurrentRules(kLayer.kind(), query); };
  op.work = RecurrentWork;
  return op;
}

// Not differentiable itself.
template <const RecurrentLayer& kLayer>
OpDef RecurrentGradOp() {
  OpDef op = RecurrentGradSignature(kLayer.kind());
  AddFlag(kLayer, op);
  op.infer = [](InferContext& c) { return InferRecurrentGrad(kLayer.kind(), c); };
  op.reference = [](const ReferenceContext& c) { return RunRecurrentGrad(kLayer, c); };
  op.sharding = [](const NodeQuery& query) { return RecurrentRules(kLayer.kind(), query); };
  op.work = RecurrentWork;
  return op;
}

// out += M v, out += M' v, m += a b', with M of [out or v, ...] rows as long as the other.
void AddProduct(std::span<const double> m, std::span<const double> v, std::span<double> out);
void AddTransposedProduct(std::span<const double> m, std::span<const double> v,
                          std::span<double> out);
void AddOuterProduct(std::span<const double> a, std::span<const double> b, std::span<double> m);

}  // namespace millrace

#endif  // MILLRACE_OPS_RECURRENT_H_
