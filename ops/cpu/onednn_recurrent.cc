// RNN, GRU and LSTM on f32, and grad.LSTM, from matrix products (sgemm) and elementwise cells.
//
// For each direction: all products with W at once, into a row of gates for each step and row of the
// batch (in X's own order, whatever the layout); then step by step the products with R, added to
// the step's gates, and the cell. Backward: the sequence is run again, keeping activations and
// states; step by step the cell turns activations into gradients, whose product with R is what
// flows on; then the products for X, W and R over all steps at once.
//
// A row that has fewer steps stays as it is in the steps it has not: so forward it ends, and in
// reverse it begins, at its own last one. Backward its gates are zeros there, and add nothing.
//
// oneDNN's own rnn primitives want other gate orders and weight layouts, know neither lengths nor
// peepholes of this kind, and are slower at batch 1 (measured with oneDNN 2.6 on a Xeon with
// AVX-512, one thread, 64 steps, 512 inputs and units: twice the time of these products).
#include <algorithm>
#include <cstring>

#include "graph/strings.h"
#include "ops/cpu/onednn_families.h"
#include "ops/cpu/onednn_primitive.h"
#include "ops/cpu/recurrent_cells.h"
#include "ops/cpu/team.h"
#include "ops/recurrent.h"

namespace millrace {
namespace {

enum class Kind : uint8_t { kRnn, kGru, kGruLinear, kLstm };

// A node's geometry, and where its buffers begin in scratch (in floats).
struct RecurrentPlan {
  Kind kind = Kind::kRnn;
  bool backward = false;
  Recurrent r;
  int64_t gates = 1;  // per unit
  bool has_bias = false, has_lengths = false, has_h = false, has_c = false, has_peepholes = false;

  int64_t rows() const { return r.steps * r.batch; }  // of gates
  int64_t width() const { return gates * r.hidden; }  // of a row of gates
  int64_t states() const { return r.batch * r.hidden; }
  double multiply_adds() const {
    return static_cast<double>(rows()) * static_cast<double>(width()) *
           static_cast<double>(r.inputs + r.hidden);
  }
};

struct ScratchOffsets {
  int64_t bias, gates, h, c, linear, h_before, c_before, size;

  explicit ScratchOffsets(const RecurrentPlan& p) {
    int64_t at = 0;
    const auto place = [&](int64_t count) {
      const int64_t begin = at;
      at += (count + 15) / 16 * 16;
      return begin;
    };
    const bool gru = p.kind == Kind::kGru || p.kind == Kind::kGruLinear;
    bias = place(p.width());
    gates = place(p.rows() * p.width());
    h = place(p.states());
    c = place(p.kind == Kind::kLstm ? p.states() : 0);
    linear = place(gru ? p.states() : 0);
    h_before = place(p.backward ? p.rows() * p.r.hidden : 0);
    c_before = place(p.backward ? p.rows() * p.r.hidden : 0);
    size = at;
  }
};

const RecurrentKind* KindOf(std::string_view op) {
  if (op == "RNN") return &RnnKind();
  if (op == "GRU") return &GruKind();
  if (op == "LSTM" || op == "grad.LSTM") return &LstmKind();
  return nullptr;
}

bool HasDefaultActivations(const RecurrentKind& kind, const Recurrent& r) {
  const size_t count = kind.activations.size();
  for (size_t i = 0; i < r.activations.size(); ++i) {
    const bool sigmoid = kind.activations[i % count] == "Sigmoid";
    const Activation::Kind expected =
        sigmoid ? Activation::Kind::kSigmoid : Activation::Kind::kTanh;
    if (r.activations[i].kind != expected) return false;
  }
  return r.clip == 0;
}

std::optional<RecurrentPlan> MakePlan(const NodeQuery& query) {
  const RecurrentKind* kind = KindOf(query.op);
  if (kind == nullptr || query.inputs[kX]->dtype != DType::kF32) return std::nullopt;
  if (!AllSized(query.inputs) || !AllSized(query.outputs)) return std::nullopt;
  const absl::StatusOr<Recurrent> r =
      RecurrentOf(*kind, query.attrs, query.inputs[kX]->shape, query.inputs[kR]->shape);
  if (!r.ok() || !HasDefaultActivations(*kind, *r)) return std::nullopt;
  if (query.attrs.Bool("input_forget", false)) return std::nullopt;
  RecurrentPlan plan;
  plan.r = *r;
  plan.gates = kind->gates;
  plan.backward = query.op.starts_with("grad.");
  plan.has_bias = HasInput(query, kB);
  plan.has_lengths = HasInput(query, kSequenceLens);
  plan.has_h = HasInput(query, kInitialH);
  if (kind->has_cell) {
    plan.kind = Kind::kLstm;
    plan.has_c = HasInput(query, kInitialC);
    plan.has_peepholes = HasInput(query, kP);
  } else if (kind->gates == 3) {
    plan.kind = query.attrs.Bool("linear_before_reset", false) ? Kind::kGruLinear : Kind::kGru;
  }
  constexpr size_t kPeepholeGrad = 6;
  if (plan.backward && (plan.has_peepholes || HasOutput(query, kPeepholeGrad))) return std::nullopt;
  return plan;
}

// c (m x n, rows ldc apart) = op(a) op(b) + beta c, row-major.
struct Product {
  bool transpose_a = false, transpose_b = false;
  int64_t m, n, k;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float beta;
  float* c;
  int64_t ldc;
};

absl::Status Multiply(const Product& p) {
  return ToStatus(dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k,
                             1.0f, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc),
                  "sgemm");
}

// A run over one direction: addresses and the products they are multiplied by.
class Direction {
 public:
  Direction(const RecurrentPlan& plan, const ScratchOffsets& offsets, const RecurrentCells& cells,
            int threads, const KernelArgs& args, int64_t direction)
      : p_(plan), cells_(cells), threads_(threads), args_(args), direction_(direction) {
    auto* scratch = static_cast<float*>(args.scratch);
    bias_ = scratch + offsets.bias;
    gates_ = scratch + offsets.gates;
    h_ = scratch + offsets.h;
    c_ = scratch + offsets.c;
    linear_ = scratch + offsets.linear;
    h_before_ = scratch + offsets.h_before;
    c_before_ = scratch + offsets.c_before;
    w_ = Input(kW) + direction * p_.width() * p_.r.inputs;
    recurrent_ = Input(kR) + direction * p_.width() * p_.r.hidden;
  }

  // Runs the sequence; `y` (null: not wanted) is the whole of Y, or nothing is written to it.
  absl::Status Forward(float* y) {
    AddBiases();
    LoadState(p_.has_h ? Input(kInitialH) : nullptr, h_);
    if (p_.kind == Kind::kLstm) LoadState(p_.has_c ? Input(kInitialC) : nullptr, c_);
    MILLRACE_RETURN_IF_ERROR(Multiply({false, true, p_.rows(), p_.width(), p_.r.inputs, Input(kX),
                                       p_.r.inputs, w_, p_.r.inputs, 0, gates_, p_.width()}));
    for (int64_t k = 0; k < p_.r.steps; ++k) {
      const int64_t step = p_.r.IsReversed(direction_) ? p_.r.steps - 1 - k : k;
      MILLRACE_RETURN_IF_ERROR(Step(StepAt(step, y)));
    }
    return absl::OkStatus();
  }

  // After Forward: the gradients of the step's gates in their place, those of the initial states in
  // h and c. Gradients of results may be null.
  absl::Status Backward(const float* dy, const float* dy_h, const float* dy_c) {
    LoadState(dy_h, h_);
    LoadState(dy_c, c_);
    for (int64_t k = p_.r.steps - 1; k >= 0; --k) {
      const int64_t step = p_.r.IsReversed(direction_) ? p_.r.steps - 1 - k : k;
      const CellStep s = StepAt(step, const_cast<float*>(dy));  // only read on the way back
      RunCells(cells_.lstm_back, s);
      MILLRACE_RETURN_IF_ERROR(
          Multiply({false, false, p_.r.batch, p_.r.hidden, p_.width(), s.gates, s.gates_stride,
                    recurrent_, p_.r.hidden, 1, h_, p_.r.hidden}));
    }
    return absl::OkStatus();
  }

  // From the gates' gradients.
  absl::Status XGrad(float* dx) const {
    return Multiply({false, false, p_.rows(), p_.r.inputs, p_.width(), gates_, p_.width(), w_,
                     p_.r.inputs, direction_ == 0 ? 0.0f : 1.0f, dx, p_.r.inputs});
  }
  absl::Status WeightGrad(const float* by, int64_t columns, float* dw) const {
    return Multiply({true, false, p_.width(), columns, p_.rows(), gates_, p_.width(), by, columns,
                     0, dw + direction_ * p_.width() * columns, columns});
  }
  void BiasGrad(ColumnSumsFn sums, float* db) const {
    float* to = db + direction_ * 2 * p_.width();
    sums(gates_, p_.rows(), p_.width(), to);
    std::copy(to, to + p_.width(), to + p_.width());
  }
  const float* h_before() const { return h_before_; }

  void StoreH(float* to) const { StoreState(h_, to); }
  void StoreC(float* to) const { StoreState(c_, to); }

 private:
  const float* Input(int i) const { return static_cast<const float*>(args_.inputs[i]); }

  // The biases of W and R together; with linear_before_reset that of Rn stays apart.
  void AddBiases() {
    if (!p_.has_bias) {
      std::fill(bias_, bias_ + p_.width(), 0.0f);
      return;
    }
    const float* b = Input(kB) + direction_ * 2 * p_.width();
    const int64_t both = p_.kind == Kind::kGruLinear ? 2 * p_.r.hidden : p_.width();
    for (int64_t i = 0; i < p_.width(); ++i) bias_[i] = b[i] + (i < both ? b[p_.width() + i] : 0);
  }

  void LoadState(const float* from, float* to) const {
    if (from == nullptr) return static_cast<void>(std::fill(to, to + p_.states(), 0.0f));
    for (int64_t row = 0; row < p_.r.batch; ++row) {
      const float* at = from + p_.r.StateAt(direction_, row);
      std::copy(at, at + p_.r.hidden, to + row * p_.r.hidden);
    }
  }
  void StoreState(const float* from, float* to) const {
    for (int64_t row = 0; row < p_.r.batch; ++row) {
      const float* at = from + row * p_.r.hidden;
      std::copy(at, at + p_.r.hidden, to + p_.r.StateAt(direction_, row));
    }
  }

  CellStep StepAt(int64_t step, float* y) const {
    const Recurrent& r = p_.r;
    const int64_t row = r.batch_first ? step : step * r.batch;  // of gates
    const int64_t apart = r.batch_first ? r.steps : 1;
    CellStep s;
    s.hidden = r.hidden;
    s.step = step;
    if (p_.has_lengths) s.lengths = static_cast<const int32_t*>(args_.inputs[kSequenceLens]);
    s.gates = gates_ + row * p_.width();
    s.gates_stride = apart * p_.width();
    s.bias = bias_;
    s.h = h_;
    s.c = p_.kind == Kind::kLstm ? c_ : nullptr;
    if (y != nullptr) {
      s.y = y + r.YAt(step, direction_, 0);
      s.y_stride = r.batch > 1 ? r.YAt(step, direction_, 1) - r.YAt(step, direction_, 0) : 0;
    }
    if (p_.has_peepholes) s.peepholes = Input(kP) + direction_ * 3 * r.hidden;
    s.linear = linear_;
    s.linear_bias = ZeroOrLinearBias();
    if (p_.backward) {
      s.h_before = h_before_ + row * r.hidden;
      s.c_before = c_before_ + row * r.hidden;
      s.before_stride = apart * r.hidden;
    }
    return s;
  }

  // Rbn; where there is no bias, bias_ is zeros.
  const float* ZeroOrLinearBias() const {
    if (!p_.has_bias) return bias_;
    return Input(kB) + direction_ * 2 * p_.width() + p_.width() + 2 * p_.r.hidden;
  }

  // The step's gates from `first` on += the rows of `states` times R's.
  absl::Status AddRecurrent(const CellStep& s, const float* states, int64_t first,
                            int64_t count) const {
    const int64_t n = p_.r.hidden;
    return Multiply({false, true, p_.r.batch, count * n, n, states, n, recurrent_ + first * n * n,
                     n, 1, s.gates + first * n, s.gates_stride});
  }

  absl::Status Step(const CellStep& s) const {
    const int64_t n = p_.r.hidden;
    switch (p_.kind) {
      case Kind::kRnn:
      case Kind::kLstm:
        MILLRACE_RETURN_IF_ERROR(AddRecurrent(s, h_, 0, p_.gates));
        RunCells(p_.kind == Kind::kRnn ? cells_.rnn : cells_.lstm, s);
        return absl::OkStatus();
      case Kind::kGru:
        MILLRACE_RETURN_IF_ERROR(AddRecurrent(s, h_, 0, 2));
        RunCells(cells_.gru_reset, s);
        MILLRACE_RETURN_IF_ERROR(AddRecurrent(s, linear_, 2, 1));
        RunCells(cells_.gru_update, s);
        return absl::OkStatus();
      case Kind::kGruLinear:
        MILLRACE_RETURN_IF_ERROR(AddRecurrent(s, h_, 0, 2));
        MILLRACE_RETURN_IF_ERROR(Multiply(
            {false, true, p_.r.batch, n, n, h_, n, recurrent_ + 2 * n * n, n, 0, linear_, n}));
        RunCells(cells_.gru_linear, s);
        return absl::OkStatus();
    }
    return InternalError("no such kind");
  }

  void RunCells(RecurrentCells::Fn cells, const CellStep& s) const {
    constexpr int64_t kStepsPerUnit = 16;  // exponentials
    ParallelFor(threads_, p_.r.batch, p_.states() * kStepsPerUnit, 1,
                [&](int64_t begin, int64_t end) { cells(s, begin, end); });
  }

  const RecurrentPlan& p_;
  const RecurrentCells& cells_;
  const int threads_;
  const KernelArgs& args_;
  const int64_t direction_;
  float *bias_, *gates_, *h_, *c_, *linear_, *h_before_, *c_before_;
  const float *w_, *recurrent_;
};

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const RecurrentPlan& plan, const NodeQuery& query, int threads)
      : plan_(plan),
        offsets_(plan),
        cells_(FindRecurrentCells()),
        column_sums_(FindColumnSums()),
        threads_(TeamFor(plan.multiply_adds(), threads)),
        first_grad_(LstmKind().num_inputs()) {
    for (size_t i = 0; i < query.inputs.size(); ++i) has_input_.push_back(HasInput(query, i));
    for (size_t i = 0; i < query.outputs.size(); ++i) wants_.push_back(HasOutput(query, i));
  }

  absl::Status Run(const KernelArgs& args) override {
    SetTeamSize(threads_);
    MILLRACE_RETURN_IF_ERROR(CheckLengths(args));
    for (int64_t d = 0; d < plan_.r.directions; ++d) {
      Direction direction(plan_, offsets_, cells_, threads_, args, d);
      if (plan_.backward) {
        MILLRACE_RETURN_IF_ERROR(RunBackward(direction, args));
        continue;
      }
      MILLRACE_RETURN_IF_ERROR(direction.Forward(Output(args, 0)));
      if (float* h = Output(args, 1)) direction.StoreH(h);
      if (float* c = Output(args, 2)) direction.StoreC(c);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RunBackward(Direction& direction, const KernelArgs& args) const {
    const auto gradient = [&](size_t result) -> const float* {
      const size_t i = first_grad_ + result;
      return i < has_input_.size() && has_input_[i] ? static_cast<const float*>(args.inputs[i])
                                                    : nullptr;
    };
    MILLRACE_RETURN_IF_ERROR(direction.Forward(nullptr));
    MILLRACE_RETURN_IF_ERROR(direction.Backward(gradient(0), gradient(1), gradient(2)));
    if (float* dx = Output(args, 0)) MILLRACE_RETURN_IF_ERROR(direction.XGrad(dx));
    if (float* dw = Output(args, 1)) {
      MILLRACE_RETURN_IF_ERROR(
          direction.WeightGrad(static_cast<const float*>(args.inputs[kX]), plan_.r.inputs, dw));
    }
    if (float* dr = Output(args, 2)) {
      MILLRACE_RETURN_IF_ERROR(direction.WeightGrad(direction.h_before(), plan_.r.hidden, dr));
    }
    if (float* db = Output(args, 3)) direction.BiasGrad(column_sums_, db);
    if (float* h = Output(args, 4)) direction.StoreH(h);
    if (float* c = Output(args, 5)) direction.StoreC(c);
    return absl::OkStatus();
  }

  absl::Status CheckLengths(const KernelArgs& args) const {
    if (!plan_.has_lengths) return absl::OkStatus();
    const auto* lengths = static_cast<const int32_t*>(args.inputs[kSequenceLens]);
    for (int64_t row = 0; row < plan_.r.batch; ++row) {
      if (lengths[row] < 0 || lengths[row] > plan_.r.steps) {
        return BadInputError(StrCat("sequence_lens[", row, "] is ", lengths[row],
                                    ", allowed are 0 to ", plan_.r.steps));
      }
    }
    return absl::OkStatus();
  }

  // Null: not wanted.
  float* Output(const KernelArgs& args, size_t i) const {
    return i < wants_.size() && wants_[i] ? static_cast<float*>(args.outputs[i]) : nullptr;
  }

  const RecurrentPlan plan_;
  const ScratchOffsets offsets_;
  const RecurrentCells cells_;
  const ColumnSumsFn column_sums_;
  const int threads_;
  const size_t first_grad_;  // of grad.LSTM's operands
  std::vector<bool> has_input_, wants_;
};

}  // namespace

std::optional<KernelVariant> MatchOneDnnRecurrent(const NodeQuery& query, int) {
  const std::optional<RecurrentPlan> plan = MakePlan(query);
  if (!plan.has_value()) return std::nullopt;
  KernelVariant variant = DenseVariant(query, OneDnnVariant());
  variant.scratch_bytes = ScratchOffsets(*plan).size * static_cast<int64_t>(sizeof(float));
  return variant;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnRecurrent(const KernelRequest& request) {
  return std::make_unique<RecurrentKernel>(*MakePlan(request.query), request.query,
                                           request.threads);
}

}  // namespace millrace
