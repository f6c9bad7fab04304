// The hand-written plan runs, and gives bit for bit what its graph means: on two cpu devices, on
// two logical cuda devices over the simulated driver, and on one of each.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distributed/in_process.h"
#include "graph/check/check.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/op_def.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/session.h"
#include "tests/plan/hand_written_plan.h"
#include "tests/plan/mutants.h"
#include "tests/plan/reference_run.h"
#ifdef MILLRACE_HAVE_CUDA
#include "runtime/cuda/cuda_device.h"
#include "tests/cuda_sim/cuda_sim.h"
#include "tests/cuda_sim/sim_kernels.h"
#endif

namespace millrace {
namespace {

constexpr int64_t kDeviceBytes = 1 << 20;

// Devices and kernels for a plan's programs; cuda devices are logical ones on one simulated GPU.
class Devices {
 public:
  explicit Devices(uint64_t seed) : host_kernels_(CreateReferenceKernelLibrary()) {
#ifdef MILLRACE_HAVE_CUDA
    CudaSimOptions options;
    options.seed = seed;
    sim_ = std::make_unique<CudaSim>(options);
    cuda_kernels_ = CreateSimKernelLibrary(*sim_);
#else
    static_cast<void>(seed);
#endif
  }

  absl::Status Add(const std::string& kind, int index) {
    const std::string name = StrCat(kind, ":", index);
    KernelLibrary* kernels = host_kernels_.get();
    if (kind == "cpu") {
      owned_.push_back(CreateCpuDevice(
          {.name = name, .memory_bytes = kDeviceBytes, .offload_directory = testing::TempDir()}));
    } else {
#ifdef MILLRACE_HAVE_CUDA
      CudaDeviceOptions options;
      options.name = name;
      options.memory_bytes = kDeviceBytes;
      options.offload_directory = testing::TempDir();
      MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                                CreateCudaDevice(sim_->driver(), options));
      owned_.push_back(std::move(device));
      kernels = cuda_kernels_.get();
#endif
    }
    table_[name] = {owned_.back().get(), kernels, host_kernels_.get()};
    return absl::OkStatus();
  }

  const DeviceTable& table() const { return table_; }

 private:
#ifdef MILLRACE_HAVE_CUDA
  std::unique_ptr<CudaSim> sim_;  // aborts at the end if anything was not as it should be
  std::unique_ptr<KernelLibrary> cuda_kernels_;
#endif
  std::unique_ptr<KernelLibrary> host_kernels_;
  std::vector<std::unique_ptr<Device>> owned_;
  DeviceTable table_;
};

void ExpectSame(const absl::StatusOr<Tensor>& actual, const Tensor& expected,
                const std::string& what) {
  ASSERT_TRUE(actual.ok()) << what << ": " << actual.status();
  EXPECT_EQ(ToString(actual->type()), ToString(expected.type())) << what;
  EXPECT_TRUE(BitEqual(*actual, expected)) << what;
}

// Several steps: what one leaves behind must be right for the next.
void ExpectRunsAsItsGraphMeans(const PlanBundle& plan, uint64_t seed = 0, int steps = 3) {
  Devices devices(seed);
  for (const Program& program : plan.programs) {
    ASSERT_TRUE(devices.Add(program.device_kind, static_cast<int>(program.device_index.base)).ok());
  }
  const MachineSpec machine = HandWrittenMachine();
  absl::StatusOr<CheckedPlan> checked = CheckedPlan::Check(plan, AllOpTraits(), &machine);
  ASSERT_TRUE(checked.ok()) << checked.status();
  const std::unique_ptr<Communicator> communicator = CreateInProcessCommunicator();
  SessionOptions options;
  options.communicator = communicator.get();
  options.poison = true;
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(*std::move(checked), devices.table(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  ReferenceRun reference(plan);

  for (int step = 0; step < steps; ++step) {
    const std::map<std::string, Tensor> inputs = HandWrittenInputs(step);
    for (const auto& [name, tensor] : inputs) {
      ASSERT_TRUE((*session)->SetInput(name, tensor).ok());
    }
    const absl::Status run = (*session)->Run();
    ASSERT_TRUE(run.ok()) << run;
    reference.Step(inputs);
    for (const char* name : {"y", "nz", "dr"}) {
      ExpectSame((*session)->Output(name), reference.Output(name), StrCat(name, " step ", step));
    }
    for (const char* name : {"w0", "b0", "w2"}) {
      ExpectSame((*session)->Param(name), reference.Param(name), StrCat(name, " step ", step));
    }
  }
}

// --- What the graph means -----------------------------------------------------------------------

// The evaluator itself, on what can be worked out by hand: in even microbatches t sums to zero and
// z is a - w2; the update of w2 by one microbatch is seen by the next.
TEST(ReferenceRun, FollowsBranchesAndVersions) {
  const PlanBundle plan = HandWrittenPlan();
  ReferenceRun reference(plan);
  const Tensor w2 = reference.Param("w2"), b0 = reference.Param("b0");
  const std::map<std::string, Tensor> inputs = HandWrittenInputs(0);

  reference.Step(inputs);

  // Microbatch 0 of t is [[0, 1, 2, 0], [3, -1, -2, -3]]: rows and columns of what is not zero.
  const Tensor nz = reference.Output("nz");
  EXPECT_EQ(nz.shape(), Shape({8, 6}));
  const int64_t expected[] = {0, 0, 1, 1, 1, 1, 1, 2, 0, 1, 2, 3};
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(nz.AsInt64(i), expected[i]) << i;
  EXPECT_FALSE(BitEqual(reference.Param("w2"), w2));
  EXPECT_FALSE(BitEqual(reference.Param("b0"), b0));
  const Tensor y = reference.Output("y");
  for (int64_t row = 0; row < 8; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < 4; ++i) sum += y.AsDouble(4 * row + i);
    EXPECT_NEAR(sum, 1.0, 1e-6);
  }
}

// Forward 1 comes before backward 0 in stage 0's schedule and so reads the first b0; run one after
// the other, it would read the second.
TEST(ReferenceRun, ReadsTheVersionThatTheScheduleGives) {
  const PlanBundle pipelined = HandWrittenPlan();
  PlanBundle serial = pipelined;
  serial.programs[0].step = {{SegmentId(1), 0}, {SegmentId(2), 0}, {SegmentId(1), 1},
                             {SegmentId(2), 1}, {SegmentId(1), 2}, {SegmentId(2), 2},
                             {SegmentId(1), 3}, {SegmentId(2), 3}};
  ReferenceRun a(pipelined), b(serial);
  a.Step(HandWrittenInputs(0));
  b.Step(HandWrittenInputs(0));
  EXPECT_FALSE(BitEqual(a.Output("y"), b.Output("y")));
}

// --- Runs ---------------------------------------------------------------------------------------

TEST(HandWrittenPlan, RunsOnTwoCpuDevices) { ExpectRunsAsItsGraphMeans(HandWrittenPlan()); }

TEST(HandWrittenPlan, SwapsToAFile) {
  ExpectRunsAsItsGraphMeans(HandWrittenPlan({.swap_space = MemorySpace::kFile}));
}

TEST(HandWrittenPlan, GivesTheSameManyTimes) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectRunsAsItsGraphMeans(HandWrittenPlan()));
  }
}

TEST(HandWrittenPlan, RunsAfterSavingAndLoading) {
  const absl::StatusOr<PlanBundle> loaded =
      ParsePlanJson(PlanToJson(HandWrittenPlan()), "hand-written.json");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectRunsAsItsGraphMeans(*loaded);
}

TEST(HandWrittenPlan, RunsInEveryHarmlessVariant) {
  for (const Variant& variant : HarmlessVariants()) {
    SCOPED_TRACE(variant.name);
#ifndef MILLRACE_HAVE_CUDA
    if (variant.options.kind0 != "cpu" || variant.options.kind1 != "cpu") continue;
#endif
    PlanBundle plan = HandWrittenPlan(variant.options);
    variant.change(plan);
    ASSERT_NO_FATAL_FAILURE(ExpectRunsAsItsGraphMeans(plan));
  }
}

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef MILLRACE_HAVE_CUDA
    GTEST_SKIP() << "built without CUDA: the simulated driver is not there";
#endif
  }
  // Each seed is another order of the streams' work.
  void ExpectRunsInEveryOrder(const HandWrittenOptions& options) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(StrCat("seed ", seed));
      ASSERT_NO_FATAL_FAILURE(ExpectRunsAsItsGraphMeans(HandWrittenPlan(options), seed));
    }
  }
};

TEST_F(CudaTest, RunsOnTwoLogicalCudaDevices) {
  ExpectRunsInEveryOrder({.kind0 = "cuda", .kind1 = "cuda"});
}

TEST_F(CudaTest, RunsOnCpuAndCuda) { ExpectRunsInEveryOrder({.kind0 = "cpu", .kind1 = "cuda"}); }

TEST_F(CudaTest, RunsOnCudaAndCpu) { ExpectRunsInEveryOrder({.kind0 = "cuda", .kind1 = "cpu"}); }

TEST_F(CudaTest, SwapsToAFile) {
  ExpectRunsAsItsGraphMeans(
      HandWrittenPlan({.kind0 = "cuda", .kind1 = "cuda", .swap_space = MemorySpace::kFile}));
}

}  // namespace
}  // namespace millrace
