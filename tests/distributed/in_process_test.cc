#include "distributed/in_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/cpu/cpu_device.h"
#include "runtime/null/null_device.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Endpoint kA{0, {}}, kB{1, {}};
const Channel kChannel{Section::kStep, 5};

Transfer TransferOf(std::vector<float>& data) {
  return {.data = reinterpret_cast<std::byte*>(data.data()),
          .size_bytes = static_cast<int64_t>(data.size() * sizeof(float))};
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class InProcessTest : public testing::Test {
 protected:
  void Register(Device& a, Device& b) {
    ASSERT_TRUE(communicator_->Register(kA, a, cancellation_).ok());
    ASSERT_TRUE(communicator_->Register(kB, b, cancellation_).ok());
  }
  std::unique_ptr<Stream> StreamOf(Device& device, std::string name = "main") {
    PlanStream stream;
    stream.name = std::move(name);
    auto made = device.CreateStream(stream, cancellation_);
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }

  // The communicator holds flags of devices, so they outlive it.
  const std::unique_ptr<Device> cpu0_ = CreateCpuDevice(), cpu1_ = CreateCpuDevice();
  const std::unique_ptr<NullDevice> queue0_ = CreateNullDevice("q:0", "q");
  const std::unique_ptr<NullDevice> queue1_ = CreateNullDevice("q:1", "q");
  Cancellation cancellation_;
  const std::unique_ptr<Communicator> communicator_ = CreateInProcessCommunicator();
};

TEST_F(InProcessTest, TransfersTakeTheirTurnsRunAfterRun) {
  Register(*cpu0_, *cpu1_);
  std::vector<float> one = {0}, two = {0, 0};  // sent in turn
  std::vector<float> got_one = {0}, got_two = {0, 0};
  auto send =
      communicator_->OpenSend(kA, kB, kChannel, std::vector{TransferOf(one), TransferOf(two)});
  auto recv = communicator_->OpenRecv(kB, kA, kChannel,
                                      std::vector{TransferOf(got_one), TransferOf(got_two)});
  ASSERT_TRUE(send.ok()) << send.status();
  ASSERT_TRUE(recv.ok()) << recv.status();

  std::thread sender([&] {
    const auto stream = StreamOf(*cpu0_);
    for (float run = 0; run < 500; ++run) {
      one = {run};
      EXPECT_TRUE((*send)->Send(*stream).ok());
      one = {-1};  // it has been taken
      two = {run + 0.25f, run + 0.5f};
      EXPECT_TRUE((*send)->Send(*stream).ok());
    }
  });
  const auto stream = StreamOf(*cpu1_);
  for (float run = 0; run < 500; ++run) {
    ASSERT_TRUE((*recv)->Recv(*stream).ok());
    ASSERT_TRUE((*recv)->Recv(*stream).ok());
    ASSERT_THAT(got_one, ElementsAre(run));
    ASSERT_THAT(got_two, ElementsAre(run + 0.25f, run + 0.5f));
  }
  sender.join();
}

TEST_F(InProcessTest, BothSidesWaitForEachOther) {
  Register(*cpu0_, *cpu1_);
  std::vector<float> data = {1};
  auto send = communicator_->OpenSend(kA, kB, kChannel, std::vector{TransferOf(data)});
  ASSERT_TRUE(send.ok());
  absl::Status status;
  std::thread sender([&] { status = (*send)->Send(*StreamOf(*cpu0_)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  cancellation_.Request();
  sender.join();
  EXPECT_TRUE(absl::IsCancelled(status));
}

TEST_F(InProcessTest, BetweenTwoQueuesTheReceiverCopiesDeviceToDevice) {
  Register(*queue0_, *queue1_);
  auto from = queue0_->Allocate(MemorySpace::kDevice, 256);
  auto to = queue1_->Allocate(MemorySpace::kDevice, 256);
  auto send = communicator_->OpenSend(
      kA, kB, kChannel, std::vector{Transfer{.data = from->data(), .size_bytes = 100}});
  auto recv = communicator_->OpenRecv(
      kB, kA, kChannel, std::vector{Transfer{.data = to->data() + 64, .size_bytes = 100}});

  // Issuing never waits: the receiver goes first.
  const auto receiving = StreamOf(*queue1_, "in"), sending = StreamOf(*queue0_, "out");
  for (int run = 0; run < 2; ++run) ASSERT_TRUE((*recv)->Recv(*receiving).ok());
  for (int run = 0; run < 2; ++run) ASSERT_TRUE((*send)->Send(*sending).ok());

  // The flags are the mover's.
  EXPECT_THAT(queue1_->Log(), ElementsAre("in: wait flag f0+0 #1", "in: copy ? -> b0+64 100 bytes",
                                          "in: signal f0+64 #1", "in: wait flag f0+0 #2",
                                          "in: copy ? -> b0+64 100 bytes", "in: signal f0+64 #2"));
  EXPECT_THAT(queue0_->Log(), ElementsAre("out: signal ? #1", "out: wait flag ? #1",
                                          "out: signal ? #2", "out: wait flag ? #2"));
}

TEST_F(InProcessTest, TheAsynchronousSideMovesTheBytes) {
  Register(*queue0_, *cpu1_);
  auto queued = queue0_->Allocate(MemorySpace::kDevice, 256);
  std::vector<float> data = {1, 2};
  const std::vector<Transfer> there = {{.data = queued->data(), .size_bytes = 8}};
  ASSERT_TRUE(communicator_->OpenRecv(kB, kA, kChannel, std::vector{TransferOf(data)}).ok());
  auto send = communicator_->OpenSend(kA, kB, kChannel, there);
  auto recv = communicator_->OpenRecv(kA, kB, kChannel, there);
  ASSERT_TRUE(communicator_->OpenSend(kB, kA, kChannel, std::vector{TransferOf(data)}).ok());

  const auto stream = StreamOf(*queue0_);
  ASSERT_TRUE((*send)->Send(*stream).ok());
  ASSERT_TRUE((*recv)->Recv(*stream).ok());

  EXPECT_THAT(queue0_->Log(), ElementsAre("main: wait flag f0+0 #1", "main: copy b0+0 -> ? 8 bytes",
                                          "main: signal f0+64 #1", "main: wait flag f1+0 #1",
                                          "main: copy ? -> b0+0 8 bytes", "main: signal f1+64 #1"));
}

TEST_F(InProcessTest, EndsThatDisagreeAreRefusedWhenOpened) {
  Register(*cpu0_, *cpu1_);
  std::vector<float> one = {1}, two = {1, 2};
  ASSERT_TRUE(communicator_->OpenSend(kA, kB, kChannel, std::vector{TransferOf(one)}).ok());

  const auto sizes = communicator_->OpenRecv(kB, kA, kChannel, std::vector{TransferOf(two)});
  EXPECT_EQ(sizes.status().code(), DistributedError("").code());
  EXPECT_EQ(Message(sizes.status()),
            "channel 5 from program 0 at () to program 1 at (): transfer 0 sends 4 bytes and "
            "receives 8");

  const Channel other{Section::kInit, 5};
  ASSERT_TRUE(communicator_->OpenSend(kA, kB, other, std::vector{TransferOf(one)}).ok());
  const auto counts = communicator_->OpenRecv(kB, kA, other, {});
  EXPECT_THAT(Message(counts.status()), HasSubstr("1 sends and 0 receives in one init"));
}

TEST_F(InProcessTest, StrangersAndSecondSessionsAreRefused) {
  ASSERT_TRUE(communicator_->Register(kA, *cpu0_, cancellation_).ok());
  EXPECT_THAT(Message(communicator_->Register(kA, *cpu1_, cancellation_)),
              HasSubstr("program 0 at () is registered already"));
  EXPECT_THAT(Message(communicator_->OpenSend(kA, kB, kChannel, {}).status()),
              HasSubstr("program 1 at () does not run in this process"));
}

TEST_F(InProcessTest, GroupsAndMailboxesNeedHostMemory) {
  Register(*cpu0_, *queue0_);
  const std::vector<Endpoint> members = {kA, kB};
  EXPECT_EQ(communicator_->OpenGroup(kA, members, 0).status().code(), DeviceError("").code());
  EXPECT_THAT(Message(communicator_->OpenGroup(kA, members, 0).status()),
              HasSubstr("no collectives for q:0"));
  EXPECT_THAT(Message(communicator_->OpenMailbox(kB, "weights", 8).status()),
              HasSubstr("no mailboxes for q:0"));
}

TEST_F(InProcessTest, AMailboxIsSharedByNameAndHasOneSize) {
  Register(*cpu0_, *cpu1_);
  auto mine = communicator_->OpenMailbox(kA, "weights", 8);
  auto theirs = communicator_->OpenMailbox(kB, "weights", 8);
  ASSERT_TRUE(mine.ok() && theirs.ok());
  std::vector<float> data = {1, 2}, got = {0, 0};
  const auto stream = StreamOf(*cpu0_);

  ASSERT_TRUE((*mine)->Publish(*stream, TransferOf(data).data, 8).ok());
  ASSERT_TRUE((*theirs)->TakeLatest(*stream, TransferOf(got).data, 8).ok());

  EXPECT_EQ(got, data);
  EXPECT_THAT(Message(communicator_->OpenMailbox(kB, "weights", 12).status()),
              HasSubstr("opens mailbox 'weights' with 12 bytes, another endpoint with 8"));
}

}  // namespace
}  // namespace millrace
