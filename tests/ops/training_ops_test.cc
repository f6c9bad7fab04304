// Dropout, losses and optimizers: values worked out by hand, properties, and what is said of wrong
// nodes.
#include <cmath>

#include "graph/weights.h"
#include "tests/ops/infer_support.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using optest::ErrorOf;
using optest::ErrorsOf;
using optest::Eval;
using optest::F32;
using optest::I64;
using optest::Is;
using optest::IsNear;
using optest::MakeAttrs;
using optest::RandomTensor;
using optest::RunAll;
using optest::RunReference;
using optest::TypesOf;
using ::testing::HasSubstr;

const Tensor kOn = Tensor::Scalar(true);

Tensor F64(const Shape& shape, std::initializer_list<double> values) {
  return Tensor::Of<double>(shape, values);
}

// --- Dropout -----------------------------------------------------------------------------------

TEST(Dropout, IsTheIdentityUnlessTraining) {
  const Tensor x = F32({3}, {1, -2, 3});
  EXPECT_THAT(Eval("Dropout", {x}), Is(x));
  const auto y = RunAll("Dropout", {x, F32({}, {0.75f}), Tensor::Scalar(false)}, {}, 2);
  EXPECT_THAT(y[0], Is(x));
  EXPECT_THAT(y[1], Is(Tensor::Of<bool>({3}, {true, true, true})));
}

// Words of Philox with the seed as key and (element / 4, step) as counter decide.
TEST(Dropout, DropsByTheWordsOfPhilox) {
  const Tensor x = Tensor::FromSpan<float>({10}, std::vector<float>(10, 3.0f));
  const auto y = RunAll("Dropout", {x, F32({}, {0.25f}), kOn, Tensor::Scalar(int64_t{5})},
                        MakeAttrs({{"seed", (int64_t{9} << 32) + 8}}), 2);
  for (uint32_t i = 0; i < 10; ++i) {
    const uint32_t word = Philox4x32({i / 4, 0, 5, 0}, {8, 9})[i % 4];
    const bool stays = word >= 0x40000000;
    EXPECT_EQ(y[1].AsInt64(i), stays) << i;
    EXPECT_EQ(y[0].AsDouble(i), stays ? 4.0 : 0.0) << i;
  }
}

TEST(Dropout, SeedAndStepChangeTheDrawAndTheShareIsRight) {
  const Tensor x = Tensor::FromSpan<float>({10000}, std::vector<float>(10000, 1.0f));
  const auto draw = [&](int64_t seed, int64_t step) {
    return Eval("Dropout", {x, F32({}, {0.3f}), kOn, Tensor::Scalar(step)},
                MakeAttrs({{"seed", seed}}));
  };
  EXPECT_THAT(draw(1, 2), Is(draw(1, 2)));
  EXPECT_FALSE(BitEqual(draw(1, 2), draw(1, 3)));
  EXPECT_FALSE(BitEqual(draw(1, 2), draw(2, 2)));
  const Tensor y = draw(1, 2);
  int dropped = 0;
  for (int64_t i = 0; i < 10000; ++i) dropped += y.AsDouble(i) == 0;
  EXPECT_NEAR(dropped, 3000, 140);  // three standard deviations
}

TEST(Dropout, RefusesARatioOfOne) {
  const auto result = RunReference("Dropout", {}, {F32({1}, {1}), F32({}, {1}), kOn});
  EXPECT_EQ(StdView(result.status().message()), "Dropout: 'ratio' is 1, allowed is [0,1)");
  EXPECT_EQ(ErrorOf("Dropout", {}, {{3}, {2}}),
            "Dropout: 'ratio' must have one element, but is [2]");
}

// --- Losses ------------------------------------------------------------------------------------

TEST(NegativeLogLikelihoodLoss, ByHand) {
  const Tensor x = F32({3, 2}, {-1, -2, -3, -4, -5, -6}), labels = I64({3}, {0, 1, 0});
  const auto loss = [&](std::string_view reduction, const std::vector<Tensor>& operands) {
    return Eval("NegativeLogLikelihoodLoss", operands,
                MakeAttrs({{"reduction", std::string(reduction)}}));
  };
  EXPECT_THAT(loss("none", {x, labels}), Is(F32({3}, {1, 4, 5})));
  EXPECT_THAT(loss("sum", {x, labels}), Is(F32({}, {10})));
  EXPECT_THAT(loss("mean", {x, labels}), IsNear(F32({}, {10 / 3.f}), 1e-7));
  const Tensor weights = F32({2}, {2, 0.5f});
  EXPECT_THAT(loss("none", {x, labels, weights}), Is(F32({3}, {2, 2, 10})));
  EXPECT_THAT(loss("mean", {x, labels, weights}), IsNear(F32({}, {14 / 4.5f}), 1e-7));
}

TEST(NegativeLogLikelihoodLoss, IgnoredSamplesDoNotCount) {
  const Tensor x = F32({3, 2}, {-1, -2, -3, -4, -5, -6}), labels = I64({3}, {0, -100, 0});
  const Attrs attrs = MakeAttrs({{"ignore_index", int64_t{-100}}});
  EXPECT_THAT(Eval("NegativeLogLikelihoodLoss", {x, labels}, attrs), Is(F32({}, {3})));
  const Tensor none = I64({3}, {-100, -100, -100});
  EXPECT_TRUE(std::isnan(Eval("NegativeLogLikelihoodLoss", {x, none}, attrs).AsDouble(0)));
}

TEST(SoftmaxCrossEntropyLoss, IsTheLikelihoodLossOfLogSoftmax) {
  const Tensor x = RandomTensor({DType::kF64, {2, 5, 3}}, 1);
  const Tensor labels = RandomTensor({DType::kI64, {2, 3}}, 2, 0, 5);
  const Tensor weights = RandomTensor({DType::kF64, {5}}, 3, 0.5, 2);
  for (const char* reduction : {"none", "sum", "mean"}) {
    const Attrs attrs = MakeAttrs({{"reduction", reduction}, {"ignore_index", int64_t{2}}});
    const auto y = RunAll("SoftmaxCrossEntropyLoss", {x, labels, weights}, attrs, 2);
    EXPECT_THAT(y[0],
                IsNear(Eval("NegativeLogLikelihoodLoss", {y[1], labels, weights}, attrs), 1e-12));
    EXPECT_THAT(Eval("Exp", {y[1]}),
                IsNear(Eval("Softmax", {x}, MakeAttrs({{"axis", int64_t{1}}})), 1e-12));
  }
}

TEST(SoftmaxCrossEntropyLoss, SurvivesHugeScores) {
  const Tensor x = F32({1, 2}, {1e30f, -1e30f});
  EXPECT_THAT(Eval("SoftmaxCrossEntropyLoss", {x, I64({1}, {0})}), Is(F32({}, {0})));
  EXPECT_THAT(Eval("SoftmaxCrossEntropyLoss", {x, I64({1}, {1})}), IsNear(F32({}, {2e30f}), 1e-6));
}

TEST(LabelLosses, RefuseLabelsOutOfRange) {
  for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
    const auto result = RunReference(op, {}, {F32({2, 2}, {0, 0, 0, 0}), I64({2}, {0, 2})});
    EXPECT_EQ(StdView(result.status().message()), "label 2 of sample 1 is out of range [0,2)");
  }
}

TEST(LabelLosses, TypesAndMessages) {
  const std::string operands = "input x : f32[2,5,3]\ninput t : i32[2,3]\n";
  EXPECT_EQ(TypesOf(operands + "z = NegativeLogLikelihoodLoss(x, t)"), "z:f32[]");
  EXPECT_EQ(TypesOf(operands + "z, p = SoftmaxCrossEntropyLoss(x, t) {reduction = \"none\"}"),
            "z:f32[2,3] p:f32[2,5,3]");
  EXPECT_EQ(TypesOf(operands + "input d : f32[]\n"
                               "dx, dw = grad.SoftmaxCrossEntropyLoss(x, t, _, d)"),
            "dx:f32[2,5,3] dw:f32[5]");
  EXPECT_THAT(ErrorsOf("input x : f32[2,5,3]\ninput t : i64[2]\n"
                       "z = SoftmaxCrossEntropyLoss(x, t)"),
              HasSubstr("labels must be [2,3] beside scores of [2,5,3], but are [2]"));
  EXPECT_THAT(ErrorsOf(operands + "input w : f32[3]\nz = NegativeLogLikelihoodLoss(x, t, w)"),
              HasSubstr("weights must be [5], one a class, but are [3]"));
  EXPECT_THAT(
      ErrorsOf(operands + "input d : f32[2]\nz = grad.NegativeLogLikelihoodLoss(x, t, _, d)"),
      HasSubstr("dLoss must be [], but is [2]"));
}

// --- Optimizers --------------------------------------------------------------------------------

const Tensor kRate = F64({}, {0.5}), kParamIn = F64({1}, {10}), kGradIn = F64({1}, {4});

TEST(OptimSGD, ByHand) {
  EXPECT_THAT(Eval("optim.SGD", {kParamIn, kGradIn, kRate}), Is(F64({1}, {8})));
  EXPECT_THAT(Eval("optim.SGD", {kParamIn, kGradIn, kRate}, MakeAttrs({{"weight_decay", 0.5}})),
              Is(F64({1}, {5.5})));
  Attrs attrs = MakeAttrs({{"momentum", 0.5}});
  const std::vector<Tensor> moving = {kParamIn, kGradIn, kRate, F64({1}, {6})};
  auto y = RunAll("optim.SGD", moving, attrs, 2);
  EXPECT_THAT(y[0], Is(F64({1}, {6.5})));
  EXPECT_THAT(y[1], Is(F64({1}, {7})));
  attrs.Set("nesterov", true);  // 4 + 0.5 * 7
  EXPECT_THAT(Eval("optim.SGD", moving, attrs), Is(F64({1}, {6.25})));
}

TEST(OptimAdagrad, ByHand) {
  const auto y = RunAll("optim.Adagrad", {kParamIn, kGradIn, kRate, F64({1}, {9})},
                        MakeAttrs({{"epsilon", 3.0}}), 2);
  EXPECT_THAT(y[0], Is(F64({1}, {9.75})));  // 10 - 0.5 * 4 / (5 + 3)
  EXPECT_THAT(y[1], Is(F64({1}, {25})));
}

TEST(OptimRMSProp, ByHand) {
  Attrs attrs = MakeAttrs({{"alpha", 0.5}, {"epsilon", 3.0}});
  auto y = RunAll("optim.RMSProp", {kParamIn, kGradIn, kRate, F64({1}, {34})}, attrs, 2);
  EXPECT_THAT(y[0], Is(F64({1}, {9.75})));  // 10 - 0.5 * 4 / (5 + 3)
  EXPECT_THAT(y[1], Is(F64({1}, {25})));
  // mean = 0.5 * 4 + 2 = 4: sqrt(25 - 16) = 3; velocity = 0.5 * 2 + 4 / 6.
  attrs.Set("centered", true);
  attrs.Set("momentum", 0.5);
  y = RunAll("optim.RMSProp",
             {kParamIn, kGradIn, kRate, F64({1}, {34}), F64({1}, {2}), F64({1}, {4})}, attrs, 4);
  EXPECT_THAT(y[0], IsNear(F64({1}, {10 - 0.5 * (1 + 4 / 6.0)}), 1e-15));
  EXPECT_THAT(y[2], IsNear(F64({1}, {1 + 4 / 6.0}), 1e-15));
  EXPECT_THAT(y[3], Is(F64({1}, {4})));
}

// At the second step: m = 0.5 * 2 + 2 = 3, corrected 3 / 0.75 = 4; v = 0.75 * 4 + 4 = 7, corrected
// 7 / (7 / 16) = 16; 4 / (4 + 4) = 0.5.
TEST(OptimAdam, ByHand) {
  const Attrs attrs =
      MakeAttrs({{"beta1", 0.5}, {"beta2", 0.75}, {"epsilon", 4.0}, {"weight_decay", 0.0}});
  const std::vector<Tensor> operands = {kParamIn,     kGradIn,       kRate,
                                        I64({}, {1}), F64({1}, {2}), F64({1}, {4})};
  auto y = RunAll("optim.Adam", operands, attrs, 3);
  EXPECT_THAT(y[0], IsNear(F64({1}, {9.75}), 1e-15));
  EXPECT_THAT(y[1], Is(F64({1}, {3})));
  EXPECT_THAT(y[2], Is(F64({1}, {7})));
  Attrs decoupled = attrs;
  decoupled.Set("weight_decay", 0.2);  // 10 - 0.5 * 0.2 * 10 = 9 before the step
  y = RunAll("optim.AdamW", operands, decoupled, 3);
  EXPECT_THAT(y[0], IsNear(F64({1}, {8.75}), 1e-15));
  EXPECT_THAT(y[1], Is(F64({1}, {3})));
}

// The minimum of (x - 3)^2 / 2 is found by each of them.
TEST(Optimizers, FindTheMinimumOfAParabola) {
  struct Optimizer {
    std::string op;
    Attrs attrs;
    int states;
    bool has_step;
  };
  const Optimizer kAll[] = {
      {"optim.SGD", {}, 0, false},
      {"optim.SGD", MakeAttrs({{"momentum", 0.9}, {"nesterov", true}}), 1, false},
      {"optim.Adagrad", {}, 1, false},
      {"optim.RMSProp", {}, 1, false},
      {"optim.Adam", {}, 2, true},
      {"optim.AdamW", MakeAttrs({{"weight_decay", 0.0}}), 2, true},
  };
  for (const Optimizer& o : kAll) {
    Tensor x = F64({1}, {-5});
    std::vector<Tensor> states(o.states, F64({1}, {0}));
    for (int64_t step = 0; step < 2000; ++step) {
      const Tensor rate = F64({}, {1.0 / (1 + 0.005 * static_cast<double>(step)) * 0.5});
      std::vector<Tensor> operands = {x, F64({1}, {x.AsDouble(0) - 3}), rate};
      if (o.has_step) operands.push_back(I64({}, {step}));
      operands.insert(operands.end(), states.begin(), states.end());
      const auto y = RunAll(o.op, operands, o.attrs, 1 + o.states);
      x = y[0];
      std::copy(y.begin() + 1, y.end(), states.begin());
    }
    EXPECT_NEAR(x.AsDouble(0), 3, 0.1) << o.op;
  }
}

TEST(Optimizers, TypesAndMessages) {
  EXPECT_EQ(TypesOf("input p : f32[2,3]\ninput g : bf16[2,3]\ninput r : f32[]\ninput s : i64[]\n"
                    "input m : f32[2,3]\ninput v : f32[2,3]\n"
                    "a, b, c = optim.AdamW(p, g, r, s, m, v)"),
            "a:f32[2,3] b:f32[2,3] c:f32[2,3]");
  EXPECT_EQ(ErrorOf("optim.SGD", {}, {{2}, {3}, {}}),
            "optim.SGD: 'grad' must have the shape of 'param', [2], but has [3]");
  EXPECT_EQ(ErrorOf("optim.SGD", {}, {{2}, {2}, {2}}),
            "optim.SGD: 'learning_rate' must have one element, but is [2]");
  EXPECT_EQ(ErrorOf("optim.SGD", MakeAttrs({{"momentum", 0.5}}), {{2}, {2}, {}}),
            "optim.SGD: 'velocity' is missing: there is momentum");
  EXPECT_EQ(ErrorOf("optim.SGD", {}, {{2}, {2}, {}, {2}}, 2),
            "optim.SGD: 'velocity' makes no sense: momentum is 0");
  EXPECT_EQ(ErrorOf("optim.SGD", MakeAttrs({{"nesterov", true}}), {{2}, {2}, {}}),
            "optim.SGD: 'nesterov' needs momentum");
  EXPECT_EQ(ErrorOf("optim.SGD", {}, {{2}, {2}, {}}, 2),
            "optim.SGD: result 1 is a state that is not given");
  EXPECT_EQ(ErrorOf("optim.RMSProp", MakeAttrs({{"centered", true}}), {{2}, {2}, {}, {2}}, 2),
            "optim.RMSProp: 'mean' is missing: 'centered' needs it");
  EXPECT_EQ(ErrorOf("optim.Adagrad", {}, {{2}, {2}, {}, {3}}, 2),
            "optim.Adagrad: operand 3, a state, must have the shape of 'param', [2], but has [3]");
}

}  // namespace
}  // namespace millrace
