// bf16 on the cpu: casts bit for bit, and products against the reference.
#include <bit>
#include <cmath>

#include "gtest/gtest.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "tests/ops/cpu_kernel_runner.h"

namespace millrace {
namespace {

// Ties to even both ways, infinities, NaNs whose payload is in the lost half, subnormals; then
// whatever bits come.
Tensor OddFloats(std::mt19937& random, int64_t count) {
  Tensor t = Tensor::Zeros({DType::kF32, {count}});
  const uint32_t special[] = {0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f800000,
                              0xff800000, 0x7f800001, 0xffc00000, 0x7f7fffff, 0x00000001,
                              0x80008000, 0x00000000, 0x80000000};
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = i < std::ssize(special) ? special[i] : static_cast<uint32_t>(random());
    t.mutable_data<float>()[i] = std::bit_cast<float>(bits);
  }
  return t;
}

TEST(Bf16, CastsAreTheReferencesBitForBit) {
  std::mt19937 random(5);
  const auto library = CreateCpuKernelLibrary();
  for (const int64_t count : {13, 1000, 70001}) {
    Tensor x = OddFloats(random, count);
    for (const char* to : {"bf16", "f32"}) {
      const KernelCase c = MakeCase("Cast", MakeAttrs({{"to", std::string(to)}}), {x});
      const std::vector<KernelVariant> variants = CpuTarget().Variants(c.query);
      if (x.dtype() != c.query.outputs[0]->dtype) {
        EXPECT_EQ(variants.front().name, "simd");
      }
      const auto expected = RunVariant(*library, c, variants.back());
      const auto actual = RunVariant(*library, c, variants.front(), {.threads = 2});
      ASSERT_TRUE(expected.ok() && actual.ok());
      const Tensor &a = (*actual)[0], &e = (*expected)[0];
      ASSERT_EQ(a.size_bytes(), e.size_bytes());
      EXPECT_EQ(std::memcmp(a.bytes(), e.bytes(), a.size_bytes()), 0) << to;
      x = e;
    }
  }
}

// Operands are exact and sums f32, so all there is is one rounding to 8 bits.
TEST(Bf16, Products) {
  std::mt19937 random(6);
  const auto library = CreateCpuKernelLibrary();
  const auto bf16 = [&](const Shape& shape) { return RandomTensor(random, DType::kBF16, shape); };
  const Attrs turned = MakeAttrs({{"transB", true}});
  const std::vector<KernelCase> cases = {
      MakeCase("MatMul", {}, {bf16({1, 64}), bf16({64, 48})}),
      MakeCase("MatMul", {}, {bf16({128, 96}), bf16({96, 200})}),
      MakeCase("MatMul", {}, {bf16({2, 17, 33}), bf16({33, 31})}),
      MakeCase("MatMul", {}, {bf16({3, 17, 33}), bf16({3, 33, 31})}),
      MakeCase("MatMul", {}, {bf16({3, 17, 33}), bf16({1, 33, 31})}),
      MakeCase("Gemm", {}, {bf16({50, 40}), bf16({40, 30}), bf16({30})}),
      MakeCase("Gemm", turned, {bf16({50, 40}), bf16({30, 40})}),
  };
  int compared = 0;
  for (const KernelCase& c : cases) {
    SCOPED_TRACE(Describe(c));
    const std::vector<KernelVariant> variants = CpuTarget().Variants(c.query);
    const auto expected = RunVariant(*library, c, variants.back());
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (size_t v = 0; v + 1 < variants.size(); ++v) {
      const auto actual = RunVariant(*library, c, variants[v]);
      ASSERT_TRUE(actual.ok()) << actual.status();
      ++compared;
      for (int64_t i = 0; i < (*expected)[0].num_elements(); ++i) {
        const double e = (*expected)[0].AsDouble(i);
        ASSERT_NEAR((*actual)[0].AsDouble(i), e, 0x1p-7 * std::abs(e) + 1e-3) << "element " << i;
      }
    }
  }
  // A processor for which oneDNN has no such kernels is none to fail on.
  if (compared == 0) GTEST_SKIP() << "oneDNN has no bf16 products here";
}

}  // namespace
}  // namespace millrace
