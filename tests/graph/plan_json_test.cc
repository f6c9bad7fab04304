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
#include "tests/graph/sample_plan.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(PlanJson, CallsSayWhichControlFlowTheyAreUnlessItIsIf) {
  PlanBundle plan = SamplePlan();
  EXPECT_EQ(PlanToJson(plan).find("\"flow\""), std::string::npos);
  Call& call = std::get<Call>(plan.programs[0].segments[0].instructions[5].body);
  call.flow = ControlFlow::kScan;
  const PlanBundle loaded = Reload(plan);
  EXPECT_EQ(std::get<Call>(loaded.programs[0].segments[0].instructions[5].body).flow,
            ControlFlow::kScan);

  const std::string json = Replaced(PlanToJson(plan), "\"flow\": \"scan\"", "\"flow\": \"goto\"");
  const absl::Status status = ParsePlanJson(json, "p.json").status();
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_NE(std::string(status.message()).find("unknown control flow"), std::string::npos);
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
  const TemporaryFolder folder;
  const std::string path = folder.File("plan.json");
  ASSERT_TRUE(SavePlan(SamplePlan(), path).ok());
  const absl::StatusOr<PlanBundle> loaded = LoadPlan(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(PlanToJson(*loaded), PlanToJson(SamplePlan()));
  EXPECT_EQ(loaded->graph.directory, folder.path());
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
      {"\"data=2,tensor=4\"", "\"data=2,mb=4\"", "/mesh", "'mb'"},
      {"\"data=2,tensor=4\"", "\"data=2,tensor=4000000000\"", "/mesh", "4000000000"},
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
       "key \"slice\" is missing"},
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

Slice SampleSlice(const ValueRef& value, int64_t offset_bytes) {
  return {value, BufferId(0), offset_bytes, 16, Layout::kStrided, {}};
}

// A chain of launches, each with a slice of its own.
PlanBundle LongPlan(int launches) {
  const TensorType kVector = {DType::kF32, {4}};
  PlanBundle plan;
  GraphBuilder b("chain");
  ValueId value = b.Input("x", kVector);
  Program p;
  p.name = "stage0";
  p.device_kind = "cpu";
  p.buffers = {{"arena", MemorySpace::kDevice, int64_t{64} * (launches + 1)}};
  p.streams = {{"main", StreamKind::kCompute, 1, 0}};
  p.slices.push_back(SampleSlice({0, value}, 0));
  p.segments = {{"forward", 0, {}}};
  for (int i = 0; i < launches; ++i) {
    value = b.Op("Relu", {value}, {}, StrCat("layer", i, "/relu"));
    b.graph().value(value).type = kVector;
    b.graph().value(value).typed = true;
    p.slices.push_back(SampleSlice({0, value}, int64_t{64} * (i + 1)));
    p.segments[0].instructions.push_back(
        {StreamId(0), Launch{NodeId(i), 0, "reference", {SliceId(i)}, {SliceId(i + 1)}, {}}});
  }
  b.Output(value);
  plan.graph = std::move(b).Build();
  p.step = {{SegmentId(0), 0}};
  plan.programs.push_back(std::move(p));
  return plan;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kManyLaunches = 5000;
#else
constexpr int kManyLaunches = 100000;
#endif

TEST(PlanJson, ManyLaunchesSaveAndLoadQuickly) {
  using Clock = std::chrono::steady_clock;
  const PlanBundle plan = LongPlan(kManyLaunches);
  const auto start = Clock::now();
  const std::string json = PlanToJson(plan);
  const auto saved = Clock::now();
  const absl::StatusOr<PlanBundle> loaded = ParsePlanJson(json, "p.json");
  const auto end = Clock::now();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->programs[0].segments[0].instructions.size(),
            static_cast<size_t>(kManyLaunches));
  const auto ms = [](Clock::duration d) {
    return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
  };
  std::printf("%d launches: %zu bytes, saved in %d ms, loaded in %d ms\n", kManyLaunches,
              json.size(), ms(saved - start), ms(end - saved));
  // Room for busy machines; what is quadratic takes minutes.
  EXPECT_LT(ms(end - start), 30000);
}

}  // namespace
}  // namespace millrace
