#include "runtime/dataset.h"

#include <gmock/gmock.h>

#include <chrono>
#include <set>
#include <thread>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;

Dataset Numbers(int64_t count) {
  Tensor x = Tensor::Zeros({DType::kF32, {count, 2}});
  Tensor y = Tensor::Zeros({DType::kI64, {count}});
  for (int64_t i = 0; i < count; ++i) {
    x.Set(2 * i, static_cast<double>(i));
    x.Set(2 * i + 1, static_cast<double>(-i));
    y.Set(i, static_cast<double>(10 * i));
  }
  return {count, {SamplesOf("x", x), SamplesOf("y", y)}};
}

std::vector<int64_t> Places(ShuffledSequence& sequence, int64_t begin, int64_t end) {
  std::vector<int64_t> samples;
  for (int64_t i = begin; i < end; ++i) samples.push_back(sequence.At(i));
  return samples;
}

TEST(DatasetTest, AnEpochIsAPermutationAndTheNextIsAnother) {
  ShuffledSequence sequence(50, 7);
  const std::vector<int64_t> first = Places(sequence, 0, 50), second = Places(sequence, 50, 100);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 50);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 50);
  EXPECT_THAT(first, Not(second));
}

TEST(DatasetTest, OrdersDependOnTheSeedAlone) {
  ShuffledSequence a(50, 7), b(50, 7), c(50, 8);
  EXPECT_EQ(Places(b, 100, 150), Places(a, 100, 150));  // b has seen nothing before
  EXPECT_NE(Places(a, 0, 50), Places(c, 0, 50));
}

// Each sample comes first about as often as any other.
TEST(DatasetTest, EverySampleMayComeFirst) {
  std::vector<int> times(5);
  for (uint64_t seed = 0; seed < 5000; ++seed) ++times[ShuffledSequence(5, seed).At(0)];
  for (const int n : times) EXPECT_NEAR(n, 1000, 150);
}

TEST(DatasetTest, WindowsOfATextMayOverlap) {
  SampleArray array{.name = "x",
                    .data = Tensor::Of<int64_t>({6}, {5, 6, 7, 8, 9, 10}),
                    .sample = {DType::kI64, {3}},
                    .first = 1,
                    .stride = 1};
  Tensor batch = Tensor::Zeros({DType::kI64, {2, 3}});
  CopySamples(array, std::vector<int64_t>{2, 0}, batch);
  EXPECT_THAT(batch.data<int64_t>(), ElementsAre(8, 9, 10, 6, 7, 8));
}

// 7 samples in batches of 3: batch 2 has the last of the first epoch and two of the second.
TEST(DatasetTest, BatchesRunThroughEpochs) {
  const Dataset dataset = Numbers(10);
  const std::vector<int64_t> used = {0, 1, 2, 4, 6, 8, 9};
  auto reader = BatchReader::Start(dataset, used, 3, /*seed=*/5, /*first_batch=*/0);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ShuffledSequence sequence(7, 5);
  for (int64_t batch = 0; batch < 20; ++batch) {
    const std::span<const Tensor> tensors = (*reader)->Next();
    ASSERT_EQ(tensors.size(), 2);
    for (int64_t row = 0; row < 3; ++row) {
      const int64_t sample = used[sequence.At(3 * batch + row)];
      EXPECT_EQ(tensors[0].AsDouble(2 * row), sample);
      EXPECT_EQ(tensors[0].AsDouble(2 * row + 1), -sample);
      EXPECT_EQ(tensors[1].AsInt64(row), 10 * sample);
    }
  }
}

TEST(DatasetTest, ResumedReadersGoOnWhereOthersStopped) {
  const Dataset dataset = Numbers(10);
  const std::vector<int64_t> used = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto whole = BatchReader::Start(dataset, used, 4, 1, 0);
  auto resumed = BatchReader::Start(dataset, used, 4, 1, 6);
  ASSERT_TRUE(whole.ok() && resumed.ok());
  for (int i = 0; i < 6; ++i) (*whole)->Next();
  for (int i = 0; i < 6; ++i) {
    const std::span<const Tensor> a = (*whole)->Next(), b = (*resumed)->Next();
    EXPECT_TRUE(BitEqual(a[0], b[0]));
    EXPECT_TRUE(BitEqual(a[1], b[1]));
  }
}

// The tensors that Next gave stay as they are while the thread reads on.
TEST(DatasetTest, ABatchStaysWhileTheNextAreRead) {
  const Dataset dataset = Numbers(100);
  std::vector<int64_t> used(100);
  for (int64_t i = 0; i < 100; ++i) used[i] = i;
  auto reader = BatchReader::Start(dataset, used, 10, 1, 0);
  ASSERT_TRUE(reader.ok());
  for (int i = 0; i < 30; ++i) {
    const std::span<const Tensor> tensors = (*reader)->Next();
    const std::vector<float> before(tensors[0].data<float>().begin(),
                                    tensors[0].data<float>().end());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(std::ranges::equal(before, tensors[0].data<float>()));
  }
}

}  // namespace
}  // namespace millrace
