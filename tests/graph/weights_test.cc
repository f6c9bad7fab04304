#include "graph/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "graph/builder.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- Random numbers -----------------------------------------------------------------------------

TEST(PhiloxTest, KnownAnswers) {  // kat_vectors of Random123, philox4x32 with 10 rounds
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(
      Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(RandomTest, TheStreamIsTheWordsOfConsecutiveBlocks) {
  const uint64_t seed = 0x123456789abcdef0;
  const auto block = Philox4x32({1, 0, 0, 0}, {0x9abcdef0, 0x12345678});
  for (int lane = 0; lane < 4; ++lane) {
    EXPECT_EQ(UniformAt(seed, 4 + lane), static_cast<float>(block[lane] >> 8) * 0x1p-24f);
  }
  const auto far = Philox4x32({0, 1, 0, 0}, {7, 0});  // block 2^32
  EXPECT_EQ(UniformAt(7, uint64_t{4} << 32), static_cast<float>(far[0] >> 8) * 0x1p-24f);
}

TEST(RandomTest, UniformsAreUniform) {
  constexpr int kCount = 100000;
  int bins[10] = {};
  double sum = 0;
  for (int i = 0; i < kCount; ++i) {
    const float u = UniformAt(42, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++bins[static_cast<int>(u * 10)];
    sum += u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);
  for (const int bin : bins) EXPECT_NEAR(bin, kCount / 10, 500);
}

TEST(RandomTest, NormalsAreNormal) {
  constexpr int kCount = 100000;
  double sum = 0, squares = 0, fourths = 0, neighbours = 0, last = 0;
  for (int i = 0; i < kCount; ++i) {
    const double z = NormalAt(42, i);
    ASSERT_TRUE(std::isfinite(z));
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
    neighbours += z * last;
    last = z;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.015);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourths / kCount, 3, 0.15);
  EXPECT_NEAR(neighbours / kCount, 0, 0.015);
}

// --- Init ---------------------------------------------------------------------------------------

Init Of(InitKind kind, uint64_t seed = 5) {
  Init init;
  init.kind = kind;
  init.seed = seed;
  return init;
}

TEST(InitTest, ElementsDependOnSeedAndIndexAlone) {
  for (const InitKind kind : {InitKind::kUniform, InitKind::kNormal}) {
    const Tensor large = *GenerateInit({DType::kF32, {1001}}, Of(kind));
    for (const int64_t n : {1, 2, 3, 5, 1000}) {
      const Tensor small = *GenerateInit({DType::kF32, {n}}, Of(kind));
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(small.data<float>()[i], large.data<float>()[i]);
    }
    for (const int64_t i : {0, 1, 2, 3, 4, 999}) {
      EXPECT_EQ(large.data<float>()[i],
                kind == InitKind::kUniform ? UniformAt(5, i) : NormalAt(5, i));
    }
    const Tensor other = *GenerateInit({DType::kF32, {1001}}, Of(kind, 6));
    EXPECT_NE(other.data<float>()[0], large.data<float>()[0]);
  }
}

TEST(InitTest, FirstValuesNeverChange) {  // saved models depend on them
  const Tensor u = *GenerateInit({DType::kF32, {4}}, Of(InitKind::kUniform, 1));
  EXPECT_THAT(u.data<float>(),
              ElementsAre(UniformAt(1, 0), UniformAt(1, 1), UniformAt(1, 2), UniformAt(1, 3)));
  EXPECT_EQ(UniformAt(0, 0), static_cast<float>(0x6627e8) * 0x1p-24f);
  EXPECT_NEAR(
      NormalAt(0, 0),
      std::sqrt(-2 * std::log((0x6627e8 + 1) * 0x1p-24)) * std::cos(2 * M_PI * 0xe169c5 * 0x1p-24),
      1e-6);
  EXPECT_NEAR(
      NormalAt(0, 1),
      std::sqrt(-2 * std::log((0x6627e8 + 1) * 0x1p-24)) * std::sin(2 * M_PI * 0xe169c5 * 0x1p-24),
      1e-6);
}

double Deviation(const Tensor& t) {
  double squares = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) squares += t.AsDouble(i) * t.AsDouble(i);
  return std::sqrt(squares / static_cast<double>(t.num_elements()));
}

double LargestMagnitude(const Tensor& t) {
  double largest = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    largest = std::max(largest, std::abs(t.AsDouble(i)));
  return largest;
}

TEST(InitTest, ScalesFollowTheFans) {
  // A matrix is [in, out]; a convolution's weight is [out, in, ...].
  EXPECT_NEAR(Deviation(*GenerateInit({DType::kF32, {800, 50}}, Of(InitKind::kHeNormal))),
              std::sqrt(2.0 / 800), 1e-3);
  EXPECT_NEAR(Deviation(*GenerateInit({DType::kF32, {64, 32, 3, 3}}, Of(InitKind::kHeNormal))),
              std::sqrt(2.0 / (32 * 9)), 2e-3);
  const double bound = std::sqrt(6.0 / (32 * 9 + 64 * 9));
  const double largest =
      LargestMagnitude(*GenerateInit({DType::kF64, {64, 32, 3, 3}}, Of(InitKind::kXavierUniform)));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
  Init normal = Of(InitKind::kNormal);
  normal.std = 0.02;
  EXPECT_NEAR(Deviation(*GenerateInit({DType::kBF16, {100, 100}}, normal)), 0.02, 1e-3);
  Init uniform = Of(InitKind::kUniform);
  uniform.low = -3;
  uniform.high = -1;
  const Tensor t = *GenerateInit({DType::kF16, {1000}}, uniform);
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_GE(t.AsDouble(i), -3);
    ASSERT_LE(t.AsDouble(i), -1);
  }
}

TEST(InitTest, ZerosAndOnesOfEveryType) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const TensorType type = {static_cast<DType>(d), {5}};
    const Tensor zeros = *GenerateInit(type, Of(InitKind::kZeros)),
                 ones = *GenerateInit(type, Of(InitKind::kOnes));
    for (int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(zeros.AsDouble(i), 0) << ToString(type);
      EXPECT_EQ(ones.AsDouble(i), 1) << ToString(type);
    }
  }
}

TEST(InitTest, WhatMakesNoSenseIsRefused) {
  const TensorType ints = {DType::kI32, {4, 4}}, vector = {DType::kF32, {4}};
  EXPECT_EQ(ExitCode(GenerateInit(ints, Of(InitKind::kNormal)).status()), 3);
  EXPECT_EQ(ExitCode(GenerateInit(vector, Of(InitKind::kHeNormal)).status()), 3);
  EXPECT_EQ(ExitCode(GenerateInit(vector, Of(InitKind::kXavierUniform)).status()), 3);
  Init init = Of(InitKind::kUniform);
  init.low = init.high;
  EXPECT_EQ(ExitCode(GenerateInit(vector, init).status()), 3);
  init = Of(InitKind::kNormal);
  init.std = std::nan("");
  EXPECT_EQ(ExitCode(GenerateInit(vector, init).status()), 3);
}

TEST(InitTest, EmptyTensors) {
  EXPECT_EQ(GenerateInit({DType::kF32, {0, 3}}, Of(InitKind::kHeNormal))->num_elements(), 0);
  EXPECT_EQ(GenerateInit({DType::kF32, {0}}, Of(InitKind::kOnes))->num_elements(), 0);
}

// --- WeightStore --------------------------------------------------------------------------------

class WeightStoreTest : public ::testing::Test {
 protected:
  WeightStoreTest() {
    std::filesystem::create_directory(folder_.File("graph"));
    values_ = Tensor::Zeros({DType::kF32, {3}});
    for (int i = 0; i < 3; ++i) values_.Set(i, i + 0.5);
    EXPECT_TRUE(WriteSafetensors(folder_.File("graph/w.safetensors"), {{"t", values_}}).ok());
    EXPECT_TRUE(WriteSafetensors(folder_.File("out.safetensors"), {{"t", values_}}).ok());
  }

  // The data of one param of the given type and source.
  absl::StatusOr<Tensor> Get(const TensorType& type, DataSource source,
                             std::string path = "w.safetensors", std::string sha256 = "") {
    GraphBuilder b;
    const ValueId p = b.Param("p", type, std::move(source));
    b.graph().directory = folder_.File("graph");
    b.graph().weight_files.push_back({"w", std::move(path), std::move(sha256)});
    return WeightStore(b.graph()).Get(p);
  }

  static DataSource FromFile(std::string name) {
    DataSource source;
    source.kind = DataSource::Kind::kFile;
    source.file = "w";
    source.tensor_name = std::move(name);
    return source;
  }

  const TemporaryFolder folder_;
  Tensor values_;
};

TEST_F(WeightStoreTest, FromFiles) {
  const absl::StatusOr<Tensor> t = Get(values_.type(), FromFile("t"));
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_TRUE(BitEqual(*t, values_));
}

TEST_F(WeightStoreTest, InlineSplatAndInit) {
  EXPECT_TRUE(BitEqual(*Get(values_.type(), InlineData(values_)), values_));
  DataSource splat;
  splat.kind = DataSource::Kind::kSplat;
  splat.tensor = Tensor::Scalar<int16_t>(-7);
  const Tensor t = *Get({DType::kI16, {5, 7}}, splat);
  EXPECT_EQ(t.shape(), Shape({5, 7}));
  for (int i = 0; i < 35; ++i) EXPECT_EQ(t.data<int16_t>()[i], -7);
  EXPECT_EQ(Get({DType::kI16, {0}}, splat)->num_elements(), 0);
  EXPECT_TRUE(BitEqual(*Get(values_.type(), InitData(Of(InitKind::kNormal))),
                       *GenerateInit(values_.type(), Of(InitKind::kNormal))));
}

TEST_F(WeightStoreTest, TypesMustAgree) {
  EXPECT_EQ(StdView(Get({DType::kF32, {4}}, FromFile("t")).status().message()),
            "'p' is declared f32[4], but its data (tensor 't' of file 'w') are f32[3]");
  EXPECT_EQ(ExitCode(Get({DType::kF16, {3}}, InlineData(values_)).status()), 3);
}

TEST_F(WeightStoreTest, MissingThings) {
  EXPECT_THAT(std::string(Get(values_.type(), FromFile("tt")).status().message()),
              HasSubstr("has no tensor 'tt'; did you mean 't'?"));
  EXPECT_EQ(ExitCode(Get(values_.type(), FromFile("t"), "gone.safetensors").status()), 3);
}

TEST_F(WeightStoreTest, FilesOutsideTheGraphsFolderAreRefused) {
  for (const std::string& path :
       {std::string("../out.safetensors"), folder_.File("out.safetensors")}) {
    EXPECT_EQ(ExitCode(Get(values_.type(), FromFile("t"), path).status()), 3) << path;
  }
  std::filesystem::create_symlink("../out.safetensors", folder_.File("graph/link.safetensors"));
  EXPECT_THAT(
      std::string(Get(values_.type(), FromFile("t"), "link.safetensors").status().message()),
      HasSubstr("leads outside the folder"));
}

TEST_F(WeightStoreTest, TheHashIsCheckedWhereGiven) {
  const std::string hash = Sha256Hex(*ReadFile(folder_.File("graph/w.safetensors")));
  EXPECT_TRUE(Get(values_.type(), FromFile("t"), "w.safetensors", hash).ok());
  EXPECT_THAT(std::string(Get(values_.type(), FromFile("t"), "w.safetensors", std::string(64, '0'))
                              .status()
                              .message()),
              HasSubstr("is not the file that the graph was saved with"));
}

}  // namespace
}  // namespace millrace
