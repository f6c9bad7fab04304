// The parts of the offset planner, each against a plain version of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "passes/memory/containment_tree.h"
#include "passes/memory/exact_search.h"
#include "passes/memory/live_sections.h"
#include "passes/memory/range_maximum.h"
#include "passes/memory/time_fit.h"
#include "passes/memory/valley_fill.h"
#include "tests/passes/packing_check.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

LiveSections Cut(std::span<const TimedBuffer> buffers) {
  absl::StatusOr<LiveSections> sections = CutIntoSections(buffers);
  EXPECT_TRUE(sections.ok()) << sections.status();
  return *std::move(sections);
}

// "" or what is wrong with the packing of the items.
std::string WrongWithItems(std::span<const TimedBuffer> buffers, const LiveSections& sections,
                           const ItemOffsets& offsets) {
  std::vector<int64_t> by_buffer(buffers.size(), 0);
  for (size_t i = 0; i < sections.items.size(); ++i) {
    by_buffer[sections.items[i].buffer] = offsets[i] * sections.unit_bytes;
  }
  return WrongWith(buffers, by_buffer);
}

TEST(LiveSections, OnePerLargestSetOfBuffersAlive) {
  //  0 1 2 3 4 5 6
  //  a a a a
  //      b b b b
  //          c c c
  const LiveSections sections = Cut({{{0, 4, 6, 1}, {2, 6, 2, 1}, {4, 7, 4, 1}}});
  EXPECT_THAT(sections.load, ElementsAre(4, 3));  // in units of 2: a and b, b and c
  EXPECT_THAT(sections.duration, ElementsAre(4, 2));
  EXPECT_EQ(sections.unit_bytes, 2);
  EXPECT_EQ(sections.max_load, 4);
  EXPECT_EQ(sections.peak_time, 2);
  EXPECT_EQ(sections.lower_bound_bytes, 8);
}

TEST(LiveSections, ItemsMeetExactlyWhenTheirBuffersDo) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const auto buffers = RandomBuffers(random, {.buffers = 2 + i % 20, .times = 1 + i % 17});
    const LiveSections sections = Cut(buffers);
    for (const PackItem& a : sections.items) {
      for (const PackItem& b : sections.items) {
        const TimedBuffer &x = buffers[a.buffer], &y = buffers[b.buffer];
        EXPECT_EQ(a.first <= b.last && b.first <= a.last, x.lower < y.upper && y.lower < x.upper);
      }
    }
  }
}

TEST(RangeMaximum, AsAPlainArray) {
  std::mt19937 random(2);
  for (const int32_t n : {1, 2, 7, 64, 100}) {
    std::vector<int64_t> plain(n);
    for (int64_t& x : plain) x = random() % 100;
    RangeMaximum numbers(plain);
    for (int i = 0; i < 300; ++i) {
      int32_t first = random() % n, last = random() % n;
      if (first > last) std::swap(first, last);
      const auto greatest = std::max_element(plain.begin() + first, plain.begin() + last + 1);
      EXPECT_EQ(numbers.Find(first, last), std::pair(*greatest, int32_t(greatest - plain.begin())));
      const int64_t amount = static_cast<int64_t>(random() % 41) - 20;
      numbers.Add(first, last, amount);
      for (int32_t k = first; k <= last; ++k) plain[k] += amount;
    }
  }
}

TEST(ContainmentTree, AsAPlainList) {
  std::mt19937 random(3);
  for (const int32_t n : {1, 5, 9, 40, 200}) {
    std::vector<PackItem> items(n);
    for (PackItem& item : items) {
      item.first = random() % 30;
      item.last = item.first + random() % 10;
    }
    ContainmentTree tree(items);
    std::vector<int32_t> ranks(n);
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int pass = 0; pass < 2; ++pass) {
      std::shuffle(ranks.begin(), ranks.end(), random);
      tree.Reset(ranks);
      std::vector<bool> there(n, true);
      for (int left = n; left >= 0; --left) {
        const int32_t lo = random() % 20, hi = lo + random() % 20,
                      at = lo + random() % (hi - lo + 1);
        int32_t best = -1, before = lo - 1, after = hi + 1;
        for (int32_t i = 0; i < n; ++i) {
          const auto [first, last, size, alignment, buffer] = items[i];
          if (!there[i]) continue;
          if (lo <= first && first <= at && at <= last && last <= hi &&
              (best < 0 || ranks[i] < ranks[best])) {
            best = i;
          }
          if (lo <= first && last < at) before = std::max(before, last);
          if (last <= hi && first > at) after = std::min(after, first);
        }
        EXPECT_EQ(tree.Best(lo, at, hi), best);
        EXPECT_EQ(tree.LastBefore(lo, at), before);
        EXPECT_EQ(tree.FirstAfter(at, hi), after);
        if (left == 0) break;
        int32_t out = random() % n;
        while (!there[out]) out = (out + 1) % n;
        there[out] = false;
        tree.TakeOut(out);
      }
    }
  }
}

std::vector<std::vector<TimedBuffer>> SampleProblems() {
  std::mt19937 random(4);
  std::vector<std::vector<TimedBuffer>> problems = {LoadInstance("B.1048576"),
                                                    LoadInstance("G.1048576")};
  problems.push_back(CutRectangle(random, 30, 300, 50));
  for (int alignments = 0; alignments < 4; ++alignments) {
    problems.push_back(RandomBuffers(
        random, {.buffers = 60, .times = 40, .sizes = 100, .alignments = alignments}));
  }
  return problems;
}

TEST(TimeFit, PacksRightly) {
  for (const auto& buffers : SampleProblems()) {
    const LiveSections sections = Cut(buffers);
    int64_t work = 0;
    EXPECT_EQ(WrongWithItems(buffers, sections, FitInOrderOfTime(sections, work)), "");
    EXPECT_GT(work, 0);
  }
}

TEST(ValleyFill, EveryRulePacksRightly) {
  for (const auto& buffers : SampleProblems()) {
    const LiveSections sections = Cut(buffers);
    ValleyFiller filler(sections);
    for (const int hotness : {0, 1, 16}) {
      for (const bool by_duration : {false, true}) {
        for (const double exponent : {0.0, 0.5, 0.75, 1.0}) {
          int64_t work = 0;
          const auto offsets = filler.Fill({hotness, by_duration, exponent}, INT64_MAX, work);
          ASSERT_TRUE(offsets.has_value());
          EXPECT_EQ(WrongWithItems(buffers, sections, *offsets), "");
        }
      }
    }
  }
}

TEST(ValleyFill, GivesUpExactlyWhenItWouldNotBeLower) {
  for (const auto& buffers : SampleProblems()) {
    const LiveSections sections = Cut(buffers);
    ValleyFiller filler(sections);
    int64_t work = 0;
    const auto offsets = filler.Fill({}, INT64_MAX, work);
    const int64_t height = HeightOf(sections, *offsets);
    EXPECT_FALSE(filler.Fill({}, height, work).has_value());
    EXPECT_EQ(filler.Fill({}, height + 1, work), offsets);
  }
}

constexpr SearchRule::Section kSectionRules[] = {SearchRule::Section::kTightest,
                                                 SearchRule::Section::kRelativelyTightest,
                                                 SearchRule::Section::kFewest};

// Worths of some kind: all alike, by size, by length, at random.
std::vector<double> SomeWorths(const LiveSections& sections, int kind) {
  std::mt19937 random(5);
  std::vector<double> worths;
  for (const PackItem& item : sections.items) {
    worths.push_back(kind == 0   ? 1
                     : kind == 1 ? static_cast<double>(item.size)
                     : kind == 2 ? item.last - item.first
                                 : static_cast<double>(random()));
  }
  return worths;
}

// Every rule finds what there is and proves what there is not, remembering nothing wrong from
// height to height.
TEST(ExactSearch, EveryRuleIsExact) {
  std::mt19937 random(6);
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    const auto buffers = RandomBuffers(random, {.buffers = 3 + i % 5, .alignments = i % 4});
    const LiveSections sections = Cut(buffers);
    if (sections.unit_bytes != 1) continue;
    const int64_t least = LeastHeight(buffers);
    for (const SearchRule::Section section : kSectionRules) {
      for (int kind = 0; kind < 4; ++kind) {
        ExactSearch search(sections);
        const SearchRule rule = {section, SomeWorths(sections, kind)};
        int64_t work = 0;
        // The unit may be longer than what the topmost buffer takes of it: here it is one byte.
        for (const int64_t height : {least + 2, least - 1, least, least - 2, least}) {
          const SearchOutcome outcome = search.Run(height, rule, 10'000'000, work);
          EXPECT_EQ(outcome, height >= least ? SearchOutcome::kFound : SearchOutcome::kImpossible)
              << height << " of " << least;
          if (outcome != SearchOutcome::kFound) continue;
          EXPECT_EQ(WrongWithItems(buffers, sections, search.offsets()), "");
          EXPECT_LE(HeightOf(sections, search.offsets()), height);
        }
      }
    }
  }
}

TEST(ExactSearch, GivesUpInTime) {
  const LiveSections sections = Cut(LoadInstance("E.1048576"));
  ExactSearch search(sections);
  const SearchRule rule = {SearchRule::Section::kTightest, SomeWorths(sections, 0)};
  int64_t work = 0;
  EXPECT_EQ(search.Run(sections.max_load, rule, 100'000, work), SearchOutcome::kGaveUp);
  EXPECT_LT(work, 200'000);
  EXPECT_EQ(search.Run(sections.max_load - 1, rule, 100'000, work), SearchOutcome::kImpossible);
}

}  // namespace
}  // namespace millrace
