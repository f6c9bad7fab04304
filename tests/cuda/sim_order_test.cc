// Orders of execution by seed: hundreds of them give the right result for a program that is well
// synchronized, and every one of them convicts the same program with any one dependency left out.
#include <set>

#include "tests/cuda/simulated_gpu.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int64_t kBytes = 256;

// A pipeline over two logical devices with two streams each. Per round: the host's input is copied
// in on a copy stream, moved on by the compute stream, sent across (by a flag), and read back on
// the other side; buffers are reused from round to round. Each dependency has a number; `left_out`
// is dropped.
class Pipeline {
 public:
  static constexpr int kDependencies = 6;

  Pipeline(CudaSim& sim, int left_out) : left_out_(left_out) {
    one_ = MustCreate(sim, {.name = "cuda:0"});
    two_ = MustCreate(sim, {.name = "cuda:1"});
    copy1_ = MustStream(*one_, run_, "copy");
    compute1_ = MustStream(*one_, run_, "compute");
    compute2_ = MustStream(*two_, run_, "compute");
    copy2_ = MustStream(*two_, run_, "copy");
    for (auto* event : {&loaded_, &consumed_}) *event = Must(one_->CreateEvent());
    for (auto* event : {&received_, &stored_}) *event = Must(two_->CreateEvent());
    flags_ = Must(one_->AllocateFlags(2));
    staging_ = Must(one_->Allocate(MemorySpace::kDevice, kBytes));
    sent_ = Must(one_->Allocate(MemorySpace::kDevice, kBytes));
    got_ = Must(two_->Allocate(MemorySpace::kDevice, kBytes));
  }

  // The outputs of all rounds.
  std::vector<std::vector<std::byte>> Run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      inputs_.push_back(Must(one_->Allocate(MemorySpace::kHost, kBytes)));
      outputs_.push_back(Must(two_->Allocate(MemorySpace::kHost, kBytes)));
      std::memcpy(inputs_.back().data(), Pattern(kBytes, round).data(), kBytes);
    }
    for (int round = 0; round < rounds; ++round) Issue(round);
    for (Stream* s : {copy1_.get(), compute1_.get(), compute2_.get(), copy2_.get()}) {
      EXPECT_OK(s->Synchronize());
    }
    std::vector<std::vector<std::byte>> results;
    for (const Buffer& output : outputs_) {
      results.emplace_back(output.data(), output.data() + kBytes);
    }
    return results;
  }

 private:
  bool Has(int dependency) const { return dependency != left_out_; }
  Flag& flag(int i) { return reinterpret_cast<Flag*>(flags_.data())[i]; }

  void Issue(int round) {
    const auto generation = static_cast<uint64_t>(round) + 1;
    const auto value = static_cast<uint32_t>(round) + 1;
    if (round > 0 && Has(0)) EXPECT_OK(copy1_->Wait(*consumed_, generation - 1));
    EXPECT_OK(copy1_->Copy(Move(staging_, inputs_[static_cast<size_t>(round)], kBytes)));
    EXPECT_OK(copy1_->Record(*loaded_, generation));

    if (Has(1)) EXPECT_OK(compute1_->Wait(*loaded_, generation));
    if (round > 0 && Has(2)) EXPECT_OK(compute1_->WaitFlag(flag(1), value - 1));  // read it
    EXPECT_OK(compute1_->Copy(Move(sent_, staging_, kBytes)));
    EXPECT_OK(compute1_->Record(*consumed_, generation));
    EXPECT_OK(compute1_->Signal(flag(0), value));

    if (Has(3)) EXPECT_OK(compute2_->WaitFlag(flag(0), value));
    if (round > 0 && Has(4)) EXPECT_OK(compute2_->Wait(*stored_, generation - 1));
    EXPECT_OK(compute2_->Copy(Move(got_, sent_, kBytes)));
    EXPECT_OK(compute2_->Record(*received_, generation));
    EXPECT_OK(compute2_->Signal(flag(1), value));

    if (Has(5)) EXPECT_OK(copy2_->Wait(*received_, generation));
    EXPECT_OK(copy2_->Copy(Move(outputs_[static_cast<size_t>(round)], got_, kBytes)));
    EXPECT_OK(copy2_->Record(*stored_, generation));
  }

  const int left_out_;
  Cancellation run_;
  std::unique_ptr<Device> one_, two_;
  Buffer staging_, sent_, got_, flags_;
  std::vector<Buffer> inputs_, outputs_;
  std::unique_ptr<Event> loaded_, consumed_, received_, stored_;
  std::unique_ptr<Stream> copy1_, compute1_, compute2_, copy2_;
};

TEST(SimOrder, WellSynchronizedProgramsAreRightInEveryOrder) {
  std::set<std::vector<std::string>> orders;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    CudaSim sim({.memory_bytes = 1 << 20, .seed = seed});
    const auto outputs = Pipeline(sim, /*left_out=*/-1).Run(4);
    for (int round = 0; round < 4; ++round) {
      ASSERT_EQ(outputs[static_cast<size_t>(round)], Pattern(kBytes, round));
    }
    ASSERT_THAT(sim.TakeViolations(), IsEmpty());
    orders.insert(sim.ExecutionOrder());
  }
  EXPECT_GT(orders.size(), 200u);  // the seeds do differ
}

TEST(SimOrder, AnyMissingDependencyIsFoundInEveryOrder) {
  for (int left_out = 0; left_out < Pipeline::kDependencies; ++left_out) {
    int wrong_results = 0;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      SCOPED_TRACE(::testing::Message() << "without " << left_out << ", seed " << seed);
      CudaSim sim({.memory_bytes = 1 << 20, .seed = seed});
      const auto outputs = Pipeline(sim, left_out).Run(4);
      for (int round = 0; round < 4; ++round) {
        wrong_results += outputs[static_cast<size_t>(round)] != Pattern(kBytes, round);
      }
      const auto violations = sim.TakeViolations();
      ASSERT_THAT(violations, Contains(StartsWith("unsynchronized access")));
    }
    EXPECT_GT(wrong_results, 0) << "no order shows what is wrong without " << left_out;
  }
}

TEST(SimOrder, IsAFunctionOfTheSeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::string> first;
    for (int repeat = 0; repeat < 3; ++repeat) {
      // A pause of the issuing thread must not count as the host's waiting.
      CudaSim sim({.memory_bytes = 1 << 20, .seed = seed, .quiet_seconds = 60});
      Pipeline(sim, -1).Run(3);
      if (repeat == 0) first = sim.ExecutionOrder();
      EXPECT_EQ(first, sim.ExecutionOrder()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace millrace
