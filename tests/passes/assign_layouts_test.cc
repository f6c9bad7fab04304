// In which layout values lie, what is packed, and what runs once: plans of small graphs for a
// target made up for it, each accepted by the checker.
#include "passes/assign_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/check/check.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "ops/prepack.h"
#include "passes/emit_plan.h"
#include "passes/pass_list.h"
#include "tests/passes/typed_graph.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

// Conv likes channels-last operands and packed weights, and gives channels-last results from
// row-major operands too; Relu takes either; everything else is row-major.
class LayoutTarget : public Target {
 public:
  std::string_view device_kind() const override { return "cpu"; }
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override {
    constexpr Layout kRow = Layout::kStrided, kLast = Layout::kNHWC, kPacked = Layout::kPacked;
    if (query.op == "Conv") {
      return {Variant("fast", {kLast, kPacked}, kLast), Variant("fast", {kLast, kRow}, kLast),
              Variant("fast", {kRow, kPacked}, kLast), Variant("fast", {kRow, kRow}, kLast),
              Variant("fast", {kRow, kRow}, kRow)};
    }
    if (query.op == "Relu") {
      return {Variant("plain", {kRow}, kRow), Variant("last", {kLast}, kLast)};
    }
    if (query.op == kPrepack) {
      return {Variant("other", {kRow}, kPacked), Variant("fast", {kRow}, kPacked),
              Variant("reference", {kRow}, kRow)};
    }
    KernelVariant variant = Variant("reference", {}, kRow);
    variant.in_layouts.resize(query.inputs.size(), kRow);
    return {variant};
  }

 private:
  static KernelVariant Variant(std::string name, std::vector<Layout> in, Layout out) {
    KernelVariant variant;
    variant.name = std::move(name);
    variant.in_layouts = std::move(in);
    variant.out_layouts = {out};
    variant.packed_bytes = 4096;
    return variant;
  }
};

struct LaidOutPlan {
  PlanBundle plan;

  const Program& program() const { return plan.programs[0]; }
  // "c: nhwc packed -> nhwc" for launches, "copy" for copies, in order.
  std::vector<std::string> Runs(Section section) const {
    std::vector<std::string> runs;
    for (const ScheduleItem& item : program().schedule(section)) {
      for (const Instruction& i : program().segments[item.segment.index].instructions) {
        const auto* launch = std::get_if<Launch>(&i.body);
        runs.push_back(launch == nullptr ? "copy" : TextOf(*launch));
      }
    }
    return runs;
  }

 private:
  std::string TextOf(const Launch& launch) const {
    std::string text = StrCat(plan.graph.node(launch.node).name, ":");
    const auto append = [&](SliceId id) {
      StrAppend(&text, " ", LayoutName(program().slices[id.index].layout));
    };
    for (SliceId id : launch.inputs) append(id);
    text += " ->";
    for (SliceId id : launch.outputs) append(id);
    return text;
  }
};

LaidOutPlan PlanOf(Graph graph) {
  LaidOutPlan planned;
  planned.plan.graph = std::move(graph);
  const absl::StatusOr<Program> program = EmitProgram(planned.plan.graph, LayoutTarget(), {});
  EXPECT_TRUE(program.ok()) << program.status();
  planned.plan.programs.push_back(*program);
  const CheckReport report = CheckPlan(planned.plan, AllOpTraits(), nullptr);
  EXPECT_TRUE(report.ok()) << FormatReport(report);
  return planned;
}

TEST(AssignLayouts, ChainsLieChannelsLastAndOutputsDoNot) {
  const LaidOutPlan p = PlanOf(TypedGraph(R"(
    input x : f32[1,3,8,8]
    input w : f32[4,3,3,3]
    input v : f32[4,4,3,3]
    c = Conv(x, w)
    r = Relu(c)
    d = Conv(r, v)
    y = Softmax(d)
    output y)"));
  EXPECT_THAT(p.Runs(Section::kStep),
              ElementsAre("c: strided strided -> nhwc", "r: nhwc -> nhwc",
                          "d: nhwc strided -> nhwc", "copy", "y: strided -> strided"));
}

TEST(AssignLayouts, ACopyIsMadeOnceForAllWhoWantIt) {
  const LaidOutPlan p = PlanOf(TypedGraph(R"(
    input x : f32[1,3,8,8]
    input w : f32[4,3,3,3]
    input v : f32[4,4,3,3]
    c = Conv(x, w)
    d = Conv(c, v)
    e = Conv(c, v)
    s = Softmax(c)
    t = Tanh(c)
    output d
    output e
    output s
    output t)"));
  EXPECT_THAT(p.Runs(Section::kStep),
              ElementsAre("c: strided strided -> nhwc", "d: nhwc strided -> nhwc",
                          "e: nhwc strided -> nhwc", "copy", "s: strided -> strided",
                          "t: strided -> strided", "copy", "copy"));
}

TEST(AssignLayouts, WhatLiesAlikeEitherWayIsNotCopied) {
  const LaidOutPlan p = PlanOf(TypedGraph(R"(
    input x : f32[1,3,1,1]
    input w : f32[4,3,1,1]
    c = Conv(x, w)
    y = Softmax(c)
    output y)"));
  EXPECT_THAT(p.Runs(Section::kStep),
              ElementsAre("c: strided strided -> strided", "y: strided -> strided"));
}

// Frozen values are computed once; what a step changes, and what takes more room than what it is
// made of, is not.
TEST(Init, HasWhatIsTheSameInEveryStep) {
  const LaidOutPlan p = PlanOf(TypedGraph(R"(
    input x : f32[64]
    param w : f32[64] = init ones
    param s : f32[64] = init ones
    param big : f32[1] = init ones
    const shape : i64[1] = inline [1000000]
    a = Neg(w)
    b = Exp(a)
    t = Neg(s)
    y = Add(x, b)
    e = Expand(big, shape)
    update s <- t
    output y
    output e)"));
  EXPECT_THAT(p.Runs(Section::kInit),
              ElementsAre("a: strided -> strided", "b: strided -> strided"));
  EXPECT_THAT(p.Runs(Section::kStep),
              ElementsAre("t: strided -> strided", "y: strided strided -> strided",
                          "e: strided strided -> strided"));
}

Graph Packed(std::string_view text) {
  Graph graph = TypedGraph(text);
  const LayoutTarget target;
  PassContext context;
  context.target = &target;
  EXPECT_TRUE(PrepackWeights(graph, context).value());
  EXPECT_TRUE(InferTypes(graph).ok());
  EXPECT_FALSE(PrepackWeights(graph, context).value()) << "not idempotent";
  return graph;
}

// The packer runs the variant of the kernel that it packs for.
TEST(Prepack, FrozenWeightsArePackedInInit) {
  const LaidOutPlan p = PlanOf(Packed(R"(
    input x : f32[1,3,8,8]
    param w : f32[4,3,3,3] = init ones
    c = Conv(x, w)
    y = Softmax(c)
    output y)"));
  EXPECT_THAT(p.Runs(Section::kInit), ElementsAre("c.packed: strided -> packed"));
  EXPECT_THAT(p.Runs(Section::kStep),
              ElementsAre("c: strided packed -> nhwc", "copy", "y: strided -> strided"));
  const auto& init = p.program().segments[p.program().init[0].segment.index].instructions;
  EXPECT_EQ(std::get<Launch>(init[0].body).variant, "fast");
}

TEST(Prepack, WeightsThatChangeAreNot) {
  Graph graph = TypedGraph(R"(
    input x : f32[1,3,8,8]
    input given : f32[4,3,3,3]
    param w : f32[4,3,3,3] = init ones
    c = Conv(x, w)
    d = Conv(x, given)
    n = Neg(w)
    update w <- n
    output c
    output d)");
  const LayoutTarget target;
  PassContext context;
  context.target = &target;
  EXPECT_FALSE(PrepackWeights(graph, context).value());
}

// A hand-written packer, read by another node than it says, packs nothing.
TEST(Prepack, WhatOthersReadIsNotPacked) {
  Graph graph = Packed(R"(
    input x : f32[1,3,8,8]
    param w : f32[4,3,3,3] = init ones
    c = Conv(x, w)
    output c)");
  GraphBuilder builder(std::move(graph));
  const ValueId packed = builder.graph().node(NodeId(0)).outputs[0];
  builder.Output(builder.Op("Neg", {packed}));
  graph = std::move(builder).Build();
  ASSERT_TRUE(InferTypes(graph).ok());
  const LaidOutPlan p = PlanOf(std::move(graph));
  EXPECT_THAT(p.Runs(Section::kInit),
              ElementsAre("c.packed: strided -> strided", "neg: strided -> strided"));
  EXPECT_THAT(p.Runs(Section::kStep), ElementsAre("c: strided strided -> strided"));
}

}  // namespace
}  // namespace millrace
