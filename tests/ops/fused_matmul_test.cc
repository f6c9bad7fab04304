// Products with epilogues, with dense weights and packed ones, on every instruction set and for
// teams of 1 and 2, against the reference: sizes around those of panels and chunks, transposed
// operands, programs of every instruction the kernel has.
#include <algorithm>

#include "gtest/gtest.h"
#include "ops/cpu/simd_targets.h"
// Highway must see what the line above leaves out.
#include "hwy/highway.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/fused_product.h"
#include "ops/op_def.h"
#include "ops/scalar_program.h"
#include "tests/ops/cpu_kernel_runner.h"

namespace millrace {
namespace {

class FusedProducts : public testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  // All variants against the reference; elements are sums of `k` terms of size up to 4.
  void Check(const KernelCase& c, int64_t k, bool packable) {
    SCOPED_TRACE(Describe(c));
    const std::vector<KernelVariant> variants = CpuTarget().Variants(c.query);
    EXPECT_EQ(IsPacked(variants), packable);
    ASSERT_GT(variants.size(), 1u);
    const auto expected = RunVariant(*library_, c, variants.back());
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      for (size_t v = 0; v + 1 < variants.size(); ++v) {
        for (int threads : {1, 2}) {
          const auto actual = RunVariant(*library_, c, variants[v], {.threads = threads});
          ASSERT_TRUE(actual.ok()) << actual.status();
          ExpectNear((*actual)[0], (*expected)[0], 1e-6 * 4 * static_cast<double>(k + 4));
        }
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }

  static bool IsPacked(const std::vector<KernelVariant>& variants) {
    return std::ranges::any_of(
        variants, [](const KernelVariant& v) { return v.in_layouts[1] == Layout::kPacked; });
  }

  static void ExpectNear(const Tensor& actual, const Tensor& expected, double tolerance) {
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      ASSERT_NEAR(actual.AsDouble(i), expected.AsDouble(i), tolerance) << "element " << i;
    }
  }

  Tensor F32(const Shape& shape) { return RandomTensor(random_, DType::kF32, shape); }
  int64_t Draw(std::initializer_list<int64_t> values) {
    return values.begin()[random_() % values.size()];
  }

  // MatMul of `a` and `b` whose result goes through `write`(product, further operands).
  template <typename F>
  KernelCase Fused(const Tensor& a, const Tensor& b, const std::vector<Tensor>& operands,
                   F&& write) {
    Shape space = a.shape();
    space[space.rank() - 1] = b.shape()[1];
    FusedProgram program = ProgramOver(space);
    const ScalarTerm product = LoadOperand(program, {DType::kF32, space}, space);
    std::vector<ScalarTerm> terms;
    for (const Tensor& t : operands) terms.push_back(LoadOperand(program, t.type(), space));
    StoreOutput(program, write(product, terms));
    std::vector<Tensor> inputs = {a, b};
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    return MakeCase("fused.MatMul", MakeAttrs({{std::string(kEpilogue), ToText(program)}}), inputs);
  }

  std::mt19937 random_{97};
  std::unique_ptr<KernelLibrary> library_ = CreateCpuKernelLibrary();
};

TEST_F(FusedProducts, WideWeightsArePacked) {
  for (const int64_t n : {769, 1000, 1600}) {
    for (const int64_t m : {1, 8, 9, 20}) {
      Check(MakeCase("MatMul", {}, {F32({m, 33}), F32({33, n})}), 33, m > 8);
    }
    const Attrs turned = MakeAttrs({{"transA", true}, {"beta", 0.5}});
    Check(MakeCase("Gemm", turned, {F32({33, 15}), F32({33, n}), F32({n})}), 33, true);
    const Attrs b_turned = MakeAttrs({{"transB", true}});
    Check(MakeCase("Gemm", b_turned, {F32({5, 33}), F32({n, 33})}), 33, false);
  }
  Check(MakeCase("MatMul", {}, {F32({2, 3, 5, 70}), F32({70, 800})}), 70, true);
  Check(MakeCase("MatMul", {}, {F32({5, 70}), F32({70, 768})}), 70, false);
}

TEST_F(FusedProducts, BiasActivationAndResidual) {
  for (const int64_t n : {1, 70, 600, 1000}) {
    for (const int64_t m : {1, 9}) {
      const Tensor a = F32({m, 20}), b = F32({20, n}), bias = F32({n}), all = F32({m, n});
      const bool wide = n > 768 && m > 8;
      Check(Fused(a, b, {bias},
                  [](const ScalarTerm& x, auto& t) {
                    return ScalarUnary(ScalarOp::kGelu, x + t[0]);
                  }),
            20, wide);
      Check(
          Fused(a, b, {bias, all}, [](const ScalarTerm& x, auto& t) { return (x + t[0]) + t[1]; }),
          20, wide);
      Check(Fused(a, b, {F32({})}, [](const ScalarTerm& x, auto& t) { return 0.5 * x * t[0]; }), 20,
            wide);
    }
  }
}

TEST_F(FusedProducts, EveryUnaryInstruction) {
  const Tensor a = F32({5, 3}), b = F32({3, 50});
  for (ScalarOp op : {ScalarOp::kNeg, ScalarOp::kAbs, ScalarOp::kTanh, ScalarOp::kErf,
                      ScalarOp::kSigmoid, ScalarOp::kGelu, ScalarOp::kGeluTanh}) {
    SCOPED_TRACE(ScalarOpName(op));
    Check(Fused(a, b, {}, [&](const ScalarTerm& x, auto&) { return ScalarUnary(op, x); }), 3,
          false);
  }
  Check(Fused(a, b, {},
              [](const ScalarTerm& x, auto&) {
                return ScalarUnary(ScalarOp::kExp, 0.1 * x) - x / ScalarConstant(x, 3);
              }),
        3, false);
}

// The product was written over a residual that lay in the result's place.
TEST_F(FusedProducts, AreNotComputedInPlace) {
  EXPECT_TRUE(FindOp("fused.MatMul")->traits.in_place.empty());
}

TEST_F(FusedProducts, AnyMapGoesAlong) {
  const auto add = [](const ScalarTerm& x, auto& t) { return x + t[0]; };
  Check(Fused(F32({5, 3}), F32({3, 7}), {F32({5, 1})}, add), 3, false);
  const auto relu = [](const ScalarTerm& x, auto&) {
    return Select(x < 0.25, ScalarConstant(x, 0), x);
  };
  Check(Fused(F32({5, 3}), F32({3, 7}), {}, relu), 3, false);
}

}  // namespace
}  // namespace millrace
