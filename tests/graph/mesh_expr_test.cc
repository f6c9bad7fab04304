#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "graph/expr.h"
#include "graph/mesh.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

Mesh TestMesh() { return *ParseMesh("data=2,tensor=4"); }

TEST(MeshText, RoundTrips) {
  const Mesh mesh = TestMesh();
  EXPECT_EQ(mesh.num_devices(), 8);
  EXPECT_EQ(ToString(mesh), "data=2,tensor=4");
  EXPECT_EQ(ParseMesh("")->axes.size(), 0u);
}

TEST(MeshText, RefusesNonsense) {
  for (const char* bad : {"data", "data=", "data=0", "data=-1", "data=2,data=3", "2=2", "mb=2",
                          "data=2x", "=2", "data=99999999999"}) {
    EXPECT_EQ(ExitCode(ParseMesh(bad).status()), 2) << bad;
  }
}

TEST(ShardingText, RoundTrips) {
  const Mesh mesh = TestMesh();
  for (const char* text : {"", "data:0", "tensor:partial(sum)", "data:1,tensor:partial(max)"}) {
    const auto sharding = ParseSharding(text, mesh);
    ASSERT_TRUE(sharding.ok()) << sharding.status();
    EXPECT_EQ(ToString(*sharding, mesh), text);
  }
}

TEST(ShardingText, RefusesNonsenseAndSuggests) {
  const Mesh mesh = TestMesh();
  EXPECT_THAT(ParseSharding("tensr:0", mesh).status().message(), HasSubstr("mean 'tensor'"));
  for (const char* bad : {"data", "data:8", "data:-1", "data:0,data:1", "data:partial(avg)"}) {
    EXPECT_EQ(ExitCode(ParseSharding(bad, mesh).status()), 2) << bad;
  }
}

TEST(LinearExprs, EvaluateMicrobatchSlotsAndCoordinates) {
  LinearExpr expr = 1024;
  expr.terms.push_back({kMicrobatchVar, 64, 1, 2});
  expr.terms.push_back({1, 4096, 0, 0});
  const int64_t coordinates[] = {0, 3};
  EXPECT_EQ(Evaluate(expr, {coordinates, 0, 0}), 1024 + 64 + 3 * 4096);
  EXPECT_EQ(Evaluate(expr, {coordinates, 1, 0}), 1024 + 3 * 4096);
  EXPECT_EQ(ToString(expr, TestMesh()), "1024+64*((mb+1)%2)+4096*tensor");
}

TEST(LinearExprs, TextRoundTrips) {
  const Mesh mesh = TestMesh();
  for (const char* text : {"0", "-5", "mb", "7+mb", "64*(mb%2)", "((data+1)%2)", "-3*(tensor+-1)",
                           "8+2*iter+((tensor+3)%4)"}) {
    const auto expr = ParseLinearExpr(text, mesh);
    ASSERT_TRUE(expr.ok()) << expr.status();
    EXPECT_EQ(ToString(*expr, mesh), text);
    EXPECT_EQ(*ParseLinearExpr(ToString(*expr, mesh), mesh), *expr);
  }
}

TEST(LinearExprs, BadTextIsRefusedWithItsColumn) {
  const Mesh mesh = TestMesh();
  EXPECT_THAT(ParseLinearExpr("3+rank", mesh).status().message(),
              HasSubstr("'rank' is neither mb, iter nor a mesh axis"));
  EXPECT_THAT(ParseLinearExpr("(mb%0)", mesh).status().message(), HasSubstr("at column 6"));
  for (const char* bad : {"", "+", "3*", "(mb", "(mb%2", "((mb+1)", "mb mb", "1 + mb", "(mb+1"}) {
    EXPECT_FALSE(ParseLinearExpr(bad, mesh).ok()) << bad;
  }
}

TEST(LinearExprs, HostileNumbersSaturate) {
  LinearExpr expr = std::numeric_limits<int64_t>::max();
  expr.terms.push_back({kMicrobatchVar, std::numeric_limits<int64_t>::max(), 0, 0});
  EXPECT_EQ(Evaluate(expr, {{}, 7, 0}), std::numeric_limits<int64_t>::max());
  expr = 0;
  expr.terms.push_back({kMicrobatchVar, -9, 0, 0});
  EXPECT_EQ(Evaluate(expr, {{}, std::numeric_limits<int64_t>::max(), 0}),
            std::numeric_limits<int64_t>::min());
}

}  // namespace
}  // namespace millrace
