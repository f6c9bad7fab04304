// The CPU's kernel of fused programs against the reference: every elementwise op, and random
// programs over maps, rows and columns.
#include <random>

#include "gtest/gtest.h"
#include "ops/cpu/simd_targets.h"
// Highway must see what the line above leaves out.
#include "graph/strings.h"
#include "hwy/highway.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/scalar_program.h"
#include "tests/ops/cpu_kernel_runner.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

Attrs ProgramAttrs(const FusedProgram& program, const std::vector<Shape>& shapes) {
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) texts.push_back(ToString(shape));
  return MakeAttrs({{"program", ToText(program)}, {"shapes", std::move(texts)}});
}

// Runs `program` by both kernels, for some team sizes. Whether the fast one takes it.
bool Compare(const FusedProgram& program, std::vector<Tensor> operands,
             const std::vector<Shape>& shapes, double tolerance) {
  const KernelCase c = MakeCase("fused.Program", ProgramAttrs(program, shapes), std::move(operands),
                                static_cast<int>(shapes.size()));
  const std::vector<KernelVariant> variants = CpuTarget().Variants(c.query);
  if (variants.size() < 2 || NumElements(shapes[0]) == 0) return false;
  EXPECT_EQ(variants[0].name, "simd");
  const std::unique_ptr<KernelLibrary> library = CreateCpuKernelLibrary();
  const auto expected = RunVariant(*library, c, variants.back());
  EXPECT_TRUE(expected.ok()) << expected.status();
  const auto check = [&](const RunOptions& options) {
    const auto actual = RunVariant(*library, c, variants[0], options);
    EXPECT_TRUE(actual.ok()) << actual.status();
    if (!actual.ok() || !expected.ok()) return;
    for (size_t i = 0; i < expected->size(); ++i) {
      EXPECT_LE(optest::MaxError((*actual)[i], (*expected)[i]), tolerance)
          << "output " << i << ", " << options.threads << " threads, in place "
          << options.in_place.output << " on " << options.in_place.input << "\n"
          << ToText(program);
    }
  };
  for (const int threads : {1, 3}) check({.threads = threads});
  for (size_t o = 0; o < shapes.size(); ++o) {
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (c.query.inputs[i] != c.query.outputs[o]) continue;
      check({.threads = 1, .in_place = {static_cast<int>(o), static_cast<int>(i)}});
    }
  }
  return true;
}

TEST(CpuFused, EveryElementwiseOp) {
  int compared = 0;
  for (const optest::OpCase& c : optest::OpCases()) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32}) {
      NodeQuery query{c.op, c.attrs, {}, {}};
      std::vector<Tensor> inputs, operands;
      for (const Tensor& t : c.inputs) {
        const bool converts = t.has_data() && t.dtype() == DType::kF64;
        inputs.push_back(converts ? optest::Converted(t, dtype) : t);
        auto& type = query.inputs.emplace_back();
        if (!t.has_data()) continue;
        type = inputs.back().type();
        operands.push_back(inputs.back());
      }
      const auto outputs = optest::RunReference(c.op, c.attrs, inputs, c.num_outputs);
      if (!outputs.ok() || c.num_outputs != 1) continue;
      query.outputs.push_back((*outputs)[0].type());
      if (!IsScalarNode(query)) continue;
      SCOPED_TRACE(c.name);
      const double tolerance = dtype == DType::kF32   ? 2e-6
                               : dtype == DType::kF16 ? 2e-3
                               : dtype == DType::kI32 ? 0
                                                      : 2e-2;
      compared += Compare(NodeProgram(query), operands, {(*outputs)[0].shape()}, tolerance) ? 1 : 0;
    }
  }
  EXPECT_GT(compared, 400);
}

// A random program over a random space, with operands that vary along some of its dims.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {}

  void Make() {
    const int rank = Below(4) + 1;
    Shape space;
    int64_t points = 1;
    for (int d = 0; d < rank; ++d) {
      const int64_t size = kSizes[Below(std::size(kSizes))];
      space.push_back(points * size > kMaxPoints ? 2 : size);
      points *= space[d];
    }
    program_ = ProgramOver(space);
    const int form = Below(3);  // a map, rows, columns
    if (form == 1) program_.dims[rank - 1].role = DimRole::kReduce;
    if (form == 2 && rank >= 2) {
      program_.dims[rank - 2].role = DimRole::kReduce;
      program_.dims[rank - 1].role = DimRole::kInner;
    }
    reduces_ = form == 1 || (form == 2 && rank >= 2);
    for (int i = Below(3) + 1; i > 0; --i) AddOperand(space);
    values_.push_back(ScalarConstant(values_[0], 0.5));
    for (int i = Below(12) + 1; i > 0; --i) AddInstruction();
    StoreOutput(program_, values_.back());
    shapes_.push_back(space);
    if (reduces_) AddReducedOutput(space);
  }

  FusedProgram program_;
  std::vector<Tensor> operands_;
  std::vector<Shape> shapes_;

 private:
  static constexpr int64_t kMaxPoints = 2000;
  static constexpr int64_t kSizes[] = {1, 2, 3, 5, 16, 33, 128, 130, 300};

  int Below(size_t n) { return static_cast<int>(random_() % n); }
  ScalarTerm Any() { return values_[Below(values_.size())]; }

  void AddOperand(const Shape& space) {
    Shape shape;
    for (int64_t size : space) shape.push_back(operands_.empty() || Below(4) > 0 ? size : 1);
    const DType dtype = operands_.empty() || Below(4) > 0 ? DType::kF32 : DType::kF16;
    operands_.push_back(RandomTensor(random_, dtype, shape));
    values_.push_back(CastTo(LoadOperand(program_, {dtype, shape}, space), DType::kF32));
  }

  void AddInstruction() {
    constexpr ScalarOp kUnary[] = {ScalarOp::kNeg,     ScalarOp::kAbs, ScalarOp::kTanh,
                                   ScalarOp::kSigmoid, ScalarOp::kErf, ScalarOp::kSign};
    constexpr ScalarOp kBinary[] = {ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul, ScalarOp::kMin,
                                    ScalarOp::kMax};
    constexpr ScalarOp kReductions[] = {ScalarOp::kReduceMax, ScalarOp::kReduceMin,
                                        ScalarOp::kReduceSum};
    switch (Below(6)) {
      case 0:
        return values_.push_back(ScalarUnary(kUnary[Below(std::size(kUnary))], Any()));
      case 1:
        // Bounded, so that values stay of order one and comparisons mean something.
        return values_.push_back(
            Select(Any() < 0.25, ScalarUnary(ScalarOp::kTanh, Any()), ScalarConstant(Any(), 0.25)));
      case 2:
        return values_.push_back(
            ScalarUnary(ScalarOp::kTanh, Fma(Any(), ScalarConstant(Any(), 0.5), Any())));
      case 3:
        if (reduces_) {
          const ScalarTerm r = ScalarUnary(kReductions[Below(std::size(kReductions))], Any());
          return values_.push_back(ScalarUnary(ScalarOp::kTanh, r * ScalarConstant(r, 0.125)));
        }
        [[fallthrough]];
      default:
        return values_.push_back(ScalarUnary(
            ScalarOp::kTanh, ScalarBinary(kBinary[Below(std::size(kBinary))], Any(), Any())));
    }
  }

  void AddReducedOutput(const Shape& space) {
    const ScalarTerm sum = ScalarUnary(ScalarOp::kReduceSum, Any());
    Shape shape;
    for (size_t d = 0; d < program_.dims.size(); ++d) {
      shape.push_back(program_.dims[d].role == DimRole::kReduce ? 1 : space[d]);
    }
    FusedOutput output{.value = sum.value, .dtype = DType::kF32, .offset = 0, .strides = {}};
    const Shape dense = DenseStrides(shape);
    for (size_t d = 0; d < program_.dims.size(); ++d) {
      output.strides.push_back(program_.dims[d].role == DimRole::kReduce ? 0 : dense[d]);
    }
    program_.outputs.push_back(output);
    shapes_.push_back(shape);
  }

  std::mt19937 random_;
  bool reduces_ = false;
  std::vector<ScalarTerm> values_;
};

// On every instruction set in turn.
TEST(CpuFused, RandomProgramsAreWhatTheyMean) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  int compared = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    RandomProgram random(seed);
    random.Make();
    ASSERT_TRUE(VerifyFusedProgram(random.program_).ok())
        << VerifyFusedProgram(random.program_) << "\n"
        << ToText(random.program_);
    SCOPED_TRACE(seed);
    // tanh of sums that cancel: an absolute bound.
    hwy::SetSupportedTargetsForTest(targets[seed % targets.size()]);
    compared += Compare(random.program_, random.operands_, random.shapes_, 1e-4) ? 1 : 0;
    hwy::SetSupportedTargetsForTest(0);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(compared, 400);
}

FusedProgram ParsedProgram(std::string_view text) {
  const absl::StatusOr<FusedProgram> program = ParseFusedProgram(text);
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

TEST(CpuFused, AValueIsStoredTwiceInOtherTypes) {
  const Tensor x = optest::RandomTensor({DType::kF32, {300}}, 1);
  for (const char* types :
       {"out f16 [1] = %1; out f32 [1] = %1", "out f16 [1] = %1; out f16 [1] = %1"}) {
    EXPECT_TRUE(Compare(ParsedProgram(StrCat("dims [300 outer]; in f32 [1]; %0 = load f32 @0; "
                                             "%1 = exp f32 %0; ",
                                             types)),
                        {x}, {{300}, {300}}, 2e-3));
  }
}

// 2^25 ones: in f32, one by one, they come to 2^24.
TEST(CpuFused, SumsOfManyRowsDoNotLoseThem) {
  const int64_t rows = int64_t{1} << 19;
  std::vector<float> data(rows * 64, 33.0f);
  const Tensor x = Tensor::FromSpan<float>({rows, 64}, data);
  const KernelCase c =
      MakeCase("fused.Program",
               ProgramAttrs(ParsedProgram(StrCat("dims [", rows,
                                                 " reduce, 64 inner]; in f32 [64, 1]; "
                                                 "%0 = load f32 @0; %1 = reduce_sum f32 %0; "
                                                 "out f32 [0, 1] = %1")),
                            {{64}}),
               {x}, 1);
  const auto sum = RunVariant(*CreateCpuKernelLibrary(), c, CpuTarget().Variants(c.query)[0]);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_NEAR((*sum)[0].AsDouble(5), 33.0 * static_cast<double>(rows), 33.0);
}

TEST(CpuFused, ProgramsOverOnePointHaveTheFastKernel) {
  EXPECT_TRUE(Compare(ParsedProgram("dims []; in f32 []; %0 = load f32 @0; %1 = neg f32 %0; "
                                    "out f32 [] = %1"),
                      {Tensor::Scalar(2.0f)}, {Shape{}}, 0));
}

}  // namespace
}  // namespace millrace
