// RNN, GRU, LSTM: values worked out by hand (with activations that change nothing, so that they can
// be), how variants relate, result types, and what is said of wrong ones.
#include "tests/ops/infer_support.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using optest::ErrorOf;
using optest::Eval;
using optest::F32;
using optest::Is;
using optest::IsNear;
using optest::MakeAttrs;
using optest::MaxError;
using optest::RandomTensor;
using optest::RunAll;
using optest::SliceOf;
using optest::TypesOf;
using Strings = std::vector<std::string>;

Attrs Linear(size_t activations, Attrs attrs = {}) {
  attrs.Set("activations", Strings(activations, "Affine"));
  return attrs;
}

// h' = 2 x + 3 h
TEST(RNN, ByHand) {
  const Tensor x = F32({3, 1, 1}, {1, 2, 3}), w = F32({1, 1, 1}, {2}), r = F32({1, 1, 1}, {3});
  const auto y = RunAll("RNN", {x, w, r}, Linear(1), 2);
  EXPECT_THAT(y[0], Is(F32({3, 1, 1, 1}, {2, 10, 36})));
  EXPECT_THAT(y[1], Is(F32({1, 1, 1}, {36})));
  const Tensor b = F32({1, 2}, {0.25f, 0.75f}), h = F32({1, 1, 1}, {1});
  EXPECT_THAT(Eval("RNN", {x, w, r, b, Tensor(), h}, Linear(1)),
              Is(F32({3, 1, 1, 1}, {6, 23, 76})));
}

TEST(RNN, ReversedRowsBeginAtTheirOwnLastStep) {
  const Tensor x = F32({3, 2, 1}, {1, 10, 2, 20, 3, 30}), one = F32({1, 1, 1}, {1});
  const Tensor lengths = Tensor::Of<int32_t>({2}, {2, 0});
  const auto y = RunAll("RNN", {x, one, one, Tensor(), lengths, F32({1, 2, 1}, {100, 7})},
                        Linear(1, MakeAttrs({{"direction", "reverse"}})), 2);
  EXPECT_THAT(y[0], Is(F32({3, 1, 2, 1}, {103, 0, 102, 0, 0, 0})));
  EXPECT_THAT(y[1], Is(F32({1, 2, 1}, {103, 7})));
}

TEST(RNN, ClipBoundsWhatActivationsAreGiven) {
  const Tensor x = F32({2, 1, 1}, {1, -9}), one = F32({1, 1, 1}, {1});
  EXPECT_THAT(Eval("RNN", {x, one, one}, Linear(1, MakeAttrs({{"clip", 0.5}}))),
              Is(F32({2, 1, 1, 1}, {0.5f, -0.5f})));
}

TEST(RNN, ActivationsTakeTheirNumbersInOrder) {
  const Tensor x = F32({1, 1, 1}, {4}), w = F32({2, 1, 1}, {1, -1}), r = F32({2, 1, 1}, {0, 0});
  const Attrs attrs = MakeAttrs({{"direction", "bidirectional"},
                                 {"activations", Strings{"relu", "LeakyRelu"}},
                                 {"activation_alpha", std::vector<double>{0.25}}});
  EXPECT_THAT(Eval("RNN", {x, w, r}, attrs), Is(F32({1, 2, 1, 1}, {4, -1})));
}

// Gates z, r, n of x = 1: W = (2, 3, 5), R = (7, 11, 13), h = 1, biases of R (0, 0, 1).
// z = 2 + 7 = 9, r = 3 + 11 = 14.
TEST(GRU, ResetsBeforeOrAfterTheProduct) {
  const std::vector<Tensor> operands = {F32({1, 1, 1}, {1}),
                                        F32({1, 3, 1}, {2, 3, 5}),
                                        F32({1, 3, 1}, {7, 11, 13}),
                                        F32({1, 6}, {0, 0, 0, 0, 0, 1}),
                                        Tensor(),
                                        F32({1, 1, 1}, {1})};
  // n = 5 + 13 * 14 * 1 + 1 = 188; h' = (1 - 9) * 188 + 9.
  EXPECT_THAT(Eval("GRU", operands, Linear(2)), Is(F32({1, 1, 1, 1}, {-1495})));
  // n = 5 + 14 * (13 + 1) = 201; h' = (1 - 9) * 201 + 9.
  const Attrs after = MakeAttrs({{"linear_before_reset", true}});
  EXPECT_THAT(Eval("GRU", operands, Linear(2, after)), Is(F32({1, 1, 1, 1}, {-1599})));
}

// Gates i, o, f, g of x = 1 with W = (2, 3, 5, 7), c = 10, peepholes (1, 2, 3) of i, o, f.
// i = 2 + 10 = 12, f = 5 + 30 = 35, g = 7, c' = 35 * 10 + 12 * 7 = 434, o = 3 + 868 = 871.
TEST(LSTM, ByHandWithPeepholes) {
  const Tensor zero = F32({1, 4, 1}, {0, 0, 0, 0});
  const std::vector<Tensor> operands = {
      F32({1, 1, 1}, {1}),  F32({1, 4, 1}, {2, 3, 5, 7}), zero, Tensor(), Tensor(), Tensor(),
      F32({1, 1, 1}, {10}), F32({1, 3}, {1, 2, 3})};
  const auto y = RunAll("LSTM", operands, Linear(3), 3);
  EXPECT_THAT(y[0], Is(F32({1, 1, 1, 1}, {871 * 434})));
  EXPECT_THAT(y[1], Is(F32({1, 1, 1}, {871 * 434})));
  EXPECT_THAT(y[2], Is(F32({1, 1, 1}, {434})));
  // With input_forget f = 1 - 12: c' = -11 * 10 + 84 = -26.
  const Attrs forget = MakeAttrs({{"input_forget", true}});
  EXPECT_THAT(RunAll("LSTM", operands, Linear(3, forget), 3)[2], Is(F32({1, 1, 1}, {-26})));
}

struct Layer {
  std::string op;
  int64_t gates;
};
const Layer kLayers[] = {{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};

TEST(Recurrent, BothDirectionsAreEachOfThem) {
  for (const Layer& layer : kLayers) {
    const int64_t rows = layer.gates * 3;
    const Tensor x = RandomTensor({DType::kF64, {4, 2, 5}}, 1);
    const Tensor w = RandomTensor({DType::kF64, {2, rows, 5}}, 2);
    const Tensor r = RandomTensor({DType::kF64, {2, rows, 3}}, 3);
    const Tensor both = Eval(layer.op, {x, w, r}, MakeAttrs({{"direction", "bidirectional"}}));
    for (const int64_t d : {0, 1}) {
      const Attrs one = MakeAttrs({{"direction", d == 0 ? "forward" : "reverse"}});
      EXPECT_LT(
          MaxError(SliceOf(both, 1, d, d + 1),
                   Eval(layer.op, {x, SliceOf(w, 0, d, d + 1), SliceOf(r, 0, d, d + 1)}, one)),
          1e-15)
          << layer.op;
    }
  }
}

TEST(Recurrent, LayoutOneHasTheBatchInFront) {
  for (const Layer& layer : kLayers) {
    const int64_t rows = layer.gates * 3;
    const Tensor x = RandomTensor({DType::kF64, {4, 2, 5}}, 1);
    const Tensor w = RandomTensor({DType::kF64, {1, rows, 5}}, 2);
    const Tensor r = RandomTensor({DType::kF64, {1, rows, 3}}, 3);
    const auto swap = [](const Tensor& t, std::vector<int64_t> perm) {
      return Eval("Transpose", {t}, MakeAttrs({{"perm", perm}}));
    };
    const auto y = RunAll(layer.op, {x, w, r}, {}, 2);
    const auto swapped =
        RunAll(layer.op, {swap(x, {1, 0, 2}), w, r}, MakeAttrs({{"layout", int64_t{1}}}), 2);
    EXPECT_LT(MaxError(swapped[0], swap(y[0], {2, 0, 1, 3})), 1e-15) << layer.op;
    EXPECT_LT(MaxError(swapped[1], swap(y[1], {1, 0, 2})), 1e-15) << layer.op;
  }
}

TEST(Recurrent, RefusesLengthsOutOfRange) {
  const Tensor one = F32({1, 1, 1}, {1});
  const auto result = optest::RunReference(
      "RNN", {}, {F32({2, 1, 1}, {1, 2}), one, one, Tensor(), Tensor::Of<int32_t>({1}, {3})});
  EXPECT_EQ(StdView(result.status().message()), "RNN: sequence_lens[0] is 3, allowed are 0 to 2");
}

TEST(Recurrent, ResultTypes) {
  EXPECT_EQ(TypesOf("input x : f32[5,2,3]\ninput w : f32[1,16,3]\ninput r : f32[1,16,4]\n"
                    "y, h, c = LSTM(x, w, r)"),
            "y:f32[5,1,2,4] h:f32[1,2,4] c:f32[1,2,4]");
  EXPECT_EQ(TypesOf("input x : f16[5,2,3]\ninput w : f16[2,12,3]\ninput r : f16[2,12,4]\n"
                    "y, h = GRU(x, w, r) {direction = \"bidirectional\", layout = 1}"),
            "y:f16[5,2,2,4] h:f16[5,2,4]");
  EXPECT_EQ(TypesOf("input x : f32[5,2,3]\ninput w : f32[1,4,3]\ninput r : f32[1,4,4]\n"
                    "n: _, h = RNN(x, w, r) {hidden_size = 4}"),
            "h:f32[1,2,4]");
  EXPECT_EQ(TypesOf("input x : f32[5,2,3]\ninput w : f32[1,16,3]\ninput r : f32[1,16,4]\n"
                    "input d : f32[5,1,2,4]\n"
                    "dx, dw, dr, db, dh, dc, dp = grad.LSTM(x, w, r, _, _, _, _, _, d)"),
            "dx:f32[5,2,3] dw:f32[1,16,3] dr:f32[1,16,4] db:f32[1,32] dh:f32[1,2,4] dc:f32[1,2,4] "
            "dp:f32[1,12]");
}

TEST(Recurrent, Messages) {
  const std::vector<Shape> gru = {{5, 2, 3}, {1, 12, 3}, {1, 12, 4}};
  EXPECT_EQ(ErrorOf("GRU", {}, {{5, 2}, {1, 12, 3}, {1, 12, 4}}),
            "GRU: X must have rank 3, but has rank 2");
  EXPECT_EQ(ErrorOf("GRU", {}, {{5, 2, 3}, {1, 12, 3}, {12, 4}}),
            "GRU: R must have rank 3, but has rank 2");
  EXPECT_EQ(ErrorOf("GRU", {}, {{5, 2, 3}, {1, 12, 5}, {1, 12, 4}}),
            "GRU: 'W' must be [1,12,3], but is [1,12,5]");
  EXPECT_EQ(ErrorOf("LSTM", {}, gru), "LSTM: 'W' must be [1,16,3], but is [1,12,3]");
  EXPECT_EQ(ErrorOf("GRU", MakeAttrs({{"direction", "bidirectional"}}), gru),
            "GRU: 'W' must be [2,12,3], but is [1,12,3]");
  EXPECT_EQ(ErrorOf("GRU", MakeAttrs({{"direction", "both"}}), gru),
            "GRU: attribute 'direction' has no such choice");
  EXPECT_EQ(ErrorOf("GRU", MakeAttrs({{"hidden_size", int64_t{5}}}), gru),
            "GRU: 'hidden_size' is 5, but R is [1,12,4]");
  EXPECT_EQ(ErrorOf("GRU", MakeAttrs({{"layout", int64_t{2}}}), gru),
            "GRU: 'layout' is 2, known are 0 and 1");
  EXPECT_EQ(ErrorOf("GRU", MakeAttrs({{"clip", -1.0}}), gru),
            "GRU: 'clip' is -1, expected is a positive number");
  EXPECT_EQ(ErrorOf("GRU", MakeAttrs({{"activations", Strings{"Tanh"}}}), gru),
            "GRU: 'activations' has 1 names, expected are 2, 2 for each direction");
  EXPECT_EQ(ErrorOf("GRU", MakeAttrs({{"activations", Strings{"Tanh", "Sigmoit"}}}), gru),
            "GRU: unknown activation 'Sigmoit' did you mean 'Sigmoid'?");
}

}  // namespace
}  // namespace millrace
