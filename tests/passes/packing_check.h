// What packings are tested against. Shares no code with the planner.
#ifndef MILLRACE_TESTS_PASSES_PACKING_CHECK_H_
#define MILLRACE_TESTS_PASSES_PACKING_CHECK_H_

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "passes/memory/pack.h"

namespace millrace {

// "" or what is wrong: buffers that meet in time and bytes, misaligned or negative offsets, a
// height or a bound that is not theirs.
std::string WrongWith(std::span<const TimedBuffer> buffers, const Packing& packing);
std::string WrongWith(std::span<const TimedBuffer> buffers, std::span<const int64_t> offsets);

// Most bytes alive at one time.
int64_t MostLiveBytes(std::span<const TimedBuffer> buffers);

// The least height of all, by trying every order. For up to 8 buffers.
int64_t LeastHeight(std::span<const TimedBuffer> buffers);

struct RandomShape {
  int buffers = 6;
  int times = 8;       // lifetimes lie in [0, times)
  int sizes = 6;       // sizes are 0 to this
  int alignments = 0;  // alignments are 2^0 to 2^this
};
std::vector<TimedBuffer> RandomBuffers(std::mt19937& random, const RandomShape& shape);

// A rectangle of `times` by `height` cut into buffers at random: packs without a gap.
std::vector<TimedBuffer> CutRectangle(std::mt19937& random, int times, int height, int buffers);

// An instance of tests/data/packing.
std::vector<TimedBuffer> LoadInstance(const std::string& name);

}  // namespace millrace

#endif  // MILLRACE_TESTS_PASSES_PACKING_CHECK_H_
