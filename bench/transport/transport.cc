// How fast bytes move between two processes, against what else the machine can do with them: a
// memcpy, a program that only makes memory traffic, and MPI where it is installed.
//
//   transport                  two processes of its own
//   mpirun -n 2 transport      the same with MPI as a contestant, in the same processes
//
// Contestants take turns; what counts is the best of all turns.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/job.h"
#include "distributed/process_communicator.h"
#include "graph/strings.h"
#include "runtime/cpu/cpu_device.h"
#ifdef MILLRACE_HAVE_MPI
#include <mpi.h>
#endif

namespace millrace {
namespace {

constexpr int64_t kLarge = int64_t{64} << 20;
constexpr int64_t kLargest = int64_t{1} << 30;
constexpr int kTurns = 15;

double NowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "transport: %s\n", std::string(value.status().message()).c_str());
  std::exit(1);
}
void Must(const absl::Status& status) {
  if (!status.ok()) Must(absl::StatusOr<int>(status));
}

// Two endpoints, one a rank, connected as a plan's would be: a channel for each size from rank 0 to
// rank 1, one back, and a group.
class Pair {
 public:
  explicit Pair(Job& job)
      : job_(job),
        communicator_(CreateProcessCommunicator(job)),
        device_(CreateCpuDevice({.name = StrCat("cpu:", job.rank()),
                                 .allocate = [memory = communicator_->memory()](
                                                 MemorySpace space, int64_t size) mutable {
                                   return memory.Allocate(space, size);
                                 }})) {
    const int rank = job.rank();
    const Endpoint self{rank, {}}, peer{1 - rank, {}};
    Must(communicator_->Register(self, *device_, cancellation_));
    arena_ = Must(device_->Allocate(MemorySpace::kDevice, kLargest));
    std::memset(arena_.data(), rank + 1, static_cast<size_t>(kLargest));
    stream_ = Must(device_->CreateStream({}, cancellation_));
    for (int64_t size = 8; size <= kLargest; size *= 2) {
      const Channel channel{Section::kStep, static_cast<int32_t>(sends_.size() + recvs_.size())};
      const Transfer transfer{.data = arena_.data(), .size_bytes = size};
      if (rank == 0)
        sends_.push_back(Must(communicator_->OpenSend(self, peer, channel, {&transfer, 1})));
      if (rank == 1)
        recvs_.push_back(Must(communicator_->OpenRecv(self, peer, channel, {&transfer, 1})));
    }
    const Transfer token{.data = arena_.data(), .size_bytes = 8};
    if (rank == 1)
      back_send_ = Must(communicator_->OpenSend(self, peer, {Section::kInit, 0}, {&token, 1}));
    if (rank == 0)
      back_recv_ = Must(communicator_->OpenRecv(self, peer, {Section::kInit, 0}, {&token, 1}));
    const std::vector<Endpoint> members = {{0, {}}, {1, {}}};
    group_ = Must(communicator_->OpenGroup(self, members, 0));
    Must(communicator_->Connect());
  }

  void Put(int size_log2) {
    const size_t index = static_cast<size_t>(size_log2 - 3);
    if (job_.rank() == 0) Must(sends_[index]->Send(*stream_));
    if (job_.rank() == 1) Must(recvs_[index]->Recv(*stream_));
  }
  // There and back.
  void PingPong() {
    Put(3);
    if (job_.rank() == 1) Must(back_send_->Send(*stream_));
    if (job_.rank() == 0) Must(back_recv_->Recv(*stream_));
  }
  void AllReduce(int64_t bytes) {
    Must(group_->Run(*stream_, {CommKind::kAllReduce, Reduction::kSum, DType::kF32, bytes / 4},
                     arena_.data(), arena_.data() + kLargest / 2));
  }
  std::byte* arena() { return arena_.data(); }

 private:
  Job& job_;
  Cancellation cancellation_;
  std::unique_ptr<ProcessCommunicator> communicator_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Buffer arena_;
  std::vector<std::unique_ptr<SendPort>> sends_;
  std::vector<std::unique_ptr<RecvPort>> recvs_;
  std::unique_ptr<SendPort> back_send_;
  std::unique_ptr<RecvPort> back_recv_;
  std::unique_ptr<Group> group_;
};

// Seconds of one call, the best of some; both ranks begin together.
double Best(Job& job, int calls, const std::function<void()>& call) {
  Must(job.Gather("").status());
  double best = 1e9;
  for (int i = 0; i < calls; ++i) {
    const double start = NowS();
    call();
    best = std::min(best, NowS() - start);
  }
  return best;
}

// The memory traffic of an all-reduce over two ranks and nothing else: two cores, each copies a
// half of both inputs to that half of both outputs.
double TwoCoreTraffic(const std::byte* a, const std::byte* b, std::byte* to_a, std::byte* to_b) {
  constexpr int64_t kHalf = kLarge / 2;
  std::atomic<bool> begin{false};
  const auto copy_half = [&](int64_t at) {
    std::memcpy(to_a + at, a + at, static_cast<size_t>(kHalf));
    std::memcpy(to_b + at, b + at, static_cast<size_t>(kHalf));
  };
  std::thread other([&] {
    begin = true;
    copy_half(kHalf);
  });
  while (!begin) {
  }
  const double start = NowS();
  copy_half(0);
  other.join();
  return NowS() - start;
}

struct Results {
  double copy = 1e9, put = 1e9, reduce = 1e9, mpi_reduce = 1e9, mpi_put = 1e9, traffic = 1e9;
};

void TakeTurn(Job& job, Pair& pair, std::vector<std::byte>& heap, Results& best) {
  const auto keep = [](double& value, double seconds) { value = std::min(value, seconds); };
  std::byte* const from = heap.data();
  std::byte* const to = from + kLarge;
  if (job.rank() == 0) {
    for (int i = 0; i < 3; ++i) {
      const double start = NowS();
      std::memcpy(to, from, static_cast<size_t>(kLarge));
      keep(best.copy, NowS() - start);
      keep(best.traffic, TwoCoreTraffic(from, to, from + 2 * kLarge, from + 3 * kLarge));
    }
  }
  keep(best.put, Best(job, 3, [&] { pair.Put(26); }));
  keep(best.reduce, Best(job, 3, [&] { pair.AllReduce(kLarge); }));
#ifdef MILLRACE_HAVE_MPI
  int started = 0;
  MPI_Initialized(&started);
  if (started == 0) return;
  keep(best.mpi_reduce, Best(job, 3, [&] {
         MPI_Allreduce(from, to, kLarge / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }));
  keep(best.mpi_put, Best(job, 3, [&] {
         if (job.rank() == 0) MPI_Send(from, kLarge, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
         if (job.rank() == 1)
           MPI_Recv(to, kLarge, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
         MPI_Barrier(MPI_COMM_WORLD);
       }));
#endif
}

// Flags between two threads of one process, the data read where they lie: the mean of many.
double HandOffUs() {
  constexpr int kRounds = 200000;
  const auto device = CreateCpuDevice();
  Flag there, back;
  Cancellation cancellation;
  std::thread other([&] {
    auto stream = Must(device->CreateStream({}, cancellation));
    for (uint32_t i = 1; i <= kRounds; ++i) {
      Must(stream->WaitFlag(there, i));
      Must(stream->Signal(back, i));
    }
  });
  auto stream = Must(device->CreateStream({}, cancellation));
  double best = 1e9;
  double start = NowS();
  for (uint32_t i = 1; i <= kRounds; ++i) {
    Must(stream->Signal(there, i));
    Must(stream->WaitFlag(back, i));
    if (i % 2000 != 0) continue;
    best = std::min(best, (NowS() - start) / 2000 / 2);
    start = NowS();
  }
  other.join();
  return best * 1e6;
}

double GBs(double bytes, double seconds) { return bytes / seconds * 1e-9; }

void PrintResults(const Results& best) {
  const double put = GBs(kLarge, best.put), copy = GBs(kLarge, best.copy);
  std::printf(
      "64 MiB to a planned address of another process: %.1f GB/s; one memcpy %.1f: %.2f x\n", put,
      copy, put / copy);
  // As nccl-tests define it, for two ranks: 2 (n - 1) / n bytes a byte.
  std::printf(
      "all-reduce of 64 MiB over 2 processes: %.2f GB/s busbw; its memory traffic alone, on "
      "two cores: %.2f: %.2f x\n",
      GBs(kLarge, best.reduce), GBs(kLarge, best.traffic), best.traffic / best.reduce);
  if (best.mpi_reduce < 1e8) {
    std::printf("MPI_Send of 64 MiB: %.1f GB/s; ours is %.2f x\n", GBs(kLarge, best.mpi_put),
                best.mpi_put / best.put);
    std::printf("MPI_Allreduce of 64 MiB: %.2f GB/s busbw; ours is %.2f x\n",
                GBs(kLarge, best.mpi_reduce), best.mpi_reduce / best.reduce);
  } else {
    std::printf("MPI: skipped; run this with mpirun -n 2, in a build that found MPI\n");
  }
  std::printf("gRPC: skipped; nothing here is built with it\n");
}

void PrintTable(Job& job, Pair& pair) {
  if (job.rank() == 0) std::printf("\n%12s %12s %10s\n", "bytes", "us", "GB/s");
  for (int log2 = 3; log2 <= 30; log2 += log2 < 27 ? 3 : 1) {
    const double size = static_cast<double>(int64_t{1} << log2);
    const double seconds = Best(job,
                                size < 1e6   ? 2000
                                : size < 2e8 ? 20
                                             : 3,
                                [&] { pair.Put(log2); });
    if (job.rank() == 0)
      std::printf("%12.0f %12.2f %10.2f\n", size, seconds * 1e6, GBs(size, seconds));
  }
  const double there_and_back = Best(job, 5000, [&] { pair.PingPong(); });
  if (job.rank() == 0) std::printf("\n8 bytes there and back: %.2f us\n", there_and_back * 1e6);
}

int RunRank(const JobPlace& place) {
  const std::unique_ptr<Job> job = Must(Job::Join(place, {}));
  if (job->size() != 2) Must(UsageError("this takes two processes"));
  Pair pair(*job);
  std::vector<std::byte> heap(static_cast<size_t>(4 * kLarge), std::byte{1});
  Results best;
  for (int turn = 0; turn < kTurns; ++turn) TakeTurn(*job, pair, heap, best);
  if (job->rank() == 0) {
    PrintResults(best);
    std::printf("hand-off between two threads of a process, whatever the size: %.2f us\n",
                HandOffUs());
  }
  PrintTable(*job, pair);
  return 0;
}

int Main(int argc, char** argv) {
  const std::optional<JobPlace> place = Must(FindJobPlace());
  if (!place.has_value()) {
    const std::string master = StrCat("@millrace-transport-", getpid());
    const pid_t child = fork();
    if (child == 0) return RunRank({.rank = 1, .size = 2, .master = master});
    const int code = RunRank({.rank = 0, .size = 2, .master = master});
    int status = 0;
    waitpid(child, &status, 0);
    return code != 0 || status != 0 ? 1 : 0;
  }
#ifdef MILLRACE_HAVE_MPI
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) MPI_Init(&argc, &argv);
  const int code = RunRank(*place);
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) MPI_Finalize();
  return code;
#else
  static_cast<void>(argc), static_cast<void>(argv);
  return RunRank(*place);
#endif
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
