#include "graph/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/strings.h"
#include "graph/text.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of the graph's only node.
std::vector<ViewPart> Parts(ViewKind kind, std::string_view text, int output = 0) {
  const absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  return ViewPartsOf(kind, *graph, graph->nodes[0], output);
}

TEST(View, WholeUnderAnotherShape) {
  EXPECT_THAT(Parts(ViewKind::kWhole, R"(
    input x : f32[2,6]
    y : f32[3,4] = Reshape(x)
    output y)"),
              ElementsAre(ViewPart{0, 0, 0, 48}));
  EXPECT_THAT(Parts(ViewKind::kWhole, R"(
    input x : f32[0,6]
    y : f32[3,0] = Reshape(x)
    output y)"),
              IsEmpty());
}

std::string Join(std::string_view a, std::string_view b, std::string_view y, int axis) {
  return StrCat("input a : ", a, "\ninput b : ", b, "\ny : ", y, " = Concat(a, b) {axis = ", axis,
                "}\noutput y");
}

TEST(View, PartsOfAJoin) {
  EXPECT_THAT(Parts(ViewKind::kJoin, Join("f32[2,3]", "f32[1,3]", "f32[3,3]", 0)),
              ElementsAre(ViewPart{0, 0, 0, 24}, ViewPart{1, 0, 24, 12}));
  EXPECT_THAT(Parts(ViewKind::kJoin, Join("f32[1,3]", "f32[1,2]", "f32[1,5]", -1)),
              ElementsAre(ViewPart{0, 0, 0, 12}, ViewPart{1, 0, 12, 8}));
  EXPECT_THAT(Parts(ViewKind::kJoin, Join("f32[0,3]", "f32[1,3]", "f32[1,3]", 0)),
              ElementsAre(ViewPart{1, 0, 0, 12}));
  EXPECT_THAT(Parts(ViewKind::kJoin, Join("f32[2,3]", "f32[2,2]", "f32[2,5]", 1)), IsEmpty());
}

TEST(View, PiecesOfASplit) {
  constexpr char kText[] = R"(
    input x : f32[1,4,2]
    a : f32[1,1,2], b : f32[1,3,2] = Split(x) {axis = 1}
    output a
    output b)";
  EXPECT_THAT(Parts(ViewKind::kSplit, kText, 0), ElementsAre(ViewPart{0, 0, 0, 8}));
  EXPECT_THAT(Parts(ViewKind::kSplit, kText, 1), ElementsAre(ViewPart{0, 8, 0, 24}));
  // Where the second begins is not said.
  EXPECT_THAT(Parts(ViewKind::kSplit, R"(
    input x : f32[4,2]
    n: _, b : f32[3,2] = Split(x)
    output b)",
                    1),
              IsEmpty());
}

std::string Slice(std::string_view x, std::string_view y, int start, int axis, int step) {
  return StrCat("input x : ", x, "\nconst s : i64[1] = inline [", start,
                "]\nconst e : i64[1] = inline [100]\nconst a : i64[1] = inline [", axis,
                "]\nconst t : i64[1] = inline [", step, "]\ny : ", y,
                " = Slice(x, s, e, a, t)\noutput y");
}

TEST(View, ARangeOfRows) {
  EXPECT_THAT(Parts(ViewKind::kSlice, Slice("f32[4,2]", "f32[3,2]", 1, 0, 1)),
              ElementsAre(ViewPart{0, 8, 0, 24}));
  EXPECT_THAT(Parts(ViewKind::kSlice, Slice("f32[4,2]", "f32[1,2]", -1, 0, 1)),
              ElementsAre(ViewPart{0, 24, 0, 8}));
  EXPECT_THAT(Parts(ViewKind::kSlice, Slice("f32[1,4,2]", "f32[1,2,2]", 2, -2, 1)),
              ElementsAre(ViewPart{0, 16, 0, 16}));
  EXPECT_THAT(Parts(ViewKind::kSlice, Slice("f32[4,2]", "f32[4,1]", 1, 1, 1)), IsEmpty());
  EXPECT_THAT(Parts(ViewKind::kSlice, Slice("f32[4,2]", "f32[2,2]", 0, 0, 2)), IsEmpty());
  EXPECT_THAT(Parts(ViewKind::kSlice, R"(
    input x : f32[4,2]
    input s : i64[1]
    y : f32[3,2] = Slice(x, s, s)
    output y)"),
              IsEmpty());
}

}  // namespace
}  // namespace millrace
