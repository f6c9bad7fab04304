#include "graph/fused_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Softmax over rows: max, exp, sum, divide; two sweeps after the first reduction.
constexpr char kSoftmax[] =
    "dims [64 outer, 768 reduce]; in f32 [768, 1]; in bf16 +16 [0, 1]; %0 = load f32 @0; "
    "%1 = reduce_max f32 %0; %2 = sub f32 %0 %1; %3 = exp f32 %2; %4 = reduce_sum f32 %3; "
    "%5 = div f32 %3 %4; %6 = load bf16 @1; %7 = cast f32 %6; %8 = fma f32 %5 %7 %7; "
    "%9 = index i64 dim 1; %10 = constant i64 3.0; %11 = less bool %9 %10; "
    "%12 = select f32 %11 %8 %5; out f16 [768, 1] = %12; out f32 +2 [1, 0] = %4";

TEST(FusedProgramText, RoundTrips) {
  const auto program = ParseFusedProgram(kSoftmax);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(ToText(*program), kSoftmax);
  EXPECT_EQ(program->operands[1].offset, 16);
  EXPECT_EQ(program->outputs[1].strides, (std::vector<int64_t>{1, 0}));
}

TEST(FusedProgramJson, RoundTrips) {
  const auto program = ParseFusedProgram(kSoftmax);
  ASSERT_TRUE(program.ok()) << program.status();
  const std::string json = FusedProgramToJson(*program);
  const auto again = ParseFusedProgramJson(json);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *program);
  EXPECT_EQ(FusedProgramToJson(*again), json);
}

TEST(FusedProgramVerifier, EveryScalarOpHasANameThatParses) {
  for (int i = 0; i <= static_cast<int>(ScalarOp::kReduceProd); ++i) {
    const ScalarOp op = static_cast<ScalarOp>(i);
    EXPECT_EQ(ParseScalarOp(ScalarOpName(op)), op);
  }
}

TEST(FusedProgramVerifier, RefusesWhatHasNoMeaning) {
  const std::pair<const char*, const char*> kCases[] = {
      {"dims [4 outer]; in f32 [1]; %0 = load f32 @1; out f32 [1] = %0", "not there"},
      {"dims [4 outer]; in f32 [1]; %0 = load f64 @0; out f64 [1] = %0", "cast after loading"},
      {"dims [4 outer]; in f32 []; %0 = load f32 @0; out f32 [1] = %0", "one stride per dim"},
      {"dims [4 outer]; %0 = neg f32 %0; out f32 [1] = %0", "not computed before"},
      {"dims [4 outer]; %0 = constant f32 1.0; %1 = less f32 %0 %0; out f32 [1] = %1",
       "expected bool, found f32"},
      {"dims [4 outer]; %0 = constant f32 1.0; %1 = constant f64 1.0; %2 = add f32 %0 %1; out f32 "
       "[1] = %2",
       "expected f32, found f64"},
      {"dims [4 outer]; in f32 [1]; %0 = load f32 @0; out f32 [0] = %0", "to one place"},
      {"dims [4 reduce]; in f32 [1]; %0 = load f32 @0; out f32 [0] = %0", "to one place"},
      {"dims [4 outer]; %0 = index f32 dim 0; out f32 [1] = %0", "an index is i64"},
      {"dims [4 outer]; %0 = index i64 dim 1; out i64 [1] = %0", "dim that is not there"},
      {"dims [4 outer]", "has no outputs"},
      {"dims [-4 outer]; %0 = constant f32 1.0; out f32 [1] = %0", "has size -4"},
      {"dims [4 sideways]", "expected outer, reduce or inner"},
      {"%1 = constant f32 1.0", "expected instruction %0"},
      {"dims [4 outer]; %0 = constant f32 one; out f32 [1] = %0", "expected a number"},
  };
  for (const auto& [text, message] : kCases) {
    const auto program = ParseFusedProgram(text);
    ASSERT_FALSE(program.ok()) << text;
    EXPECT_THAT(program.status().message(), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace millrace
