// Collectives of 2 to 8 threads against a plain loop over all ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "distributed/reduce.h"
#include "distributed/shared_group.h"
#include "graph/tensor.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/distributed/collective_reference.h"

namespace millrace {
namespace {

using testing::HasSubstr;

// Runs work(rank, stream) on a thread each.
template <typename Work>
void OnEachRank(int ranks, Cancellation& cancellation, Work work) {
  const auto device = CreateCpuDevice();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto stream = device->CreateStream({}, cancellation);
      work(rank, **stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// `spec` once on each rank, each with a spec of its own.
std::vector<Tensor> RunCollective(const CollectiveSpec& spec, const std::vector<Tensor>& inputs,
                                  bool in_place, int repeats = 1) {
  const int ranks = static_cast<int>(inputs.size());
  const auto group = CreateSharedGroup(ranks);
  std::vector<Tensor> outputs;
  for (int rank = 0; rank < ranks; ++rank) {
    outputs.push_back(Tensor::Zeros(Expected(spec, inputs, rank).type()));
  }
  Cancellation cancellation;
  OnEachRank(ranks, cancellation, [&](int rank, Stream& stream) {
    const auto member = JoinGroup(group, rank);
    const CollectiveSpec own = spec;
    for (int i = 0; i < repeats; ++i) {
      std::byte* output = outputs[rank].mutable_bytes();
      const std::byte* input = inputs[rank].bytes();
      if (in_place) {
        if (inputs[rank].size_bytes() > 0) {
          std::memcpy(output, input, static_cast<size_t>(inputs[rank].size_bytes()));
        }
        input = output;
      }
      const absl::Status status = member->Run(stream, own, input, output);
      EXPECT_TRUE(status.ok()) << status;
    }
  });
  return outputs;
}

void ExpectRight(const CollectiveSpec& spec, int ranks, bool in_place, uint32_t seed) {
  const std::vector<Tensor> inputs = RandomInputs(ranks, spec.dtype, spec.count, seed);
  const std::vector<Tensor> outputs = RunCollective(spec, inputs, in_place, 3);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(BitEqual(outputs[rank], Expected(spec, inputs, rank)))
        << "kind " << static_cast<int>(spec.kind) << " of " << spec.count << " "
        << DTypeName(spec.dtype) << ", rank " << rank << " of " << ranks;
  }
}

constexpr DType kNumeric[] = {DType::kI8,  DType::kU8,   DType::kI16, DType::kU16,
                              DType::kI32, DType::kU32,  DType::kI64, DType::kU64,
                              DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

TEST(CollectivesTest, AllReduceOfEveryTypeReductionAndGroupSize) {
  uint32_t seed = 0;
  for (const DType dtype : kNumeric) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
      const int ranks = 2 + static_cast<int>(seed % 7);
      ExpectRight({CommKind::kAllReduce, reduction, dtype, 1 + seed % 700}, ranks, seed % 2 == 0,
                  seed);
      ++seed;
    }
    ExpectRight({CommKind::kAllReduce, Reduction::kProd, dtype, 100}, 3, false, seed);
    ExpectRight({CommKind::kAllReduce, Reduction::kMean, dtype, 5000}, 2, true, seed);
  }
}

TEST(CollectivesTest, EveryKindOnTwoToEightRanks) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const int64_t count = 60 * ranks;
    for (const CommKind kind : {CommKind::kAllReduce, CommKind::kAllGather,
                                CommKind::kReduceScatter, CommKind::kAllToAll}) {
      ExpectRight({kind, Reduction::kSum, DType::kF32, count}, ranks, false, ranks);
    }
    for (int root = 0; root < ranks; ++root) {
      ExpectRight({CommKind::kBroadcast, Reduction::kSum, DType::kI16, count, root}, ranks,
                  root % 2 == 0, root);
    }
  }
}

TEST(CollectivesTest, NothingIsReducedRightToo) {
  ExpectRight({CommKind::kAllReduce, Reduction::kSum, DType::kF32, 0}, 4, false, 1);
  ExpectRight({CommKind::kAllReduce, Reduction::kSum, DType::kF32, 1}, 4, true, 1);
}

TEST(CollectivesTest, SumsAreTheSameBitsEveryTimeAndOnEveryRank) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<Tensor> inputs;
  for (int rank = 0; rank < 5; ++rank) {
    Tensor tensor = Tensor::Zeros({DType::kF32, {3000}});
    for (float& value : tensor.mutable_data<float>()) value = normal(random);
    inputs.push_back(tensor);
  }
  Tensor expected = Tensor::Zeros({DType::kF32, {3000}});
  for (int64_t i = 0; i < 3000; ++i) {
    float sum = inputs[0].data<float>()[i];
    for (int rank = 1; rank < 5; ++rank) sum += inputs[rank].data<float>()[i];
    expected.mutable_data<float>()[i] = sum;
  }
  for (int run = 0; run < 10; ++run) {
    for (const Tensor& output :
         RunCollective({CommKind::kAllReduce, Reduction::kSum, DType::kF32, 3000}, inputs, false)) {
      ASSERT_TRUE(BitEqual(output, expected));
    }
  }
}

TEST(CollectivesTest, HalvesAreAccumulatedInF32) {
  // 2048 + 1 + 1 in f16 steps would stay 2048.
  std::vector<Tensor> inputs;
  for (float value : {2048.0f, 1.0f, 1.0f}) inputs.push_back(Tensor::Scalar(Half(value)));
  std::vector<const std::byte*> bytes;
  for (const Tensor& input : inputs) bytes.push_back(input.bytes());
  Tensor output = Tensor::Zeros({DType::kF16, {}});
  ASSERT_TRUE(ReduceRanks(Reduction::kSum, DType::kF16, bytes, 1, output.mutable_bytes()).ok());
  EXPECT_EQ(output.AsDouble(0), 2050);
}

TEST(CollectivesTest, NanOfAnyRankComesThroughMaxAndMin) {
  for (int place = 0; place < 3; ++place) {
    std::vector<Tensor> inputs(3, Tensor::Scalar(1.0f));
    inputs[place] = Tensor::Scalar(std::nanf(""));
    std::vector<const std::byte*> bytes;
    for (const Tensor& input : inputs) bytes.push_back(input.bytes());
    for (const Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
      Tensor output = Tensor::Zeros({DType::kF32, {}});
      ASSERT_TRUE(ReduceRanks(reduction, DType::kF32, bytes, 1, output.mutable_bytes()).ok());
      EXPECT_TRUE(std::isnan(output.AsDouble(0))) << place;
    }
  }
}

TEST(CollectivesTest, MeansOfManyBytesDoNotOverflowTheDivisor) {
  const std::vector<Tensor> inputs(256, Tensor::Scalar<int8_t>(0));
  std::vector<const std::byte*> bytes;
  for (const Tensor& input : inputs) bytes.push_back(input.bytes());
  Tensor output = Tensor::Scalar<int8_t>(1);
  ASSERT_TRUE(ReduceRanks(Reduction::kMean, DType::kI8, bytes, 1, output.mutable_bytes()).ok());
  EXPECT_EQ(output.AsInt64(0), 0);
}

TEST(CollectivesTest, RanksThatDisagreeAreTold) {
  const auto group = CreateSharedGroup(2);
  Cancellation cancellation;
  std::vector<absl::Status> statuses(2);
  OnEachRank(2, cancellation, [&](int rank, Stream& stream) {
    float input = 1, output = 0;
    const CollectiveSpec spec{CommKind::kAllReduce, Reduction::kSum,
                              rank == 0 ? DType::kF32 : DType::kI32, 1};
    statuses[rank] = JoinGroup(group, rank)
                         ->Run(stream, spec, reinterpret_cast<std::byte*>(&input),
                               reinterpret_cast<std::byte*>(&output));
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), DistributedError("").code());
  }
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("rank 0 runs AllReduce of 1 f32 (sum, root 0) while rank 1 runs AllReduce "
                        "of 1 i32"));
}

TEST(CollectivesTest, WhatCannotBeDoneIsRefused) {
  const auto group = CreateSharedGroup(2);
  Cancellation cancellation;
  OnEachRank(2, cancellation, [&](int rank, Stream& stream) {
    std::byte input[64], output[64];
    const auto member = JoinGroup(group, rank);
    const auto run = [&](const CollectiveSpec& spec) {
      return std::string(member->Run(stream, spec, input, output).message());
    };
    EXPECT_THAT(run({CommKind::kAllToAll, Reduction::kSum, DType::kI8, 3}),
                HasSubstr("cannot be split evenly over 2 ranks"));
  });
}

TEST(CollectivesTest, CancellationEndsTheWaitForAMissingRank) {
  const auto group = CreateSharedGroup(3);
  Cancellation cancellation;
  OnEachRank(3, cancellation, [&](int rank, Stream& stream) {
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      cancellation.Request();
      return;
    }
    float value = 1, sum = 0;
    const absl::Status status =
        JoinGroup(group, rank)
            ->Run(stream, {CommKind::kAllReduce, Reduction::kSum, DType::kF32, 1},
                  reinterpret_cast<std::byte*>(&value), reinterpret_cast<std::byte*>(&sum));
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  });
}

}  // namespace
}  // namespace millrace
