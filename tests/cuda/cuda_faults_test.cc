// Every driver call of a program that uses the whole device, failing in turn: the program ends with
// a clean Status, does not hang, and leaves nothing behind.
#include "tests/cuda/simulated_gpu.h"

namespace millrace {
namespace {

using ::testing::IsEmpty;

// Two logical devices: swap out to a file and in again, a transfer guarded by flags, events across
// streams, a function of the host.
absl::Status RunProgram(const CudaSim& sim) {
  Cancellation run;
  HostFunction function = [] { return absl::OkStatus(); };  // outlives the streams that run it
  const CudaDeviceOptions options{.name = "cuda:0", .offload_directory = ::testing::TempDir()};
  MILLRACE_ASSIGN_OR_RETURN(auto one, CreateCudaDevice(sim.driver(), options));
  MILLRACE_ASSIGN_OR_RETURN(auto two, CreateCudaDevice(sim.driver(), {.name = "cuda:1"}));
  MILLRACE_ASSIGN_OR_RETURN(Buffer a, one->Allocate(MemorySpace::kDevice, 4096));
  MILLRACE_ASSIGN_OR_RETURN(Buffer file, one->Allocate(MemorySpace::kFile, 4096));
  MILLRACE_ASSIGN_OR_RETURN(Buffer host, one->Allocate(MemorySpace::kHost, 4096));
  MILLRACE_ASSIGN_OR_RETURN(Buffer b, two->Allocate(MemorySpace::kDevice, 4096));
  MILLRACE_ASSIGN_OR_RETURN(Buffer flag_buffer, one->AllocateFlags(1));
  MILLRACE_ASSIGN_OR_RETURN(auto event, one->CreateEvent());
  MILLRACE_ASSIGN_OR_RETURN(auto compute, one->CreateStream({}, run));
  MILLRACE_ASSIGN_OR_RETURN(auto copies, one->CreateStream({}, run));
  MILLRACE_ASSIGN_OR_RETURN(auto receiver, two->CreateStream({}, run));
  Flag& flag = *reinterpret_cast<Flag*>(flag_buffer.data());

  // A failed run is cancelled, as the executor does it; streams end because of that.
  absl::Status status = [&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(one->Write(a.data(), Pattern(4096).data(), 4096));
    MILLRACE_RETURN_IF_ERROR(receiver->WaitFlag(flag, 1));
    MILLRACE_RETURN_IF_ERROR(receiver->Copy(Move(b, host, 4096)));
    MILLRACE_RETURN_IF_ERROR(compute->Copy(Move(file, a, 4096)));
    MILLRACE_RETURN_IF_ERROR(compute->RunOnHost(function));
    MILLRACE_RETURN_IF_ERROR(compute->Copy(Move(a, file, 4096)));
    MILLRACE_RETURN_IF_ERROR(compute->Record(*event, 1));
    MILLRACE_RETURN_IF_ERROR(copies->Wait(*event, 1));
    CopyRegion rows = Move(host, a, 64);
    rows.rows = 32;
    rows.to_pitch_bytes = rows.from_pitch_bytes = 128;
    MILLRACE_RETURN_IF_ERROR(copies->Copy(rows));
    return copies->Signal(flag, 1);
  }();
  if (!status.ok()) run.Request();
  for (Stream* stream : {compute.get(), copies.get(), receiver.get()}) {
    const absl::Status drained = stream->Synchronize();
    if (status.ok()) status = drained;
  }
  MILLRACE_RETURN_IF_ERROR(status);
  std::byte read[4096];
  return two->Read(read, b.data(), 4096);
}

int64_t CallsOfAGoodRun() {
  CudaSim sim;
  EXPECT_OK(RunProgram(sim));
  return sim.CountCalls();
}

void FailEachCall(CUresult result, int exit_code) {
  // Polling makes the number of calls vary a little.
  const int64_t calls = CallsOfAGoodRun();
  int64_t failures = 0;
  for (int64_t nth = 1; nth <= calls; ++nth) {
    SCOPED_TRACE(::testing::Message() << "call " << nth << " of about " << calls);
    CudaSim sim({.memory_bytes = 1 << 20, .seed = static_cast<uint64_t>(nth)});
    sim.FailAnyCall(nth, result);
    const absl::Status status = RunProgram(sim);
    if (!status.ok()) {
      ++failures;
      EXPECT_EQ(ExitCode(status), exit_code) << status;
    }
    EXPECT_THAT(sim.TakeViolations(), IsEmpty());
    EXPECT_THAT(sim.Leaks(), IsEmpty());
  }
  EXPECT_GT(failures, 60);  // all but those made while destroying
}

TEST(CudaFaults, EachCallRefused) { FailEachCall(CUDA_ERROR_NOT_SUPPORTED, 6); }
TEST(CudaFaults, EachCallOutOfMemory) { FailEachCall(CUDA_ERROR_OUT_OF_MEMORY, 5); }
TEST(CudaFaults, DeviceLostAtEachCall) { FailEachCall(CUDA_ERROR_ILLEGAL_ADDRESS, 6); }

// By entry point: the message says what was being done.
TEST(CudaFaults, EachEntryPointIsNamedByWhatItDoes) {
  const struct {
    const char* entry;
    const char* doing;
  } cases[] = {
      {"DeviceGetCount", "counting GPUs"},
      {"DeviceGet", "opening GPU 0"},
      {"DeviceGetAttribute", "asking for unified addressing"},
      {"DeviceTotalMem", "asking for the size of its memory"},
      {"DevicePrimaryCtxRetain", "opening the context of GPU 0"},
      {"CtxSetCurrent", "making its context current"},
      {"CtxGetStreamPriorityRange", "creating stream 'transfer'"},
      {"StreamCreateWithPriority", "creating stream 'transfer'"},
      {"MemAlloc", "allocating 4096 bytes of device memory"},
      {"MemHostAlloc", "bytes of pinned host memory"},
      {"EventCreate", "creating an event"},
      {"MemcpyAsync", "writing 4096 bytes"},
      {"StreamSynchronize", "writing 4096 bytes"},
      {"Memcpy2DAsync", "copying 32 x 64 bytes from device to host memory"},
      {"PointerGetAttributes", "asking what kind of memory a copy is of"},
      {"StreamWaitValue32", "waiting for a flag on stream"},
      {"StreamWriteValue32", "signalling a flag on stream"},
      {"LaunchHostFunc", "queueing a function on the host on stream"},
      {"EventRecord", "recording an event on stream"},
      {"StreamWaitEvent", "waiting for an event on stream"},
      {"StreamQuery", "running stream"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.entry);
    CudaSim sim;
    sim.FailCall(c.entry, 1, CUDA_ERROR_NOT_SUPPORTED);
    const absl::Status status = RunProgram(sim);
    EXPECT_THAT(Message(status),
                ::testing::AllOf(::testing::StartsWith("cuda:"), ::testing::HasSubstr(c.doing),
                                 ::testing::HasSubstr("CUDA_ERROR_NOT_SUPPORTED")));
  }
}

}  // namespace
}  // namespace millrace
