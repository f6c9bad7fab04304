// Vector clocks: which operations of which streams a point in the run comes after.
#ifndef MILLRACE_TESTS_CUDA_SIM_SIM_CLOCK_H_
#define MILLRACE_TESTS_CUDA_SIM_SIM_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace millrace::sim {

// at[lane] = n: after the first n operations of that lane. A lane is a stream, or what a captured
// stream becomes in a graph; lanes are never reused.
class Clock {
 public:
  int64_t at(int lane) const {
    return static_cast<size_t>(lane) < at_.size() ? at_[static_cast<size_t>(lane)] : 0;
  }
  void Set(int lane, int64_t n) {
    if (at_.size() <= static_cast<size_t>(lane)) at_.resize(static_cast<size_t>(lane) + 1, 0);
    at_[static_cast<size_t>(lane)] = n;
  }
  void Join(const Clock& other) {
    if (at_.size() < other.at_.size()) at_.resize(other.at_.size(), 0);
    for (size_t i = 0; i < other.at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
  }

 private:
  std::vector<int64_t> at_;
};

// An operation that was executed: the n-th of its lane, counted from 1.
struct OpStamp {
  int lane = -1;
  int64_t n = 0;
  std::shared_ptr<const std::string> label;  // "MemcpyAsync of 64 bytes (#3 of stream 1)"

  bool valid() const { return lane >= 0; }
  bool IsBefore(const Clock& clock) const { return clock.at(lane) >= n; }
};

}  // namespace millrace::sim

#endif  // MILLRACE_TESTS_CUDA_SIM_SIM_CLOCK_H_
