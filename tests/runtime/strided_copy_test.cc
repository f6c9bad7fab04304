// Any two layouts of a value: the regions together move each element to its place, once.
#include "runtime/strided_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace millrace {
namespace {

struct Layouts {
  std::vector<int64_t> strides;
  int64_t size = 1;  // elements spanned
};

// Dims in a random order in memory, each padded by a random amount.
Layouts RandomStrides(const Shape& shape, std::mt19937& random) {
  std::vector<int> order(shape.rank());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Layouts layouts;
  layouts.strides.resize(shape.rank());
  for (int dim : order) {
    layouts.strides[dim] = layouts.size;
    layouts.size *= std::max<int64_t>(shape[dim], 1) + random() % 3;
  }
  return layouts;
}

// Calls visit(index) for each index of the shape.
template <typename Visit>
void ForEachIndex(const Shape& shape, Visit&& visit) {
  for (int64_t linear = 0; linear < NumElements(shape); ++linear) {
    Shape index = shape;
    int64_t rest = linear;
    for (int dim = shape.rank() - 1; dim >= 0; --dim) {
      index[dim] = rest % shape[dim];
      rest /= shape[dim];
    }
    visit(index);
  }
}

int64_t Offset(const Shape& index, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (int dim = 0; dim < index.rank(); ++dim) offset += index[dim] * strides[dim];
  return offset;
}

StridedPlace PlaceOf(std::vector<int32_t>& data, const std::vector<int64_t>& strides) {
  return {.data = reinterpret_cast<std::byte*>(data.data()), .strides = strides};
}

TEST(StridedCopyTest, MovesEveryElementBetweenRandomLayouts) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    Shape shape;
    const int rank = static_cast<int>(random() % 6);
    for (int dim = 0; dim < rank; ++dim) shape.push_back(random() % 5);
    const Layouts from = RandomStrides(shape, random), to = RandomStrides(shape, random);
    std::vector<int32_t> source(from.size), target(to.size, -1), expected(to.size, -1);
    std::iota(source.begin(), source.end(), 0);
    ForEachIndex(shape, [&](const Shape& index) {
      expected[Offset(index, to.strides)] = source[Offset(index, from.strides)];
    });

    const StridedCopy copy = PlanStridedCopy({DType::kI32, shape}, PlaceOf(target, to.strides),
                                             PlaceOf(source, from.strides));
    int64_t moved = 0;
    ASSERT_TRUE(ForEachRegion(copy, [&](const CopyRegion& region) {
                  CopyOnHost(region);
                  moved += region.row_bytes * region.rows;
                  return absl::OkStatus();
                }).ok());

    ASSERT_EQ(target, expected) << ToString(shape);
    ASSERT_EQ(moved, 4 * NumElements(shape)) << ToString(shape);
  }
}

int CountRegions(const StridedCopy& copy) {
  int regions = 0;
  EXPECT_TRUE(ForEachRegion(copy, [&](const CopyRegion&) {
                ++regions;
                return absl::OkStatus();
              }).ok());
  return regions;
}

TEST(StridedCopyTest, LikeLayoutsAreOneRow) {
  std::byte memory[1];
  const std::vector<int64_t> columns = {1, 3, 15};  // column-major [3,5,7]
  const TensorType type{DType::kF32, {3, 5, 7}};

  const StridedCopy dense = PlanStridedCopy(type, {.data = memory}, {.data = memory});
  const StridedCopy turned = PlanStridedCopy(type, {.data = memory, .strides = columns},
                                             {.data = memory, .strides = columns});

  EXPECT_EQ(dense.region.row_bytes, 3 * 5 * 7 * 4);
  EXPECT_EQ(turned.region.row_bytes, 3 * 5 * 7 * 4);
  EXPECT_EQ(CountRegions(dense), 1);
  EXPECT_EQ(CountRegions(turned), 1);
}

TEST(StridedCopyTest, APaddedMatrixIsOneRegionOfRows) {
  std::byte memory[1];
  const std::vector<int64_t> padded = {40, 8, 1};  // [6,5,8] as 30 rows would be dense: 40 = 5 * 8

  const StridedCopy copy = PlanStridedCopy({DType::kF32, {6, 4, 8}}, {.data = memory},
                                           {.data = memory, .strides = padded});

  EXPECT_EQ(copy.region.row_bytes, 4 * 8 * 4);
  EXPECT_EQ(copy.region.rows, 6);
  EXPECT_EQ(copy.region.from_pitch_bytes, 160);
  EXPECT_EQ(copy.region.to_pitch_bytes, 128);
  EXPECT_EQ(CountRegions(copy), 1);
}

TEST(StridedCopyTest, NothingToMoveIsNoRegion) {
  std::byte memory[1];
  const StridedCopy copy =
      PlanStridedCopy({DType::kF32, {3, 0, 2}}, {.data = memory}, {.data = memory});
  EXPECT_EQ(CountRegions(copy), 0);
}

TEST(StridedCopyTest, StopsAtTheFirstError) {
  std::byte memory[1];
  const std::vector<int64_t> strides = {1, 10, 100};
  const StridedCopy copy = PlanStridedCopy({DType::kI8, {4, 4, 4}}, {.data = memory},
                                           {.data = memory, .strides = strides});
  int regions = 0;
  const absl::Status status = ForEachRegion(copy, [&](const CopyRegion&) {
    return ++regions == 2 ? DeviceError("gone") : absl::OkStatus();
  });
  EXPECT_EQ(status, DeviceError("gone"));
  EXPECT_EQ(regions, 2);
}

}  // namespace
}  // namespace millrace
