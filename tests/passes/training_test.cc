// Training graphs, run step by step by what they mean: the outputs are evaluated, and the updates
// with them, which are the params of the next step.
#include "passes/training.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numbers>

#include "graph/builder.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "ops/evaluate_graph.h"
#include "tests/passes/typed_graph.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Trainer {
 public:
  Trainer(std::string_view text, const TrainingSpec& spec) {
    absl::StatusOr<TrainingGraph> built = BuildTrainingGraph(TypedGraph(text), spec);
    EXPECT_TRUE(built.ok()) << built.status();
    training_ = *std::move(built);
  }

  const TrainingGraph& training() const { return training_; }

  // The loss; params move on.
  double Step(const std::map<std::string, Tensor>& inputs) {
    Graph graph = training_.graph;
    for (const Update& update : graph.updates) graph.outputs.push_back(update.value);
    std::vector<Tensor> operands;
    for (const ValueId id : graph.inputs) operands.push_back(inputs.at(graph.value(id).name));
    const auto results = EvaluateGraph(graph, operands);
    EXPECT_TRUE(results.ok()) << results.status();
    for (size_t i = 0; i < graph.updates.size(); ++i) {
      const ValueId param = graph.updates[i].param;
      training_.graph.data[graph.value(param).data] = InlineData((*results)[i + 2]);
    }
    rate_ = (*results)[1].AsDouble(0);
    return (*results)[0].AsDouble(0);
  }
  double rate() const { return rate_; }  // of the last step

  // Element `i` of a param.
  double Param(std::string_view name, int64_t i = 0) const {
    WeightStore weights(training_.graph);
    for (const ValueId id : training_.graph.params) {
      if (training_.graph.value(id).name == name) return weights.Get(id)->AsDouble(i);
    }
    ADD_FAILURE() << "no param " << name;
    return 0;
  }

 private:
  TrainingGraph training_;
  double rate_ = 0;
};

Tensor F32(const Shape& shape, std::initializer_list<float> values) {
  return Tensor::Of<float>(shape, values);
}

// y = w x, with two samples.
constexpr std::string_view kLine = R"(graph line
  input x : f32[2,1]
  param w : f32[1,1] trainable = inline [1]
  y = MatMul(x, w)
  output y
)";

TrainingSpec Mse(OptimizerKind kind, double rate) {
  TrainingSpec spec;
  spec.loss.kind = LossKind::kMeanSquaredError;
  spec.optimizer.kind = kind;
  spec.rate.rate = rate;
  return spec;
}

const std::map<std::string, Tensor>& LineData() {
  static const std::map<std::string, Tensor> kData = {{"x", F32({2, 1}, {1, 2})},
                                                      {"target", F32({2, 1}, {3, 6})}};
  return kData;
}

// d/dw mean((w x - 3 x)^2) = 5 (w - 3), which is -10 at w = 1.
TEST(TrainingTest, OneStepOfGradientDescent) {
  Trainer trainer(kLine, Mse(OptimizerKind::kSgd, 0.1));
  EXPECT_FLOAT_EQ(trainer.Step(LineData()), 10);  // (2^2 + 4^2) / 2
  EXPECT_FLOAT_EQ(trainer.Param("w"), 2);         // 1 + 0.1 * 10
  EXPECT_EQ(trainer.Param("train/step"), 1);
  EXPECT_FLOAT_EQ(trainer.Step(LineData()), 2.5);
  EXPECT_FLOAT_EQ(trainer.Param("w"), 2.5);
  EXPECT_EQ(trainer.Param("train/step"), 2);
}

TEST(TrainingTest, MomentumIsKept) {
  TrainingSpec spec = Mse(OptimizerKind::kMomentum, 0.01);
  spec.optimizer.momentum = 0.5;
  Trainer trainer(kLine, spec);
  trainer.Step(LineData());
  EXPECT_FLOAT_EQ(trainer.Param("w"), 1.1f);
  EXPECT_FLOAT_EQ(trainer.Param("optim/w/velocity"), -10);
  trainer.Step(LineData());  // gradient 5 (1.1 - 3) = -9.5; velocity -9.5 - 5
  EXPECT_FLOAT_EQ(trainer.Param("w"), 1.245f);
}

TEST(TrainingTest, NesterovLooksAhead) {
  TrainingSpec spec = Mse(OptimizerKind::kNesterov, 0.01);
  spec.optimizer.momentum = 0.5;
  Trainer trainer(kLine, spec);
  trainer.Step(LineData());
  EXPECT_FLOAT_EQ(trainer.Param("w"), 1.15f);  // 0.01 * (10 + 0.5 * 10)
}

// The first step of each is its rate, whatever the gradient: epsilon is tiny.
TEST(TrainingTest, AdaptiveOptimizersStepByTheirRate) {
  for (const auto kind : {OptimizerKind::kAdagrad, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    Trainer trainer(kLine, Mse(kind, 0.25));
    trainer.Step(LineData());
    EXPECT_NEAR(trainer.Param("w"), 1.25, 1e-6);
  }
  Trainer trainer(kLine, Mse(OptimizerKind::kRmsProp, 0.25));  // 1 / sqrt(1 - 0.99) of it
  trainer.Step(LineData());
  EXPECT_NEAR(trainer.Param("w"), 3.5, 1e-5);
}

TEST(TrainingTest, AdamCountsItsSteps) {
  Trainer trainer(kLine, Mse(OptimizerKind::kAdam, 0.25));
  for (int i = 0; i < 2; ++i) trainer.Step(LineData());
  // g = -10, then 5 (1.25 - 3) = -8.75.
  const double m = 0.9 * 0.1 * -10 + 0.1 * -8.75, v = 0.999 * 0.001 * 100 + 0.001 * 8.75 * 8.75;
  const double step = (m / (1 - 0.81)) / std::sqrt(v / (1 - 0.999 * 0.999));
  EXPECT_NEAR(trainer.Param("w"), 1.25 - 0.25 * step, 1e-5);
}

TEST(TrainingTest, WeightDecay) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.optimizer.weight_decay = 4;
  Trainer trainer(kLine, spec);
  trainer.Step(LineData());
  EXPECT_FLOAT_EQ(trainer.Param("w"), 1.6f);  // 1 - 0.1 * (-10 + 4)
}

TEST(TrainingTest, ClipsByValue) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.optimizer.clip_value = 3;
  Trainer trainer(kLine, spec);
  trainer.Step(LineData());
  EXPECT_FLOAT_EQ(trainer.Param("w"), 1.3f);
}

// Two params with gradients of -10 and -6: the norm of both is clipped, their ratio kept.
TEST(TrainingTest, ClipsByTheNormOfAllGradients) {
  constexpr std::string_view kTwo = R"(graph affine
    input x : f32[2,1]
    param w : f32[1,1] trainable = inline [1]
    param b : f32[1] trainable = inline [0]
    z = MatMul(x, w)
    y = Add(z, b)
    output y
  )";
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 1);
  spec.optimizer.clip_norm = 0.5;
  Trainer trainer(kTwo, spec);
  trainer.Step(LineData());
  const double norm = std::sqrt(136);
  EXPECT_NEAR(trainer.Param("w"), 1 + 10 * 0.5 / norm, 1e-6);
  EXPECT_NEAR(trainer.Param("b"), 6 * 0.5 / norm, 1e-6);

  spec.optimizer.clip_norm = 100;  // above the norm: bit for bit what it was
  spec.rate.rate = 0.1;
  Trainer loose(kTwo, spec);
  loose.Step(LineData());
  EXPECT_EQ(loose.Param("w"), 2);
}

TEST(TrainingTest, RatesRiseAndFall) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.01);
  spec.rate.warmup = 2;
  spec.rate.kind = RateKind::kCosine;
  spec.rate.total = 6;
  Trainer cosine(kLine, spec);
  for (const double expected :
       {0.005, 0.01, 0.01, 0.01 * (0.5 + 0.5 * std::cos(std::numbers::pi / 4)), 0.005}) {
    cosine.Step(LineData());
    EXPECT_NEAR(cosine.rate(), expected, 1e-8);
  }
  for (int i = 0; i < 3; ++i) cosine.Step(LineData());
  EXPECT_NEAR(cosine.rate(), 0, 1e-9);  // and stays there

  spec.rate.warmup = 0;
  spec.rate.kind = RateKind::kStep;
  spec.rate.every = 2;
  spec.rate.factor = 0.5;
  Trainer steps(kLine, spec);
  for (const double expected : {0.01, 0.01, 0.005, 0.005, 0.0025}) {
    steps.Step(LineData());
    EXPECT_NEAR(steps.rate(), expected, 1e-9);
  }
}

TEST(TrainingTest, AccumulatedGradientsAreThoseOfALargerBatch) {
  constexpr std::string_view kOne = R"(graph line
    input x : f32[1,1]
    param w : f32[1,1] trainable = inline [1]
    y = MatMul(x, w)
    output y
  )";
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam}) {
    TrainingSpec spec = Mse(kind, 0.01);
    Trainer whole(kLine, spec);
    spec.optimizer.accumulate = 2;
    Trainer parts(kOne, spec);
    for (int round = 0; round < 3; ++round) {
      whole.Step(LineData());
      const double before = parts.Param("w");
      parts.Step({{"x", F32({1, 1}, {1})}, {"target", F32({1, 1}, {3})}});
      EXPECT_EQ(parts.Param("w"), before);
      parts.Step({{"x", F32({1, 1}, {2})}, {"target", F32({1, 1}, {6})}});
      EXPECT_NEAR(parts.Param("w"), whole.Param("w"), 1e-6);
    }
    EXPECT_EQ(parts.Param("train/step"), 6);
  }
}

constexpr std::string_view kClassifier = R"(graph classifier
  input x : f32[2,3]
  param w : f32[3,3] trainable = inline [1, 0, 0, 0, 1, 0, 0, 0, 1]
  scores = MatMul(x, w)
  p = Softmax(scores) {axis = 1}
  output p
)";

TrainingSpec Classes(LossKind kind) {
  TrainingSpec spec;
  spec.loss.kind = kind;
  spec.optimizer.kind = OptimizerKind::kSgd;
  spec.rate.rate = 0.5;
  return spec;
}

// Scores 200 apart: the probability of the label is 0 in f32, and its logarithm would be infinite.
TEST(TrainingTest, AScaleOfTheLossThatIsAPowerOfTwoChangesNothing) {
  TrainingSpec spec = Mse(OptimizerKind::kAdam, 0.1);
  Trainer plain(kLine, spec);
  spec.loss_scale = {1024, 0};
  Trainer scaled(kLine, spec);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(plain.Step(LineData()), scaled.Step(LineData()));
  EXPECT_EQ(plain.Param("w"), scaled.Param("w"));
  EXPECT_EQ(scaled.Param("train/loss_scale"), 1024);
}

TEST(TrainingTest, AScaleTooLargeIsHalvedAndTheStepLeftOut) {
  TrainingSpec spec = Mse(OptimizerKind::kMomentum, 0.01);
  spec.loss_scale = {0x1p100, 2};
  Trainer trainer(kLine, spec);
  // The gradient is 5 (w - 3) = -10 for samples of 1 and 2.
  const std::map<std::string, Tensor> huge = {{"x", F32({2, 1}, {1e10, 2e10})},
                                              {"target", F32({2, 1}, {3e10, 6e10})}};
  trainer.Step(huge);  // 1e21 times 2^100 is beyond f32
  EXPECT_EQ(trainer.Param("w"), 1);
  EXPECT_EQ(trainer.Param("optim/w/velocity"), 0);
  EXPECT_EQ(trainer.Param("train/loss_scale"), 0x1p99);
  EXPECT_EQ(trainer.Param("train/step"), 1);
  trainer.Step(LineData());
  EXPECT_FLOAT_EQ(trainer.Param("w"), 1.1f);
  EXPECT_EQ(trainer.Param("train/loss_scale"), 0x1p99);
  trainer.Step(LineData());  // the second in a row that is good
  EXPECT_EQ(trainer.Param("train/loss_scale"), 0x1p100);
}

TEST(TrainingTest, AScaleGrowsToNoInfinity) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.loss_scale = {kLargestLossScale, 1};
  Trainer trainer(kLine, spec);
  for (int i = 0; i < 3; ++i) trainer.Step(LineData());
  EXPECT_EQ(trainer.Param("train/loss_scale"), kLargestLossScale);
}

// 65536 is infinite in f16.
TEST(TrainingTest, AScaleBeyondHalfPrecisionStillTrains) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.loss_scale = {65536, 0};
  Trainer trainer(R"(graph half
    input x : f32[2,1]
    param w : f16[1,1] trainable = splat 1
    v = Cast(w) {to = "f32"}
    y = MatMul(x, v)
    output y
  )",
                  spec);
  const std::map<std::string, Tensor> near = {{"x", F32({2, 1}, {1, 2})},
                                              {"target", F32({2, 1}, {1.0625, 2.125})}};
  trainer.Step(near);  // the gradient is 5 (1 - 1.0625); scaled it is 20480
  EXPECT_NEAR(trainer.Param("w"), 1.03125, 1e-3);
}

TEST(TrainingTest, AScaleMovesWithUpdatesOfSeveralSteps) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.optimizer.accumulate = 2;
  spec.loss_scale = {2, 1};
  Trainer trainer(kLine, spec);
  trainer.Step(LineData());
  EXPECT_EQ(trainer.Param("train/loss_scale"), 2);
  EXPECT_EQ(trainer.Param("w"), 1);
  trainer.Step(LineData());
  EXPECT_EQ(trainer.Param("train/loss_scale"), 4);
  EXPECT_FLOAT_EQ(trainer.Param("w"), 2);
}

// A graph may say itself what its loss is: here (w - 3)^2.
TEST(TrainingTest, TheOutputMayBeTheLoss) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.25);
  spec.loss.kind = LossKind::kOutput;
  Trainer trainer(R"(graph own
    input goal : f32[2]
    param w : f32[] trainable = splat 1
    d = Sub(w, goal)
    y = Mul(d, d)
    output y
  )",
                  spec);
  EXPECT_EQ(trainer.training().target, "");
  EXPECT_FLOAT_EQ(trainer.Step({{"goal", F32({2}, {3, 3})}}), 4);
  EXPECT_FLOAT_EQ(trainer.Param("w"), 2);
}

TEST(TrainingTest, AnOutputThatIsTheLossHasNoTarget) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.25);
  spec.loss.kind = LossKind::kOutput;
  spec.loss.target_input = "x";
  EXPECT_THAT(BuildTrainingGraph(TypedGraph(kLine), spec).status().message(),
              HasSubstr("has no target"));
}

TEST(TrainingTest, AScaleBelowOneIsNone) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.loss_scale.scale = 0.5;
  EXPECT_THAT(BuildTrainingGraph(TypedGraph(kLine), spec).status().message(),
              HasSubstr("a scale of losses is from 1"));
}

TEST(TrainingTest, ASoftmaxAtTheEndIsLeftOut) {
  for (const auto kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kNegativeLogLikelihood}) {
    Trainer trainer(kClassifier, Classes(kind));
    EXPECT_THAT(trainer.training().notes,
                Contains(HasSubstr("the loss is taken of 'scores', which goes into Softmax 'p'")));
    const std::map<std::string, Tensor> data = {{"x", F32({2, 3}, {0, 200, 0, 1, 1, 1})},
                                                {"labels", Tensor::Of<int64_t>({2}, {0, 2})}};
    EXPECT_NEAR(trainer.Step(data), (200 + std::log(3)) / 2, 1e-4);
    EXPECT_GT(trainer.Param("w", 3), 0);  // row 1, class 0: moved by 0.5 * 200 / 2
  }
}

TEST(TrainingTest, LogProbabilitiesAreTakenAsTheyAre) {
  Trainer trainer(R"(graph g
    input x : f32[2,2]
    param b : f32[2] trainable = inline [0, 0]
    y = Add(x, b)
    output y
  )",
                  Classes(LossKind::kNegativeLogLikelihood));
  EXPECT_THAT(trainer.training().notes, IsEmpty());
  EXPECT_FLOAT_EQ(trainer.Step({{"x", F32({2, 2}, {-1, -2, -3, -4})},
                                {"labels", Tensor::Of<int64_t>({2}, {1, 0})}}),
                  2.5);
  EXPECT_FLOAT_EQ(trainer.Param("b", 0), 0.25);
}

// [N,positions,classes], as sequence models have it: a label for each position.
TEST(TrainingTest, ClassesOfSequencesAreLast) {
  Trainer trainer(R"(graph g
    input x : f32[1,2,3]
    param b : f32[3] trainable = inline [0, 0, 0]
    y = Add(x, b)
    output y
  )",
                  Classes(LossKind::kSoftmaxCrossEntropy));
  const double first = -std::log(std::exp(1) / (std::exp(1) + 2)), second = std::log(3);
  EXPECT_NEAR(trainer.Step({{"x", F32({1, 2, 3}, {1, 0, 0, 5, 5, 5})},
                            {"labels", Tensor::Of<int64_t>({1, 2}, {0, 2})}}),
              (first + second) / 2, 1e-6);
}

TEST(TrainingTest, BinaryCrossEntropyOfASigmoidIsThatOfItsOperand) {
  constexpr std::string_view kSigmoid = R"(graph g
    input x : f32[3]
    param b : f32[3] trainable = inline [0, 0, 0]
    z = Add(x, b)
    y = Sigmoid(z)
    output y
  )";
  Trainer trainer(kSigmoid, Classes(LossKind::kBinaryCrossEntropy));
  EXPECT_THAT(trainer.training().notes, Contains(HasSubstr("Sigmoid 'y'")));
  const double loss =
      trainer.Step({{"x", F32({3}, {0, 300, -2})}, {"target", F32({3}, {1, 0, 0})}});
  EXPECT_NEAR(loss, (std::log(2) + 300 + std::log(1 + std::exp(-2))) / 3, 1e-4);
}

// Where training from zero weights starts: the gradient is (sigmoid(0) - t) x.
TEST(TrainingTest, BinaryCrossEntropyMovesFromZeroWeights) {
  Trainer trainer(R"(graph logistic
    input x : f32[2,2]
    param w : f32[2,1] trainable = inline [0, 0]
    z = MatMul(x, w)
    y = Sigmoid(z)
    output y
  )",
                  Classes(LossKind::kBinaryCrossEntropy));
  EXPECT_NEAR(trainer.Step({{"x", F32({2, 2}, {1, 2, 3, 4})}, {"target", F32({2, 1}, {1, 0})}}),
              std::log(2), 1e-6);
  EXPECT_NEAR(trainer.Param("w", 0), -0.5 * (-0.5 * 1 + 0.5 * 3) / 2, 1e-6);
  EXPECT_NEAR(trainer.Param("w", 1), -0.5 * (-0.5 * 2 + 0.5 * 4) / 2, 1e-6);
}

TEST(TrainingTest, BinaryCrossEntropyOfProbabilities) {
  Trainer trainer(R"(graph g
    input x : f32[2]
    param b : f32[2] trainable = inline [0, 0]
    y = Add(x, b)
    output y
  )",
                  Classes(LossKind::kBinaryCrossEntropy));
  const double loss = trainer.Step({{"x", F32({2}, {0.25, 0.5})}, {"target", F32({2}, {1, 0})}});
  EXPECT_NEAR(loss, (std::log(4) + std::log(2)) / 2, 1e-6);
  EXPECT_NEAR(trainer.Param("b", 0), 0.5 / 2 / 0.25, 1e-5);
}

TEST(TrainingTest, AnAutoencoderIsComparedWithItsInput) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.loss.target_input = "x";
  Trainer trainer(kLine, spec);
  EXPECT_EQ(trainer.training().target, "x");
  EXPECT_EQ(trainer.Step({{"x", F32({2, 1}, {1, 2})}}), 0);
}

TEST(TrainingTest, BatchNormalizationTakesTheBatchAndMovesItsStatistics) {
  Trainer trainer(R"(graph g
    input x : f32[2,1]
    param s : f32[1] trainable = inline [1]
    param b : f32[1] trainable = inline [0]
    param mean : f32[1] = inline [0]
    param var : f32[1] = inline [1]
    y = BatchNormalization(x, s, b, mean, var) {momentum = 0.5, epsilon = 0.0}
    output y
  )",
                  Mse(OptimizerKind::kSgd, 0.1));
  trainer.Step({{"x", F32({2, 1}, {2, 6})}, {"target", F32({2, 1}, {-1, 1})}});
  EXPECT_FLOAT_EQ(trainer.Param("mean"), 2);   // halfway to 4
  EXPECT_FLOAT_EQ(trainer.Param("var"), 2.5);  // halfway to 4
  EXPECT_FLOAT_EQ(trainer.Param("s"), 1);      // the output was the target
}

// Other elements each step.
TEST(TrainingTest, DropoutDropsByStep) {
  Trainer trainer(R"(graph g
    input x : f32[64]
    param w : f32[64] trainable = splat 1
    d = Dropout(x)
    y = Mul(d, w)
    output y
  )",
                  Mse(OptimizerKind::kSgd, 0.0));
  std::map<std::string, Tensor> data = {{"x", Tensor::Zeros({DType::kF32, {64}})},
                                        {"target", Tensor::Zeros({DType::kF32, {64}})}};
  for (int i = 0; i < 64; ++i) data["x"].Set(i, std::exp2(i % 8));
  const double first = trainer.Step(data), second = trainer.Step(data);
  EXPECT_NE(first, second);
  EXPECT_GT(first, 0);
}

TEST(TrainingTest, ParamsThatCannotLearnAreNamed) {
  Trainer trainer(R"(graph g
    input x : f32[2,1]
    param w : f32[1,1] trainable = inline [1]
    param other : f32[1,1] trainable = inline [1]
    param fixed : f32[1,1] = inline [1]
    z = MatMul(x, w)
    y = MatMul(z, fixed)
    o = MatMul(x, other)
    output y
    output o
  )",
                  Mse(OptimizerKind::kSgd, 0.1));
  EXPECT_THAT(trainer.training().trained, ElementsAre("w"));
  EXPECT_THAT(trainer.training().notes,
              ElementsAre("param 'other' stays: the loss does not depend on it"));
}

// Labels as a column, [N,1], beside scores [N,C].
TEST(TrainingTest, LabelsMayHaveAnotherShapeOfTheSameSize) {
  constexpr std::string_view kColumn = R"(graph g
    input x : f32[2,3]
    input labels : i64[2,1]
    param b : f32[3] trainable = inline [0, 0, 0]
    y = Add(x, b)
    output y
  )";
  TrainingSpec spec = Classes(LossKind::kSoftmaxCrossEntropy);
  spec.loss.target_input = "labels";
  Trainer trainer(kColumn, spec);
  EXPECT_NEAR(trainer.Step({{"x", F32({2, 3}, {0, 0, 0, 1, 1, 1})},
                            {"labels", Tensor::Of<int64_t>({2, 1}, {0, 2})}}),
              std::log(3), 1e-6);
  EXPECT_TRUE(BuildEvaluationGraph(TypedGraph(kColumn), spec.loss).ok());
}

std::string ErrorOf(std::string_view text, const TrainingSpec& spec) {
  const auto built = BuildTrainingGraph(TypedGraph(text), spec);
  EXPECT_FALSE(built.ok());
  return std::string(built.status().message());
}

TEST(TrainingTest, WhatDoesNotFitIsRefused) {
  TrainingSpec spec = Mse(OptimizerKind::kSgd, 0.1);
  EXPECT_THAT(ErrorOf("graph g\n input x : f32[2]\n y = Exp(x)\n output y\n", spec),
              HasSubstr("no trainable params"));
  spec.loss.output = "z";
  EXPECT_THAT(ErrorOf(kLine, spec), HasSubstr("no output 'z'"));
  spec.loss.output = "";
  spec.loss.target_input = "xx";
  EXPECT_THAT(ErrorOf(kLine, spec), HasSubstr("no input 'xx'; did you mean 'x'?"));
  spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.optimizer.momentum = 0;
  spec.optimizer.kind = OptimizerKind::kNesterov;
  EXPECT_THAT(ErrorOf(kLine, spec), HasSubstr("a momentum of 0 is none"));
  spec = Mse(OptimizerKind::kSgd, 0.1);
  spec.rate.kind = RateKind::kCosine;
  EXPECT_THAT(ErrorOf(kLine, spec), HasSubstr("a cosine needs more updates"));
  EXPECT_THAT(std::string(ParseOptimizerKind("adan").status().message()),
              HasSubstr("'adan' is no optimizer; there are sgd, momentum, nesterov, adagrad, "
                        "rmsprop, adam, adamw; did you mean 'adam'?"));
}

TEST(TrainingTest, ParamsThatTheGraphUpdatesItselfAreNotTrained) {
  EXPECT_THAT(ErrorOf(R"(graph g
    input x : f32[2,1]
    param w : f32[1,1] trainable = inline [1]
    y = MatMul(x, w)
    next = Neg(w)
    output y
    update w <- next
  )",
                      Mse(OptimizerKind::kSgd, 0.1)),
              HasSubstr("param 'w' is trainable, but the graph updates it already, with 'next'"));
}

TEST(TrainingTest, EvaluationGivesLossAndHitsOfEachSample) {
  LossSpec loss;
  const auto built = BuildEvaluationGraph(TypedGraph(kClassifier), loss);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->hits, "hits");
  const auto results = EvaluateGraph(
      built->graph, {F32({2, 3}, {1, 0, 0, 3, 3, 7}), Tensor::Of<int64_t>({2}, {1, 2})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_NEAR((*results)[0].AsDouble(0), std::log(std::exp(1) + 2), 1e-6);
  EXPECT_NEAR((*results)[0].AsDouble(1), std::log(1 + 2 * std::exp(-4)), 1e-6);
  EXPECT_EQ((*results)[1].AsDouble(0), 0);
  EXPECT_EQ((*results)[1].AsDouble(1), 1);
}

TEST(TrainingTest, EvaluationOfTensorsIsTheMeanOverEachSample) {
  LossSpec loss;
  loss.kind = LossKind::kMeanSquaredError;
  const auto built = BuildEvaluationGraph(TypedGraph(R"(graph g
    input x : f32[2,2]
    y = Neg(x)
    output y
  )"),
                                          loss);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->hits, "");
  const auto results =
      EvaluateGraph(built->graph, {F32({2, 2}, {1, 2, 3, 4}), F32({2, 2}, {0, 0, 0, 0})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].AsDouble(0), 2.5);
  EXPECT_EQ((*results)[0].AsDouble(1), 12.5);
}

}  // namespace
}  // namespace millrace
