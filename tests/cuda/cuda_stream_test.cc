#include "runtime/cuda/cuda_stream.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/flag_wait.h"
#include "tests/cuda/simulated_gpu.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Where bytes may lie: the spaces, and the memory of a cpu device in the same process.
struct Home {
  const char* name;
  MemorySpace space;
  bool pageable = false;
};
constexpr Home kDeviceHome{"device", MemorySpace::kDevice};
constexpr Home kPinnedHome{"pinned", MemorySpace::kHost};
constexpr Home kFileHome{"file", MemorySpace::kFile};
constexpr Home kPageableHome{"pageable", MemorySpace::kHost, true};
constexpr Home kHomes[] = {kDeviceHome, kPinnedHome, kFileHome, kPageableHome};

struct CudaStreamTest : ::testing::Test {
  explicit CudaStreamTest(const CudaSimOptions& options = {}) : sim(options) {
    device = MustCreate(sim, {.offload_directory = ::testing::TempDir()});
    stream = MustStream(*device, run);
  }

  Buffer Allocate(const Home& home, int64_t size_bytes) {
    if (!home.pageable) return Must(device->Allocate(home.space, size_bytes));
    return Buffer(new std::byte[static_cast<size_t>(size_bytes)], size_bytes, home.space,
                  [](void* data, int64_t) { delete[] static_cast<std::byte*>(data); });
  }
  Buffer Filled(const Home& home, const std::vector<std::byte>& bytes) {
    Buffer buffer = Allocate(home, static_cast<int64_t>(bytes.size()));
    EXPECT_OK(device->Write(buffer.data(), bytes.data(), buffer.size()));
    return buffer;
  }

  CudaSim sim;
  Cancellation run;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

// --- Copy ---------------------------------------------------------------------------------------

struct CopyCase {
  const char* name;
  int64_t row_bytes, rows, to_pitch, from_pitch;
};

// Every pair of spaces, contiguous, strided on either side, broadcast from one row, one byte wide,
// and larger than the staging of a stream (1 MiB) in rows and within a row.
TEST_F(CudaStreamTest, CopiesBetweenAllSpaces) {
  const CopyCase kCases[] = {
      {"contiguous", 4096, 1, 0, 0},
      {"dense rows", 64, 16, 64, 64},
      {"strided source", 48, 10, 48, 100},
      {"strided destination", 48, 10, 100, 48},
      {"both strided", 7, 13, 16, 32},
      {"broadcast", 32, 9, 32, 0},
      {"bytes", 1, 50, 3, 2},
      {"many rows", 100'000, 23, 100'032, 100'064},
      {"long rows", 3'000'001, 2, 3'000'064, 3'000'001},
  };
  for (const CopyCase& c : kCases) {
    for (const Home& to_home : kHomes) {
      for (const Home& from_home : kHomes) {
        SCOPED_TRACE(::testing::Message()
                     << c.name << " from " << from_home.name << " to " << to_home.name);
        const auto source = Pattern((c.rows - 1) * c.from_pitch + c.row_bytes, 1);
        auto expected = Pattern((c.rows - 1) * c.to_pitch + c.row_bytes, 2);
        const Buffer from = Filled(from_home, source);
        const Buffer to = Filled(to_home, expected);
        for (int64_t row = 0; row < c.rows; ++row) {
          std::memcpy(&expected[static_cast<size_t>(row * c.to_pitch)],
                      &source[static_cast<size_t>(row * c.from_pitch)],
                      static_cast<size_t>(c.row_bytes));
        }
        CopyRegion region = Move(to, from, c.row_bytes);
        region.rows = c.rows;
        region.to_pitch_bytes = c.to_pitch;
        region.from_pitch_bytes = c.from_pitch;
        ASSERT_OK(stream->Copy(region));
        ASSERT_OK(stream->Synchronize());
        ASSERT_TRUE(ReadAll(*device, to) == expected);
      }
    }
  }
}

TEST_F(CudaStreamTest, CopiesOfNothingDoNothing) {
  const int64_t calls = sim.CountCalls();
  CopyRegion region;
  EXPECT_OK(stream->Copy(region));
  region.row_bytes = 4;
  region.rows = 0;
  EXPECT_OK(stream->Copy(region));
  EXPECT_EQ(sim.CountCalls(), calls);
}

TEST_F(CudaStreamTest, PitchesBeyondTheDriversLimitGoRowByRow) {
  const Buffer from = Filled(kDeviceHome, Pattern(16));
  const Buffer to = Allocate(kDeviceHome, 16);
  CopyRegion region = Move(to, from, 8);
  region.rows = 2;
  region.to_pitch_bytes = 8;
  region.from_pitch_bytes = int64_t{1} << 31;  // the second row lies outside: the driver sees it
  EXPECT_THAT(Message(stream->Copy(region)), HasSubstr("copying 2 x 8 bytes from device"));
  EXPECT_EQ(sim.CountCalls("Memcpy2DAsync"), 0);
  EXPECT_FALSE(stream->Synchronize().ok());
  EXPECT_THAT(sim.TakeViolations(), Contains(HasSubstr("out of bounds: MemcpyAsync")));
}

TEST_F(CudaStreamTest, StagedCopiesKeepStreamOrder) {
  const Buffer file = Allocate(kFileHome, 3 << 20);
  const Buffer a = Filled(kDeviceHome, Pattern(3 << 20, 1));
  const Buffer b = Filled(kDeviceHome, Pattern(3 << 20, 2));
  // Swap a out, overwrite it, swap it back in.
  ASSERT_OK(stream->Copy(Move(file, a, a.size())));
  ASSERT_OK(stream->Copy(Move(a, b, b.size())));
  ASSERT_OK(stream->Copy(Move(b, file, b.size())));
  ASSERT_OK(stream->Synchronize());
  EXPECT_TRUE(ReadAll(*device, a) == Pattern(3 << 20, 2));
  EXPECT_TRUE(ReadAll(*device, b) == Pattern(3 << 20, 1));
}

// A cpu device of the same process writes its memory once the flag is signalled. The driver's own
// copy of such memory would hold up this thread, which has yet to issue the signal: a deadlock.
TEST_F(CudaStreamTest, PageableCopiesDoNotHoldUpTheIssuingThread) {
  const Buffer flags = Must(device->AllocateFlags(1));
  Flag& flag = *reinterpret_cast<Flag*>(flags.data());
  auto other = MustStream(*device, run, "other");
  const Buffer host = Filled(kPageableHome, Pattern(64));
  const Buffer to = Allocate(kDeviceHome, 64);
  ASSERT_OK(stream->WaitFlag(flag, 1));
  ASSERT_OK(stream->Copy(Move(to, host, 64)));
  ASSERT_OK(other->Signal(flag, 1));
  ASSERT_OK(stream->Synchronize());
  ASSERT_OK(other->Synchronize());
  EXPECT_EQ(ReadAll(*device, to), Pattern(64));
}

// --- Streams and events -------------------------------------------------------------------------

TEST_F(CudaStreamTest, PrioritiesAreClampedToTheGpusRange) {
  const Buffer from = Filled(kDeviceHome, Pattern(8));
  const Buffer to = Allocate(kDeviceHome, 8);
  for (int priority : {-100, -2, 7}) {
    auto urgent = MustStream(*device, run, "urgent", priority);
    ASSERT_OK(urgent->Copy(Move(to, from, 8)));
    ASSERT_OK(urgent->Synchronize());
  }
  EXPECT_THAT(sim.ExecutionOrder(),
              AllOf(Contains(MatchesRegex(".*#1 of stream [0-9]+ of priority -5\\)")),
                    Contains(MatchesRegex(".*#1 of stream [0-9]+ of priority -2\\)")),
                    Contains(MatchesRegex(".*#1 of stream 5\\)"))));
}

TEST_F(CudaStreamTest, EventsOrderStreams) {
  auto other = MustStream(*device, run, "other");
  auto event = Must(device->CreateEvent());
  const Buffer a = Filled(kDeviceHome, Pattern(64, 1));
  const Buffer b = Allocate(kDeviceHome, 64);
  const Buffer c = Allocate(kDeviceHome, 64);
  ASSERT_OK(stream->Copy(Move(b, a, 64)));
  ASSERT_OK(stream->Record(*event, 1));
  ASSERT_OK(other->Wait(*event, 1));
  ASSERT_OK(other->Copy(Move(c, b, 64)));
  ASSERT_OK(other->Synchronize());
  EXPECT_EQ(ReadAll(*device, c), Pattern(64, 1));
}

TEST_F(CudaStreamTest, AWaitForAGenerationNotIssuedIsOurBug) {
  auto event = Must(device->CreateEvent());
  ASSERT_OK(stream->Record(*event, 1));
  const absl::Status status = stream->Wait(*event, 2);
  EXPECT_EQ(ExitCode(status), 70);
  EXPECT_THAT(Message(status), HasSubstr("waits for generation 2 of an event whose last Record was "
                                         "generation 1"));
}

struct FailingKernel : Kernel {
  absl::Status Run(const KernelArgs& args) override {
    seen = args.native_stream;
    return DeviceError("no such kernel");
  }
  void* seen = nullptr;
};

TEST_F(CudaStreamTest, LaunchGivesKernelsTheNativeStream) {
  FailingKernel kernel;
  EXPECT_EQ(Message(stream->Launch(kernel, {})), "no such kernel");
  EXPECT_EQ(kernel.seen, static_cast<CudaStream&>(*stream).native());
  EXPECT_EQ(Message(stream->Synchronize()), "no such kernel");
}

TEST_F(CudaStreamTest, TheFirstFailureSticksToItsStream) {
  auto other = MustStream(*device, run, "other");
  sim.FailCall("EventRecord", 1, CUDA_ERROR_INVALID_VALUE);
  auto event = Must(device->CreateEvent());
  EXPECT_THAT(Message(stream->Record(*event, 1)),
              HasSubstr("cuda:0: recording an event on stream 'main': CUDA_ERROR_INVALID_VALUE"));
  FailingKernel later;
  EXPECT_FALSE(stream->Launch(later, {}).ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Message(stream->Synchronize()), HasSubstr("recording an event"));
  }
  EXPECT_OK(other->Synchronize());
}

// --- Host functions -----------------------------------------------------------------------------

TEST_F(CudaStreamTest, HostFunctionsRunInStreamOrder) {
  const Buffer a = Filled(kDeviceHome, Pattern(8, 1));
  const Buffer pinned = Filled(kPinnedHome, Pattern(8, 2));
  std::vector<std::byte> seen(8);
  HostFunction look = [&] {
    std::memcpy(seen.data(), pinned.data(), 8);
    return absl::OkStatus();
  };
  ASSERT_OK(stream->Copy(Move(pinned, a, 8)));
  ASSERT_OK(stream->RunOnHost(look));
  ASSERT_OK(stream->Synchronize());
  EXPECT_EQ(seen, Pattern(8, 1));
}

TEST_F(CudaStreamTest, AFailingHostFunctionCancelsTheRun) {
  int calls = 0;
  HostFunction fail = [&] { return ++calls, BadInputError("index 7 is out of range"); };
  HostFunction next = [&] { return ++calls, absl::OkStatus(); };
  ASSERT_OK(stream->RunOnHost(fail));
  ASSERT_OK(stream->RunOnHost(next));
  EXPECT_EQ(Message(stream->Synchronize()), "index 7 is out of range");
  EXPECT_TRUE(run.requested());
  EXPECT_EQ(calls, 1);  // what comes after is worthless
}

// --- Flags --------------------------------------------------------------------------------------

struct CudaFlagTest : CudaStreamTest {
  CudaFlagTest() { flags = Must(device->AllocateFlags(4)); }
  Flag& flag(int i) { return reinterpret_cast<Flag*>(flags.data())[i]; }
  Buffer flags;
};

TEST_F(CudaFlagTest, OrderStreamsOfLogicalDevices) {
  auto device1 = MustCreate(sim, {.name = "cuda:1"});
  auto receiver = MustStream(*device1, run, "receiver");
  const Buffer a = Filled(kDeviceHome, Pattern(64, 1));
  const Buffer b = Filled(kDeviceHome, Pattern(64, 2));
  const Buffer c = Must(device1->Allocate(MemorySpace::kDevice, 64));
  // Issued in the "wrong" order: the wait comes first.
  ASSERT_OK(receiver->WaitFlag(flag(0), 1));
  ASSERT_OK(receiver->Copy(Move(c, b, 64)));
  ASSERT_OK(stream->Copy(Move(b, a, 64)));
  ASSERT_OK(stream->Signal(flag(0), 1));
  ASSERT_OK(receiver->Synchronize());
  ASSERT_OK(stream->Synchronize());
  EXPECT_EQ(ReadAll(*device1, c), Pattern(64, 1));
}

TEST_F(CudaFlagTest, TalkToHostThreads) {
  const Buffer in = Filled(kPinnedHome, Pattern(64, 1));
  const Buffer middle = Allocate(kDeviceHome, 64);
  const Buffer out = Filled(kPinnedHome, Pattern(64, 3));
  // A cpu device: waits for one flag, works in pinned memory, signals the other.
  std::thread cpu([&] {
    EXPECT_OK(WaitForFlag(flag(0), 1, run));
    std::memcpy(in.data(), out.data(), 64);
    SignalFlag(flag(1), 1);
  });
  ASSERT_OK(stream->Copy(Move(middle, in, 64)));
  ASSERT_OK(stream->Copy(Move(out, middle, 64)));
  ASSERT_OK(stream->Signal(flag(0), 1));
  ASSERT_OK(stream->WaitFlag(flag(1), 1));
  ASSERT_OK(stream->Copy(Move(middle, in, 64)));
  ASSERT_OK(stream->Synchronize());
  cpu.join();
  EXPECT_EQ(ReadAll(*device, middle), Pattern(64, 1));
}

// A host thread that waits in no driver call still sees the GPU make progress.
TEST_F(CudaFlagTest, AreSignalledWhileTheHostOnlyPolls) {
  ASSERT_OK(stream->Signal(flag(0), 5));
  EXPECT_OK(WaitForFlag(flag(0), 5, run));
  ASSERT_OK(stream->Synchronize());
}

TEST_F(CudaFlagTest, CompareAcrossTheWrap) {
  flag(0).value = 0xFFFFFFF0u;
  ASSERT_OK(stream->WaitFlag(flag(0), 0xFFFFFFF0u));
  ASSERT_OK(stream->Synchronize());
  ASSERT_OK(stream->WaitFlag(flag(0), 2));  // ahead of the value, not far behind it
  auto other = MustStream(*device, run, "other");
  ASSERT_OK(other->Signal(flag(0), 3));
  ASSERT_OK(stream->Synchronize());
  ASSERT_OK(other->Synchronize());
}

TEST_F(CudaFlagTest, CancellationReleasesStreamsThatWait) {
  auto follower = MustStream(*device, run, "follower");
  auto event = Must(device->CreateEvent());
  ASSERT_OK(stream->WaitFlag(flag(0), 7));
  ASSERT_OK(stream->WaitFlag(flag(1), 9));
  ASSERT_OK(stream->Record(*event, 1));
  ASSERT_OK(follower->Wait(*event, 1));  // waits for the flags without knowing of them
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run.Request();  // the peer that should have signalled failed
  });
  EXPECT_OK(follower->Synchronize());
  EXPECT_OK(stream->Synchronize());
  peer.join();
  EXPECT_EQ(flag(0).value.load(), 7u);
  EXPECT_EQ(flag(1).value.load(), 9u);
}

TEST_F(CudaFlagTest, CancellationOfOneRunLeavesAnotherWaiting) {
  Cancellation other_run;
  auto other = MustStream(*device, other_run, "other");
  ASSERT_OK(other->WaitFlag(flag(1), 1));
  ASSERT_OK(stream->WaitFlag(flag(0), 1));
  run.Request();
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(flag(1).value.load(), 0u);
  flag(1).value = 1;
  EXPECT_OK(other->Synchronize());
}

TEST_F(CudaFlagTest, DestructionDoesNotHangOnAFlag) {
  ASSERT_OK(stream->WaitFlag(flag(0), 1));
  stream.reset();
  EXPECT_EQ(flag(0).value.load(), 1u);
}

TEST_F(CudaFlagTest, MustLieInMemoryTheGpuReaches) {
  Flag on_the_stack;
  EXPECT_THAT(Message(stream->Signal(on_the_stack, 1)), HasSubstr("signalling a flag"));
  EXPECT_THAT(Message(stream->WaitFlag(on_the_stack, 1)), HasSubstr("waiting for a flag"));
  EXPECT_EQ(sim.TakeViolations().size(), 2u);
}

// --- Lost devices -------------------------------------------------------------------------------

TEST_F(CudaStreamTest, ALostDeviceFailsEverythingAndHangsNothing) {
  const Buffer a = Filled(kDeviceHome, Pattern(64));
  const Buffer b = Allocate(kDeviceHome, 64);
  ASSERT_OK(stream->Copy(Move(b, a, 64)));
  sim.LoseDevice(0, CUDA_ERROR_ECC_UNCORRECTABLE);
  const auto is_lost = HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE");
  EXPECT_THAT(Message(stream->Synchronize()), AllOf(is_lost, HasSubstr("context is lost")));
  EXPECT_THAT(Message(stream->Copy(Move(b, a, 64))), is_lost);
  EXPECT_THAT(Message(device->Allocate(MemorySpace::kDevice, 8).status()), is_lost);
  EXPECT_THAT(Message(device->Allocate(MemorySpace::kHost, 8).status()), is_lost);
  EXPECT_THAT(Message(device->CreateEvent().status()), is_lost);
  EXPECT_THAT(Message(device->CreateStream({}, run).status()), is_lost);
  std::byte byte{};
  EXPECT_THAT(Message(device->Read(&byte, a.data(), 1)), is_lost);
  EXPECT_EQ(ExitCode(device->Write(a.data(), &byte, 1)), 6);
}

TEST(CudaDevices, OneGpuLostLeavesTheOther) {
  CudaSim sim({.devices = 2});
  Cancellation run;
  auto lost = MustCreate(sim, {.name = "cuda:0", .ordinal = 0});
  auto well = MustCreate(sim, {.name = "cuda:1", .ordinal = 1});
  auto stream = MustStream(*well, run);
  const Buffer a = Must(well->Allocate(MemorySpace::kDevice, 64));
  const Buffer b = Must(well->Allocate(MemorySpace::kDevice, 64));
  sim.LoseDevice(0, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(ExitCode(lost->Allocate(MemorySpace::kDevice, 64).status()), 6);
  const auto bytes = Pattern(64);
  EXPECT_OK(well->Write(a.data(), bytes.data(), 64));
  EXPECT_OK(stream->Copy(Move(b, a, 64)));
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(ReadAll(*well, b), bytes);
}

}  // namespace
}  // namespace millrace
