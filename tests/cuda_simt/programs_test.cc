// Forms of generated kernels that op cases are too small for, or lie too well for: long rows, rows
// in two launches, columns, operands that are not aligned, results on operands.
#include <random>

#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/cuda/cuda_target.h"
#include "tests/cuda_simt/simt_runner.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

Tensor RandomOf(DType dtype, const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Tensor t = Tensor::Zeros({dtype, shape});
  for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, uniform(random));
  return t;
}

struct ProgramCase {
  std::string name;
  NodeQuery query;
  size_t launches = 1;
  InPlacePair in_place = {-1, -1};
  int64_t misaligned_bytes = 0;
};

std::optional<TensorType> F32(Shape shape) { return TensorType{DType::kF32, shape}; }

NodeQuery Fused(std::string program, std::vector<std::string> shapes,
                std::vector<std::optional<TensorType>> inputs,
                std::vector<std::optional<TensorType>> outputs) {
  return {"fused.Program",
          optest::MakeAttrs({{"program", std::move(program)}, {"shapes", std::move(shapes)}}),
          std::move(inputs), std::move(outputs)};
}

std::vector<ProgramCase> ProgramCases() {
  const Attrs first = optest::MakeAttrs({{"axes", std::vector<int64_t>{0}}, {"keepdims", false}});
  std::vector<ProgramCase> cases = {
      {"a row of a block", {"Softmax", {}, {F32({3, 5000})}, {F32({3, 5000})}}},
      {"a row that no vector divides", {"Softmax", {}, {F32({2, 4999})}, {F32({2, 4999})}}},
      {"one long row in two launches", {"ReduceMean", {}, {F32({1, 65536})}, {F32({1, 1})}}, 2},
      {"columns in two launches", {"ReduceSumSquare", first, {F32({4096, 20})}, {F32({20})}}, 2},
      {"columns", {"ReduceMax", first, {F32({70, 45})}, {F32({45})}}},
      {"unaligned operands", {"Add", {}, {F32({64}), F32({64})}, {F32({64})}}, 1, {-1, -1}, 4},
      {"a map in place", {"Exp", {}, {F32({100})}, {F32({100})}}, 1, {0, 0}},
      {"a row in place", {"Softmax", {}, {F32({4, 36})}, {F32({4, 36})}}, 1, {0, 0}},
      // Each point reads another place than it writes: by way of scratch.
      {"a transpose in place",
       Fused("dims [8 outer, 8 outer]; in f32 [1, 8]; %0 = load f32 @0; %1 = exp f32 %0; out f32 "
             "[8, 1] = %1",
             {"[8,8]"}, {F32({8, 8})}, {F32({8, 8})}),
       2,
       {0, 0}},
      {"reduced dims around another",
       Fused("dims [6 reduce, 5 outer, 7 reduce]; in f32 [35, 7, 1]; %0 = load f32 @0; %1 = "
             "reduce_sum f32 %0; %2 = sub f32 %0 %1; out f32 [35, 7, 1] = %2; out f32 [0, 1, 0] = "
             "%1",
             {"[6,5,7]", "[5]"}, {F32({6, 5, 7})}, {F32({6, 5, 7}), F32({5})})},
  };
  return cases;
}

TEST(SimtPrograms, FormsOfKernels) {
  const std::vector<ProgramCase> cases = ProgramCases();
  std::vector<CudaWork> works;
  std::vector<CudaLaunch> launches;
  for (const ProgramCase& c : cases) {
    const std::optional<CudaWork> work = CudaWorkFor(c.query, "program");
    ASSERT_TRUE(work.has_value()) << c.name;
    EXPECT_EQ(work->launches.size(), c.launches) << c.name;
    works.push_back(*work);
    launches.insert(launches.end(), work->launches.begin(), work->launches.end());
  }
  auto module = SimtModule::Build(launches);
  ASSERT_TRUE(module.ok()) << module.status();
  for (size_t i = 0; i < cases.size(); ++i) {
    const ProgramCase& c = cases[i];
    SCOPED_TRACE(c.name);
    std::vector<Tensor> inputs;
    for (const auto& type : c.query.inputs) {
      inputs.push_back(RandomOf(type->dtype, type->shape, static_cast<uint32_t>(i)));
    }
    const auto expected = ReferenceOf(c.query, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const SimtOrder order : {SimtOrder::kForward, SimtOrder::kBackward}) {
      const auto actual =
          RunSimt(**module, c.query, works[i], inputs,
                  {.order = order, .in_place = c.in_place, .misaligned_bytes = c.misaligned_bytes});
      ASSERT_TRUE(actual.ok()) << actual.status();
      for (size_t k = 0; k < expected->size(); ++k) {
        EXPECT_LE(optest::MaxError((*actual)[k], (*expected)[k]), 2e-5) << "output " << k;
      }
    }
  }
}

// A kernel that needs others at a barrier they never reach is found, not waited for.
TEST(SimtBlock, BarriersThatNotAllReachAreFound) {
  const CudaLaunch launch = [] {
    CudaLaunch made =
        NamedLaunch("stuck",
                    "extern \"C\" __global__ void @name@(int* p) { if (threadIdx.x == 0) "
                    "__syncthreads(); *p = 1; }\n");
    made.threads = 64;
    made.params = {{}};
    return made;
  }();
  auto module = SimtModule::Build({&launch, 1});
  ASSERT_TRUE(module.ok()) << module.status();
  int value = 0;
  void* params[] = {&value};
  const absl::Status status = (*module)->Run(launch, params, SimtOrder::kForward);
  EXPECT_NE(status.ToString().find("cannot go on"), std::string::npos) << status;
}

// Two threads that write one place: the order shows.
TEST(SimtBlock, OrdersTellARace) {
  const CudaLaunch launch = [] {
    CudaLaunch made =
        NamedLaunch("race", "extern \"C\" __global__ void @name@(int* p) { *p = threadIdx.x; }\n");
    made.threads = 32;
    made.params = {{}};
    return made;
  }();
  auto module = SimtModule::Build({&launch, 1});
  ASSERT_TRUE(module.ok()) << module.status();
  int forward = -1, backward = -1;
  void* first[] = {&forward};
  void* second[] = {&backward};
  ASSERT_TRUE((*module)->Run(launch, first, SimtOrder::kForward).ok());
  ASSERT_TRUE((*module)->Run(launch, second, SimtOrder::kBackward).ok());
  EXPECT_NE(forward, backward);
}

}  // namespace
}  // namespace millrace
