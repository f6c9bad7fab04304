// Random programs of collectives and transfers, run by threads spread over processes, against plain
// loops over all ranks. A job is a fork of this test; each rank checks what it got.
#include "distributed/process_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "distributed/job.h"
#include "graph/strings.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/distributed/collective_reference.h"

namespace millrace {
namespace {

using testing::HasSubstr;

// Runs `work` in a process for each rank; what each says that is wrong, by rank ("": nothing).
std::vector<std::string> InProcesses(int ranks, double timeout_s,
                                     const std::function<std::string(Job&)>& work) {
  static int jobs = 0;
  const std::string master = StrCat("@millrace-test-", getpid(), "-", ++jobs);
  std::vector<pid_t> children;
  std::vector<int> pipes;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::string wrong;
      {
        const JobPlace place{.rank = rank, .size = ranks, .master = master};
        const auto job = Job::Join(place, {.timeout_s = timeout_s});
        wrong = job.ok() ? work(**job) : std::string(job.status().message());
      }
      wrong.resize(std::min<size_t>(wrong.size(), 1000));
      if (write(ends[1], wrong.data(), wrong.size()) < 0) _exit(1);
      _exit(0);
    }
    close(ends[1]);
    children.push_back(child);
    pipes.push_back(ends[0]);
  }
  std::vector<std::string> said;
  for (int rank = 0; rank < ranks; ++rank) {
    std::string text;
    char buffer[1024];
    for (ssize_t got; (got = read(pipes[rank], buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
    close(pipes[rank]);
    int status = 0;
    waitpid(children[rank], &status, 0);
    said.push_back(status == 0 ? text : StrCat("status ", status));
  }
  return said;
}

// One step of a program: a collective of some of the endpoints, or a transfer between two.
struct ProgramStep {
  std::vector<Endpoint> members;
  CollectiveSpec spec;  // kNone: a transfer from the first member to the second
  bool in_place = false;
  std::vector<Tensor> inputs;  // by member
};

std::vector<ProgramStep> RandomProgram(std::mt19937& random, int endpoints) {
  constexpr DType kTypes[] = {DType::kI8,  DType::kU16,  DType::kI32, DType::kI64,
                              DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  constexpr CommKind kKinds[] = {CommKind::kAllReduce,     CommKind::kAllGather,
                                 CommKind::kReduceScatter, CommKind::kAllToAll,
                                 CommKind::kBroadcast,     CommKind::kNone};
  std::vector<ProgramStep> steps(1 + random() % 5);
  for (ProgramStep& step : steps) {
    std::vector<int> order(endpoints);
    for (int i = 0; i < endpoints; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    step.spec.kind = kKinds[random() % 6];
    const int members = step.spec.kind == CommKind::kNone ? 2 : 2 + random() % (endpoints - 1);
    for (int i = 0; i < members; ++i) step.members.push_back({order[i], {}});
    step.spec.reduction =
        std::vector{Reduction::kSum, Reduction::kMax, Reduction::kMin}[random() % 3];
    step.spec.dtype = kTypes[random() % 8];
    // Mostly small; some longer than what a transfer shares between its ends.
    const int64_t unit = random() % 8 == 0 ? 1 + random() % 9000 : random() % 40;
    step.spec.count = unit * members;
    step.spec.root = static_cast<int>(random() % members);
    step.in_place = step.spec.kind == CommKind::kAllReduce && random() % 2 == 0;
    step.inputs = RandomInputs(members, step.spec.dtype, step.spec.count, random());
  }
  return steps;
}

Tensor ExpectedOf(const ProgramStep& step, int member) {
  if (step.spec.kind == CommKind::kNone) return step.inputs[0];
  return Expected(step.spec, step.inputs, member);
}

// What endpoint `self` opened for a step that it takes part in, and its memory.
struct OpenedStep {
  const ProgramStep* step = nullptr;
  int member = -1;
  Buffer input, output;
  std::unique_ptr<Group> group;
  std::unique_ptr<SendPort> send;
  std::unique_ptr<RecvPort> recv;

  absl::Status Run(Stream& stream) {
    const size_t bytes = static_cast<size_t>(step->inputs[member].size_bytes());
    if (bytes > 0) std::memcpy(input.data(), step->inputs[member].bytes(), bytes);
    if (send != nullptr) return send->Send(stream);
    if (recv != nullptr) return recv->Recv(stream);
    return group->Run(stream, step->spec, input.data(),
                      step->in_place ? input.data() : output.data());
  }
  // What is wrong with the outcome.
  std::string Check() const {
    if (send != nullptr) return "";
    const Tensor expected = ExpectedOf(*step, member);
    const std::byte* got = step->in_place ? input.data() : output.data();
    const auto bytes = static_cast<size_t>(expected.size_bytes());
    if (bytes == 0 || std::memcmp(got, expected.bytes(), bytes) == 0) return "";
    return StrCat("kind ", static_cast<int>(step->spec.kind), " of ", step->spec.count, " ",
                  DTypeName(step->spec.dtype), " over ", step->members.size(), ", member ", member);
  }
};

absl::StatusOr<OpenedStep> Open(const ProgramStep& step, int32_t id, const Endpoint& self,
                                Device& device, Communicator& communicator) {
  OpenedStep opened;
  opened.step = &step;
  for (size_t i = 0; i < step.members.size(); ++i) {
    if (step.members[i] == self) opened.member = static_cast<int>(i);
  }
  if (opened.member < 0) return opened;
  const int64_t in = step.inputs[0].size_bytes();
  const int64_t out = in * static_cast<int64_t>(step.members.size());
  MILLRACE_ASSIGN_OR_RETURN(opened.input, device.Allocate(MemorySpace::kDevice, in));
  MILLRACE_ASSIGN_OR_RETURN(opened.output, device.Allocate(MemorySpace::kDevice, out));
  if (step.spec.kind != CommKind::kNone) {
    MILLRACE_ASSIGN_OR_RETURN(opened.group, communicator.OpenGroup(self, step.members, id));
    return opened;
  }
  const Endpoint& peer = step.members[1 - opened.member];
  const Transfer transfer{.data = opened.member == 0 ? opened.input.data() : opened.output.data(),
                          .size_bytes = in};
  if (opened.member == 0) {
    MILLRACE_ASSIGN_OR_RETURN(
        opened.send, communicator.OpenSend(self, peer, {Section::kStep, id}, {&transfer, 1}));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(
        opened.recv, communicator.OpenRecv(self, peer, {Section::kStep, id}, {&transfer, 1}));
  }
  return opened;
}

// All programs of a seed on `endpoints` threads over the job's ranks, each program twice.
std::string RunPrograms(Job& job, uint32_t seed, int programs, int endpoints) {
  std::mt19937 random(seed);
  std::vector<ProgramStep> steps;
  for (int i = 0; i < programs; ++i) {
    for (ProgramStep& step : RandomProgram(random, endpoints)) steps.push_back(std::move(step));
  }
  const auto communicator = CreateProcessCommunicator(job);
  const auto device = CreateCpuDevice(
      {.allocate = [memory = communicator->memory()](MemorySpace space, int64_t size) mutable {
        return memory.Allocate(space, size);
      }});
  Cancellation cancellation;
  std::vector<Endpoint> own;
  for (int i = job.rank(); i < endpoints; i += job.size()) own.push_back({i, {}});
  for (const Endpoint& self : own) {
    if (!communicator->Register(self, *device, cancellation).ok()) return "register";
  }
  std::vector<std::vector<OpenedStep>> opened(own.size());
  for (size_t e = 0; e < own.size(); ++e) {
    for (size_t i = 0; i < steps.size(); ++i) {
      auto one = Open(steps[i], static_cast<int32_t>(i), own[e], *device, *communicator);
      if (!one.ok()) return std::string(one.status().message());
      if (one->member >= 0) opened[e].push_back(*std::move(one));
    }
  }
  if (const auto status = communicator->Connect(); !status.ok()) {
    return std::string(status.message());
  }
  std::vector<std::string> wrong(own.size());
  std::vector<std::thread> threads;
  for (size_t e = 0; e < own.size(); ++e) {
    threads.emplace_back([&, e] {
      const auto stream = device->CreateStream({}, cancellation);
      for (int time = 0; time < 2; ++time) {
        for (OpenedStep& step : opened[e]) {
          const absl::Status status = step.Run(**stream);
          if (wrong[e].empty()) wrong[e] = status.ok() ? step.Check() : status.ToString();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto last = job.Gather("");  // memory is there until all are done
  for (const std::string& each : wrong) {
    if (!each.empty()) return each;
  }
  return last.ok() ? "" : "the last gathering";
}

// MILLRACE_COLLECTIVE_PROGRAMS=10000: as many.
TEST(ProcessCommunicatorTest, RandomProgramsOnTwoToEightEndpoints) {
  constexpr int kProgramsPerJob = 50;
  const char* asked = std::getenv("MILLRACE_COLLECTIVE_PROGRAMS");
  const int programs = asked == nullptr ? 350 : std::atoi(asked);
  for (int job = 0; job * kProgramsPerJob < programs; ++job) {
    const int endpoints = 2 + job % 7;
    const int ranks = 2 + job / 7 % std::min(3, endpoints - 1);
    const auto said = InProcesses(ranks, 60, [&](Job& own) {
      return RunPrograms(own, static_cast<uint32_t>(job), kProgramsPerJob, endpoints);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(said[rank], "") << "job " << job << ", rank " << rank << " of " << ranks;
    }
  }
}

TEST(ProcessCommunicatorTest, AMailboxIsSharedAndReadWhole) {
  const auto said = InProcesses(3, 30, [](Job& job) -> std::string {
    constexpr size_t kWords = 500;
    const auto communicator = CreateProcessCommunicator(job);
    const auto device = CreateCpuDevice();
    Cancellation cancellation;
    const Endpoint self{job.rank(), {}};
    if (!communicator->Register(self, *device, cancellation).ok()) return "register";
    auto mailbox = communicator->OpenMailbox(self, "weights", kWords * 8);
    if (!mailbox.ok() || !communicator->Connect().ok()) return "open";
    const auto stream = device->CreateStream({}, cancellation);
    std::vector<uint64_t> words(kWords);
    auto* bytes = reinterpret_cast<std::byte*>(words.data());
    uint64_t newest = 0;
    while (newest < 2000) {
      if (job.rank() == 0) {
        std::fill(words.begin(), words.end(), ++newest);
        if (!(*mailbox)->Publish(**stream, bytes, kWords * 8).ok()) return "publish";
        continue;
      }
      if (!(*mailbox)->TakeLatest(**stream, bytes, kWords * 8).ok()) return "take";
      for (const uint64_t word : words) {
        if (word != words[0]) return "torn";
      }
      if (words[0] < newest) return "older than before";
      newest = words[0];
    }
    return job.Gather("").ok() ? "" : "the last gathering";
  });
  EXPECT_THAT(said, testing::Each(""));
}

TEST(ProcessCommunicatorTest, EndsInTwoProcessesThatDisagreeAreRefusedWhenConnected) {
  const auto said = InProcesses(2, 30, [](Job& job) -> std::string {
    const auto communicator = CreateProcessCommunicator(job);
    const auto device = CreateCpuDevice();
    Cancellation cancellation;
    const Endpoint self{job.rank(), {}}, peer{1 - job.rank(), {}};
    if (!communicator->Register(self, *device, cancellation).ok()) return "register";
    std::byte bytes[8];
    const Transfer transfer{.data = bytes, .size_bytes = 4 + 4 * job.rank()};
    const auto send = communicator->OpenSend(self, peer, {Section::kStep, 0}, {&transfer, 1});
    const auto recv = communicator->OpenRecv(self, peer, {Section::kStep, 1}, {&transfer, 1});
    const absl::Status status = communicator->Connect();
    job.Fail(status);
    return std::string(status.message());
  });
  EXPECT_THAT(said[0], HasSubstr("rank 1 does not open its end of channel 0"));
}

TEST(ProcessCommunicatorTest, RanksThatRunDifferentCollectivesAreTold) {
  const auto said = InProcesses(2, 30, [](Job& job) -> std::string {
    const auto communicator = CreateProcessCommunicator(job);
    const auto device = CreateCpuDevice(
        {.allocate = [memory = communicator->memory()](MemorySpace space, int64_t size) mutable {
          return memory.Allocate(space, size);
        }});
    Cancellation cancellation;
    const Endpoint self{job.rank(), {}};
    const std::vector<Endpoint> members = {{0, {}}, {1, {}}};
    if (!communicator->Register(self, *device, cancellation).ok()) return "register";
    const auto memory = device->Allocate(MemorySpace::kDevice, 64);
    const auto group = communicator->OpenGroup(self, members, 0);
    if (!communicator->Connect().ok()) return "connect";
    const auto stream = device->CreateStream({}, cancellation);
    const CollectiveSpec spec{CommKind::kAllReduce, Reduction::kSum,
                              job.rank() == 0 ? DType::kF32 : DType::kI32, 4};
    return std::string((*group)->Run(**stream, spec, memory->data(), memory->data()).message());
  });
  EXPECT_THAT(said[0], HasSubstr("rank 0 runs AllReduce of 4 f32 (sum, root 0) while rank 1 runs "
                                 "AllReduce of 4 i32"));
  EXPECT_THAT(said[1], HasSubstr("rank 1 runs AllReduce of 4 i32"));
}

TEST(JobTest, ARankThatDiesOrFailsOrStaysAwayIsNamed) {
  const auto died = InProcesses(3, 30, [](Job& job) -> std::string {
    if (job.rank() == 2) _exit(0);
    return std::string(job.Gather("").status().message());
  });
  EXPECT_EQ(died[0], "rank 2 died");
  EXPECT_EQ(died[1], "rank 2 died");

  const auto failed = InProcesses(2, 30, [](Job& job) -> std::string {
    if (job.rank() == 1) {
      job.Fail(OutOfMemoryError("no memory"));
      return "";
    }
    return std::string(job.Gather("").status().message());
  });
  EXPECT_EQ(failed[0], "rank 1: no memory");

  const auto stuck = InProcesses(2, 1, [](Job& job) -> std::string {
    if (job.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(4));
      return "";
    }
    return std::string(job.Gather("").status().message());
  });
  EXPECT_THAT(stuck[0], HasSubstr("stuck: rank 1; rank 0 has waited for it for 1 s"));
}

TEST(JobTest, GatheringsKeepTheirOrder) {
  const auto said = InProcesses(4, 30, [](Job& job) -> std::string {
    for (int i = 0; i < 200; ++i) {
      const auto all = job.Gather(StrCat(i, " of ", job.rank()));
      if (!all.ok()) return std::string(all.status().message());
      for (int rank = 0; rank < 4; ++rank) {
        if ((*all)[rank] != StrCat(i, " of ", rank)) return (*all)[rank];
      }
    }
    return std::string(job.Agree("number", StrCat(job.rank() / 3)).message());
  });
  for (const std::string& each : said) {
    EXPECT_THAT(each, HasSubstr("rank 3 has another number than rank 0: 1 and 0"));
  }
}

}  // namespace
}  // namespace millrace
