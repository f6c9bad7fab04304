// Loops: a body that runs any number of times must be right each time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/strings.h"
#include "tests/check/test_plan.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ValueId AddNode(GraphBuilder& b, std::string_view name, std::vector<ValueId> inputs,
                const TensorType& type) {
  const ValueId id = b.Op("Fn", std::move(inputs), {}, name);
  b.graph().value(id).type = type;
  b.graph().value(id).typed = true;
  return id;
}

constexpr DType kU8 = DType::kU8, kBool = DType::kBool;

// z, s = while c, m times at most: t = t(bv, bw); s gets e(bv); go = go(t).
Graph LoopBody() {
  GraphBuilder b("body");
  const ValueId n = b.Input("n", {DType::kI64, {}}), k = b.Input("k", {kBool, {}});
  const ValueId v = b.Input("bv", {kU8, {2}}), w = b.Input("bw", {kU8, {2}});
  const ValueId t = AddNode(b, "t", {v, w, n, k}, {kU8, {2}});
  const ValueId e = AddNode(b, "e", {v}, {kU8, {2}});
  b.Output(AddNode(b, "go", {t}, {kBool, {}}));
  b.Output(t);
  b.Output(e);
  return std::move(b).Build();
}

// A plan of it: v is carried at 8, its next version computed at 10 and copied back.
struct Loop {
  Loop() {
    t.Input("x").Input("w").Input("m", {}, DType::kI64).Input("c", {}, kBool);
    t.Node("Fn", {"x"}, {"v"}).Node("Loop", {"m", "c", "v", "w"}, {"z", "s"});
    Node& node = t.node("z");
    node.attrs.Set("num_captures", int64_t{1});
    node.subgraphs = {{"body", LoopBody()}};
    t.plan().graph.value(t.value("s")).type.shape = {3, 2};
    t.Node("Fn", {"z", "s"}, {"y"}).Output("y");
    p = &t.Program();
    p->Buffer("arena", 64).In("x@0").In("w@2").In("m@16").In("c@4").Out("y@6");
    p->Segment("body", 1);
    p->Launch("st", "t", {"bv#1@8", "bw#1@2", "n#1@24", "k#1@5"}, {"t#1@10"});
    p->Launch("st", "e", {"bv#1@8"}, {"e#1@12"});
    p->Launch("st", "go", {"t#1@10"}, {"go#1@14"});
    p->Copy("st", "t#1@8", "t#1@10");
    p->Segment("main").Launch("st", "v", {"x@0"}, {"v@8"});
    p->Call("st", "z", {"m@16", "c@4", "v@8", "w@2"}, {"z@8", "s@32"},
            {{"body", {"n#1@24", "k#1@5", "bv#1@8", "bw#1@2"}, {"go#1@14", "t#1@8", "e#1@12"}}});
    p->Launch("st", "y", {"z@8", "s@32"}, {"y@6"});
  }
  std::vector<Instruction>& body() { return p->program().segments[0].instructions; }
  Call& call() { return std::get<Call>(p->program().segments[1].instructions[1].body); }

  TestPlan t;
  TestProgram* p;
};

TEST(CheckLoop, AnyNumberOfTripsIsRight) {
  Loop l;
  EXPECT_EQ(Verdict(l.t), "");
}

struct LoopMutant {
  std::string name;
  std::function<void(Loop&)> mutate;
  std::vector<std::string> says;
};

std::vector<LoopMutant> LoopMutants() {
  return {
      // --- What a trip leaves for the next
      // --------------------------------------------------------
      {"carried value not brought back to its place",
       [](Loop& l) { l.body().pop_back(); },
       {"stale read", "reads 't' and must find 't' of microbatch 0",
        "the bytes hold 'bv' of the trip"}},
      {"carried value brought back too early",
       [](Loop& l) { std::swap(l.body()[1], l.body()[3]); },
       {"stale read", "launch e", "reads 'bv' and must find 'bv' of the trip",
        "the bytes hold 't' of microbatch 0"}},
      {"first trip alone finds its capture",
       [](Loop& l) { l.p->slice("t#1@10").offset_bytes = 2; },
       {"stale read", "reads 'bw' and must find input 'w' of microbatch 0",
        "what depends on the trips made"}},
      {"a trip destroys what earlier trips put into the stack",
       [](Loop& l) { l.p->slice("e#1@12").offset_bytes = 34; },
       {"stale read", "reads 's' and must find what earlier trips put into 's'"}},
      {"the number of the trip is written over a capture",
       [](Loop& l) { l.p->slice("n#1@24").offset_bytes = 0, l.p->slice("w@2").offset_bytes = 2; },
       {"stale read", "reads 'bw' and must find input 'w' of microbatch 0",
        "the bytes hold 'n' of the trip"}},
      {"a trip destroys the trip count's neighbour, read after the loop",
       [](Loop& l) {
         l.t.Node("Fn", {"x"}, {"late"}).Output("late");
         l.p->Launch("st", "late", {"x@0"}, {"late@40"}).Out("late@40");
         l.p->slice("e#1@12").offset_bytes = 0;
       },
       {"stale read", "launch late", "reads 'x' and must find input 'x' of microbatch 0",
        "what depends on the trips made"}},
      {"condition not computed",
       [](Loop& l) { l.body().erase(l.body().begin() + 2); },
       {"compute", "reads 'go'", "no instruction computes 'go'"}},
      {"element not computed",
       [](Loop& l) { l.body().erase(l.body().begin() + 1); },
       {"compute", "reads 'e'", "no instruction computes 'e'"}},
      {"condition overwritten before the host reads it",
       [](Loop& l) { l.p->slice("go#1@14").offset_bytes = 9; },
       {"stale read", "reads 'go' and must find 'go' of microbatch 0"}},
      {"read after the loop although no trip may have come by",
       [](Loop& l) {
         l.t.Node("Fn", {"v"}, {"late"}).Output("late");
         l.p->Launch("st", "late", {"v@8"}, {"late@40"}).Out("late@40");
       },
       {"stale read", "launch late", "reads 'v' and must find 'v' of microbatch 0",
        "the bytes hold 'z' of microbatch 0"}},

      // --- Borders
      // --------------------------------------------------------------------------------
      {"value enters elsewhere",
       [](Loop& l) { l.p->slice("bv#1@8").offset_bytes = 12; },
       {"alias", "'bv' does not lie on the very bytes of 'v'"}},
      {"value leaves elsewhere",
       [](Loop& l) { l.p->slice("t#1@8").offset_bytes = 12; },
       {"alias", "'t' does not lie on the very bytes of 'bv'"}},
      {"the call's output elsewhere",
       [](Loop& l) { l.p->slice("z@8").offset_bytes = 12; },
       {"alias", "'bv' does not lie on the very bytes of 'z'"}},
      {"a capture elsewhere",
       [](Loop& l) { l.p->slice("bw#1@2").offset_bytes = 0; },
       {"alias", "'bw' does not lie on the very bytes of 'w'"}},

      // --- Structure
      // ------------------------------------------------------------------------------
      {"no place for what is carried",
       [](Loop& l) { l.call().bodies[0].outputs[1] = SliceId(); },
       {"body 'body' output 1 and what it meets must both have a slice"}},
      {"no condition of the body",
       [](Loop& l) { l.call().bodies[0].outputs[0] = SliceId(); },
       {"body 'body' output 0 and what it meets must both have a slice"}},
      {"no element for a stack",
       [](Loop& l) { l.call().bodies[0].outputs[2] = SliceId(); },
       {"body 'body' output 2 and what it meets must both have a slice"}},
      {"an input too few",
       [](Loop& l) { l.call().bodies[0].inputs.pop_back(); },
       {"body 'body' has 4 inputs, the instruction has 3"}},
      {"called as a branch",
       [](Loop& l) { l.call().flow = ControlFlow::kIf; },
       {"Loop 'z' is called as control flow 'if'"}},
      {"two bodies",
       [](Loop& l) { l.call().bodies.push_back(l.call().bodies[0]); },
       {"it has 2 bodies, expected 1"}},
      {"trip count of another type",
       [](Loop& l) {
         l.t.plan().graph.value(l.t.value("m")).type = {kU8, {8}};
       },
       {"its trip count 'm' is u8[8], not one i64"}},
      {"trip number of another type",
       [](Loop& l) {
         Graph& body = l.t.node("z").subgraphs[0].graph;
         body.value(body.inputs[0]).type = {kU8, {8}};
       },
       {"its number of the trip 'n' is u8[8], not one i64"}},
      {"elements of another type",
       [](Loop& l) {
         l.t.plan().graph.value(l.t.value("s")).type.shape = {2, 3};
       },
       {"'e' is u8[2], an element of 's' is u8[3]"}},
      {"more captures than inputs",
       [](Loop& l) { l.t.node("z").attrs.Set("num_captures", int64_t{3}); },
       {"'num_captures' is 3 where 2 inputs are left"}},
      {"captures of no number",
       [](Loop& l) { l.t.node("z").attrs.Set("num_captures", std::string("one")); },
       {"'num_captures' is not an integer"}},
      {"counted where the host does not reach",
       [](Loop& l) { l.p->program().device_kind = "cuda"; },
       {"space", "'m' in buffer 'arena' is the trip count, but lies in device memory"}},
  };
}

class LoopMutantTest : public ::testing::TestWithParam<LoopMutant> {};

TEST_P(LoopMutantTest, IsRefused) {
  Loop l;
  GetParam().mutate(l);
  const CheckReport report = l.t.Check();
  bool said = false;
  for (const PlanError& error : report.errors) {
    said |= std::ranges::all_of(GetParam().says, [&](const std::string& part) {
      return error.message.find(part) != std::string::npos;
    });
  }
  EXPECT_TRUE(said) << FormatReport(report);
}

INSTANTIATE_TEST_SUITE_P(All, LoopMutantTest, ::testing::ValuesIn(LoopMutants()),
                         [](const auto& info) {
                           std::string name;
                           for (char c : info.param.name) name += std::isalnum(c) ? c : '_';
                           return name;
                         });
void PrintTo(const LoopMutant& mutant, std::ostream* out) { *out << mutant.name; }

// What a trip leaves lying about is no value of the next trip, though it is called the same.
TEST(CheckLoop, ATripFindsNothingOfTheTripBefore) {
  Loop l;
  // The element is made from what the last trip's copy of 'bv' left.
  l.p->Segment("extra", 1).Copy("st", "bv#1@44", "bv#1@8");
  const Instruction copy = l.p->program().segments[2].instructions[0];
  l.p->program().segments.pop_back();
  std::get<Launch>(l.body()[1].body).inputs[0] = std::get<Copy>(copy.body).to;
  l.body().push_back(copy);
  EXPECT_THAT(Verdict(l.t), HasSubstr("reads 'bv' and must find 'bv' of the trip"));
  l.body().pop_back();
  l.body().insert(l.body().begin(), copy);
  EXPECT_EQ(Verdict(l.t), "");
}

TEST(CheckLoop, BodiesRaceLikeTheirCall) {
  for (const char* k : {"k2@12", "k2@40"}) {
    Loop l;
    l.t.Node("Fn", {"x"}, {"k2"}).Output("k2");
    l.p->Out(k).Launch("other", "k2", {"x@0"}, {k});
    if (std::string_view(k) == "k2@40") {
      EXPECT_EQ(Verdict(l.t), "");
    } else {
      EXPECT_THAT(Verdict(l.t),
                  StartsWith("race in program 'p' step buffer 'arena' bytes [12,14)"));
    }
  }
}

// Trips without a condition do not need the body's.
TEST(CheckLoop, CountedLoopsIgnoreTheCondition) {
  Loop l;
  l.t.node("z").inputs[1] = ValueId();
  l.call().inputs[1] = SliceId();
  EXPECT_EQ(Verdict(l.t), "");
  l.call().bodies[0].outputs[0] = SliceId();
  EXPECT_EQ(Verdict(l.t), "");
  l.t.node("z").inputs[0] = ValueId();
  l.call().inputs[0] = SliceId();
  EXPECT_THAT(Verdict(l.t), HasSubstr("has neither a condition nor a trip count"));
}

// --- Scan ----------------------------------------------------------------------------------------

// z, r = scan over q backwards: z = f(bz, be), r gets f(bz, be) too, along its last axis.
struct Scan {
  Scan() {
    GraphBuilder b("body");
    const ValueId v = b.Input("bz", {kU8, {2}}), e = b.Input("be", {kU8, {2}});
    b.Output(AddNode(b, "t", {v, e}, {kU8, {2}}));
    b.Output(AddNode(b, "o", {v, e}, {kU8, {2}}));

    t.Input("q", {3, 2}).Input("v").Node("Scan", {"v", "q"}, {"z", "r"});
    Node& node = t.node("z");
    node.attrs.Set("num_scan_inputs", int64_t{1});
    node.attrs.Set("scan_output_axes", std::vector<int64_t>{-1});
    node.subgraphs = {{"body", std::move(b).Build()}};
    t.plan().graph.value(t.value("r")).type.shape = {2, 3};
    t.Output("z").Output("r");
    p = &t.Program();
    p->Buffer("arena", 64).In("q@0").In("v@6").Out("z@8").Out("r@16");
    p->Segment("body", 1)
        .Launch("st", "t", {"bz#1@8", "be#1@10"}, {"t#1@12"})
        .Launch("st", "o", {"bz#1@8", "be#1@10"}, {"o#1@14"})
        .Copy("st", "t#1@8", "t#1@12");
    p->Segment("main").Copy("st", "v@8", "v@6");
    p->Call("st", "z", {"v@8", "q@0"}, {"z@8", "r@16"},
            {{"body", {"bz#1@8", "be#1@10"}, {"t#1@8", "o#1@14"}}});
  }
  TestPlan t;
  TestProgram* p;
};

TEST(CheckScan, IsRight) {
  Scan s;
  EXPECT_EQ(Verdict(s.t), "");
}

TEST(CheckScan, SequencesAreThereInEveryTrip) {
  Scan s;
  s.p->slice("t#1@12").offset_bytes = 4;
  EXPECT_THAT(Verdict(s.t), HasSubstr("reads 'q' and must find input 'q' of microbatch 0"));
}

TEST(CheckScan, ElementsAreWhatTheTripWasGiven) {
  Scan s;
  s.p->slice("o#1@14").offset_bytes = 10;
  EXPECT_EQ(Verdict(s.t).substr(0, 5), "alias");
  Scan late;
  late.p->slice("t#1@12").offset_bytes = 10;
  EXPECT_THAT(Verdict(late.t), HasSubstr("be"));
}

TEST(CheckScan, AllSequencesAndStacksAreOfOneLength) {
  Scan s;
  s.t.plan().graph.value(s.t.value("r")).type.shape = {2, 4};
  s.p->slice("r@16").size_bytes = 8;
  EXPECT_THAT(Verdict(s.t), HasSubstr("'r' has 4 elements for 3 trips"));
}

TEST(CheckScan, AxesExist) {
  Scan s;
  s.t.node("z").attrs.Set("scan_output_axes", std::vector<int64_t>{2});
  EXPECT_THAT(Verdict(s.t), HasSubstr("'r' has no axis 2"));
  s.t.node("z").attrs.Set("scan_output_axes", std::vector<int64_t>{1, 1});
  EXPECT_THAT(Verdict(s.t), HasSubstr("'scan_output_axes' has 2 entries, expected 1"));
  s.t.node("z").attrs.Set("scan_output_axes", int64_t{1});
  EXPECT_THAT(Verdict(s.t), HasSubstr("'scan_output_axes' is not a list of integers"));
}

}  // namespace
}  // namespace millrace
