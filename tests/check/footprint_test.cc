// Which bytes layouts and strides occupy, and the byte map.
#include "graph/check/footprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/check/byte_map.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Footprint Of(Shape shape, std::vector<int64_t> strides, DType dtype = DType::kU8,
             Layout layout = Layout::kStrided, std::string* problem = nullptr) {
  Value value;
  value.type = {dtype, shape};
  value.typed = true;
  Slice slice;
  slice.size_bytes = 1 << 20;
  slice.strides = std::move(strides);
  slice.layout = layout;
  Footprint f;
  const std::string what = MakeFootprint(slice, &value, f);
  if (problem != nullptr) *problem = what;
  return f;
}

std::vector<std::pair<int64_t, int64_t>> Runs(const Footprint& f, int64_t begin = 0) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (RunCursor run(f, begin); !run.done(); run.Advance())
    runs.push_back({run.begin(), run.end()});
  return runs;
}

TEST(Footprint, RunsMelt) {
  EXPECT_THAT(Runs(Of({2, 3}, {}), 10), ElementsAre(Pair(10, 16)));
  EXPECT_THAT(Runs(Of({2, 3}, {3, 1})), ElementsAre(Pair(0, 6)));
  EXPECT_THAT(Runs(Of({2, 3}, {5, 1}, DType::kF32)), ElementsAre(Pair(0, 12), Pair(20, 32)));
  EXPECT_THAT(Runs(Of({2, 2, 2}, {12, 6, 1})),
              ElementsAre(Pair(0, 2), Pair(6, 8), Pair(12, 14), Pair(18, 20)));
  EXPECT_THAT(Runs(Of({2, 2}, {4, 2})),
              ElementsAre(Pair(0, 1), Pair(2, 3), Pair(4, 5), Pair(6, 7)));
  EXPECT_EQ(Of({2, 2, 2}, {12, 6, 1}).loops.size(), 1);  // rows 0, 6, 12, 18 are one loop
}

TEST(Footprint, EmptyAndSingle) {
  EXPECT_THAT(Runs(Of({2, 0}, {})), IsEmpty());
  EXPECT_THAT(Runs(Of({2, 0}, {7, 7})), IsEmpty());
  EXPECT_EQ(Of({2, 0}, {7, 7}).span_bytes, 0);
  EXPECT_THAT(Runs(Of({}, {}, DType::kF64)), ElementsAre(Pair(0, 8)));
  // Strides of dims of size 1 do not matter.
  EXPECT_THAT(Runs(Of({1, 4, 1}, {0, 1, 99})), ElementsAre(Pair(0, 4)));
}

// A transposed value and channels last are dense, with their elements in another order.
TEST(Footprint, ImagesTellOrdersApart) {
  const Footprint plain = Of({2, 3}, {}), transposed = Of({2, 3}, {1, 2});
  EXPECT_THAT(Runs(transposed), ElementsAre(Pair(0, 6)));
  EXPECT_NE(plain.image, transposed.image);
  EXPECT_EQ(plain.image, Of({2, 3}, {10, 1}).image);
  EXPECT_EQ(transposed.image, Of({2, 3}, {1, 10}).image);
  const Footprint nhwc = Of({2, 3, 4, 5}, {}, DType::kF32, Layout::kNHWC);
  EXPECT_EQ(nhwc.image, Of({2, 3, 4, 5}, {60, 1, 15, 3}, DType::kF32).image);
  EXPECT_EQ(nhwc.span_bytes, 480);
  EXPECT_TRUE(SamePlaces(nhwc, Of({2, 3, 4, 5}, {60, 1, 15, 3}, DType::kF32)));
  EXPECT_FALSE(SamePlaces(nhwc, Of({2, 3, 4, 5}, {}, DType::kF32)));
}

TEST(Footprint, BlocksArePadded) {
  const Footprint f = Of({2, 3, 4, 5}, {}, DType::kF32, Layout::kNChw8c);
  EXPECT_EQ(f.span_bytes, 2 * 8 * 4 * 5 * 4);
  EXPECT_NE(f.image, Of({2, 16, 4, 5}, {}, DType::kF32, Layout::kNChw16c).image);
}

TEST(Footprint, Problems) {
  std::string problem;
  Of({2, 3}, {2, 1}, DType::kU8, Layout::kStrided, &problem);
  EXPECT_EQ(problem, "strides make elements of dim 0 overlap or interleave");
  Of({1 << 20, 2}, {3, 1}, DType::kU8, Layout::kStrided, &problem);
  EXPECT_EQ(problem, "it lies in more than 65536 separate runs of bytes");
  Of({2, 2}, {int64_t{1} << 62, 1}, DType::kU8, Layout::kStrided, &problem);
  EXPECT_EQ(problem, "strides reach too far");
  Of({3, 3}, {int64_t{1} << 62, 1}, DType::kU8, Layout::kStrided, &problem);
  EXPECT_EQ(problem, "strides reach too far");
}

TEST(Footprint, OverlapIsExact) {
  const Footprint row = Of({2, 2}, {4, 1});  // bytes 0 1 4 5
  EXPECT_FALSE(Overlap(row, 0, row, 2));     // 2 3 6 7
  EXPECT_TRUE(Overlap(row, 0, row, 1));
  EXPECT_TRUE(Overlap(row, 0, row, 4));
  EXPECT_FALSE(Overlap(row, 0, Of({2}, {}), 2));
  EXPECT_TRUE(Overlap(row, 0, Of({3}, {}), 2));
  EXPECT_FALSE(Overlap(row, 0, Of({0}, {}), 1));
}

// Against one record per byte.
TEST(ByteMap, AgreesWithBytes) {
  constexpr int64_t kSize = 40;
  std::mt19937 random(1);
  ByteMap map(kSize);
  struct Byte {
    int32_t term = 0;
    std::set<int32_t> readers;
  };
  std::vector<Byte> bytes(kSize);
  for (int i = 0; i < 20000; ++i) {
    const int64_t begin = random() % kSize, end = begin + random() % (kSize - begin + 1);
    if (random() % 2 == 0) {
      map.ForEach(begin, end, [&](ByteMap::Cell& cell) {
        map.AddReader(cell, i, [](int32_t) { return false; });
      });
      for (int64_t b = begin; b < end; ++b) bytes[b].readers.insert(i);
    } else if (begin < end) {
      map.Merge(begin, end).content = {i, 0, begin};
      for (int64_t b = begin; b < end; ++b) bytes[b] = {i, {}};
    }
    int64_t at = 0;
    map.ForEachCell([&](const ByteMap::Cell& cell) {
      ASSERT_EQ(cell.begin, at);
      ASSERT_LT(cell.begin, cell.end);
      std::set<int32_t> readers;
      map.ForEachReader(cell, [&](int32_t reader) { readers.insert(reader); });
      for (; at < cell.end; ++at) {
        ASSERT_EQ(cell.content.term, bytes[at].term);
        ASSERT_EQ(readers, bytes[at].readers);
      }
    });
    ASSERT_EQ(at, kSize);
  }
}

TEST(ByteMap, LaterReaderTakesThePlaceOfTheEarlier) {
  ByteMap map(8);
  const auto before_7 = [](int32_t reader) { return reader < 7; };
  ByteMap::Cell& cell = map.Merge(0, 8);
  map.AddReader(cell, 9, before_7);
  map.AddReader(cell, 3, [](int32_t) { return false; });
  map.AddReader(cell, 7, before_7);  // after 3, not after 9
  std::vector<int32_t> readers;
  map.ForEachReader(cell, [&](int32_t reader) { readers.push_back(reader); });
  EXPECT_THAT(readers, ElementsAre(9, 7));
}

}  // namespace
}  // namespace millrace
