#include "passes/fit_rates.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/strings.h"
#include "passes/cost_model.h"

namespace millrace {
namespace {

DeviceSpec Core() {
  DeviceSpec device;
  device.name = device.kind = "cpu";
  device.memory_bandwidth = 1e10;
  device.peak_flops = {{DType::kF32, 1e11}};
  device.threads = 2;
  return device;
}

// Kernels of one family that take exactly what the model says, on both sides of the ridge.
DeviceCosts Exact(double overhead_us, double compute, double memory, int threads) {
  DeviceCosts costs;
  const double peak = 1e5 * threads / 2, bandwidth = 1e4 * threads / 2;  // a microsecond
  for (int i = 0; i < 24; ++i) {
    const double flops = std::exp2(8 + i), bytes = std::exp2(24 - i % 12);
    costs.kernels[{StrCat("MatMul{}(f32[", i, "],)->()"), "simd", threads}] = {
        .time_us = overhead_us + std::max(flops / peak / compute, bytes / bandwidth / memory),
        .flops = flops,
        .bytes = bytes};
  }
  return costs;
}

const KernelRates& RatesFor(const std::vector<KernelRates>& all, std::string_view family,
                            int threads) {
  for (const KernelRates& rates : all) {
    if (rates.family == family && rates.threads == threads) return rates;
  }
  ADD_FAILURE() << "no rates of " << family;
  static const KernelRates kNone;
  return kNone;
}

TEST(FitRatesTest, FindsTheRatesThatWereUsed) {
  for (const int threads : {1, 2}) {
    const DeviceCosts costs = Exact(3, 0.5, 0.25, threads);
    const std::vector<KernelRates> all = FitRates(costs, Core());
    const KernelRates& rates = RatesFor(all, "simd", threads);
    EXPECT_NEAR(rates.overhead_us, 3, 0.05);
    EXPECT_NEAR(rates.compute, 0.5, 0.01);
    EXPECT_NEAR(rates.memory, 0.25, 0.005);
    EXPECT_EQ(rates.op_class, "contraction");
    EXPECT_EQ(rates.samples, 24);
    EXPECT_LT(rates.median_error, 0.01);
  }
}

// What the model then says of a kernel that was not measured.
TEST(FitRatesTest, PredictsKernelsLikeTheMeasuredOnes) {
  DeviceCosts costs = Exact(3, 0.5, 0.25, 2);
  costs.rates = FitRates(costs, Core());
  NodeQuery query;
  query.op = "MatMul";
  query.inputs = {TensorType{DType::kF32, {100, 100}}, TensorType{DType::kF32, {100, 100}}};
  query.outputs = {TensorType{DType::kF32, {100, 100}}};
  const KernelCost cost = CostOfKernel(query, "simd", 2, Core(), {.costs = &costs});
  EXPECT_EQ(cost.source, CostSource::kFitted);
  // 2e6 FLOP at half of 1e5/us, 1.2e5 bytes at a quarter of 1e4/us.
  EXPECT_NEAR(cost.task.time_us, 3 + std::max(40.0, 48.0), 1);
}

TEST(FitRatesTest, TheSpecificComeFirst) {
  DeviceCosts costs = Exact(1, 0.5, 0.5, 1);
  costs.kernels.merge(Exact(1, 0.5, 0.5, 2).kernels);
  costs.kernels[{"MatMul{}(f32[1],)->()", "onednn:x", 1}] = {.time_us = 1, .flops = 1, .bytes = 1};
  std::vector<std::string> order;
  for (const KernelRates& r : FitRates(costs, Core())) {
    order.push_back(StrCat(r.family, ",", r.op_class, ",", r.threads));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"onednn,contraction,1", "simd,contraction,1",
                                             "simd,contraction,2", "onednn,contraction,0",
                                             "simd,contraction,0", ",contraction,0"}));
}

TEST(FitRatesTest, OneKernelOrNoWorkIsEnough) {
  DeviceCosts costs;
  costs.kernels[{"Reshape{}(f32[1],)->(f32[1],)", "copy", 1}] = {.time_us = 0.5};
  const std::vector<KernelRates> all = FitRates(costs, Core());
  ASSERT_EQ(all.size(), 3u);
  for (const KernelRates& rates : all) {
    EXPECT_NEAR(rates.overhead_us, 0.5, 0.01);
    EXPECT_GT(rates.compute, 0);
    EXPECT_GT(rates.memory, 0);
  }
  EXPECT_TRUE(FitRates(DeviceCosts(), Core()).empty());
}

}  // namespace
}  // namespace millrace
