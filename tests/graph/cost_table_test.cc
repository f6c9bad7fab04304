#include "graph/cost_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "graph/query_key.h"
#include "graph/strings.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTable[] = R"json({
  "format": "millrace-costs",
  "version": "1.0",
  "machine": "host",
  "devices": [
    {"name": "core",
     "rates": [
      {"family": "simd", "class": "elementwise", "threads": 2, "compute": 0.5, "memory": 0.75, "overhead_us": 1.5, "samples": 9, "median_error": 0.125},
      {"family": "", "class": "", "threads": 0, "compute": 0.25, "memory": 2.0, "overhead_us": 0.0, "samples": 0, "median_error": 0.0}],
     "kernels": [
      {"query": "Relu{}(f32[8],)->(f32[8],)", "variant": "reference", "threads": 2, "time_us": 3.5, "flops": 8.0, "bytes": 64.0},
      {"query": "Relu{}(f32[8],)->(f32[8],)", "variant": "simd", "threads": 1, "time_us": 0.25, "flops": 8.0, "bytes": 64.0},
      {"query": "Softmax{\"axis\": 1}(f32[8,2],)->(f32[8,2],)", "variant": "simd", "threads": 1, "time_us": 1e-3, "flops": 0.0, "bytes": 0.0}]},
    {"name": "gpu",
     "rates": [],
     "kernels": []}
  ]
}
)json";

// The error of the table with one text replaced.
std::string ErrorWith(std::string_view from, std::string_view to) {
  const std::string json = absl::StrReplaceAll(kTable, {{AbslView(from), AbslView(to)}});
  EXPECT_NE(json, kTable) << from;
  const absl::StatusOr<CostTable> table = ParseCostTable(json, "c.json");
  EXPECT_EQ(ExitCode(table.status()), 3) << table.status();
  return std::string(table.status().message());
}

TEST(CostTableTest, ReadsAllFields) {
  const absl::StatusOr<CostTable> table = ParseCostTable(kTable, "c.json");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->machine, "host");
  ASSERT_EQ(table->devices.size(), 2u);
  const DeviceCosts* core = table->FindDevice("core");
  ASSERT_NE(core, nullptr);
  const KernelRates& rates = core->rates.at(0);
  EXPECT_EQ(rates.family, "simd");
  EXPECT_EQ(rates.op_class, "elementwise");
  EXPECT_EQ(rates.threads, 2);
  EXPECT_EQ(rates.compute, 0.5);
  EXPECT_EQ(rates.memory, 0.75);
  EXPECT_EQ(rates.overhead_us, 1.5);
  EXPECT_EQ(rates.samples, 9);
  EXPECT_EQ(rates.median_error, 0.125);
  const MeasuredKernel& relu = core->kernels.at({"Relu{}(f32[8],)->(f32[8],)", "reference", 2});
  EXPECT_EQ(relu.time_us, 3.5);
  EXPECT_EQ(relu.flops, 8);
  EXPECT_EQ(relu.bytes, 64);
  EXPECT_EQ(table->FindDevice("cores"), nullptr);
}

TEST(CostTableTest, WritingIsCanonical) {
  const absl::StatusOr<CostTable> table = ParseCostTable(kTable, "c.json");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(CostTableToJson(*table), absl::StrReplaceAll(kTable, {{"1e-3", "0.001"}}));
  EXPECT_EQ(CostTableToJson(CostTable()),
            "{\n  \"format\": \"millrace-costs\",\n  \"version\": \"1.0\",\n  \"machine\": \"\",\n"
            "  \"devices\": []\n}\n");
}

TEST(CostTableTest, FaultsNameTheirPlaceAndWhatWouldDo) {
  EXPECT_THAT(ErrorWith("\"time_us\": 3.5", "\"time_us\": 0"),
              HasSubstr("/devices/0/kernels/0/time_us: out of range; expected more than 0, found "
                        "number 0"));
  EXPECT_THAT(ErrorWith("\"time_us\": 3.5", "\"time_us\": \"inf\""), HasSubstr("out of range"));
  EXPECT_THAT(ErrorWith("\"time_us\": 3.5", "\"time_us\": \"nan\""), HasSubstr("out of range"));
  EXPECT_THAT(ErrorWith("\"time_us\": 3.5", "\"tim_us\": 3.5"),
              HasSubstr("did you mean 'time_us'?"));
  EXPECT_THAT(ErrorWith("\"compute\": 0.5", "\"compute\": -1"),
              HasSubstr("/devices/0/rates/0/compute: out of range; expected more than 0"));
  EXPECT_THAT(ErrorWith("\"overhead_us\": 1.5", "\"overhead_us\": -1"),
              HasSubstr("expected at least 0"));
  EXPECT_THAT(ErrorWith("\"threads\": 2, \"time_us\"", "\"threads\": 0, \"time_us\""),
              HasSubstr("expected an integer from 1 to"));
  EXPECT_THAT(ErrorWith("\"bytes\": 64.0", "\"bytes\": []"), HasSubstr("/kernels/0/bytes"));
  EXPECT_THAT(ErrorWith("\"variant\": \"reference\", \"threads\": 2",
                        "\"variant\": \"simd\", \"threads\": 1"),
              HasSubstr("/devices/0/kernels/1: this kernel was measured before"));
  EXPECT_THAT(ErrorWith("\"gpu\"", "\"core\""), HasSubstr("device 'core' is there twice"));
  EXPECT_THAT(ErrorWith("millrace-costs", "millrace-machine"), HasSubstr("format"));
  EXPECT_THAT(ErrorWith("\"1.0\"", "\"2.0\""), HasSubstr("version 2.0"));
}

TEST(CostTableTest, TheFamilyOfAVariant) {
  EXPECT_EQ(VariantFamily("onednn:avx512_core"), "onednn");
  EXPECT_EQ(VariantFamily("simd"), "simd");
}

TEST(QueryKeyTest, SaysWhatWasAsked) {
  NodeQuery query;
  query.op = "Softmax";
  query.attrs.Set("axis", int64_t{1});
  query.inputs = {TensorType{DType::kF32, {8, 2}}, std::nullopt};
  query.outputs = {TensorType{DType::kBF16, {}}};
  const std::string key = QueryKey(query);
  EXPECT_EQ(key, "Softmax{\"axis\": 1}(f32[8,2],_,)->(bf16[],)");
  EXPECT_EQ(OpOfQueryKey(key), "Softmax");
  EXPECT_THAT(DTypesOfQueryKey(key), ElementsAre(DType::kF32, DType::kBF16));
}

// Attributes may hold text that looks like operands.
TEST(QueryKeyTest, OperandsAreFoundBehindAnyAttributes) {
  NodeQuery query;
  query.op = "X";
  query.attrs.Set("text", std::string("}(f64[1],)->(i8[2],)"));
  query.inputs = {TensorType{DType::kF16, {3}}};
  EXPECT_THAT(DTypesOfQueryKey(QueryKey(query)), ElementsAre(DType::kF16));
  for (const char* odd : {"", "Relu", "}(", "}(f32[", "}([[[", "}(f33[1],"}) {
    DTypesOfQueryKey(odd);
  }
}

}  // namespace
}  // namespace millrace
