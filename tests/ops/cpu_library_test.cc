// What the cpu libraries promise beyond right numbers: what they refuse, scratch and teams, bounded
// operands, and runs that allocate nothing.
#include <set>
#include <tuple>
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/op_def.h"
#include "tests/ops/allocation_count.h"
#include "tests/ops/cpu_kernel_runner.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using Ints = std::vector<int64_t>;

Tensor Counting(const Shape& shape) {
  Tensor t = Tensor::Zeros({DType::kF32, shape});
  for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, 0.25 * static_cast<double>(i % 17) - 2);
  return t;
}

// One node of each op that has a fast kernel.
std::vector<KernelCase> OneOfEach() {
  const Attrs pool = MakeAttrs({{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}});
  return {
      MakeCase("Identity", {}, {Counting({5, 6})}),
      MakeCase("Reshape", {}, {Counting({5, 6}), Tensor::Of<int64_t>({1}, {30})}),
      MakeCase("Transpose", {}, {Counting({5, 6})}),
      MakeCase("Concat", MakeAttrs({{"axis", int64_t{1}}}), {Counting({5, 6}), Counting({5, 2})}),
      MakeCase("Split", MakeAttrs({{"axis", int64_t{1}}}), {Counting({5, 6})}, 2),
      MakeCase("Gather", {}, {Counting({5, 6}), Tensor::Of<int64_t>({3}, {4, 0, -1})}),
      MakeCase("Relu", {}, {Counting({5, 6})}),
      MakeCase("Gelu", {}, {Counting({5, 6})}),
      MakeCase("Add", {}, {Counting({5, 6}), Counting({6})}),
      MakeCase("Add", {}, {Tensor::Scalar<int64_t>(4), Tensor::Of<int64_t>({2}, {1, 2})}),
      MakeCase("Softmax", {}, {Counting({5, 6})}),
      MakeCase("LayerNormalization", {}, {Counting({5, 6}), Counting({6}), Counting({6})}),
      MakeCase("ReduceSum", {}, {Counting({5, 6}), Tensor::Of<int64_t>({1}, {1})}),
      MakeCase("GlobalAveragePool", {}, {Counting({1, 3, 4, 4})}),
      MakeCase("MaxPool", pool, {Counting({1, 3, 9, 9})}),
      MakeCase("MatMul", {}, {Counting({5, 6}), Counting({6, 7})}),
      MakeCase("Gemm", {}, {Counting({5, 6}), Counting({6, 7}), Counting({7})}),
      MakeCase("MatMul", {}, {Counting({64, 64}), Counting({64, 64})}),
      MakeCase("Conv", {}, {Counting({1, 8, 9, 9}), Counting({8, 8, 3, 3})}),
      MakeCase("Conv", {}, {Counting({1, 64, 9, 9}), Counting({64, 64, 3, 3})}),
      MakeCase("Add", {}, {Counting({0}), Counting({0})}),
  };
}

TEST(CpuTargetTest, EveryOpWithAReferenceIsOffered) {
  for (const KernelCase& c : OneOfEach()) {
    const std::vector<KernelVariant> variants = CpuTarget().Variants(c.query);
    ASSERT_FALSE(variants.empty()) << Describe(c);
    EXPECT_EQ(variants.back().name, "reference") << Describe(c);
    for (const KernelVariant& variant : variants) {
      EXPECT_EQ(variant.in_layouts.size(), c.inputs.size());
      EXPECT_EQ(variant.out_layouts.size(), c.query.outputs.size());
      EXPECT_GE(variant.scratch_bytes, 0);
    }
  }
}

// A plan names a variant, and says how operands lie.
TEST(CpuTargetTest, NamesAndLayoutsAreUniqueForAQuery) {
  for (const KernelCase& c : OneOfEach()) {
    std::set<std::tuple<std::string, std::vector<Layout>, std::vector<Layout>>> seen;
    for (const KernelVariant& v : CpuTarget().Variants(c.query)) {
      EXPECT_TRUE(seen.emplace(v.name, v.in_layouts, v.out_layouts).second)
          << v.name << " of " << Describe(c);
    }
  }
}

TEST(CpuTargetTest, TeamSizeChangesScratchOnly) {
  for (const KernelCase& c : OneOfEach()) {
    std::vector<KernelVariant> alone = CpuTarget(1).Variants(c.query);
    std::vector<KernelVariant> team = CpuTarget(8).Variants(c.query);
    ASSERT_EQ(alone.size(), team.size());
    for (size_t i = 0; i < team.size(); ++i) {
      EXPECT_GE(team[i].scratch_bytes, alone[i].scratch_bytes) << Describe(c);
      team[i].scratch_bytes = alone[i].scratch_bytes;
      EXPECT_EQ(team[i], alone[i]) << Describe(c);
    }
  }
}

TEST(CpuTargetTest, NothingForUnknownOpsControlFlowAndBadTypes) {
  NodeQuery query;
  query.op = "Frobnicate";
  EXPECT_TRUE(CpuTarget().Variants(query).empty());
  query.op = "If";
  EXPECT_TRUE(CpuTarget().Variants(query).empty());
  query = MakeCase("Add", {}, {Counting({3}), Counting({3})}).query;
  query.outputs[0]->shape = {1000};
  EXPECT_TRUE(CpuTarget().Variants(query).empty());
  query.inputs.pop_back();
  EXPECT_TRUE(CpuTarget().Variants(query).empty());
}

// Dims that multiply to nothing, but overflow on the way there.
TEST(CpuTargetTest, EmptyTypesWithHugeDims) {
  const int64_t huge = int64_t{1} << 40;
  for (const char* op : {"Relu", "Softmax", "Transpose", "Identity"}) {
    for (const Shape& shape : {Shape{huge, huge, 0}, Shape{0, huge, huge}, Shape{huge, 0, huge}}) {
      const TensorType type{DType::kF32, shape};
      NodeQuery query;
      query.op = op;
      query.inputs = {type};
      query.outputs = {type};
      if (query.op == "Transpose") {
        query.outputs[0]->shape = {shape[2], shape[1], shape[0]};
      }
      const auto variants = CpuTarget().Variants(query);
      ASSERT_FALSE(variants.empty()) << op;
      EXPECT_EQ(variants.front().name, "empty") << op;
    }
  }
  NodeQuery sum;
  sum.op = "ReduceSum";
  sum.inputs = {TensorType{DType::kF32, {huge, huge, 0}}};
  sum.outputs = {TensorType{DType::kF32, {1, 1, 1}}};
  EXPECT_FALSE(CpuTarget().Variants(sum).empty());
}

TEST(CpuLibraryTest, RefusesVariantsItNeverOffered) {
  const KernelCase c = MakeCase("Add", {}, {Counting({8}), Counting({8})});
  for (const char* name : {"nonsense", "simd:avx1024", "copy", "loop", "onednn:avx512_core", ""}) {
    KernelVariant variant;
    variant.name = name;
    const auto kernel = CreateCpuKernelLibrary()->Prepare(RequestFor(c, variant));
    EXPECT_EQ(ExitCode(kernel.status()), ExitCode(InternalError(""))) << name;
    EXPECT_THAT(kernel.status().message(), HasSubstr("offers no kernel")) << name;
  }
}

TEST(CpuLibraryTest, ReferenceLibraryHasReferencesOnly) {
  const auto library = CreateReferenceKernelLibrary();
  for (const KernelCase& c : OneOfEach()) {
    for (const KernelVariant& variant : CpuTarget().Variants(c.query)) {
      const auto kernel = library->Prepare(RequestFor(c, variant));
      if (variant.name == "reference") {
        EXPECT_TRUE(kernel.ok()) << Describe(c) << kernel.status();
      } else {
        EXPECT_EQ(ExitCode(kernel.status()), ExitCode(InternalError(""))) << variant.name;
      }
    }
  }
}

TEST(CpuLibraryTest, RefusesTypesThatDoNotFitTheOp) {
  const KernelCase c = MakeCase("MatMul", {}, {Counting({4, 5}), Counting({5, 6})});
  for (const KernelVariant& variant : CpuTarget().Variants(c.query)) {
    KernelRequest request = RequestFor(c, variant);
    request.query.outputs[0]->shape = {4, 600};
    EXPECT_FALSE(CreateCpuKernelLibrary()->Prepare(request).ok()) << variant.name;
    request = RequestFor(c, variant);
    request.query.inputs[1]->shape = {50, 6};
    EXPECT_FALSE(CreateCpuKernelLibrary()->Prepare(request).ok()) << variant.name;
  }
}

TEST(CpuLibraryTest, RefusesOperandsThatAreNotDense) {
  const KernelCase c = MakeCase("Add", {}, {Counting({4, 5}), Counting({4, 5})});
  const KernelVariant variant = OfferedVariant(c, "simd");
  KernelRequest request = RequestFor(c, variant);
  request.inputs[0].strides = {5, 1};
  EXPECT_TRUE(CreateCpuKernelLibrary()->Prepare(request).ok());
  request.inputs[0].strides = {8, 1};
  EXPECT_THAT(CreateCpuKernelLibrary()->Prepare(request).status().message(), HasSubstr("dense"));
  request = RequestFor(c, variant);
  request.outputs[0].layout = Layout::kNHWC;
  EXPECT_THAT(CreateCpuKernelLibrary()->Prepare(request).status().message(), HasSubstr("dense"));
}

TEST(CpuLibraryTest, ATeamWithoutItsScratchGivesWayToASmallerOne) {
  const Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2, 2}}});
  const KernelCase c = MakeCase("MaxPool", attrs, {Counting({4, 64, 40, 40})});
  KernelVariant variant;
  for (const KernelVariant& v : CpuTarget(1).Variants(c.query)) {
    if (v.name == "simd") variant = v;
  }
  ASSERT_GT(variant.scratch_bytes, 0);
  const auto library = CreateCpuKernelLibrary();
  // RunVariant checks that nothing beyond the scratch of one thread is written.
  EXPECT_TRUE(RunVariant(*library, c, variant, {.threads = 4}).ok());
  variant.scratch_bytes -= 64;
  EXPECT_THAT(RunVariant(*library, c, variant).status().message(), HasSubstr("scratch"));
}

TEST(CpuLibraryTest, IndicesOutOfRangeAreAnErrorOfTheInput) {
  for (int64_t index : {int64_t{5}, int64_t{-6}, std::numeric_limits<int64_t>::min()}) {
    KernelCase c = MakeCase("Gather", {}, {Counting({5, 2}), Tensor::Of<int64_t>({2}, {0, 0})});
    c.inputs[1].Set(1, static_cast<double>(index));  // known at run time only
    const auto status =
        RunVariant(*CreateCpuKernelLibrary(), c, OfferedVariant(c, "copy")).status();
    EXPECT_EQ(ExitCode(status), ExitCode(BadInputError(""))) << index;
    EXPECT_THAT(std::string(status.message()), HasSubstr("element 1 of 'indices'"));
  }
}

TEST(CpuLibraryTest, AxesThatChangeAtRunTimeAreReadOrRefused) {
  KernelCase c = MakeCase("ReduceSum", MakeAttrs({{"keepdims", int64_t{0}}}),
                          {Tensor::Of<float>({2, 2}, {1, 2, 3, 5}), Tensor::Of<int64_t>({1}, {1})});
  const auto kernel = *CreateCpuKernelLibrary()->Prepare(RequestFor(c, OfferedVariant(c, "simd")));
  float out[2];
  const auto run = [&](int64_t axis) {
    void* inputs[] = {c.inputs[0].mutable_bytes(), &axis};
    void* outputs[] = {out};
    return kernel->Run({.inputs = inputs, .outputs = outputs});
  };
  ASSERT_TRUE(run(1).ok());
  EXPECT_THAT(out, testing::ElementsAre(3, 8));
  ASSERT_TRUE(run(0).ok());
  EXPECT_THAT(out, testing::ElementsAre(4, 7));
  EXPECT_FALSE(run(2).ok());
  EXPECT_FALSE(run(std::numeric_limits<int64_t>::min()).ok());
  ASSERT_TRUE(run(-1).ok());
  EXPECT_THAT(out, testing::ElementsAre(3, 8));
}

// --- Bounded operands ---------------------------------------------------------------------------
// Runs the reference on operands whose true shapes differ from the planned ones.
struct BoundedRun {
  NodeQuery query;
  std::vector<Shape> input_shapes;
  std::vector<void*> inputs, outputs;
  std::vector<Shape> output_shapes = {};

  absl::Status Run() {
    KernelRequest request;
    request.query = query;
    request.variant = "reference";
    request.true_shapes = true;
    auto kernel = CreateReferenceKernelLibrary()->Prepare(request);
    if (!kernel.ok()) return kernel.status();
    std::vector<const Shape*> in;
    std::vector<Shape*> out;
    output_shapes.resize(query.outputs.size());
    for (const Shape& s : input_shapes) in.push_back(&s);
    for (Shape& s : output_shapes) out.push_back(&s);
    return (*kernel)->Run({.inputs = inputs.data(),
                           .outputs = outputs.data(),
                           .input_shapes = in.data(),
                           .output_shapes = out.data()});
  }
};

TEST(ReferenceTrueShapes, NonZeroWritesWhatItFoundAndItsShape) {
  float x[] = {0, 3, 0, 4, 5, 9, 9, 9};  // planned for [2,4], truly [2,2]
  int64_t found[2 * 8];
  std::fill(std::begin(found), std::end(found), -1);
  BoundedRun run{MakeCase("NonZero", {}, {Counting({2, 4})}).query, {{2, 2}}, {x}, {found}};
  ASSERT_TRUE(run.Run().ok());
  EXPECT_EQ(run.output_shapes[0], (Shape{2, 2}));
  EXPECT_THAT(std::vector<int64_t>(found, found + 5), testing::ElementsAre(0, 1, 1, 1, -1));
}

TEST(ReferenceTrueShapes, OrdinaryOpsTakeTheTrueSizes) {
  float x[] = {-1, 2, -3, 4}, y[] = {9, 9, 9, 9};
  BoundedRun run{MakeCase("Relu", {}, {Counting({4})}).query, {{3}}, {x}, {y}};
  ASSERT_TRUE(run.Run().ok());
  EXPECT_EQ(run.output_shapes[0], (Shape{3}));
  EXPECT_THAT(y, testing::ElementsAre(0, 2, 0, 9));
}

TEST(ReferenceTrueShapes, RefusesMoreThanWasPlanned) {
  float x[8] = {}, y[4] = {};
  BoundedRun run{MakeCase("Relu", {}, {Counting({4})}).query, {{8}}, {x}, {y}};
  EXPECT_THAT(run.Run().message(), HasSubstr("was planned"));
}

TEST(ReferenceTrueShapes, FastKernelsDoNotTakeThem) {
  const KernelCase c = MakeCase("Relu", {}, {Counting({4})});
  KernelRequest request = RequestFor(c, OfferedVariant(c, "simd"));
  request.true_shapes = true;
  EXPECT_FALSE(CreateCpuKernelLibrary()->Prepare(request).ok());
}

TEST(ReferenceTrueShapes, DataDependentResultsNeedThem) {
  const KernelCase c = MakeCase("NonZero", {}, {Counting({4})});
  EXPECT_FALSE(
      CreateReferenceKernelLibrary()->Prepare(RequestFor(c, OfferedVariant(c, "reference"))).ok());
}

// --- Allocation ---------------------------------------------------------------------------------
// oneDNN allocates inside its own calls, which is not ours to change.
TEST(CpuKernels, FastKernelsDoNotAllocateWhenRun) {
  const auto library = CreateCpuKernelLibrary();
  for (const KernelCase& c : OneOfEach()) {
    for (const KernelVariant& variant : CpuTarget().Variants(c.query)) {
      if (variant.name == "reference" || variant.name.starts_with("onednn")) continue;
      const auto kernel = *library->Prepare(RequestFor(c, variant));
      std::vector<Tensor> results;
      std::vector<void*> inputs, outputs;
      for (const Tensor& t : c.inputs) inputs.push_back(const_cast<std::byte*>(t.bytes()));
      for (const auto& type : c.query.outputs) {
        outputs.push_back(results.emplace_back(Tensor::Zeros(*type)).mutable_bytes());
      }
      std::vector<std::byte> scratch(static_cast<size_t>(variant.scratch_bytes) + 64);
      const KernelArgs args = {
          .inputs = inputs.data(), .outputs = outputs.data(), .scratch = scratch.data()};
      const int64_t before = AllocationCount();
      const absl::Status status = kernel->Run(args);
      EXPECT_EQ(AllocationCount(), before) << Describe(c) << " " << variant.name;
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// A result without elements was taken for nothing to do, whatever the positions were.
TEST(CpuTargetTest, PositionsAreCheckedAlsoWhereNothingIsWritten) {
  const KernelCase c =
      MakeCase("ScatterND", {},
               {Tensor::Zeros({DType::kF32, {0, 1}}), Tensor::Of<int64_t>({1, 1}, {0}),
                Tensor::Zeros({DType::kF32, {1, 1}})});
  EXPECT_EQ(CpuTarget().Variants(c.query).front().name, "reference");
}

}  // namespace
}  // namespace millrace
