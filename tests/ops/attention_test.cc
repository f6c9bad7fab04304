// fused.Attention: its reference against numbers worked out by hand and against the nodes it stands
// for, and its kernel, on every instruction set, against its reference: random shapes, layouts,
// groups and masks, sizes around those of tiles, queries that see nothing, infinities and NaN.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "ops/cpu/simd_targets.h"
// Highway must see what the line above leaves out.
#include "hwy/highway.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "tests/ops/cpu_kernel_runner.h"
#include "tests/ops/evaluate.h"

namespace millrace {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<double> Attend(const Attrs& attrs, const std::vector<Tensor>& inputs) {
  const auto result = optest::RunReference("fused.Attention", attrs, inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  std::vector<double> values;
  for (int64_t i = 0; result.ok() && i < (*result)[0].num_elements(); ++i) {
    values.push_back((*result)[0].AsDouble(i));
  }
  return values;
}

// One query whose scores are its products with the keys, (2, 0) and (0, ln 3) times the scale.
TEST(Attention, WeighsValuesBySoftmaxOfScores) {
  const double ln3 = std::log(3.0);
  const Tensor q = Tensor::Of<double>({1, 1, 1, 2}, {1, 1});
  const Tensor k = Tensor::Of<double>({1, 1, 2, 2}, {0, 0, 0, ln3});
  const Tensor v = Tensor::Of<double>({1, 1, 2, 3}, {4, 8, 0, 0, 8, 4});
  const Attrs one = MakeAttrs({{"scale", 1.0}}), two = MakeAttrs({{"scale", 2.0}});
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
  };
  near(Attend(one, {q, k, v}), {1, 8, 3});      // weights 1/4, 3/4
  near(Attend(two, {q, k, v}), {0.4, 8, 3.6});  // 1/10, 9/10
  const double third = std::pow(3, std::sqrt(0.5));
  near(Attend({}, {q, k, v}), {4 / (1 + third), 8, 4 * third / (1 + third)});
  near(Attend(one, {q, k, v, Tensor::Of<double>({2}, {ln3, 0})}), {2, 8, 2});
  near(Attend(one, {q, k, v, Tensor::Of<bool>({2}, {true, false})}), {4, 8, 0});
  Attrs causal = one;
  causal.Set("causal", true);
  near(Attend(causal, {q, k, v}), {4, 8, 0});
}

TEST(Attention, HeadsInARowShareKeys) {
  const Tensor q = Tensor::Of<double>({1, 4, 1, 1}, {1, 1, 1, 1});
  const Tensor k = Tensor::Of<double>({1, 2, 1, 1}, {1, 1});
  const Tensor v = Tensor::Of<double>({1, 2, 1, 1}, {5, 7});
  EXPECT_EQ(Attend({}, {q, k, v}), (std::vector<double>{5, 5, 7, 7}));
}

TEST(Attention, ErrorsSayWhatDoesNotFit) {
  const auto zeros = [](const Shape& shape) { return Tensor::Zeros({DType::kF32, shape}); };
  const auto error = [&](const Shape& q, const Shape& k, const Shape& v) {
    return optest::ErrorOf("fused.Attention", {zeros(q), zeros(k), zeros(v)});
  };
  using testing::PrintToString;
  const Shape kv{2, 4, 5, 8};
  EXPECT_NE(error({2, 6, 5, 8}, kv, kv).find("no multiple of those of K: 6 and 4"),
            std::string::npos);
  EXPECT_NE(error({3, 4, 5, 8}, kv, kv).find("batches of Q and K differ: 3 and 2"),
            std::string::npos);
  EXPECT_NE(error({2, 4, 5, 7}, kv, kv).find("differ in size: 7 and 8"), std::string::npos);
  EXPECT_NE(error(kv, kv, {2, 4, 6, 8}).find("tokens of K and V differ: 5 and 6"),
            std::string::npos);
  EXPECT_NE(error({4, 5, 8}, kv, kv).find("'Q' must have four dims"), std::string::npos);
  const Tensor x = zeros(kv);
  EXPECT_NE(optest::ErrorOf("fused.Attention", {x, x, x, zeros({3, 5})}).find("does not broadcast"),
            std::string::npos);
  EXPECT_NE(optest::ErrorOf("fused.Attention", {x, x, x, Tensor::Zeros({DType::kF64, {5}})})
                .find("'mask' must be bool or f32"),
            std::string::npos);
}

class AttentionKernels : public testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  void Check(const Attrs& attrs, const std::vector<Tensor>& inputs) {
    const KernelCase c = MakeCase("fused.Attention", attrs, inputs);
    SCOPED_TRACE(Describe(c));
    const std::vector<KernelVariant> variants = CpuTarget().Variants(c.query);
    ASSERT_EQ(variants.front().name, "simd");
    const auto expected = RunVariant(*library_, c, variants.back());
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
      SCOPED_TRACE(hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(target);
      for (int threads : {1, 2}) {
        const auto actual = RunVariant(*library_, c, variants.front(), {.threads = threads});
        ASSERT_TRUE(actual.ok()) << actual.status();
        ExpectNear((*actual)[0], (*expected)[0]);
      }
    }
  }

  // Values are at most 2: an error of 1e-5 is one of a score (up to 40, rounded) and of f32 sums.
  static void ExpectNear(const Tensor& actual, const Tensor& expected) {
    ASSERT_EQ(actual.type(), expected.type());
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      const double a = actual.AsDouble(i), e = expected.AsDouble(i);
      if (std::isnan(a) && std::isnan(e)) continue;
      ASSERT_NEAR(a, e, 1e-5) << "element " << i;
    }
  }

  Tensor F32(const Shape& shape) { return RandomTensor(random_, DType::kF32, shape); }
  int64_t Draw(std::initializer_list<int64_t> values) {
    return values.begin()[random_() % values.size()];
  }

  std::mt19937 random_{4321};
  std::unique_ptr<KernelLibrary> library_ = CreateCpuKernelLibrary();
};

TEST_F(AttentionKernels, RandomShapesLayoutsAndMasks) {
  for (int i = 0; i < 100; ++i) {
    const int64_t batch = Draw({1, 1, 2}), kv_heads = Draw({1, 2, 3});
    const int64_t heads = kv_heads * Draw({1, 1, 2, 4});
    const int64_t queries = Draw({1, 2, 4, 5, 15, 16, 17, 33, 47, 48, 49, 100});
    const int64_t keys = Draw({1, 3, 16, 63, 64, 65, 130});
    const int64_t size = Draw({1, 3, 8, 16, 20, 64}), value_size = Draw({1, 4, 7, 33, 64});
    Attrs attrs = MakeAttrs({{"causal", random_() % 3 == 0}});
    const auto operand = [&](const char* layout, int64_t h, int64_t tokens, int64_t elements) {
      const bool tokens_first = random_() % 2 == 0;
      attrs.Set(layout, std::string(tokens_first ? "bthd" : "bhtd"));
      return F32(tokens_first ? Shape{batch, tokens, h, elements}
                              : Shape{batch, h, tokens, elements});
    };
    std::vector<Tensor> inputs = {operand("q_layout", heads, queries, size),
                                  operand("k_layout", kv_heads, keys, size),
                                  operand("v_layout", kv_heads, keys, value_size)};
    attrs.Set("y_layout", std::string(i % 2 ? "bthd" : "bhtd"));
    const auto maybe = [&](int64_t dim) { return random_() % 2 == 0 ? dim : 1; };
    const Shape mask{maybe(batch), maybe(heads), maybe(queries), maybe(keys)};
    if (i % 4 == 1) inputs.push_back(F32(mask));
    if (i % 4 == 2) inputs.push_back(RandomTensor(random_, DType::kBool, mask, 1));
    Check(attrs, inputs);
  }
}

TEST_F(AttentionKernels, LargeEnoughForATeam) {
  Check({}, {F32({1, 12, 128, 64}), F32({1, 12, 128, 64}), F32({1, 12, 128, 64})});
  Check(MakeAttrs({{"causal", true}}),
        {F32({1, 2, 300, 64}), F32({1, 2, 300, 64}), F32({1, 2, 300, 64})});
}

// Tiles of nothing but -inf before, between and after those that count; queries that see nothing.
TEST_F(AttentionKernels, MaskedTilesAndRows) {
  for (const int64_t queries : {2, 40}) {
    const Tensor q = F32({1, 2, queries, 16}), k = F32({1, 2, 200, 16}), v = F32({1, 2, 200, 16});
    Tensor added = F32({queries, 200}), seen = Tensor::Zeros({DType::kBool, {queries, 200}});
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < 200; ++j) {
        const bool sees = i % 4 == 0 ? j >= 130 : i % 4 == 1 ? j < 7 : i % 4 == 2 && j / 64 == 1;
        if (!sees) added.Set(i * 200 + j, -kInf);
        seen.Set(i * 200 + j, sees ? 1 : 0);
      }
    }
    Check({}, {q, k, v, added});
    Check({}, {q, k, v, seen});
    Tensor padding = Tensor::Zeros({DType::kF32, {200}});
    for (int64_t j = 0; j < 150; ++j) padding.Set(j, -kInf);
    Check({}, {q, k, v, padding});
    for (int64_t j = 0; j < 200; ++j) padding.Set(j, std::numeric_limits<float>::lowest());
    Check({}, {q, k, v, padding});  // all alike: every key counts the same
  }
}

TEST_F(AttentionKernels, InfinitiesAndNaN) {
  for (const int64_t queries : {3, 20}) {
    for (const float odd : {kInf, -kInf, std::nanf(""), 1e30f}) {
      for (const int64_t at : {int64_t{0}, int64_t{70}}) {
        Tensor q = F32({1, 1, queries, 8}), k = F32({1, 1, 100, 8}), v = F32({1, 1, 100, 8});
        k.Set(at * 8 + 3, odd);
        Check({}, {q, k, v});
        Tensor mask = Tensor::Zeros({DType::kF32, {queries, 100}});
        mask.Set(100 + at, odd);  // of the second query
        Check({}, {q, F32({1, 1, 100, 8}), v, mask});
      }
    }
  }
}

TEST_F(AttentionKernels, OtherTypesAreTheReferences) {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
    const Tensor x = RandomTensor(random_, dtype, {1, 2, 9, 4});
    const KernelCase c = MakeCase("fused.Attention", {}, {x, x, x});
    EXPECT_EQ(CpuTarget().Variants(c.query).front().name, "reference");
  }
}

}  // namespace
}  // namespace millrace
