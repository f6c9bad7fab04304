// A group of kernels is fitted by three numbers: overhead, and the fractions of peak FLOP/s and of
// memory bandwidth, so that the sum of squared logarithms of (predicted / measured) is least: an
// error of 2x weighs the same for a kernel of 1 us as for one of 1 s, and too much the same as too
// little. The objective is not smooth (a roofline has a corner), has three variables and a few
// dozen terms: a pattern search in the logarithms of the three, from the fit with one number, finds
// its valley in a few hundred evaluations. What does not bind (the compute rate of kernels that all
// wait for memory) stays where it started.
#include "passes/fit_rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "graph/query_key.h"
#include "passes/cost_model.h"

namespace millrace {
namespace {

constexpr double kNoOverheadUs = 1e-3;  // less than a clock can tell

struct Sample {
  double compute_us = 0, memory_us = 0;  // at the device's peak
  double time_us = 0;
};

// Logarithms of overhead, and of what the roofline's terms are multiplied by.
using Point = std::array<double, 3>;

double Predict(const Point& p, const Sample& s) {
  return std::exp(p[0]) + std::max(s.compute_us * std::exp(p[1]), s.memory_us * std::exp(p[2]));
}

double Loss(const Point& p, const std::vector<Sample>& samples) {
  double loss = 0;
  for (const Sample& s : samples) {
    const double error = std::log(Predict(p, s) / s.time_us);
    loss += error * error;
  }
  return loss;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// One factor for both terms, and a small overhead.
Point FirstGuess(const std::vector<Sample>& samples) {
  std::vector<double> factors, times;
  for (const Sample& s : samples) {
    times.push_back(s.time_us);
    const double ideal = std::max(s.compute_us, s.memory_us);
    if (ideal > 0) factors.push_back(std::log(s.time_us / ideal));
  }
  const double factor = factors.empty() ? 0 : Median(factors);
  return {std::log(*std::min_element(times.begin(), times.end()) / 10), factor, factor};
}

Point Search(const std::vector<Sample>& samples) {
  constexpr double kFirstStep = 1, kLastStep = 1e-3;
  Point best = FirstGuess(samples);
  double loss = Loss(best, samples);
  for (double step = kFirstStep; step > kLastStep;) {
    bool improved = false;
    for (int axis = 0; axis < 3; ++axis) {
      for (const double sign : {1.0, -1.0}) {
        Point next = best;
        next[axis] += sign * step;
        const double next_loss = Loss(next, samples);
        if (!(next_loss < loss)) continue;
        best = next;
        loss = next_loss;
        improved = true;
      }
    }
    if (!improved) step /= 2;
  }
  return best;
}

KernelRates Fit(const std::vector<Sample>& samples) {
  const Point p = Search(samples);
  KernelRates rates;
  const double overhead_us = std::exp(p[0]);
  rates.overhead_us = overhead_us < kNoOverheadUs ? 0 : overhead_us;
  rates.compute = std::exp(-p[1]);
  rates.memory = std::exp(-p[2]);
  rates.samples = static_cast<int64_t>(samples.size());
  std::vector<double> errors;
  for (const Sample& s : samples) errors.push_back(std::abs(Predict(p, s) / s.time_us - 1));
  rates.median_error = Median(std::move(errors));
  return rates;
}

}  // namespace

std::vector<KernelRates> FitRates(const DeviceCosts& costs, const DeviceSpec& device) {
  // (how general, family, class, threads); sorted, the specific come first.
  using Group = std::tuple<int, std::string, std::string, int>;
  std::map<Group, std::vector<Sample>> groups;
  for (const auto& [key, kernel] : costs.kernels) {
    NodeQuery query;  // as far as the roofline asks
    for (const DType dtype : DTypesOfQueryKey(key.query)) {
      query.inputs.push_back(TensorType{dtype, {}});
    }
    const Roofline roofline = RooflineOf(query, kernel.flops, kernel.bytes, key.threads, device);
    const Sample sample = {roofline.compute_us, roofline.memory_us, kernel.time_us};
    const std::string family(VariantFamily(key.variant));
    const std::string op_class(OpClass(OpOfQueryKey(key.query)));
    groups[{0, family, op_class, key.threads}].push_back(sample);
    groups[{1, family, op_class, 0}].push_back(sample);
    groups[{2, "", op_class, 0}].push_back(sample);
  }
  std::vector<KernelRates> all;
  for (const auto& [group, samples] : groups) {
    KernelRates rates = Fit(samples);
    std::tie(std::ignore, rates.family, rates.op_class, rates.threads) = group;
    all.push_back(std::move(rates));
  }
  return all;
}

}  // namespace millrace
