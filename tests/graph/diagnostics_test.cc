#include "graph/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"

namespace millrace {
namespace {

TEST(FormatDiagnostic, PutsAllThePartsInOneLine) {
  Diagnostic d;
  d.file = "m.json";
  d.position = {12, 7};
  d.pointer = "/nodes/3/op";
  d.message = "unknown op 'Rellu'";
  d.expected = "an op";
  d.found = "'Rellu'";
  d.hint = "did you mean 'Relu'?";
  EXPECT_EQ(FormatDiagnostic(d),
            "m.json:12:7: /nodes/3/op: unknown op 'Rellu'; expected an op, found 'Rellu'; did you "
            "mean 'Relu'?");
  Diagnostic binary;
  binary.file = "w.safetensors";
  binary.offset = 8;
  binary.message = "truncated";
  EXPECT_EQ(FormatDiagnostic(binary), "w.safetensors:byte 8: truncated");
}

TEST(Diagnostics, ShowsTwentyAndCountsAll) {
  Diagnostics diagnostics;
  EXPECT_TRUE(diagnostics.ToStatus().ok());
  for (int i = 0; i < 25; ++i) {
    Diagnostic d;
    d.message = StrCat("e", i);
    diagnostics.Add(d);
  }
  const absl::Status status = diagnostics.ToStatus();
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(status.message(), testing::HasSubstr("e19\n... and 5 more"));
  EXPECT_THAT(status.message(), testing::Not(testing::HasSubstr("e20")));
}

TEST(NearestName, PrefersTheClosestThenTheFirst) {
  const std::vector<std::string> names = {"Relu", "Gelu", "MatMul", "Softmax"};
  EXPECT_EQ(NearestName("Rellu", names), "Relu");
  EXPECT_EQ(NearestName("Matmul", names), "MatMul");
  EXPECT_EQ(NearestName("Xelu", names), "Relu");
  EXPECT_EQ(NearestName("Convolution", names), "");
  EXPECT_EQ(NearestName("Rleu", names), "Relu");  // two letters swapped are one mistake
  EXPECT_EQ(NearestName("x", std::vector<std::string>{"y"}), "");
  EXPECT_EQ(DidYouMean("Softmx", names), "did you mean 'Softmax'?");
  EXPECT_EQ(NearestName(std::string(100000, 'a'), names), "");
}

TEST(GraphBuilder, KeepsNamesUnique) {
  GraphBuilder b;
  const ValueId x = b.Input("x", {DType::kF32, Shape{}});
  const ValueId y = b.Op("Relu", {x});
  const ValueId z = b.Op("Relu", {y});
  const ValueId other = b.Op("Relu", {z}, {}, "x");
  EXPECT_EQ(b.graph().value(y).name, "relu");
  EXPECT_EQ(b.graph().value(z).name, "relu_1");
  EXPECT_EQ(b.graph().value(other).name, "x_1");
  EXPECT_EQ(b.graph().nodes[2].name, "x");
  GraphBuilder more(std::move(b).Build());
  EXPECT_EQ(more.graph().value(more.Op("Relu", {x})).name, "relu_2");
}

TEST(NearestNameTest, AnotherCaseIsNearerThanAnotherLetter) {
  const std::vector<std::string> names = {"Gelu", "Relu", "BF16", "Conv"};
  EXPECT_EQ(NearestName("relu", names), "Relu");
  EXPECT_EQ(NearestName("bf16", names), "BF16");
  EXPECT_EQ(NearestName("cONV", names), "Conv");
}

}  // namespace
}  // namespace millrace
