#include "graph/plan_json.h"

#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/builder.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const TensorType kVector = {DType::kF32, {4}};

void SetType(Graph& graph, ValueId value, const TensorType& type) {
  graph.value(value).type = type;
  graph.value(value).typed = true;
}

Graph Branch(const std::string& prefix, std::string_view op) {
  GraphBuilder b(prefix);
  const ValueId x = b.Input(prefix + "_x", kVector);
  const ValueId y = b.Op(op, {x}, {}, prefix + "_y");
  SetType(b.graph(), y, kVector);
  b.Output(y);
  return std::move(b).Build();
}

// Nodes of every kind of instruction. Params are declared after results, so that a graph file's own
// order of values is another.
Graph SampleGraph() {
  GraphBuilder b("sample");
  const ValueId x = b.Input("x", kVector);
  const ValueId c = b.Input("c", {DType::kBool, {}});
  const ValueId h = b.Op("Relu", {x}, {}, "h");
  const ValueId w = b.Param("w", kVector, InitData({}));
  const ValueId mm = b.AddNode("Clip", {h, ValueId(), w}, {}, "mm").outputs[0];
  Node& branch = b.AddNode("If", {c, mm}, {}, "z");
  branch.subgraphs.push_back({"then_branch", Branch("t", "Tanh")});
  branch.subgraphs.push_back({"else_branch", Branch("e", "Neg")});
  const ValueId z = branch.outputs[0];
  const ValueId s = b.Op("comm.AllReduce", {z}, {}, "s");
  const ValueId n = b.Op("NonZero", {s}, {}, "n");
  b.AddNode("comm.Publish", {s}, {}, "pub", 0);
  const ValueId latest = b.Op("comm.TakeLatest", {}, {}, "latest");
  for (const ValueId v : {h, mm, z, s, latest}) SetType(b.graph(), v, kVector);
  SetType(b.graph(), n, {DType::kI64, {1, 4}});
  b.graph().value(n).bounded = true;
  b.Output(n);
  b.AddUpdate(w, latest);
  return std::move(b).Build();
}

LinearExpr Expr(int64_t base, const LinearTerm& term) {
  LinearExpr e(base);
  e.terms.push_back(term);
  return e;
}

Slice Place(const ValueRef& value, BufferId buffer, LinearExpr offset_bytes, int64_t size_bytes,
            Layout layout = Layout::kStrided, std::vector<int64_t> strides = {}) {
  return {value, buffer, std::move(offset_bytes), size_bytes, layout, std::move(strides)};
}

// Two programs that say everything a plan can say. Not a right plan: nothing here runs it.
PlanBundle SamplePlan() {
  PlanBundle plan;
  plan.name = "sample";
  plan.machine = "two \"boxes\"";
  plan.microbatches = 3;
  plan.mesh.axes = {{"data", 2}, {"tensor", 4}};
  plan.graph = SampleGraph();
  const auto value = [&](std::string_view name) {
    for (size_t i = 0; i < plan.graph.values.size(); ++i) {
      if (plan.graph.values[i].name == name) return ValueId(i);
    }
    return ValueId();
  };
  const auto node = [&](std::string_view name) { return plan.graph.value(value(name)).producer; };

  Program p;
  p.name = "stage0";
  p.device_kind = "cuda";
  p.device_index = Expr(0, {.variable = 0, .scale = 4});
  p.buffers = {{"arena", MemorySpace::kDevice, 4096},
               {"pinned", MemorySpace::kHost, 256},
               {"swap", MemorySpace::kFile, 128}};
  p.streams = {{"main", StreamKind::kCompute, 4, 0},
               {"copy", StreamKind::kCopy, 1, -1},
               {"comm", StreamKind::kComm, 1, 2}};
  p.events = {"ready", "done"};
  const BufferId arena(0), pinned(1), swap(2);
  p.slices = {
      /*0*/ Place({0, value("x")}, arena, Expr(0, {.variable = kMicrobatchVar, .scale = 64}), 16),
      /*1*/
      Place({0, value("h")}, arena,
            Expr(256, {.variable = kMicrobatchVar, .scale = 64, .add = 1, .modulus = 2}), 16),
      /*2*/ Place({0, value("w")}, arena, 512, 16),
      /*3*/
      Place({0, value("mm")}, arena, Expr(576, {.variable = 1, .scale = -64}), 28, Layout::kStrided,
            {2}),
      /*4*/ Place({0, value("mm")}, swap, 0, 64, Layout::kPacked),
      /*5*/ Place({}, arena, 1024, 64),
      /*6*/ Place({0, value("c")}, pinned, 0, 1),
      /*7*/ Place({0, value("z")}, arena, 1088, 16),
      /*8*/ Place({0, value("s")}, arena, 1152, 16),
      /*9*/ Place({0, value("n")}, pinned, 64, 32),
      /*10*/ Place({0, value("latest")}, arena, 1216, 16),
      /*11*/ Place({1, ValueId(0)}, arena, 576, 16),
      /*12*/ Place({1, ValueId(1)}, arena, 1088, 16),
      /*13*/ Place({2, ValueId(0)}, arena, 576, 16),
      /*14*/ Place({2, ValueId(1)}, arena, 1088, 16),
  };
  const StreamId main(0), copy(1), comm(2);
  const auto id = [](int i) { return SliceId(i); };
  p.segments = {
      {"forward",
       0,
       {
           {main, Launch{node("h"), 0, "reference", {id(0)}, {id(1)}, {}}},
           {main, Launch{node("mm"), 0, "onednn.jit:avx2", {id(1), {}, id(2)}, {id(3)}, id(5)}},
           {main, Record{EventId(0)}},
           {copy, Wait{EventId(0)}},
           {copy, Copy{id(3), id(4)}},
           {main, Call{node("z"),
                       0,
                       {id(6), id(3)},
                       {id(7)},
                       {{SegmentId(1), {id(11)}, {id(12)}}, {SegmentId(2), {id(13)}, {id(14)}}}}},
           {comm, Collective{node("s"), {id(7)}, {id(8)}, id(5)}},
           {comm, Send{id(8), {ProgramId(1), {}}, 7}},
           {comm,
            Recv{
                id(8), {ProgramId(0), {{1, Expr(0, {.variable = 1, .add = 3, .modulus = 4})}}}, 8}},
           {main, HostCall{node("n"), 0, {id(8)}, {id(9)}}},
           {comm, Publish{NodeId(5), "grads", id(8)}},
           {comm, TakeLatest{node("latest"), "grads", id(10)}},
       }},
      {"then", 1, {{main, Launch{NodeId(0), 1, "reference", {id(11)}, {id(12)}, {}}}}},
      {"else", 2, {{main, Launch{NodeId(0), 2, "reference", {id(13)}, {id(14)}, {}}}}},
      {"empty", 0, {}},
  };
  p.init = {{SegmentId(3), 0}};
  p.step = {{SegmentId(0), 0}, {SegmentId(0), 1}, {SegmentId(0), 2}};
  p.finish = {{SegmentId(3), 1}};
  p.loads = {{value("w"), id(2)}};
  p.inputs = {{value("x"), id(0)}, {value("c"), id(6)}};
  p.outputs = {{value("n"), id(9)}};
  plan.programs.push_back(std::move(p));

  Program q;
  q.name = "stage1";
  q.device_kind = "cpu";
  plan.programs.push_back(std::move(q));
  return plan;
}

PlanBundle Reload(const PlanBundle& plan) {
  absl::StatusOr<PlanBundle> loaded = ParsePlanJson(PlanToJson(plan), "p.json");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : PlanBundle();
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(PlanJson, SavingALoadedPlanGivesTheSameBytes) {
  const std::string json = PlanToJson(SamplePlan());
  const absl::StatusOr<PlanBundle> loaded = ParsePlanJson(json, "p.json");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(PlanToJson(*loaded), json);
}

TEST(PlanJson, LoadingKeepsAllThatThePlanSays) {
  const PlanBundle plan = SamplePlan();
  const PlanBundle loaded = Reload(plan);

  // The readable form shows every field by name.
  EXPECT_EQ(ToText(loaded), ToText(plan));
  ASSERT_EQ(loaded.programs.size(), 2u);
  const Program& p = loaded.programs[0];
  EXPECT_EQ(loaded.microbatches, 3);
  EXPECT_EQ(loaded.mesh, plan.mesh);
  EXPECT_EQ(p.device_index, plan.programs[0].device_index);
  EXPECT_EQ(p.slices[1].offset_bytes, plan.programs[0].slices[1].offset_bytes);
  EXPECT_EQ(p.slices[3].strides, std::vector<int64_t>{2});
  EXPECT_EQ(p.slices[4].layout, Layout::kPacked);
  EXPECT_FALSE(p.slices[5].value.value.valid());
  EXPECT_EQ(p.streams[1].priority, -1);
  EXPECT_EQ(p.finish, plan.programs[0].finish);

  const auto& mm = std::get<Launch>(p.segments[0].instructions[1].body);
  EXPECT_EQ(mm.variant, "onednn.jit:avx2");
  EXPECT_EQ(mm.inputs, (std::vector<SliceId>{SliceId(1), SliceId(), SliceId(2)}));
  EXPECT_EQ(mm.scratch, SliceId(5));
  const auto& recv = std::get<Recv>(p.segments[0].instructions[8].body);
  EXPECT_EQ(recv.from, std::get<Recv>(plan.programs[0].segments[0].instructions[8].body).from);
  EXPECT_EQ(recv.channel, 8);
  EXPECT_EQ(std::get<Launch>(p.segments[2].instructions[0].body).graph, 2);
}

// The graph part lists params before results, whatever the order of ids was.
TEST(PlanJson, ReferencesFollowTheGraphWhenItsValuesAreReordered) {
  const PlanBundle plan = SamplePlan();
  const PlanBundle loaded = Reload(plan);
  for (size_t i = 0; i < plan.programs[0].slices.size(); ++i) {
    const ValueRef &a = plan.programs[0].slices[i].value, &b = loaded.programs[0].slices[i].value;
    if (!a.value.valid()) continue;
    EXPECT_EQ(FlattenGraphs(plan.graph)[a.graph]->value(a.value).name,
              FlattenGraphs(loaded.graph)[b.graph]->value(b.value).name);
  }
  EXPECT_TRUE(loaded.graph.value(loaded.programs[0].outputs[0].value).bounded);
}

TEST(PlanJson, HasALineForEachSliceInstructionAndScheduleItem) {
  const std::string json = PlanToJson(SamplePlan());
  for (const char* line :
       {"\n    {\"value\": \"h\", \"buffer\": \"arena\", \"offset\": \"256+64*((mb+1)%2)\", "
        "\"size\": 16},\n",
        "\n    {\"buffer\": \"arena\", \"offset\": 1024, \"size\": 64},\n",
        "\n     {\"stream\": \"main\", \"do\": \"launch\", \"node\": \"mm\", "
        "\"variant\": \"onednn.jit:avx2\", \"in\": [1, null, 2], \"out\": [3], \"scratch\": 5},\n",
        "\n     {\"stream\": \"copy\", \"do\": \"wait\", \"event\": \"ready\"},\n",
        "\n     {\"stream\": \"comm\", \"do\": \"recv\", \"slice\": 8, \"peer\": \"stage0\", "
        "\"at\": [[\"tensor\", \"((tensor+3)%4)\"]], \"channel\": 8},\n",
        "\n    [\"forward\", 1],\n"}) {
    EXPECT_THAT(json, HasSubstr(line));
  }
}

TEST(PlanJson, NamesThatAreNotUniqueAreReferredToByIndex) {
  PlanBundle plan = SamplePlan();
  plan.programs[0].events = {"e", "e"};
  std::get<Record>(plan.programs[0].segments[0].instructions[2].body).event = EventId(1);
  EXPECT_THAT(PlanToJson(plan), HasSubstr("\"do\": \"record\", \"event\": 1}"));
  const PlanBundle loaded = Reload(plan);
  EXPECT_EQ(std::get<Record>(loaded.programs[0].segments[0].instructions[2].body).event,
            EventId(1));
  EXPECT_EQ(PlanToJson(loaded), PlanToJson(plan));
}

TEST(PlanJson, ExtensionKeysArePassedOver) {
  const std::string json =
      Replaced(PlanToJson(SamplePlan()), "\"do\": \"wait\"", "\"x-note\": [1], \"do\": \"wait\"");
  EXPECT_TRUE(ParsePlanJson(json, "p.json").ok());
}

TEST(PlanJson, FilesLoadAsTheyWereSaved) {
  const std::string path = ::testing::TempDir() + "/plan_json_test.json";
  ASSERT_TRUE(SavePlan(SamplePlan(), path).ok());
  const absl::StatusOr<PlanBundle> loaded = LoadPlan(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(PlanToJson(*loaded), PlanToJson(SamplePlan()));
  EXPECT_EQ(loaded->graph.directory + "/plan_json_test.json", path);
  EXPECT_EQ(LoadPlan(path + ".none").status().code(), MissingFileError("").code());
}

TEST(ContentHash, IsThatOfTheFileAndChangesWithEachPart) {
  const PlanBundle plan = SamplePlan();
  EXPECT_EQ(ContentHash(plan), Sha256Hex(PlanToJson(plan)));
  EXPECT_EQ(ContentHash(plan), ContentHash(Reload(plan)));
  std::vector<PlanBundle> changed(5, plan);
  changed[0].programs[0].slices[2].offset_bytes.base += 64;
  changed[1].programs[0].segments[0].instructions[0].stream = StreamId(2);
  changed[2].programs[0].step.pop_back();
  changed[3].graph.nodes[0].op = "Tanh";
  changed[4].microbatches = 4;
  for (const PlanBundle& other : changed) EXPECT_NE(ContentHash(other), ContentHash(plan));
}

// --- Wrong files --------------------------------------------------------------------------------

struct BadFile {
  const char *from, *to;  // the first `from` of the sample's file becomes `to`
  const char* pointer;
  const char* message;
};

TEST(PlanJson, ErrorsNameThePlaceAndWhatWasExpected) {
  const BadFile kFiles[] = {
      {"\"millrace-plan\"", "\"millrace-graph\"", "/format", "millrace-plan"},
      {"\"version\": \"1.0\"", "\"version\": \"2.0\"", "/version", "2.0"},
      {"\"microbatches\": 3", "\"microbatches\": 0", "/microbatches", "0"},
      {"\"microbatches\"", "\"microbatch\"", "", "microbatches"},
      {"{\"axis\": \"data\", \"size\": 2}", "{\"axis\": \"mb\", \"size\": 2}", "/mesh/0", "mb"},
      {"\"size\": 4}\n]", "\"size\": 4000000000}\n]", "/mesh/1/size", "4000000000"},
      {"\"device_kind\": \"cuda\"", "\"device_kind\": \"\"", "/programs/0/device_kind", "empty"},
      {"\"space\": \"host\"", "\"space\": \"hosst\"", "/programs/0/buffers/1/space",
       "did you mean 'host'?"},
      {"\"buffer\": \"swap\"", "\"buffer\": \"swop\"", "/programs/0/slices/4/buffer",
       "no buffer is named 'swop'"},
      {"\"buffer\": \"swap\"", "\"buffer\": 3", "/programs/0/slices/4/buffer", "3"},
      {"\"value\": \"w\"", "\"value\": \"ww\"", "/programs/0/slices/2/value",
       "no value is named 'ww'"},
      {"\"value\": \"w\"", "\"value\": 3", "/programs/0/slices/2/value", "by its name"},
      {"\"graph\": 1, \"buffer\"", "\"graph\": 3, \"buffer\"", "/programs/0/slices/11/graph", "3"},
      {"256+64*((mb+1)%2)", "256+64*((mc+1)%2)", "/programs/0/slices/1/offset", "mc"},
      {"\"size\": 28", "\"size\": 28.5", "/programs/0/slices/3/size", "28.5"},
      {"\"layout\": \"packed\"", "\"layout\": \"boxed\"", "/programs/0/slices/4/layout",
       "strided, nhwc"},
      {"\"kind\": \"copy\"", "\"kind\": \"copi\"", "/programs/0/streams/1/kind", "copy"},
      {"\"stream\": \"copy\"", "\"stream\": \"kopy\"", "/instructions/3/stream",
       "no stream is named 'kopy'; did you mean 'copy'?"},
      {"\"do\": \"wait\"", "\"do\": \"weit\"", "/instructions/3/do", "did you mean 'wait'?"},
      {"\"do\": \"wait\"", "\"do\": 3", "/instructions/3/do", "string"},
      {"\"do\": \"wait\", \"event\"", "\"do\": \"wait\", \"slice\": 1, \"event\"",
       "/instructions/3/slice", "a wait has no 'slice'"},
      {"\"do\": \"wait\", \"event\"", "\"do\": \"wait\", \"evnt\"", "/instructions/3", "evnt"},
      {"\"event\": \"ready\"", "\"event\": \"redy\"", "/instructions/2/event",
       "no event is named 'redy'; did you mean 'ready'?"},
      {"\"event\": \"ready\"", "\"event\": -1", "/instructions/2/event", "-1"},
      {"\"node\": \"mm\"", "\"node\": \"m\"", "/instructions/1/node", "no node is named 'm'"},
      {"\"node\": \"mm\"", "\"node\": null", "/instructions/1/node", "by its name"},
      {"\"in\": [1, null, 2]", "\"in\": [1, null, 15]", "/instructions/1/in/2", "15"},
      {"\"in\": [1, null, 2]", "\"in\": 1", "/instructions/1/in", "array"},
      {"\"scratch\": 5", "\"scratch\": \"5\"", "/instructions/1/scratch", "\"5\""},
      {"\"peer\": \"stage1\"", "\"peer\": \"stage2\"", "/instructions/7/peer",
       "no program is named 'stage2'"},
      {"[[\"tensor\", ", "[[\"tenser\", ", "/instructions/8/at/0/0", "axis"},
      {"\"channel\": 7", "\"channel\": 4000000000", "/instructions/7/channel", "4000000000"},
      {"\"segment\": \"then\"", "\"segment\": \"than\"", "/bodies/0/segment", "'then'"},
      {"[\"forward\", 2]", "[\"forward\", 3]", "/programs/0/step/2/1", "3"},
      {"[\"forward\", 2]", "[\"forward\"]", "/programs/0/step/2", "[segment, microbatch]"},
      {"{\"value\": \"n\", \"slice\": 9}", "{\"value\": \"n\", \"slice\": 99}",
       "/programs/0/outputs/0/slice", "99"},
      {"{\"value\": \"n\", \"slice\": 9}", "{\"value\": \"n\"}", "/programs/0/outputs/0",
       "'slice' is missing"},
      {"\"name\": \"forward\"", "\"name\": \"then\"", "/step/0/0", "forward"},
  };
  const std::string json = PlanToJson(SamplePlan());
  for (const BadFile& bad : kFiles) {
    SCOPED_TRACE(StrCat(bad.from, " -> ", bad.to));
    const absl::Status status = ParsePlanJson(Replaced(json, bad.from, bad.to), "p.json").status();
    EXPECT_EQ(status.code(), BadInputError("").code()) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("p.json:"), HasSubstr(bad.pointer), HasSubstr(bad.message)));
  }
}

TEST(PlanJson, AllErrorsAreReportedAtOnce) {
  std::string json = Replaced(PlanToJson(SamplePlan()), "\"do\": \"wait\"", "\"do\": \"weit\"");
  json = Replaced(json, "\"node\": \"mm\"", "\"node\": \"m\"");
  const absl::Status status = ParsePlanJson(json, "p.json").status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("weit"), HasSubstr("'m'")));
}

TEST(PlanJson, IdsThatReferToNothingAreSavedAsNumbersAndRefused) {
  PlanBundle plan = SamplePlan();
  plan.programs[0].segments[0].instructions[0].stream = StreamId(77);
  std::get<Launch>(plan.programs[0].segments[0].instructions[1].body).node = NodeId(-5);
  plan.programs[0].slices[2].value.value = ValueId(1234);
  const std::string json = PlanToJson(plan);
  EXPECT_THAT(json, AllOf(HasSubstr("\"stream\": 77"), HasSubstr("\"node\": -5"),
                          HasSubstr("\"value\": 1234")));
  const absl::Status status = ParsePlanJson(json, "p.json").status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/instructions/0/stream"), HasSubstr("/instructions/1/node"),
                    HasSubstr("/slices/2/value")));
}

// Whatever happens to its bytes, reading a file gives a plan or an error.
TEST(PlanJson, DamagedFilesNeverCrash) {
  const std::string json = PlanToJson(SamplePlan());
  std::mt19937 random(1);
  int loaded = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = json;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged[at] = "0123456789-[]{}\",:"[random() % 18];
          break;
        case 2:
          damaged.erase(at, 1 + random() % 40);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 40));
      }
    }
    const absl::StatusOr<PlanBundle> plan = ParsePlanJson(std::move(damaged), "p.json");
    if (!plan.ok()) {
      ASSERT_EQ(plan.status().code(), BadInputError("").code()) << plan.status();
      continue;
    }
    ++loaded;
    ASSERT_TRUE(ParsePlanJson(PlanToJson(*plan), "p.json").ok());
    ToText(*plan);
  }
  EXPECT_GT(loaded, 0);  // some edits change a number or a name
}

// --- Text ---------------------------------------------------------------------------------------

TEST(DescribeInstruction, NamesNodeOperandsAndBytes) {
  const PlanBundle plan = SamplePlan();
  const std::vector<std::string> expected = {
      "launch h (reference) h@arena[256+64*((mb+1)%2),+16) <- x@arena[64*mb,+16)",
      "launch mm (onednn.jit:avx2) mm@arena[576+-64*tensor,+28) <- h@arena[256+64*((mb+1)%2),+16), "
      "_, w@arena[512,528) scratch scratch@arena[1024,1088)",
      "record ready",
      "wait ready",
      "copy mm@swap[0,64) <- mm@arena[576+-64*tensor,+28)",
      "call z z@arena[1088,1104) <- c@pinned[0,1), mm@arena[576+-64*tensor,+28) "
      "{then: t_y#1@arena[1088,1104) <- t_x#1@arena[576,592)} "
      "{else: e_y#2@arena[1088,1104) <- e_x#2@arena[576,592)}",
      "collective s s@arena[1152,1168) <- z@arena[1088,1104) scratch scratch@arena[1024,1088)",
      "send s@arena[1152,1168) -> stage1 channel 7",
      "recv s@arena[1152,1168) <- stage0 tensor=((tensor+3)%4) channel 8",
      "hostcall n n@pinned[64,96) <- s@arena[1152,1168)",
      "publish pub mailbox \"grads\" <- s@arena[1152,1168)",
      "takelatest latest latest@arena[1216,1232) <- mailbox \"grads\"",
  };
  const Segment& forward = plan.programs[0].segments[0];
  ASSERT_EQ(forward.instructions.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(DescribeInstruction(plan, plan.programs[0], forward.instructions[i]), expected[i]);
  }
}

TEST(DescribeInstruction, TakesIdsThatReferToNothing) {
  PlanBundle plan = SamplePlan();
  Program& p = plan.programs[0];
  const auto describe = [&](InstructionBody body) {
    return DescribeInstruction(plan, p, {StreamId(0), std::move(body)});
  };
  EXPECT_EQ(describe(Launch{NodeId(99), 0, "v", {SliceId(50)}, {}, {}}),
            "launch <node 99?> (v)  <- <slice 50?>");
  EXPECT_EQ(describe(Launch{NodeId(0), 9, "v", {}, {}, {}}), "launch <graph 9?> (v)  <- ");
  EXPECT_EQ(describe(Wait{EventId(-1)}), "wait <event -1?>");
  EXPECT_EQ(describe(Send{SliceId(), {ProgramId(5), {{7, 1}}}, 0}),
            "send _ -> <program 5?> <axis 7?>=1 channel 0");
  p.slices[2].buffer = BufferId(9);
  p.slices[2].value.value = ValueId(500);
  p.slices[2].offset_bytes = INT64_MAX;
  EXPECT_THAT(describe(Copy{SliceId(2), SliceId(2)}), HasSubstr("<value 500?>@<buffer 9?>["));
}

TEST(PlanToText, ListsEverythingAlignedWithNames) {
  const std::string text = ToText(SamplePlan());
  for (const char* part : {
           "plan \"sample\" for machine \"two \"boxes\"\", microbatches 3, mesh data=2,tensor=4\n",
           "program stage0 on cuda:4*data\n"
           "  buffer  arena   device  4096 bytes\n"
           "  buffer  pinned  host    256 bytes\n"
           "  buffer  swap    file    128 bytes\n",
           "  slice 3   mm       arena[576+-64*tensor,+28)     strides [2]\n",
           "  slice 5   scratch  arena[1024,1088)\n",
           "  slice 11  t_x#1    arena[576,592)\n",
           "  stream  main  compute  threads 4  priority 0\n",
           "  load    w  w@arena[512,528)\n",
           "  segment forward\n",
           "  segment then of graph 1\n",
           "    #2   main  record ready\n",
           "  step: forward(0) forward(1) forward(2)\n",
           "\ngraph sample\ninput x : f32[4]\n",
       }) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr(" \n")));
}

// --- Size ---------------------------------------------------------------------------------------

// A chain of launches, each with a slice of its own.
PlanBundle LongPlan(int launches) {
  PlanBundle plan;
  GraphBuilder b("chain");
  ValueId value = b.Input("x", kVector);
  Program p;
  p.name = "stage0";
  p.device_kind = "cpu";
  p.buffers = {{"arena", MemorySpace::kDevice, int64_t{64} * (launches + 1)}};
  p.streams = {{"main", StreamKind::kCompute, 1, 0}};
  p.slices.push_back(Place({0, value}, BufferId(0), 0, 16));
  p.segments = {{"forward", 0, {}}};
  for (int i = 0; i < launches; ++i) {
    value = b.Op("Relu", {value}, {}, StrCat("layer", i, "/relu"));
    SetType(b.graph(), value, kVector);
    p.slices.push_back(Place({0, value}, BufferId(0), int64_t{64} * (i + 1), 16));
    p.segments[0].instructions.push_back(
        {StreamId(0), Launch{NodeId(i), 0, "reference", {SliceId(i)}, {SliceId(i + 1)}, {}}});
  }
  b.Output(value);
  plan.graph = std::move(b).Build();
  p.step = {{SegmentId(0), 0}};
  plan.programs.push_back(std::move(p));
  return plan;
}

TEST(PlanJson, AHundredThousandLaunchesSaveAndLoadQuickly) {
  using Clock = std::chrono::steady_clock;
  const PlanBundle plan = LongPlan(100000);
  const auto start = Clock::now();
  const std::string json = PlanToJson(plan);
  const auto saved = Clock::now();
  const absl::StatusOr<PlanBundle> loaded = ParsePlanJson(json, "p.json");
  const auto end = Clock::now();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->programs[0].segments[0].instructions.size(), 100000u);
  const auto ms = [](Clock::duration d) {
    return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
  };
  std::printf("100,000 launches: %zu bytes, saved in %d ms, loaded in %d ms\n", json.size(),
              ms(saved - start), ms(end - saved));
  // Room for sanitizers and busy machines; what is quadratic takes minutes.
  EXPECT_LT(ms(end - start), 30000);
}

}  // namespace
}  // namespace millrace
