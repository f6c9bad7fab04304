#include "runtime/cuda/cuda_graph.h"

#include "tests/cuda/simulated_gpu.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct CudaGraphTest : ::testing::Test {
  CudaGraphTest() {
    device = MustCreate(sim, {.offload_directory = ::testing::TempDir()});
    main = MustStream(*device, run, "main");
    side = MustStream(*device, run, "side");
    streams = {main.get(), side.get()};
    for (Buffer* buffer : {&a, &b, &c}) *buffer = Must(device->Allocate(MemorySpace::kDevice, 64));
    Fill(a, 1);
  }
  void Fill(const Buffer& buffer, int salt) {
    EXPECT_OK(device->Write(buffer.data(), Pattern(64, salt).data(), 64));
  }

  CudaSim sim;
  Cancellation run;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> main, side;
  std::vector<Stream*> streams;
  Buffer a, b, c;
};

TEST_F(CudaGraphTest, RecordsWithoutRunningAndReplays) {
  auto event = Must(device->CreateEvent());
  auto graph = Must(CudaGraph::BeginCapture(streams));
  ASSERT_OK(main->Copy(Move(b, a, 64)));  // a -> b on main, then b -> c on side
  ASSERT_OK(main->Record(*event, 1));
  ASSERT_OK(side->Wait(*event, 1));
  ASSERT_OK(side->Copy(Move(c, b, 64)));
  ASSERT_OK(graph->EndCapture());
  for (const std::string& op : sim.ExecutionOrder()) {
    EXPECT_THAT(op, HasSubstr("of stream 1)")) << "only Device::Write may have run";
  }
  for (int salt : {5, 6, 7}) {
    Fill(a, salt);
    ASSERT_OK(graph->Launch());
    ASSERT_OK(main->Synchronize());
    EXPECT_EQ(ReadAll(*device, c), Pattern(64, salt));
  }
}

// Each stream's work before the replay comes before it, and after it after, on all streams.
TEST_F(CudaGraphTest, ReplaysTakeTheirPlaceInEveryStream) {
  auto graph = Must(CudaGraph::BeginCapture(streams));
  ASSERT_OK(main->Copy(Move(c, b, 64)));
  ASSERT_OK(graph->EndCapture());
  const Buffer out = Must(device->Allocate(MemorySpace::kDevice, 64));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(side->Copy(Move(b, a, 64)));  // before: what the replay reads, on another stream
    ASSERT_OK(graph->Launch());
    ASSERT_OK(side->Copy(Move(out, c, 64)));  // after: what it wrote
    ASSERT_OK(side->Synchronize());
    EXPECT_EQ(ReadAll(*device, out), Pattern(64, 1));
  }
}

TEST_F(CudaGraphTest, StreamsWorkAgainAfterCapture) {
  auto graph = Must(CudaGraph::BeginCapture(streams));
  ASSERT_OK(main->Copy(Move(b, a, 64)));
  ASSERT_OK(graph->EndCapture());
  graph.reset();
  ASSERT_OK(side->Copy(Move(c, a, 64)));
  ASSERT_OK(side->Synchronize());
  EXPECT_EQ(ReadAll(*device, c), Pattern(64, 1));
}

// What cannot be part of a graph is refused at once, again at the end, and leaves the streams
// usable.
TEST_F(CudaGraphTest, RefusesWhatCannotBeCaptured) {
  const Buffer flag_buffer = Must(device->AllocateFlags(1));
  Flag& flag = *reinterpret_cast<Flag*>(flag_buffer.data());
  const Buffer file = Must(device->Allocate(MemorySpace::kFile, 64));
  HostFunction function = [] { return absl::OkStatus(); };
  auto outside = Must(device->CreateEvent());
  ASSERT_OK(side->Record(*outside, 1));
  const struct {
    const char* what;
    const char* reason;
    std::function<absl::Status()> call;
  } cases[] = {
      {"waiting for a flag", "grows with every step", [&] { return main->WaitFlag(flag, 1); }},
      {"signalling a flag", "grows with every step", [&] { return side->Signal(flag, 1); }},
      {"a function on the host", "owns it only until", [&] { return main->RunOnHost(function); }},
      {"a scratch file or pageable memory", "runs on the host",
       [&] { return main->Copy(Move(b, file, 64)); }},
      {"waiting for an event", "recorded before the capture",
       [&] { return main->Wait(*outside, 1); }},
      {"waiting for the stream to finish", "nothing runs", [&] { return side->Synchronize(); }},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    auto graph = Must(CudaGraph::BeginCapture(streams));
    const absl::Status refused = c.call();
    EXPECT_EQ(ExitCode(refused), 2);
    EXPECT_THAT(Message(refused),
                AllOf(HasSubstr(c.what), HasSubstr("cannot be captured"), HasSubstr(c.reason)));
    EXPECT_OK(main->Copy(Move(b, a, 64)));
    EXPECT_EQ(graph->EndCapture(), refused);
    EXPECT_THAT(Message(graph->Launch()), HasSubstr("not captured"));
    for (Stream* stream : streams) EXPECT_OK(stream->Synchronize());
  }
}

TEST_F(CudaGraphTest, EventsOfAGraphStayInside) {
  auto event = Must(device->CreateEvent());
  auto graph = Must(CudaGraph::BeginCapture(streams));
  ASSERT_OK(main->Copy(Move(b, a, 64)));
  ASSERT_OK(main->Record(*event, 1));
  ASSERT_OK(graph->EndCapture());
  auto other = MustStream(*device, run, "other");
  const absl::Status status = other->Wait(*event, 1);
  EXPECT_THAT(Message(status), HasSubstr("recorded inside a captured graph"));
  ASSERT_OK(main->Record(*event, 2));  // outside again
  EXPECT_OK(side->Wait(*event, 2));
  EXPECT_OK(side->Synchronize());
}

TEST_F(CudaGraphTest, NeedsStreamsThatAreNotBeingCaptured) {
  EXPECT_EQ(ExitCode(CudaGraph::BeginCapture({}).status()), 2);
  auto graph = Must(CudaGraph::BeginCapture(streams));
  EXPECT_THAT(Message(CudaGraph::BeginCapture(streams).status()), HasSubstr("already"));
  EXPECT_EQ(ExitCode(graph->Launch()), 2);
  ASSERT_OK(graph->EndCapture());
  EXPECT_EQ(ExitCode(graph->EndCapture()), 2);
}

TEST_F(CudaGraphTest, AnOpenCaptureEndsWithItsGraph) {
  Must(CudaGraph::BeginCapture(streams)).reset();
  EXPECT_OK(main->Copy(Move(b, a, 64)));
  EXPECT_OK(main->Synchronize());
}

// Whatever call of a capture and replay fails: a clean error, no leak, streams that end.
TEST(CudaGraphFaults, EachFailingCallIsCleanedUp) {
  constexpr int kEnough = 60;
  int failures = 0;
  for (int nth = 1; nth <= kEnough; ++nth) {
    SCOPED_TRACE(nth);
    CudaSim sim;
    {
      Cancellation run;
      auto device = MustCreate(sim);
      const Buffer a = Must(device->Allocate(MemorySpace::kDevice, 64));
      const Buffer b = Must(device->Allocate(MemorySpace::kDevice, 64));
      auto main = MustStream(*device, run, "main");  // drained before the buffers go
      auto side = MustStream(*device, run, "side");
      ASSERT_OK(device->Write(a.data(), Pattern(64).data(), 64));
      Stream* streams[] = {main.get(), side.get()};
      sim.FailAnyCall(sim.CountCalls() + nth, CUDA_ERROR_NOT_SUPPORTED);
      const absl::Status status = [&]() -> absl::Status {
        MILLRACE_ASSIGN_OR_RETURN(auto graph, CudaGraph::BeginCapture(streams));
        MILLRACE_RETURN_IF_ERROR(side->Copy(Move(b, a, 64)));
        MILLRACE_RETURN_IF_ERROR(graph->EndCapture());
        MILLRACE_RETURN_IF_ERROR(graph->Launch());
        MILLRACE_RETURN_IF_ERROR(main->Synchronize());
        return side->Synchronize();
      }();
      if (!status.ok()) {
        ++failures;
        EXPECT_EQ(ExitCode(status), 6) << status;
        EXPECT_THAT(Message(status), HasSubstr("CUDA_ERROR_NOT_SUPPORTED"));
      }
    }
    EXPECT_THAT(sim.TakeViolations(), IsEmpty());
    EXPECT_THAT(sim.Leaks(), IsEmpty());
  }
  EXPECT_GE(failures, 15);
}

}  // namespace
}  // namespace millrace
