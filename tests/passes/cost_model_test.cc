// Times of kernels by formula, and where each number comes from.
#include "passes/cost_model.h"

#include <gtest/gtest.h>

#include "graph/query_key.h"

namespace millrace {
namespace {

// 1e6 FLOP and 1e4 bytes a microsecond; half the FLOP/s in f64, twice in bf16.
DeviceSpec Gpu() {
  DeviceSpec device;
  device.name = "gpu";
  device.kind = "cuda";
  device.memory_bandwidth = 1e10;
  device.peak_flops = {{DType::kF32, 1e12}, {DType::kF64, 5e11}, {DType::kBF16, 2e12}};
  device.launch_overhead_us = 3;
  return device;
}

DeviceSpec Cpu(int threads) {
  DeviceSpec device = Gpu();
  device.name = device.kind = "cpu";
  device.threads = threads;
  return device;
}

// f32[m,k] x f32[k,n]: 2 m k n FLOP, 4 (mk + kn + mn) bytes.
NodeQuery MatMul(int64_t m, int64_t k, int64_t n, DType dtype = DType::kF32) {
  NodeQuery query;
  query.op = "MatMul";
  query.inputs = {TensorType{dtype, {m, k}}, TensorType{dtype, {k, n}}};
  query.outputs = {TensorType{dtype, {m, n}}};
  return query;
}

// n FLOP, 8 n bytes.
NodeQuery Relu(int64_t n) {
  NodeQuery query;
  query.op = "Relu";
  query.inputs = {TensorType{DType::kF32, {n}}};
  query.outputs = {TensorType{DType::kF32, {n}}};
  return query;
}

TEST(CostModelTest, ARooflineIsItsHigherPart) {
  // 2e9 FLOP at 1e6/us; 1.2e7 bytes at 1e4/us would be 1200.
  const KernelCost big = CostOfKernel(MatMul(1000, 1000, 1000), "any", 1, Gpu());
  EXPECT_DOUBLE_EQ(big.task.time_us, 2000);
  EXPECT_EQ(big.task.limit, Resource::kCompute);
  EXPECT_EQ(big.task[Resource::kCompute], 1);
  EXPECT_NEAR(big.task[Resource::kMemory], 0.6, 1e-6);
  EXPECT_EQ(big.source, CostSource::kRoofline);
  // 8e6 bytes; 1e6 FLOP would be 1.
  const KernelCost relu = CostOfKernel(Relu(1'000'000), "any", 1, Gpu());
  EXPECT_DOUBLE_EQ(relu.task.time_us, 800);
  EXPECT_EQ(relu.task.limit, Resource::kMemory);
  EXPECT_EQ(relu.task[Resource::kMemory], 1);
  EXPECT_NEAR(relu.task[Resource::kCompute], 1.0 / 800, 1e-6);
}

TEST(CostModelTest, ThePeakIsThatOfTheType) {
  EXPECT_EQ(PeakFlops(Gpu(), DType::kBF16), 2e12);
  EXPECT_EQ(PeakFlops(Gpu(), DType::kI8), 1e12);   // as f32
  EXPECT_EQ(PeakFlops(Gpu(), DType::kI64), 5e11);  // the lowest
  EXPECT_DOUBLE_EQ(
      CostOfKernel(MatMul(1000, 1000, 1000, DType::kF64), "any", 1, Gpu()).task.time_us, 4000);
}

// A team of 1 of 4 threads has a quarter of the device, and keeps a quarter of its cores busy.
TEST(CostModelTest, ATeamHasItsShareOfACpu) {
  const KernelCost one = CostOfKernel(MatMul(1000, 1000, 1000), "any", 1, Cpu(4));
  EXPECT_DOUBLE_EQ(one.task.time_us, 8000);
  EXPECT_EQ(one.task[Resource::kCompute], 0.25f);
  EXPECT_DOUBLE_EQ(CostOfKernel(MatMul(1000, 1000, 1000), "any", 4, Cpu(4)).task.time_us, 2000);
  EXPECT_DOUBLE_EQ(CostOfKernel(MatMul(1000, 1000, 1000), "any", 9, Cpu(4)).task.time_us, 2000);
  // A GPU is not divided by threads.
  EXPECT_DOUBLE_EQ(CostOfKernel(MatMul(1000, 1000, 1000), "any", 4, Gpu()).task.time_us, 2000);
}

TEST(CostModelTest, WhatWasMeasuredHolds) {
  DeviceCosts costs;
  costs.kernels[{QueryKey(Relu(1000)), "simd", 2}] = {.time_us = 0.125};
  const KernelCost cost = CostOfKernel(Relu(1000), "simd", 2, Cpu(4), {.costs = &costs});
  EXPECT_EQ(cost.task.time_us, 0.125);
  EXPECT_EQ(cost.source, CostSource::kMeasured);
  // Other threads, variants and shapes were not.
  EXPECT_EQ(CostOfKernel(Relu(1000), "simd", 1, Cpu(4), {.costs = &costs}).source,
            CostSource::kRoofline);
  EXPECT_EQ(CostOfKernel(Relu(1000), "reference", 2, Cpu(4), {.costs = &costs}).source,
            CostSource::kRoofline);
  EXPECT_EQ(CostOfKernel(Relu(1001), "simd", 2, Cpu(4), {.costs = &costs}).source,
            CostSource::kRoofline);
}

TEST(CostModelTest, ATargetsOwnTimeHoldsWhereTheTableHasNone) {
  KernelVariant variant;
  variant.name = "simd";
  variant.time_us = 7;
  EXPECT_EQ(CostOfKernel(Relu(1000), variant, 1, Gpu()).task.time_us, 7);
}

// 5 + max(2000 / 0.5, 1200 / 0.25)
TEST(CostModelTest, RatesOfTheFamilyScaleTheRoofline) {
  DeviceCosts costs;
  costs.rates = {
      {.family = "simd", .op_class = "elementwise", .compute = 1, .memory = 1},
      {.family = "onednn", .op_class = "contraction", .threads = 8, .compute = 1, .memory = 1},
      {.family = "onednn",
       .op_class = "contraction",
       .compute = 0.5,
       .memory = 0.25,
       .overhead_us = 5},
      {.op_class = "contraction", .compute = 0.125, .memory = 1}};
  const NodeQuery query = MatMul(1000, 1000, 1000);
  const KernelCost cost = CostOfKernel(query, "onednn:avx2", 1, Gpu(), {.costs = &costs});
  EXPECT_DOUBLE_EQ(cost.task.time_us, 5 + 4800);
  EXPECT_EQ(cost.task.limit, Resource::kMemory);
  EXPECT_EQ(cost.source, CostSource::kFitted);
  EXPECT_DOUBLE_EQ(CostOfKernel(query, "own", 1, Gpu(), {.costs = &costs}).task.time_us, 16000);
  EXPECT_EQ(CostOfKernel(Relu(1), "own", 1, Gpu(), {.costs = &costs}).source,
            CostSource::kRoofline);
}

TEST(CostModelTest, FixedCostsAreALimitOfTheirOwn) {
  DeviceCosts costs;
  costs.rates = {{.overhead_us = 5}};
  EXPECT_EQ(CostOfKernel(Relu(10), "simd", 1, Gpu(), {.costs = &costs}).task.limit, std::nullopt);
  EXPECT_EQ(CostOfKernel(Relu(1'000'000), "simd", 1, Gpu(), {.costs = &costs}).task.limit,
            Resource::kMemory);
}

// Twice the bandwidth halves what memory limits, and leaves alone what compute limits.
TEST(CostModelTest, MeasuredTimesScaleToAVariedDevice) {
  DeviceCosts costs;
  costs.kernels[{QueryKey(Relu(1000)), "simd", 1}] = {.time_us = 30};
  costs.kernels[{QueryKey(MatMul(1000, 1000, 1000)), "simd", 1}] = {.time_us = 9000};
  const DeviceSpec before = Gpu();
  DeviceSpec after = Gpu();
  after.memory_bandwidth *= 2;
  const KnownCosts known = {.costs = &costs, .measured_on = &before};
  EXPECT_DOUBLE_EQ(CostOfKernel(Relu(1000), "simd", 1, after, known).task.time_us, 15);
  EXPECT_DOUBLE_EQ(CostOfKernel(MatMul(1000, 1000, 1000), "simd", 1, after, known).task.time_us,
                   9000);
  EXPECT_DOUBLE_EQ(CostOfKernel(Relu(1000), "simd", 1, before, known).task.time_us, 30);
}

// 8,000 bytes in 0.8 us is the memory's rate; in 0.4 us they come from a cache.
TEST(CostModelTest, WhatCachesServeUsesNoMemory) {
  for (const auto& [time_us, use] :
       {std::pair(1.6, 0.5), {0.8, 1.0}, {0.8 / 1.5, 0.5}, {0.4, 0.0}, {0.1, 0.0}}) {
    DeviceCosts costs;
    costs.kernels[{QueryKey(Relu(1000)), "simd", 1}] = {.time_us = time_us};
    EXPECT_NEAR(
        CostOfKernel(Relu(1000), "simd", 1, Gpu(), {.costs = &costs}).task[Resource::kMemory], use,
        1e-6)
        << time_us;
  }
}

TEST(CostModelTest, AnUnknownOpCostsNothingAndDoesNoHarm) {
  NodeQuery query;
  query.op = "NoSuchOp";
  EXPECT_EQ(CostOfKernel(query, "any", 1, Gpu()).task.time_us, 0);
  EXPECT_EQ(OpClass("NoSuchOp"), "none");
  EXPECT_EQ(OpClass("MatMul"), "contraction");
}

}  // namespace
}  // namespace millrace
