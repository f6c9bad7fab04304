#include "passes/memory/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/memory/instance_csv.h"
#include "tests/passes/packing_check.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Packing Packed(std::span<const TimedBuffer> buffers, const PackOptions& options = {}) {
  const absl::StatusOr<Packing> packing = Pack(buffers, options);
  EXPECT_TRUE(packing.ok()) << packing.status();
  EXPECT_EQ(WrongWith(buffers, *packing), "");
  return *packing;
}

TEST(Pack, NothingTakesNothing) {
  const Packing packing = Packed({});
  EXPECT_EQ(packing.height_bytes, 0);
  EXPECT_EQ(packing.lower_bound_bytes, 0);
}

TEST(Pack, BuffersThatDoNotMeetShareBytes) {
  const Packing packing = Packed({{{0, 2, 8, 1}, {2, 5, 8, 1}, {5, 6, 3, 1}}});
  EXPECT_THAT(packing.offsets, ElementsAre(0, 0, 0));
  EXPECT_EQ(packing.height_bytes, 8);
}

// Named trap: what takes no bytes or no time meets nobody.
TEST(Pack, EmptyBuffersTakeNothing) {
  const Packing packing = Packed({{{0, 4, 8, 64}, {0, 4, 0, 64}, {2, 2, 8, 64}, {3, 1, 8, 64}}});
  EXPECT_THAT(packing.offsets, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(packing.height_bytes, 8);
}

TEST(Pack, LifetimesMayBeAnywhereInTime) {
  const Packing packing = Packed({{{INT64_MIN, INT64_MAX, 5, 1}, {-7, -3, 2, 1}, {-3, 9, 2, 1}}});
  EXPECT_EQ(packing.height_bytes, 7);
}

TEST(Pack, OffsetsAreAligned) {
  const Packing packing = Packed({{{0, 2, 1, 1}, {0, 2, 1, 16}, {0, 2, 1, 4}, {1, 3, 9, 8}}});
  EXPECT_EQ(packing.height_bytes, LeastHeight(std::vector<TimedBuffer>{
                                      {0, 2, 1, 1}, {0, 2, 1, 16}, {0, 2, 1, 4}, {1, 3, 9, 8}}));
}

// The topmost buffer need not fill its last unit.
TEST(Pack, TheBoundCountsTrueSizesAtTheTop) {
  const Packing packing = Packed({{{0, 2, 65, 64}, {1, 3, 65, 64}}});
  EXPECT_EQ(packing.height_bytes, 193);
  EXPECT_EQ(packing.lower_bound_bytes, 193);
}

TEST(Pack, TooLargeIsInfeasible) {
  const std::vector<TimedBuffer> huge(3, {0, 1, int64_t{1} << 61, 1});
  EXPECT_EQ(ExitCode(Pack(huge).status()), 4);
  const std::vector<TimedBuffer> coarse = {{0, 1, 1, int64_t{1} << 40}, {0, 1, 1, 1}};
  EXPECT_TRUE(Pack(coarse).ok());
}

TEST(Pack, StopsAtTheCapacity) {
  std::mt19937 random(1);
  const std::vector<TimedBuffer> buffers = CutRectangle(random, 40, 1000, 60);
  const Packing lowest = Packed(buffers);
  EXPECT_EQ(lowest.height_bytes, 1000);
  const Packing quick = Packed(buffers, {.capacity_bytes = 1500});
  EXPECT_LE(quick.height_bytes, 1500);
  EXPECT_LT(quick.work, lowest.work);
  // What cannot be had comes as low as it goes.
  EXPECT_EQ(Packed(buffers, {.capacity_bytes = 10}).height_bytes, 1000);
}

TEST(Pack, SameBuffersSameOffsets) {
  std::mt19937 random(2);
  const std::vector<TimedBuffer> buffers = CutRectangle(random, 60, 1000, 120);
  const PackOptions options = {.max_work = 3'000'000};
  EXPECT_EQ(Packed(buffers, options).offsets, Packed(buffers, options).offsets);
}

TEST(Pack, LittleWorkStillPacks) {
  std::mt19937 random(3);
  const std::vector<TimedBuffer> buffers = CutRectangle(random, 60, 1000, 120);
  for (const int64_t work : {0, 1, 1000, 100'000}) Packed(buffers, {.max_work = work});
}

// On problems of a few buffers the packing is the lowest, but for what the topmost buffer leaves of
// its last unit.
TEST(Pack, IsExactOnTinyProblems) {
  std::mt19937 random(4);
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    const RandomShape shape = {.buffers = 2 + i % 5, .alignments = i % 3};
    const std::vector<TimedBuffer> buffers = RandomBuffers(random, shape);
    const Packing packing = Packed(buffers);
    const int64_t least = LeastHeight(buffers);
    if (shape.alignments == 0) {
      EXPECT_EQ(packing.height_bytes, least);
      EXPECT_EQ(packing.lower_bound_bytes, least);
    } else {
      EXPECT_LT(packing.height_bytes, least + (1 << shape.alignments));
    }
    EXPECT_LE(packing.lower_bound_bytes, least);
  }
}

// Lifetimes that no packing brings down to what is live at once; it takes a search to know.
TEST(Pack, ProvesThatTheLoadCannotBeReached) {
  const std::vector<TimedBuffer> seven = {{1, 4, 1, 1}, {0, 2, 3, 1}, {3, 6, 4, 1}, {1, 3, 2, 1},
                                          {0, 1, 3, 1}, {5, 6, 2, 1}, {2, 5, 1, 1}};
  const std::vector<TimedBuffer> eight = {{2, 4, 4, 1}, {2, 3, 3, 1}, {5, 6, 4, 1}, {4, 5, 2, 1},
                                          {3, 6, 1, 1}, {3, 5, 1, 1}, {4, 6, 3, 1}, {2, 5, 1, 1}};
  for (const auto& buffers : {seven, eight}) {
    const Packing packing = Packed(buffers);
    EXPECT_EQ(packing.height_bytes, MostLiveBytes(buffers) + 1);
    EXPECT_EQ(packing.height_bytes, LeastHeight(buffers));
    EXPECT_EQ(packing.lower_bound_bytes, packing.height_bytes);
  }
}

TEST(Pack, CutRectanglesPackWithoutAGap) {
  std::mt19937 random(5);
  for (const int buffers : {2, 10, 40, 80}) {
    const std::vector<TimedBuffer> cut = CutRectangle(random, 50, 500, buffers);
    EXPECT_EQ(Packed(cut, {.max_work = 2'000'000'000}).height_bytes, 500) << buffers;
  }
}

TEST(Pack, RandomProblemsOfAllShapes) {
  std::mt19937 random(6);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const RandomShape shape = {.buffers = 10 + 7 * (i % 20),
                               .times = 2 + i * 5,
                               .sizes = 1 << (i % 12),
                               .alignments = i % 5 == 0 ? 4 : 0};
    Packed(RandomBuffers(random, shape), {.max_work = 1'000'000});
  }
}

// Nested, staggered and stacked lifetimes, where the bound is always reached.
TEST(Pack, RegularLifetimes) {
  std::vector<TimedBuffer> nested, staggered, stacked;
  for (int64_t i = 0; i < 500; ++i) {
    nested.push_back({i, 1000 - i, 1 + i % 7, 1});
    staggered.push_back({i, i + 10, 64, 64});
    stacked.push_back({i, 1000 - 2 * (i / 2), 1 + i % 5, 1});
  }
  for (const auto& buffers : {nested, staggered, stacked}) {
    const Packing packing = Packed(buffers);
    EXPECT_EQ(packing.height_bytes, packing.lower_bound_bytes);
  }
}

// The public instances, with work for a tenth of their published times and less.
TEST(Pack, PublicInstancesFitTheirCapacity) {
  for (const char* name : {"A", "B", "C", "D", "E", "F", "G", "H"}) {
    const std::vector<TimedBuffer> buffers = LoadInstance(StrCat(name, ".1048576"));
    const Packing packing = Packed(buffers, {.capacity_bytes = 1048576, .max_work = 50'000'000});
    EXPECT_LE(packing.height_bytes, 1048576) << name;
  }
  EXPECT_EQ(Packed(LoadInstance("C.1048576")).height_bytes, 1039360);
  EXPECT_EQ(Packed(LoadInstance("input.12")).height_bytes, 12);
}

// And the same backwards in time, which changes the order of everything.
TEST(Pack, PublicInstancesFitBackwards) {
  for (const char* name : {"A", "B", "C", "D", "E", "F", "G", "H"}) {
    std::vector<TimedBuffer> buffers = LoadInstance(StrCat(name, ".1048576"));
    for (TimedBuffer& b : buffers) b = {-b.upper, -b.lower, b.size_bytes, 1};
    const Packing packing = Packed(buffers, {.capacity_bytes = 1048576, .max_work = 50'000'000});
    EXPECT_LE(packing.height_bytes, 1048576) << name;
  }
}

TEST(Pack, LifetimesOfATrainingProgramReachTheirBound) {
  const Packing packing = Packed(LoadInstance("resnet50"));
  EXPECT_EQ(packing.height_bytes, packing.lower_bound_bytes);
}

TEST(InstanceCsv, ColumnsInAnyOrder) {
  const auto buffers = ParseInstanceCsv("size,id,upper,lower,x\r\n4,a,9,1,?\r\n\n5,b,3,2,\n", "f");
  ASSERT_TRUE(buffers.ok()) << buffers.status();
  ASSERT_EQ(buffers->size(), 2);
  EXPECT_EQ((*buffers)[0].lower, 1);
  EXPECT_EQ((*buffers)[0].upper, 9);
  EXPECT_EQ((*buffers)[1].size_bytes, 5);
}

TEST(InstanceCsv, SaysWhatIsWrong) {
  const auto error = [](std::string_view text) {
    const absl::Status status = ParseInstanceCsv(text, "f.csv").status();
    EXPECT_EQ(ExitCode(status), 3);
    return std::string(status.message());
  };
  EXPECT_EQ(error("id,lower,upper"), "f.csv:1: no column 'size'");
  EXPECT_EQ(error(""), "f.csv:1: no column 'lower'");
  EXPECT_THAT(error("id,lower,upper,size\na,1,2\n"), HasSubstr("f.csv:2: size is ''"));
  EXPECT_THAT(error("id,lower,upper,size\na,1,2,3\nb,1,x,3"), HasSubstr("f.csv:3: upper is 'x'"));
  EXPECT_THAT(error("id,lower,upper,size\na,-1,2,3"), HasSubstr("lower is '-1'"));
  EXPECT_THAT(error("id,lower,upper,size\na,1,2,99999999999999999999"), HasSubstr("2^53"));
}

}  // namespace
}  // namespace millrace
