// Checkmate's comparison of largest batches: 16e9 bytes, and repeats that take no longer than one
// pass forward. For each network: the largest batch found, that which the largest working set
// leaves room for, and the time that it took to find. Fails when one is below the published one.
// Then how long problems take that are as long as whole programs.
#include <chrono>
#include <cstdio>

#include "bench/checkmate/layer_net.h"
#include "graph/assert.h"
#include "passes/budget/fit_steps.h"

namespace millrace {
namespace {

constexpr int64_t kBudgetBytes = 16'000'000'000;
constexpr int64_t kQuickWork = 0;  // the first that fits

bool Fits(const LayerNet& net, int64_t batch, int64_t max_work) {
  const BudgetProblem problem = TrainingProblem(net, batch);
  FitOptions options{
      .budget_bytes = kBudgetBytes, .max_repeat_us = ForwardTime(net, batch), .max_work = max_work};
  const FittedSteps fitted = FitSteps(problem, options);
  return fitted.fits && fitted.measure.repeat_us <= options.max_repeat_us;
}

// The largest batch in [1, most] that `fits`, which what is smaller does too.
template <typename Fits>
int64_t LargestBatch(int64_t most, const Fits& fits) {
  int64_t batch = 0;
  while (batch < most) {
    const int64_t middle = batch + (most - batch + 1) / 2;
    if (fits(middle)) {
      batch = middle;
    } else {
      most = middle - 1;
    }
  }
  return batch;
}

// Whether the batch is at least the published one.
bool Report(const NamedNet& named) {
  const LayerNet net = named.build();
  const BudgetProblem one = TrainingProblem(net, 1);
  MILLRACE_CHECK(VerifyBudgetProblem(one).ok());
  double macs = 0, elements = 0;
  int64_t params = 0;
  for (const NetLayer& layer : net.layers()) {
    macs += layer.macs;
    elements += static_cast<double>(layer.elements());
    params += layer.params;
  }
  const int64_t bound = LargestBatch(1 << 20, [&](int64_t batch) {
    return LargestWorkingSet(TrainingProblem(net, batch)).bytes <= kBudgetBytes;
  });
  std::vector<int32_t> given(one.ops.size());
  for (size_t o = 0; o < given.size(); ++o) given[o] = static_cast<int32_t>(o);
  const int64_t without = LargestBatch(bound, [&](int64_t batch) {
    return MeasureSteps(TrainingProblem(net, batch), given)->peak_bytes <= kBudgetBytes;
  });
  const auto begin = std::chrono::steady_clock::now();
  const int64_t batch = LargestBatch(bound, [&](int64_t b) { return Fits(net, b, kQuickWork); });
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("%-10s %6.2f %7.1f %7.1f %8lld %9lld %7lld %7lld %6.1f %8.1f\n", named.name.c_str(),
              macs / 1e9, 4 * elements / 1e6, static_cast<double>(params) / 1e6,
              static_cast<long long>(without), static_cast<long long>(named.published_batch),
              static_cast<long long>(batch), static_cast<long long>(bound),
              100 * (1 - static_cast<double>(batch) / static_cast<double>(bound)), took.count());
  return batch >= named.published_batch;
}

// `links` operations forward, each also reading one some way back, and as many backward, which read
// those: within half of the memory that all of it takes.
void ReportLong(int32_t links) {
  BudgetProblem problem;
  uint32_t random = 1;
  const auto draw = [&random](uint32_t below) {
    random = random * 1664525 + 1013904223;
    return static_cast<int32_t>((random >> 8) % below);
  };
  const auto append = [&](std::vector<int32_t> reads) {
    const auto index = static_cast<int32_t>(problem.ops.size());
    problem.ops.push_back({.time_us = 1.0 + draw(9), .reads = std::move(reads), .writes = {index}});
    problem.tensors.push_back({.size_bytes = 1 + draw(9), .producer = index});
  };
  for (int32_t i = 0; i < links; ++i) {
    std::vector<int32_t> reads;
    if (i > 0) reads.push_back(i - 1);
    if (i > 8 && draw(4) == 0) reads.push_back(i - 2 - draw(6));
    append(std::move(reads));
  }
  for (int32_t i = links; i < 2 * links; ++i) append({2 * links - 1 - i, i - 1});
  MILLRACE_CHECK(VerifyBudgetProblem(problem).ok());
  std::vector<int32_t> given(problem.ops.size());
  for (size_t o = 0; o < given.size(); ++o) given[o] = static_cast<int32_t>(o);
  const StepsMeasure once = *MeasureSteps(problem, given);
  const auto begin = std::chrono::steady_clock::now();
  const FittedSteps fitted =
      FitSteps(problem, {.budget_bytes = once.peak_bytes / 2, .max_work = kQuickWork});
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("%d operations within half of %lld bytes: %s, %.1f %% longer, found in %.0f ms\n",
              2 * links, static_cast<long long>(once.peak_bytes), fitted.fits ? "fits" : "no",
              100 * fitted.measure.repeat_us / once.time_us, took.count());
}

}  // namespace
}  // namespace millrace

int main() {
  std::printf(
      "network     GMACs  acts/MB  params/M  as it is published    here   bound   gap/%%      "
      "ms\n");
  bool all = true;
  for (const millrace::NamedNet& net : millrace::CheckmateNets()) all &= millrace::Report(net);
  for (const int32_t links : {1'000, 10'000, 50'000}) millrace::ReportLong(links);
  return all ? 0 : 1;
}
