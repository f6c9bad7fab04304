#include "tests/ops/case_list.h"

namespace millrace::optest {
namespace {

struct Kind {
  std::string_view op;
  int64_t gates;
  int outputs;
};
constexpr Kind kKinds[] = {{"RNN", 1, 2}, {"GRU", 3, 2}, {"LSTM", 4, 3}};

constexpr int64_t kSteps = 3, kBatch = 6, kInputs = 3, kHidden = 2;

enum Given { kBias = 1, kLengths = 2, kStates = 4, kPeepholes = 8, kAll = 15 };

// Operands of a node, of which those not among `given` are omitted.
std::vector<Tensor> Operands(CaseList& l, const Kind& kind, const Attrs& attrs, int given) {
  const int64_t directions = attrs.String("direction", "forward") == "bidirectional" ? 2 : 1;
  const bool batch_first = attrs.Int("layout", 0) == 1;
  const int64_t rows = kind.gates * kHidden;
  const Shape state =
      batch_first ? Shape{kBatch, directions, kHidden} : Shape{directions, kBatch, kHidden};
  const auto data = [&](const Shape& shape) { return l.Data(shape, -1, 1); };
  std::vector<Tensor> operands = {
      data(batch_first ? Shape{kBatch, kSteps, kInputs} : Shape{kSteps, kBatch, kInputs}),
      data({directions, rows, kInputs}), data({directions, rows, kHidden})};
  operands.push_back(given & kBias ? data({directions, 2 * rows}) : Tensor());
  operands.push_back(given & kLengths ? Tensor::Of<int32_t>({kBatch}, {3, 1, 0, 2, 3, 2})
                                      : Tensor());
  operands.push_back(given & kStates ? data(state) : Tensor());
  if (kind.op == "LSTM") {
    operands.push_back(given & kStates ? data(state) : Tensor());
    operands.push_back(given & kPeepholes ? data({directions, 3 * kHidden}) : Tensor());
  }
  return operands;
}

}  // namespace

void AddRecurrentCases(CaseList& l) {
  for (const Kind& kind : kKinds) {
    const auto add = [&](Attrs attrs, int given) {
      std::vector<Tensor> operands = Operands(l, kind, attrs, given);
      while (!operands.back().has_data()) operands.pop_back();
      l.Add(kind.op, std::move(operands), std::move(attrs), kind.outputs);
    };
    add({}, 0);
    add({}, kAll);
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      for (const int64_t layout : {0, 1}) {
        Attrs attrs = MakeAttrs({{"direction", direction}, {"layout", layout}});
        add(attrs, kBias | kStates);
        add(attrs, kAll);
      }
    }
    add(MakeAttrs({{"clip", 0.5}}), kAll);
    if (kind.op == "GRU") add(MakeAttrs({{"linear_before_reset", true}}), kAll);
    if (kind.op == "LSTM") add(MakeAttrs({{"input_forget", true}}), kAll);
    // Each activation somewhere.
    const std::vector<std::string> all = {"Affine",   "Elu",        "HardSigmoid",     "LeakyRelu",
                                          "Relu",     "ScaledTanh", "Sigmoid",         "Softplus",
                                          "Softsign", "Tanh",       "ThresholdedRelu", "Sigmoid"};
    const size_t count = kind.op == "RNN" ? 1 : kind.op == "GRU" ? 2 : 3;
    for (size_t first = 0; first < all.size(); first += count) {
      const std::vector<std::string> some(all.begin() + first, all.begin() + first + count);
      add(MakeAttrs({{"activations", some},
                     {"activation_alpha", std::vector<double>(3, 0.3)},
                     {"activation_beta", std::vector<double>(3, 0.7)}}),
          kBias);
    }

    const Attrs attrs = MakeAttrs({{"direction", "bidirectional"}});
    std::vector<Tensor> operands = Operands(l, kind, attrs, kAll);
    operands.push_back(l.Data({kSteps, 2, kBatch, kHidden}));
    for (int i = 1; i < kind.outputs; ++i) operands.push_back(l.Data({2, kBatch, kHidden}));
    l.Add(StrCat("grad.", kind.op), operands, attrs, kind.op == "LSTM" ? 7 : 5);
    operands.resize(3 + (kind.op == "LSTM" ? 5 : 3));
    operands.push_back(l.Data({kSteps, 2, kBatch, kHidden}));
    l.Add(StrCat("grad.", kind.op), operands, attrs, 2);
  }
}

}  // namespace millrace::optest
