// Random numbers that are the same everywhere (splitmix64).
#ifndef MILLRACE_PASSES_PARALLEL_STRATEGY_RANDOM_H_
#define MILLRACE_PASSES_PARALLEL_STRATEGY_RANDOM_H_

#include <cstdint>

namespace millrace {

class StrategyRandom {
 public:
  explicit StrategyRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int32_t Below(int32_t bound) {  // bound > 0
    return static_cast<int32_t>((Next() >> 32) * static_cast<uint64_t>(bound) >> 32);
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  uint64_t state_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_STRATEGY_RANDOM_H_
