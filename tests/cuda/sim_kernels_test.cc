// The reference kernels on simulated devices against the same references on the host.
#include "tests/cuda_sim/sim_kernels.h"

#include "ops/op_def.h"
#include "tests/cuda/simulated_gpu.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TensorType F32(std::initializer_list<int64_t> dims) { return {DType::kF32, Shape(dims)}; }

NodeQuery Query(std::string op, std::vector<std::optional<TensorType>> inputs,
                std::vector<std::optional<TensorType>> outputs) {
  NodeQuery query;
  query.op = std::move(op);
  query.inputs = std::move(inputs);
  query.outputs = std::move(outputs);
  return query;
}

struct SimKernelsTest : ::testing::Test {
  SimKernelsTest() {
    library = CreateSimKernelLibrary(sim);
    device = MustCreate(sim);
    stream = MustStream(*device, run);
  }

  std::unique_ptr<Kernel> Prepare(NodeQuery query, std::vector<OperandLayout> inputs = {},
                                  std::vector<OperandLayout> outputs = {}) {
    KernelRequest request;
    request.query = std::move(query);
    request.variant = "reference";
    request.inputs = std::move(inputs);
    request.outputs = std::move(outputs);
    request.device = device.get();
    return Must(library->Prepare(request));
  }
  Buffer Upload(std::span<const float> values) {
    const auto size = static_cast<int64_t>(values.size_bytes());
    Buffer buffer = Must(device->Allocate(MemorySpace::kDevice, size));
    EXPECT_OK(
        device->Write(buffer.data(), reinterpret_cast<const std::byte*>(values.data()), size));
    return buffer;
  }
  std::vector<float> Download(const Buffer& buffer) {
    std::vector<float> values(static_cast<size_t>(buffer.size()) / sizeof(float));
    EXPECT_OK(
        device->Read(reinterpret_cast<std::byte*>(values.data()), buffer.data(), buffer.size()));
    return values;
  }
  absl::Status Launch(Kernel& kernel, std::vector<void*> inputs, std::vector<void*> outputs) {
    KernelArgs args;
    args.inputs = inputs.data();
    args.outputs = outputs.data();
    return stream->Launch(kernel, args);
  }

  CudaSim sim;
  Cancellation run;
  std::unique_ptr<KernelLibrary> library;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

TEST_F(SimKernelsTest, RunTheReferenceOnDeviceMemory) {
  auto matmul = Prepare(Query("MatMul", {F32({2, 3}), F32({3, 2})}, {F32({2, 2})}));
  const Buffer a = Upload(std::vector<float>{1, 2, 3, 4, 5, 6});
  const Buffer b = Upload(std::vector<float>{1, 0, 0, 1, 1, 1});
  const Buffer c = Must(device->Allocate(MemorySpace::kDevice, 16));
  ASSERT_OK(Launch(*matmul, {a.data(), b.data()}, {c.data()}));
  ASSERT_OK(stream->Synchronize());
  EXPECT_THAT(Download(c), ::testing::ElementsAre(4, 5, 10, 11));
}

TEST_F(SimKernelsTest, WorkInPlace) {
  auto add = Prepare(Query("Add", {F32({4}), F32({})}, {F32({4})}));
  const Buffer a = Upload(std::vector<float>{1, 2, 3, 4});
  const Buffer ten = Upload(std::vector<float>{10});
  ASSERT_OK(Launch(*add, {a.data(), ten.data()}, {a.data()}));
  ASSERT_OK(stream->Synchronize());
  EXPECT_THAT(Download(a), ::testing::ElementsAre(11, 12, 13, 14));
}

// Two kernels on two streams fill the two halves of each row, as an in-place concat does: exactly
// the declared rows count, so there is no race.
TEST_F(SimKernelsTest, WriteStridedOperandsSideBySide) {
  auto relu = Prepare(Query("Relu", {F32({2, 2})}, {F32({2, 2})}), {{}},
                      {{.layout = Layout::kStrided, .strides = {4, 1}}});
  auto transposed = Prepare(Query("Relu", {F32({2, 2})}, {F32({2, 2})}),
                            {{.layout = Layout::kStrided, .strides = {1, 2}}},
                            {{.layout = Layout::kStrided, .strides = {4, 1}}});
  auto other = MustStream(*device, run, "other");
  const Buffer a = Upload(std::vector<float>{1, -2, 3, -4});
  const Buffer rows = Must(device->Allocate(MemorySpace::kDevice, 32));
  ASSERT_OK(Launch(*relu, {a.data()}, {rows.data()}));
  std::swap(stream, other);
  ASSERT_OK(Launch(*transposed, {a.data()}, {rows.data() + 8}));
  ASSERT_OK(stream->Synchronize());
  ASSERT_OK(other->Synchronize());
  EXPECT_THAT(Download(rows), ::testing::ElementsAre(1, 0, 1, 3, 3, 0, 0, 0));
}

TEST_F(SimKernelsTest, AreCheckedForRaces) {
  auto relu = Prepare(Query("Relu", {F32({4})}, {F32({4})}));
  auto other = MustStream(*device, run, "other");
  const Buffer a = Upload(std::vector<float>{1, 2, 3, 4});
  const Buffer b = Upload(std::vector<float>{1, 2, 3, 4});
  ASSERT_OK(Launch(*relu, {a.data()}, {b.data()}));
  ASSERT_OK(other->Copy(Move(a, b, 16)));
  ASSERT_OK(stream->Synchronize());
  ASSERT_OK(other->Synchronize());
  const auto violations = sim.TakeViolations();
  ASSERT_FALSE(violations.empty());
  EXPECT_THAT(violations, ::testing::Each(StartsWith("unsynchronized access")));
  EXPECT_THAT(violations[0], HasSubstr("kernel reference"));
}

TEST_F(SimKernelsTest, OutputsThatAreNotWantedStayAway) {
  auto norm = Prepare(Query("LayerNormalization", {F32({2, 2}), F32({2}), std::nullopt},
                            {F32({2, 2}), std::nullopt, std::nullopt}));
  const Buffer x = Upload(std::vector<float>{-1, 1, -3, 3});
  const Buffer scale = Upload(std::vector<float>{1, 2});
  const Buffer y = Must(device->Allocate(MemorySpace::kDevice, 16));
  ASSERT_OK(Launch(*norm, {x.data(), scale.data(), nullptr}, {y.data(), nullptr, nullptr}));
  ASSERT_OK(stream->Synchronize());
  EXPECT_THAT(Download(y),
              ::testing::Pointwise(::testing::FloatNear(1e-4f), std::vector<float>{-1, 2, -1, 2}));
}

TEST_F(SimKernelsTest, AFailingReferenceIsADeviceSideAssertion) {
  NodeQuery query = Query("Gather", {F32({2}), TensorType{DType::kI64, Shape{1}}}, {F32({1})});
  query.attrs.Set("axis", int64_t{0});
  auto gather = Prepare(query);
  const Buffer data = Upload(std::vector<float>{1, 2});
  const Buffer indices = Must(device->Allocate(MemorySpace::kDevice, 8));
  const int64_t far = 7;
  ASSERT_OK(device->Write(indices.data(), reinterpret_cast<const std::byte*>(&far), 8));
  const Buffer out = Must(device->Allocate(MemorySpace::kDevice, 4));
  ASSERT_OK(Launch(*gather, {data.data(), indices.data()}, {out.data()}));
  EXPECT_THAT(Message(stream->Synchronize()), HasSubstr("CUDA_ERROR_ASSERT"));
}

TEST_F(SimKernelsTest, OnlyWhatWasOfferedCanBePrepared) {
  KernelRequest request;
  request.query = Query("Relu", {F32({4})}, {F32({4})});
  request.variant = "fast";
  request.device = device.get();
  EXPECT_EQ(ExitCode(library->Prepare(request).status()), 70);
  request.variant = "reference";
  sim.FailCall("ModuleLoadData", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(ExitCode(library->Prepare(request).status()), 5);
  sim.FailCall("ModuleGetFunction", 1, CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(ExitCode(library->Prepare(request).status()), 6);
  auto kernel = Must(library->Prepare(request));
  sim.FailCall("LaunchKernel", 1, CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Message(Launch(*kernel, {nullptr}, {nullptr})), HasSubstr("launching"));
}

TEST(SimTarget, OffersTheReferenceOfEveryOpThatHasOne) {
  const SimTarget target;
  EXPECT_EQ(target.device_kind(), "cuda");
  const auto relu = target.Variants(Query("Relu", {F32({4})}, {F32({4})}));
  ASSERT_EQ(relu.size(), 1u);
  EXPECT_EQ(relu[0].name, "reference");
  EXPECT_TRUE(relu[0].strided);
  EXPECT_FALSE(relu[0].on_host);
  EXPECT_TRUE(target.Variants(Query("NoSuchOp", {}, {})).empty());
  const TensorType indices{DType::kI64, Shape{1, 4}};
  const auto nonzero = target.Variants(Query("NonZero", {F32({4})}, {indices}));
  ASSERT_EQ(nonzero.size(), 1u);
  EXPECT_TRUE(nonzero[0].on_host);
}

}  // namespace
}  // namespace millrace
