// What people read: numbers, tables; and the comparisons behind --expect and --labels.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tools/compare.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

TEST(Units, Counts) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(38282), "38,282");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
  EXPECT_EQ(FormatPlural(1, "node"), "1 node");
  EXPECT_EQ(FormatPlural(2, "node"), "2 nodes");
}

TEST(Units, Bytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(153128), "150 KiB");
  EXPECT_EQ(FormatBytes(1023 * 1024), "1.00 MiB");  // not "1023 KiB"
  EXPECT_EQ(FormatBytes(1.5 * 1024 * 1024 * 1024), "1.50 GiB");
}

TEST(Units, Durations) {
  EXPECT_EQ(FormatDuration(0.0312), "31.2 ns");
  EXPECT_EQ(FormatDuration(12.34), "12.3 us");
  EXPECT_EQ(FormatDuration(999.6), "1.00 ms");
  EXPECT_EQ(FormatDuration(2.5e6), "2.50 s");
  EXPECT_EQ(FormatDuration(5e9), "5,000 s");
}

TEST(Units, RatesAndPercents) {
  EXPECT_EQ(FormatSi(1.5e9, "FLOP/s"), "1.50 GFLOP/s");
  EXPECT_EQ(FormatSi(999.7, "B/s"), "1.00 kB/s");
  EXPECT_EQ(FormatSi(12, ""), "12");
  EXPECT_EQ(FormatPercent(0.9972), "99.7 %");
  EXPECT_EQ(FormatPercent(0.99999), "99.99 %");  // not all, so not 100
  EXPECT_EQ(FormatPercent(1), "100.0 %");
}

TEST(Tables, AlignLeftAndRightByCharacters) {
  Table table({"name", ">size", ""});
  table.Row({"a", "1", "x"});
  table.Row({"\xc3\xa9t\xc3\xa9", "100"});  // two bytes a letter, one column
  EXPECT_EQ(table.ToString("  "),
            "  name  size\n"
            "  a        1  x\n"
            "  \xc3\xa9t\xc3\xa9    100\n");
}

TEST(Compare, ToleranceIsRelativeToTheExpectedValue) {
  const Tensor expected = Tensor::Of<float>({2}, {100, 1});
  auto mismatches = [&](float a, float b, double rtol, double atol) {
    return Compare(Tensor::Of<float>({2}, {a, b}), expected, rtol, atol)->mismatches;
  };
  EXPECT_EQ(mismatches(100.9f, 1, 0.01, 0), 0);
  EXPECT_EQ(mismatches(101.1f, 1, 0.01, 0), 1);
  EXPECT_EQ(mismatches(100, 1.1f, 0.01, 0), 1);
  EXPECT_EQ(mismatches(100, 1.1f, 0.01, 0.1), 0);
}

TEST(Compare, NanAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor expected = Tensor::Of<float>({4}, {nan, inf, -inf, 0});
  EXPECT_EQ(Compare(expected, expected, 0, 0)->mismatches, 0);
  const absl::StatusOr<Comparison> all =
      Compare(Tensor::Of<float>({4}, {0, -inf, 1e30f, nan}), expected, 1, 1);
  EXPECT_EQ(all->mismatches, 4);
}

TEST(Compare, LargeIntegersAreToldApart) {
  const int64_t large = int64_t{1} << 60;
  EXPECT_EQ(Compare(Tensor::Scalar(large), Tensor::Scalar(large + 1), 0, 0)->mismatches, 1);
}

TEST(Compare, TheWorstMismatchIsNamed) {
  const absl::StatusOr<Comparison> result = Compare(
      Tensor::Of<float>({2, 2}, {0, 1, 0, 5}), Tensor::Of<float>({2, 2}, {0, 0, 0, 0}), 0, 0.5);
  EXPECT_EQ(result->mismatches, 2);
  EXPECT_EQ(IndexText({2, 2}, result->worst), "[1,1]");
  EXPECT_EQ(result->max_absolute_error, 5);
}

TEST(Compare, TypesMustAgree) {
  EXPECT_FALSE(Compare(Tensor::Of<float>({1}, {1}), Tensor::Of<double>({1}, {1}), 0, 0).ok());
  EXPECT_FALSE(Compare(Tensor::Of<float>({1}, {1}), Tensor::Scalar(1.f), 0, 0).ok());
}

TEST(Accuracy, CountsRowsWhoseGreatestScoreIsTheLabels) {
  const Tensor scores = Tensor::Of<float>({4, 2}, {.9f, .1f, .2f, .8f, .5f, .5f, .3f, .7f});
  const Tensor labels = Tensor::Of<int64_t>({4}, {0, 0, 0, 1});
  const Accuracy all = ArgMaxAccuracy(scores, labels);  // the first of equals is the answer
  EXPECT_EQ(all.right, 3);
  EXPECT_EQ(all.rows, 4);
  const Accuracy odd = ArgMaxAccuracy(scores, labels, 2, 1);
  EXPECT_EQ(odd.right, 1);
  EXPECT_EQ(odd.rows, 2);
}

TEST(Stats, LeaveOutWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const TensorStats stats = StatsOf(Tensor::Of<float>({4}, {-1, inf, 3, std::nanf("")}));
  EXPECT_EQ(stats.min, -1);
  EXPECT_EQ(stats.max, 3);
  EXPECT_EQ(stats.mean, 1);
  EXPECT_EQ(stats.not_finite, 2);
}

}  // namespace
}  // namespace millrace
