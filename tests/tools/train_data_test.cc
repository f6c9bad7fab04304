// Data files as samples.
#include "tools/train_data.h"

#include <gmock/gmock.h>

#include "graph/builder.h"
#include "graph/npy.h"
#include "graph/strings.h"
#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Graph InputsOf(const TensorType& input, const TensorType& target) {
  GraphBuilder builder("g");
  builder.Input("x", input);
  builder.Input("labels", target);
  return std::move(builder).Build();
}

std::vector<double> Sample(const Dataset& dataset, size_t array, int64_t i) {
  const SampleArray& samples = dataset.arrays[array];
  std::vector<double> values;
  for (int64_t e = 0; e < NumElements(samples.sample.shape); ++e) {
    values.push_back(samples.data.AsDouble(samples.first + i * samples.stride + e));
  }
  return values;
}

std::string ErrorOf(const std::vector<std::string>& specs, const DataInputs& inputs) {
  const auto dataset = ReadDataset("--data", specs, inputs);
  EXPECT_FALSE(dataset.ok());
  return std::string(dataset.status().message());
}

TEST(TrainData, TextIsCutIntoWindowsAndWhatFollows) {
  const std::string text = WriteTestFile("text", "abcdefgh");
  const Graph graph = InputsOf({DType::kI64, {2, 3}}, {DType::kI64, {2, 3}});
  const auto dataset = ReadDataset("--data", {text}, {&graph, "labels", 128});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->count, 2);
  EXPECT_THAT(Sample(*dataset, 0, 1), ElementsAre('d', 'e', 'f'));
  EXPECT_THAT(Sample(*dataset, 1, 1), ElementsAre('e', 'f', 'g'));
  // A byte more, and a window more would have no follower: "ghi" needs a tenth.
  const std::string nine = WriteTestFile("nine", "abcdefghi");
  EXPECT_EQ(ReadDataset("--data", {nine}, {&graph, "labels", 128})->count, 2);
  const std::string ten = WriteTestFile("ten", "abcdefghij");
  EXPECT_EQ(ReadDataset("--data", {ten}, {&graph, "labels", 128})->count, 3);
}

TEST(TrainData, TextMayBeFollowedByOneByte) {
  const std::string text = WriteTestFile("text", "abcdefg");
  const Graph graph = InputsOf({DType::kI32, {2, 3}}, {DType::kI64, {2}});
  const auto dataset = ReadDataset("--data", {text}, {&graph, "labels", 128});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->count, 2);
  EXPECT_THAT(Sample(*dataset, 1, 0), ElementsAre('d'));
  EXPECT_THAT(Sample(*dataset, 1, 1), ElementsAre('g'));
}

TEST(TrainData, BytesThatTheModelLacksAreNamed) {
  const std::string text = WriteTestFile("text", "ab\xe4");
  const Graph graph = InputsOf({DType::kI64, {2, 1}}, {DType::kI64, {2, 1}});
  EXPECT_THAT(ErrorOf({text}, {&graph, "labels", 128}),
              HasSubstr("byte 2: 228 is no character of the model, which has 128"));
  const Graph images = InputsOf({DType::kF32, {2, 4}}, {DType::kI64, {2}});
  EXPECT_THAT(ErrorOf({text}, {&images, "labels", 10}),
              HasSubstr("would be text, by its name, but the model does not predict one"));
}

TEST(TrainData, EachFormatGivesTheSameSamples) {
  const Graph graph = InputsOf({DType::kF32, {2, 2}}, {DType::kI64, {2}});
  const DataInputs inputs{&graph, "labels", 3};
  const std::string x = TestPath("x.npy"), labels = TestPath("labels.npy");
  ASSERT_EQ(WriteNpy(x, Tensor::Of<double>({3, 2}, {1, 2, 3, 4, 5, 6})), absl::OkStatus());
  ASSERT_EQ(WriteNpy(labels, Tensor::Of<uint8_t>({3}, {2, 0, 1})), absl::OkStatus());
  const std::string csv = WriteTestFile("x.csv", "1,2,2\n3,4,0\n5,6,1\n");
  const std::string idx =
      WriteTestFile("x.idx", std::string("\0\0\x08\2\0\0\0\3\0\0\0\2\1\2\3\4\5\6", 18));
  const std::vector<std::string> all[] = {{csv},
                                          {"x=@" + x, "labels=@" + labels},
                                          {"labels=@" + csv + ":2", "x=@" + csv + ":0-1"},
                                          {"x=@" + idx, "labels=@" + labels}};
  for (const std::vector<std::string>& specs : all) {
    const auto dataset = ReadDataset("--data", specs, inputs);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ(dataset->count, 3);
    const size_t of_x = dataset->arrays[0].name == "x" ? 0 : 1;
    EXPECT_THAT(Sample(*dataset, of_x, 1), ElementsAre(3, 4));
    EXPECT_THAT(Sample(*dataset, 1 - of_x, 0), ElementsAre(2));
  }
}

TEST(TrainData, ArraysOfAnArchiveGoByName) {
  const Graph graph = InputsOf({DType::kF32, {2, 40}}, {DType::kI64, {2}});
  const auto dataset = ReadDataset("--data", {SourceFile("tests/data/training/deflated.npz")},
                                   {&graph, "labels", 3});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->count, 3);
  EXPECT_EQ(Sample(*dataset, 0, 2)[0], 40);
  EXPECT_THAT(Sample(*dataset, 1, 2), ElementsAre(1));
}

TEST(TrainData, WhatDoesNotFitIsExplained) {
  const Graph graph = InputsOf({DType::kF32, {2, 2}}, {DType::kI64, {2}});
  const DataInputs inputs{&graph, "labels", 3};
  const std::string csv = WriteTestFile("x.csv", "1,2,2\n3,4,0\n");
  const std::string longer = WriteTestFile("longer.csv", "0\n0\n0\n");
  EXPECT_THAT(ErrorOf({"x=@" + csv + ":0-1", "labels=@" + longer + ":0"}, inputs),
              HasSubstr("has 3 samples, 'x' has 2"));
  EXPECT_THAT(ErrorOf({"x=@" + csv + ":0-2", "labels=@" + csv + ":2"}, inputs),
              HasSubstr("with 2 elements a sample"));
  EXPECT_THAT(ErrorOf({"x=@" + csv + ":0-1", "label=@" + csv + ":2"}, inputs),
              HasSubstr("no such input; there are 'x', 'labels'; did you mean 'labels'?"));
  EXPECT_THAT(ErrorOf({"x=@" + csv + ":0-1", "x=@" + csv + ":0-1"}, inputs),
              HasSubstr("this input has data already"));
}

TEST(TrainData, ArraysOfAnArchiveHaveARowForEachSample) {
  const Graph graph = InputsOf({DType::kF32, {2, 2}}, {DType::kI64, {2}});
  EXPECT_THAT(ErrorOf({SourceFile("tests/data/training/uneven.npz")}, {&graph, "labels", 3}),
              HasSubstr("uneven.npz' has 2 samples, 'x' has 3"));
}

TEST(TrainData, ATableServesAnInputThatIsTheTarget) {
  GraphBuilder builder("g");
  builder.Input("x", {DType::kF32, {2, 2}});
  const Graph graph = std::move(builder).Build();
  const auto dataset =
      ReadDataset("--data", {WriteTestFile("own.csv", "1,2\n3,4\n5,6\n")}, {&graph, "x", 0});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->count, 3);
  ASSERT_THAT(dataset->arrays, SizeIs(1));
  EXPECT_THAT(Sample(*dataset, 0, 2), ElementsAre(5, 6));
}

TEST(TrainData, SamplesOfNoElementsAreRefused) {
  const Graph graph = InputsOf({DType::kI64, {2, 0}}, {DType::kI64, {2, 0}});
  EXPECT_THAT(ErrorOf({WriteTestFile("text", "abc")}, {&graph, "labels", 128}),
              HasSubstr("input 'x' is i64[2,0]: its samples have no elements"));
}

TEST(TrainData, NumbersThatDoNotFitAreNamed) {
  const auto error = [](DType dtype, const std::string& csv) {
    const Graph graph = InputsOf({dtype, {2, 2}}, {DType::kI64, {2}});
    return ErrorOf({WriteTestFile("fit.csv", csv)}, {&graph, "labels", 3});
  };
  EXPECT_THAT(error(DType::kU8, "1,255,0\n256,1,0\n"),
              HasSubstr("row 1: 256 does not fit into input 'x', which is u8"));
  EXPECT_THAT(error(DType::kU8, "-1,255,0\n"), HasSubstr("row 0: -1 does not fit"));
  EXPECT_THAT(error(DType::kI32, "0,3000000000,0\n"), HasSubstr("row 0: 3000000000 does not fit"));
  EXPECT_THAT(error(DType::kF16, "1,2,0\n0,70000,0\n"), HasSubstr("row 1: 70000 does not fit"));
}

TEST(TrainData, FractionsAreSpreadEvenly) {
  EXPECT_THAT(Split(12, 0.2).held_out, ElementsAre(4, 9));
  EXPECT_THAT(Split(6, 0.5).held_out, ElementsAre(1, 3, 5));
  EXPECT_THAT(Split(1000, 0.1).held_out, SizeIs(100));
  EXPECT_THAT(Split(5, 0).train, SizeIs(5));
  EXPECT_FALSE(ParseFraction("1").has_value());
  EXPECT_FALSE(ParseFraction("0").has_value());
  EXPECT_FALSE(ParseFraction("data.csv").has_value());
  EXPECT_FALSE(ParseFraction("nan").has_value());
}

}  // namespace
}  // namespace millrace
