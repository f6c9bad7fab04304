// fused.Program's reference against the ops it stands for, and what it refuses.
#include "gmock/gmock.h"
#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/scalar_program.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

Attrs FusedAttrs(const FusedProgram& program, const std::vector<Shape>& shapes) {
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) texts.push_back(ToString(shape));
  return optest::MakeAttrs({{"program", ToText(program)}, {"shapes", std::move(texts)}});
}

// The query of a case with its inputs converted to `dtype` where they are f64, and its results.
struct TypedCase {
  NodeQuery query;
  std::vector<Tensor> inputs, outputs;
};

std::optional<TypedCase> AsType(const optest::OpCase& c, DType dtype) {
  TypedCase typed;
  typed.query.op = c.op;
  typed.query.attrs = c.attrs;
  for (const Tensor& input : c.inputs) {
    const bool converts = input.has_data() && input.dtype() == DType::kF64;
    typed.inputs.push_back(converts ? optest::Converted(input, dtype) : input);
    auto& type = typed.query.inputs.emplace_back();
    if (input.has_data()) type = typed.inputs.back().type();
  }
  auto outputs = optest::RunReference(c.op, c.attrs, typed.inputs, c.num_outputs);
  if (!outputs.ok()) return std::nullopt;  // not for this type
  typed.outputs = *std::move(outputs);
  for (const Tensor& output : typed.outputs) typed.query.outputs.push_back(output.type());
  return typed;
}

TEST(ScalarPrograms, AreWhatTheOpsAre) {
  int compared = 0;
  for (const optest::OpCase& c : optest::OpCases()) {
    for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32}) {
      const std::optional<TypedCase> typed = AsType(c, dtype);
      if (!typed.has_value() || !IsScalarNode(typed->query)) continue;
      SCOPED_TRACE(StrCat(c.name, " as ", DTypeName(dtype)));
      const FusedProgram program = NodeProgram(typed->query);
      ASSERT_TRUE(VerifyFusedProgram(program).ok()) << VerifyFusedProgram(program);
      std::vector<Tensor> operands;
      for (const Tensor& input : typed->inputs) {
        if (input.has_data()) operands.push_back(input);
      }
      const Tensor& expected = typed->outputs[0];
      const auto actual =
          optest::RunReference("fused.Program", FusedAttrs(program, {expected.shape()}), operands);
      ASSERT_TRUE(actual.ok()) << actual.status();
      const bool exact = FindOp(c.op)->scalar == nullptr;
      if (exact) {
        EXPECT_TRUE(BitEqual((*actual)[0], expected));
      } else {
        const double tolerance = dtype == DType::kF64   ? 1e-14
                                 : dtype == DType::kF32 ? 1e-6
                                 : dtype == DType::kF16 ? 1e-3
                                                        : 1e-2;
        EXPECT_LE(optest::MaxError((*actual)[0], expected), tolerance);
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
}

TEST(FusedProgramOp, SoftmaxOfRowsAndColumns) {
  const Tensor x = optest::RandomTensor({DType::kF32, {3, 5}}, 1);
  for (int axis : {0, 1}) {
    FusedProgram p = ProgramOver({3, 5});
    p.dims[axis].role = DimRole::kReduce;
    const ScalarTerm in = LoadOperand(p, x.type(), x.shape());
    const ScalarTerm max = ScalarUnary(ScalarOp::kReduceMax, in);
    const ScalarTerm e = ScalarUnary(ScalarOp::kExp, in - max);
    StoreOutput(p, e / ScalarUnary(ScalarOp::kReduceSum, e));
    const Tensor expected =
        optest::Eval("Softmax", {x}, optest::MakeAttrs({{"axis", int64_t{axis}}}));
    EXPECT_THAT(optest::Eval("fused.Program", {x}, FusedAttrs(p, {x.shape()})),
                optest::IsNear(expected, 1e-6));
  }
}

TEST(FusedProgramOp, ReducingNothingGivesWhatReductionsOfNoElementsGive) {
  FusedProgram p = ProgramOver({2, 0});
  p.dims[1].role = DimRole::kReduce;
  const ScalarTerm in = LoadOperand(p, {DType::kF32, {2, 0}}, {2, 0});
  const ScalarTerm sum = ScalarUnary(ScalarOp::kReduceSum, in);
  p.outputs.push_back({.value = sum.value, .dtype = sum.dtype, .offset = 0, .strides = {1, 0}});
  EXPECT_THAT(
      optest::Eval("fused.Program", {Tensor::Zeros({DType::kF32, {2, 0}})}, FusedAttrs(p, {{2}})),
      optest::Is(optest::F32({2}, {0, 0})));
}

// What does not vary along the empty dim is there all the same.
TEST(FusedProgramOp, ReducingNothingLeavesTheOtherOperands) {
  FusedProgram p = ProgramOver({2, 0});
  p.dims[1].role = DimRole::kReduce;
  const ScalarTerm in = LoadOperand(p, {DType::kF32, {2, 0}}, {2, 0});
  const ScalarTerm bias = LoadOperand(p, {DType::kF32, {2, 1}}, {2, 1});
  const ScalarTerm sum = ScalarUnary(ScalarOp::kReduceSum, in) + bias;
  p.outputs.push_back({.value = sum.value, .dtype = sum.dtype, .offset = 0, .strides = {1, 0}});
  EXPECT_THAT(optest::Eval("fused.Program",
                           {Tensor::Zeros({DType::kF32, {2, 0}}), optest::F32({2, 1}, {3, 5})},
                           FusedAttrs(p, {{2}})),
              optest::Is(optest::F32({2}, {3, 5})));
}

TEST(FusedProgramOp, RefusesProgramsWithoutBounds) {
  const Tensor x = Tensor::Zeros({DType::kI64, {4}});
  const auto error = [&](const std::string& program) {
    return optest::ErrorOf(
        "fused.Program", {x},
        optest::MakeAttrs({{"program", program}, {"shapes", std::vector<std::string>{"[4]"}}}));
  };
  EXPECT_THAT(error("dims [4 outer, 281474976710656 reduce, 281474976710656 reduce]; in i64 [1, 0, "
                    "0]; %0 = load i64 @0; %1 = reduce_max i64 %0; out i64 [1, 0, 0] = %1"),
              HasSubstr("too many points"));
  std::string chain = "dims [4 outer]; in i64 [1]; %0 = load i64 @0";
  for (int i = 1; i < 5000; ++i) StrAppend(&chain, "; %", i, " = abs i64 %", i - 1);
  EXPECT_THAT(error(chain + "; out i64 [1] = %4999"), HasSubstr("more than 4096 instructions"));
  EXPECT_THAT(error("dims [4 outer]; %0 = constant i64 1.5; out i64 [1] = %0"),
              HasSubstr("1.5 is no i64"));
  EXPECT_THAT(error("dims [4 outer]; %0 = index i64 dim 4294967296; out i64 [1] = %0"),
              HasSubstr("dim that is not there"));
}

TEST(FusedProgramOp, RefusesProgramsThatDoNotFitTheirOperands) {
  const Tensor x = Tensor::Zeros({DType::kF32, {2, 3}});
  const auto error = [&](const char* program, std::vector<std::string> shapes) {
    return optest::ErrorOf(
        "fused.Program", {x},
        optest::MakeAttrs({{"program", program}, {"shapes", std::move(shapes)}}));
  };
  EXPECT_THAT(error("dims [2 outer, 4 outer]; in f32 [3, 1]; %0 = load f32 @0; out f32 [4, 1] = %0",
                    {"[2,4]"}),
              HasSubstr("operand @0 reads beyond f32[2,3]"));
  EXPECT_THAT(error("dims [2 outer]; in f32 [-1]; %0 = load f32 @0; out f32 [1] = %0", {"[2]"}),
              HasSubstr("reads beyond"));
  EXPECT_THAT(error("dims [6 outer]; in f32 [1]; %0 = load f32 @0; out f32 [1] = %0", {"[3,3]"}),
              HasSubstr("does not write each element of f32[3,3] once"));
  EXPECT_THAT(error("dims [6 outer]; in f32 [1]; %0 = load f32 @0; out f32 [2] = %0", {"[6]"}),
              HasSubstr("does not write each element"));
  EXPECT_THAT(error("dims [6 outer]; in f32 [1]; %0 = load f32 @0; out f32 [1] = %0", {"6"}),
              HasSubstr("no shape like"));
  EXPECT_THAT(error("dims [6 outer]; in f32 [1]; %0 = load f32 @0; out f32 [1] = %0", {}),
              HasSubstr("'shapes' has 0 entries"));
  EXPECT_THAT(error("dims [6 outer]; in i32 [1]; %0 = load i32 @0; %1 = exp i32 %0; "
                    "out i32 [1] = %1",
                    {"[6]"}),
              HasSubstr("there is no exp of i32"));
}

}  // namespace
}  // namespace millrace
