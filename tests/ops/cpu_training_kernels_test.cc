// The fast kernels of losses and optimizers against the reference: odd sizes, teams of 1 and 2,
// results on operands, and every instruction set that Highway compiled for and this processor has.
#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "ops/cpu/simd_targets.h"
// Highway must see what the line above leaves out.
#include "hwy/highway.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/op_def.h"
#include "tests/ops/cpu_kernel_runner.h"

namespace millrace {
namespace {

class CpuTrainingKernels : public testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  Tensor F32(const Shape& shape, double limit = 2) {
    return RandomTensor(random_, DType::kF32, shape, limit);
  }
  Tensor Positive(const Shape& shape) {
    Tensor tensor = F32(shape);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.Set(i, 0.1 + std::abs(tensor.AsDouble(i)));
    }
    return tensor;
  }

  void Check(const KernelCase& c, const std::string& family = "simd") {
    SCOPED_TRACE(Describe(c));
    const auto library = CreateCpuKernelLibrary();
    const auto expected = RunVariant(*library, c, OfferedVariant(c, "reference"));
    ASSERT_TRUE(expected.ok()) << expected.status();
    const KernelVariant fast = OfferedVariant(c, family);
    std::vector<InPlacePair> pairs = FindOp(c.query.op)->traits.in_place;
    std::erase_if(pairs, [&](const InPlacePair& pair) {
      return pair.input >= static_cast<int>(c.inputs.size()) ||
             pair.output >= static_cast<int>(c.query.outputs.size());
    });
    pairs.push_back({-1, -1});
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      SCOPED_TRACE(hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(target);
      for (const int threads : {1, 2}) {
        for (const InPlacePair& pair : pairs) {
          SCOPED_TRACE(testing::Message() << threads << " threads, output " << pair.output);
          const auto actual = RunVariant(*library, c, fast, {threads, pair});
          ASSERT_TRUE(actual.ok()) << actual.status();
          Compare(*actual, *expected);
        }
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }

  // Within some units in the last place of what the result is made of, which is of size 1.
  static void Compare(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
    for (size_t k = 0; k < expected.size(); ++k) {
      for (int64_t i = 0; i < expected[k].num_elements(); ++i) {
        const double e = expected[k].AsDouble(i);
        ASSERT_NEAR(actual[k].AsDouble(i), e, 2e-6 * std::max(1.0, std::abs(e)))
            << "output " << k << " element " << i;
      }
    }
  }

  std::mt19937 random_{4321};
};

TEST_F(CpuTrainingKernels, Optimizers) {
  const Tensor rate = Tensor::Scalar(0.125f), step = Tensor::Scalar(int64_t{3});
  for (const int64_t n : {1, 15, 16, 100, 20'001}) {
    const Shape shape{n};
    for (const double decay : {0.0, 0.25}) {
      if (n > 1000 && decay == 0) continue;  // for the team only
      const auto attrs = [&](std::initializer_list<std::pair<std::string_view, AttrValue>> more) {
        Attrs all = MakeAttrs(more);
        all.Set("weight_decay", decay);
        return all;
      };
      Check(MakeCase("optim.SGD", attrs({}), {F32(shape), F32(shape), rate}));
      for (const bool nesterov : {false, true}) {
        Check(MakeCase("optim.SGD", attrs({{"momentum", 0.5}, {"nesterov", nesterov}}),
                       {F32(shape), F32(shape), rate, F32(shape)}, 2));
      }
      Check(
          MakeCase("optim.Adagrad", attrs({}), {F32(shape), F32(shape), rate, Positive(shape)}, 2));
      Check(MakeCase("optim.RMSProp", attrs({{"alpha", 0.75}}),
                     {F32(shape), F32(shape), rate, Positive(shape)}, 2));
      for (const char* op : {"optim.Adam", "optim.AdamW"}) {
        Check(MakeCase(op, attrs({}),
                       {F32(shape), F32(shape), rate, step, F32(shape), Positive(shape)}, 3));
      }
    }
  }
}

TEST_F(CpuTrainingKernels, SoftmaxCrossEntropy) {
  for (const auto& [samples, classes] :
       {std::pair<int64_t, int64_t>{1, 1}, {7, 3}, {33, 10}, {5, 1000}, {700, 130}}) {
    const Tensor scores = F32({samples, classes}, 10);
    Tensor labels = Tensor::Zeros({DType::kI64, {samples}});
    for (int64_t i = 0; i < samples; ++i) {
      labels.Set(i, static_cast<double>(random_() % static_cast<uint64_t>(classes)));
    }
    for (const char* reduction : {"mean", "sum", "none"}) {
      const Attrs attrs = MakeAttrs({{"reduction", reduction}});
      Check(MakeCase("SoftmaxCrossEntropyLoss", attrs, {scores, labels}));
      if (reduction == std::string_view("mean")) continue;
      const Shape of_loss = reduction == std::string_view("sum") ? Shape{} : Shape{samples};
      Check(MakeCase("grad.SoftmaxCrossEntropyLoss", attrs,
                     {scores, labels, Tensor(), F32(of_loss)}));
    }
  }
}

// Where the label's probability is all but 1, or all but 0.
TEST_F(CpuTrainingKernels, SoftmaxCrossEntropyOfHugeScores) {
  const Tensor scores = Tensor::Of<float>({2, 3}, {1000, -1000, 0, 1000, -1000, 0});
  const Tensor labels = Tensor::Of<int64_t>({2}, {0, 1});
  const Attrs attrs = MakeAttrs({{"reduction", "none"}});
  Check(MakeCase("SoftmaxCrossEntropyLoss", attrs, {scores, labels}));
  Check(MakeCase("grad.SoftmaxCrossEntropyLoss", attrs,
                 {scores, labels, Tensor(), Tensor::Of<float>({2}, {1, -2})}));
}

TEST_F(CpuTrainingKernels, GradientsOfGather) {
  const struct {
    Shape dy, indices;
    int64_t axis, size;
  } kCases[] = {{{7, 3}, {7}, 0, 5},     {{3}, {}, 0, 4},        {{2, 3, 4, 5}, {3, 4}, 1, 6},
                {{4, 2, 9}, {9}, -1, 3}, {{2, 0, 3}, {0}, 1, 4}, {{300, 200}, {300}, 0, 500}};
  for (const auto& [dy, indices, axis, size] : kCases) {
    for (const DType index : {DType::kI32, DType::kI64}) {
      Tensor places = RandomTensor(random_, index, indices, static_cast<double>(size) - 1);
      Check(MakeCase("grad.Gather", MakeAttrs({{"axis", axis}, {"size", size}}), {F32(dy), places}),
            "loop");
    }
  }
}

TEST_F(CpuTrainingKernels, GradientsOfGatherBeyondTheAxisAreRefused) {
  const KernelCase c = MakeCase("grad.Gather", MakeAttrs({{"size", int64_t{5}}}),
                                {F32({2, 3}), Tensor::Of<int64_t>({2}, {0, -5})});
  const auto library = CreateCpuKernelLibrary();
  EXPECT_TRUE(RunVariant(*library, c, OfferedVariant(c, "loop")).ok());
  for (const int64_t beyond : {5, -6}) {
    KernelCase bad = c;
    bad.inputs[1] = Tensor::Of<int64_t>({2}, {0, beyond});
    const absl::Status status = RunVariant(*library, bad, OfferedVariant(c, "loop")).status();
    EXPECT_NE(status.message().find("out of range [-5,5)"), std::string::npos) << status;
  }
}

TEST_F(CpuTrainingKernels, LabelsThatAreNoClassAreRefused) {
  const auto library = CreateCpuKernelLibrary();
  for (const int64_t label : {int64_t{-1}, int64_t{3}, INT64_MAX}) {
    const KernelCase c = MakeCase("SoftmaxCrossEntropyLoss", {},
                                  {F32({2, 3}), Tensor::Of<int64_t>({2}, {0, label})});
    const auto result = RunVariant(*library, c, OfferedVariant(c, "simd"));
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.status().message().find("of sample 1 is out of range [0,3)"),
              std::string::npos)
        << result.status();
  }
}

}  // namespace
}  // namespace millrace
