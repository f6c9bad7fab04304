// The JSON schemas and the loaders must agree. The schemas are run by Python's jsonschema package;
// without it these tests are skipped.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "graph/cost_table.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/json_document.h"
#include "graph/json_text.h"
#include "graph/machine.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "tests/graph/json_values.h"
#include "tests/graph/sample_plan.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

constexpr char kSchemas[] = MILLRACE_SOURCE_DIR "/graph/schema/";

std::string ExampleGraph() { return *ReadFile(StrCat(kSchemas, "example.graph.json")); }

constexpr char kMachine[] = R"({
  "format": "millrace-machine", "version": "1.0", "name": "two nodes",
  "devices": [
    {"name": "gpu", "kind": "cuda", "memory_bytes": 80000000000, "memory_bandwidth": 3e12,
     "peak_flops": {"f32": 6.7e13, "bf16": 9e14}, "launch_overhead_us": 2, "copy_engines": 2},
    {"name": "host", "kind": "cpu", "memory_bytes": 64000000000, "memory_bandwidth": 2e11,
     "peak_flops": {"f32": 1e12}, "threads": 16}],
  "nodes": [{"count": 2, "devices": [{"name": "gpu", "count": 8}, {"name": "host"}],
     "host_memory_bytes": 512000000000, "host_memory_bandwidth": 2e11,
     "host_link": {"bandwidth": 5e10, "latency_us": 5},
     "peer_link": {"bandwidth": 4e11, "latency_us": 2, "full_duplex": true}}],
  "network": {"bandwidth": 5e10, "latency_us": 4.5}, "file_bandwidth": 0
})";

constexpr char kCosts[] = R"json({
  "format": "millrace-costs", "version": "1.0", "machine": "host",
  "devices": [
    {"name": "core",
     "rates": [{"family": "simd", "class": "reduction", "threads": 2, "compute": 0.5,
                "memory": 0.75, "overhead_us": 1.5, "samples": 9, "median_error": 0.125}],
     "kernels": [{"query": "Relu{}(f32[8],)->(f32[8],)", "variant": "simd", "threads": 1,
                  "time_us": 0.25, "flops": 8, "bytes": 64}]},
    {"name": "gpu"}]
})json";

// An instruction of each kind; names are short, since every value is replaced by many others.
constexpr char kPlan[] = R"json({
  "format": "millrace-plan", "version": "1.0", "name": "p", "machine": "m", "microbatches": 2,
  "mesh": "data=2",
  "graph": {"format": "millrace-graph", "version": "1.0", "outputs": ["y"],
    "inputs": [{"name": "x", "type": {"dtype": "f32", "shape": [4]}}],
    "nodes": [{"name": "n", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}]},
  "programs": [{"name": "p0", "device_kind": "cpu", "device_index": "data",
    "buffers": [{"name": "b", "space": "host", "size": 64}],
    "slices": [{"value": "x", "graph": 0, "buffer": "b", "offset": "16*(mb%2)", "size": 16,
                "layout": "strided", "strides": [1]},
               {"buffer": 0, "offset": 32, "size": 16}],
    "streams": [{"name": "s", "kind": "compute", "threads": 1, "priority": -1}],
    "events": ["e"],
    "segments": [{"name": "g", "graph": 0, "instructions": [
      {"stream": "s", "do": "launch", "node": "n", "graph": 0, "variant": "v", "in": [0, null],
       "out": [1], "scratch": 1},
      {"stream": 0, "do": "copy", "from": 0, "to": 1},
      {"stream": "s", "do": "collective", "node": "n", "in": [0], "out": [1], "scratch": 1},
      {"stream": "s", "do": "send", "slice": 0, "peer": "p0", "at": [["data", "(data+1)"]],
       "channel": 0},
      {"stream": "s", "do": "recv", "slice": 0, "peer": 0, "channel": 0},
      {"stream": "s", "do": "record", "event": "e"},
      {"stream": "s", "do": "wait", "event": 0},
      {"stream": "s", "do": "call", "node": "n", "in": [0], "out": [1],
       "bodies": [{"segment": "g", "in": [0], "out": [1]}]},
      {"stream": "s", "do": "hostcall", "node": "n", "in": [0], "out": [1]},
      {"stream": "s", "do": "publish", "node": "n", "mailbox": "m", "slice": 0},
      {"stream": "s", "do": "takelatest", "node": "n", "mailbox": "m", "slice": 0}]}],
    "init": [["g", 0]], "step": [[0, 1]], "finish": [],
    "loads": [], "inputs": [{"value": "x", "slice": 0}], "outputs": []}]
})json";

// What the schema says of each document; empty, with the test skipped, when it cannot be asked.
std::vector<bool> SchemaVerdicts(std::string_view schema,
                                 const std::vector<std::string>& documents) {
  std::string lines;
  for (const std::string& document : documents) StrAppend(&lines, JsonString(document), "\n");
  const TemporaryFolder folder;
  const std::string path = folder.File("documents.jsonl");
  EXPECT_TRUE(WriteFileAtomically(path, lines).ok());
  const std::string command =
      StrCat("python3 '", MILLRACE_SOURCE_DIR, "/tests/graph/schema_verdicts.py' '", kSchemas,
             schema, "' '", path, "'");
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (pipe != nullptr && fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  const int status = pipe == nullptr ? -1 : pclose(pipe);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 3 || code == 127) return {};
  EXPECT_EQ(code, 0) << command;
  std::vector<bool> verdicts;
  for (const char c : output) {
    if (c == '0' || c == '1') verdicts.push_back(c == '1');
  }
  EXPECT_EQ(verdicts.size(), documents.size());
  return verdicts;
}

bool GraphLoads(const std::string& json) { return ParseGraphJson(json, "").ok(); }
bool PlanLoads(const std::string& json) { return ParsePlanJson(json, "").ok(); }
bool MachineLoads(const std::string& json) { return ParseMachine(json, "").ok(); }
bool CostsLoad(const std::string& json) { return ParseCostTable(json, "").ok(); }

// For each value of `base` one document with a fault there: another value in its place, another
// key, or one more member. The faults take turns, because asking the schema takes milliseconds.
std::vector<std::string> Mutants(const std::string& base) {
  constexpr std::string_view kOthers[] = {
      "null",  "true", "0",  "-1",     "7",          "1.5",     "\"\"",
      "\"x\"", "[]",   "{}", "[null]", "[1, \"a\"]", "\"f32\"", "281474976710657"};
  constexpr size_t kNumOthers = std::size(kOthers);
  const absl::StatusOr<JsonDocument> document = JsonDocument::Parse(base, "");
  EXPECT_TRUE(document.ok()) << document.status();
  const std::vector<const JsonValue*> values = AllValues(*document);
  std::vector<std::string> mutants;
  for (size_t i = 0; i < values.size(); ++i) {
    const JsonValue& v = *values[i];
    const JsonValue* parent = document->Parent(v);
    const bool is_member = parent != nullptr && parent->kind == JsonKind::kObject;
    const size_t turn = i % (kNumOthers + 3);
    if (turn >= kNumOthers && is_member) {
      mutants.push_back(StrCat(base.substr(0, v.key_offset), "\"unknown\"",
                               base.substr(v.key_offset + v.key_size + 2)));
    } else if (v.kind == JsonKind::kObject && v.size > 0 && i % 2 == 0) {
      mutants.push_back(
          StrCat(base.substr(0, v.offset), "{\"x-more\": 1, ", base.substr(v.offset + 1)));
    } else {
      mutants.push_back(StrCat(base.substr(0, v.offset), kOthers[turn % kNumOthers],
                               base.substr(v.offset + v.text_size)));
    }
  }
  return mutants;
}

void ExpectNothingLoadsThatTheSchemaRefuses(std::string_view schema, const std::string& base,
                                            bool (*loads)(const std::string&)) {
  const std::vector<std::string> mutants = Mutants(base);
  const std::vector<bool> verdicts = SchemaVerdicts(schema, mutants);
  if (verdicts.empty()) GTEST_SKIP() << "python3 with the jsonschema package is not there";
  int refused_by_schema = 0;
  for (size_t i = 0; i < mutants.size(); ++i) {
    if (verdicts[i]) continue;
    ++refused_by_schema;
    EXPECT_FALSE(loads(mutants[i])) << mutants[i];
  }
  EXPECT_GT(refused_by_schema, static_cast<int>(mutants.size()) / 2);
}

TEST(GraphSchemaTest, TheExampleIsValidAndCanonical) {
  const std::string example = ExampleGraph();
  const absl::StatusOr<Graph> graph = ParseGraphJson(example, "example.graph.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(absl::StrReplaceAll(GraphToJson(*graph, /*with_types=*/true), {{", \"bound\": 8", ""}}),
            example);
  const std::vector<bool> verdicts = SchemaVerdicts("graph.schema.json", {example});
  if (verdicts.empty()) GTEST_SKIP() << "python3 with the jsonschema package is not there";
  EXPECT_TRUE(verdicts[0]);
}

TEST(GraphSchemaTest, NothingLoadsThatTheSchemaRefuses) {
  ExpectNothingLoadsThatTheSchemaRefuses("graph.schema.json", ExampleGraph(), GraphLoads);
}

TEST(MachineSchemaTest, NothingLoadsThatTheSchemaRefuses) {
  ASSERT_TRUE(MachineLoads(kMachine));
  ExpectNothingLoadsThatTheSchemaRefuses("machine.schema.json", kMachine, MachineLoads);
}

TEST(CostsSchemaTest, NothingLoadsThatTheSchemaRefuses) {
  ASSERT_TRUE(CostsLoad(kCosts)) << ParseCostTable(kCosts, "").status();
  ExpectNothingLoadsThatTheSchemaRefuses("costs.schema.json", kCosts, CostsLoad);
}

TEST(CostsSchemaTest, AcceptsWhatLoads) {
  const CostTable table = ParseCostTable(kCosts, "").value();
  const std::vector<bool> verdicts =
      SchemaVerdicts("costs.schema.json", {kCosts, CostTableToJson(table)});
  if (verdicts.empty()) GTEST_SKIP() << "python3 with the jsonschema package is not there";
  EXPECT_TRUE(verdicts[0]);
  EXPECT_TRUE(verdicts[1]);
}

TEST(PlanSchemaTest, NothingLoadsThatTheSchemaRefuses) {
  ASSERT_TRUE(PlanLoads(kPlan)) << ParsePlanJson(kPlan, "").status();
  ExpectNothingLoadsThatTheSchemaRefuses("plan.schema.json", kPlan, PlanLoads);
}

// Written by hand or saved by us: the schema takes what the loader takes.
TEST(PlanSchemaTest, AcceptsPlans) {
  const std::vector<bool> verdicts =
      SchemaVerdicts("plan.schema.json", {kPlan, PlanToJson(SamplePlan())});
  if (verdicts.empty()) GTEST_SKIP() << "python3 with the jsonschema package is not there";
  EXPECT_TRUE(verdicts[0]);
  EXPECT_TRUE(verdicts[1]);
}

struct Change {
  const char* from;
  const char* to;
};

// Applies each change to the example and compares both verdicts with the expected ones.
void ExpectVerdicts(const std::vector<Change>& changes, bool schema_accepts, bool loader_accepts) {
  const std::string example = ExampleGraph();
  std::vector<std::string> documents;
  for (const Change& change : changes) {
    documents.push_back(absl::StrReplaceAll(example, {{change.from, change.to}}));
    EXPECT_NE(documents.back(), example) << change.from;
  }
  const std::vector<bool> verdicts = SchemaVerdicts("graph.schema.json", documents);
  if (verdicts.empty()) GTEST_SKIP() << "python3 with the jsonschema package is not there";
  for (size_t i = 0; i < documents.size(); ++i) {
    EXPECT_EQ(verdicts[i], schema_accepts) << changes[i].to;
    const absl::Status status = ParseGraphJson(documents[i], "").status();
    EXPECT_EQ(status.ok(), loader_accepts) << changes[i].to << "\n" << status;
  }
}

TEST(GraphSchemaTest, BothAccept) {
  ExpectVerdicts(
      {
          {"\"1.0\"", "\"1.7\""},
          {"[\"N\", 784]", "[\"(N + 6) / 2 * 4\", 0]"},
          {"[\"N\", 784]", "[\"N\", 784], \"bounded\": true"},
          {"\"shape\": [784, 10]", "\"shape\": [784, 10], \"bounded\": false"},
          {"\"seed\": 7", "\"seed\": 18446744073709551615"},
          {"\"init\": \"zeros\"", "\"init\": \"ones\", \"seed\": 3"},
          {"{\"splat\": 1e-05}", "{\"splat\": \"nan\"}"},
          {"\"transB\": 0",
           "\"list\": [1, 2.5, \"inf\"], \"strings\": [\"a\", \"inf\"], \"b\": false"},
          {"\"cpu:0\"", "\"cuda\""},
          {"\"outputs\": [\"clipped\"]", "\"outputs\": []"},
          {"\"outputs\": [\"clipped\"],\n", "\"outputs\": [\"clipped\"], \"x-\": [[{}]],\n"},
          {"\"name\": \"fc\", \"op\"", "\"op\""},
          {"example.safetensors", "a..b/..c/x.safetensors"},
          {"\"mesh\": \"data=2\"", "\"mesh\": \"data=2,tensor=4\""},
          {"\"h\": \"data:0\"", "\"h\": \"\""},
      },
      true, true);
}

TEST(GraphSchemaTest, BothRefuseFaultsOfStructure) {
  ExpectVerdicts(
      {
          {"millrace-graph", "millrace-plan"},
          {"\"1.0\"", "\"2.0\""},
          {"\"1.0\"", "\"1\""},
          {"\"inputs\": [\n    {\"name\": \"x\"", "\"input\": [\n    {\"name\": \"x\""},
          {"\"dtype\": \"bool\"", "\"dtype\": \"boolean\""},
          {"[\"N\", 784]", "[\"N\", -1]"},
          {"[\"N\", 784]", "[\"N%2\"]"},
          {"[\"N\", 784]", "[\"\"]"},
          {"[\"N\", 784]", "[1, 1, 1, 1, 1, 1, 1, 1, 1]"},
          {"[\"N\", 784]", "[\"N\", 784], \"layout\": \"nhwc\""},
          {"\"shape\": [784, 10]", "\"shape\": [784, 10], \"bounded\": true"},
          {"\"doc\": \"pixels\"", "\"data\": {\"splat\": 1}"},
          {"\"doc\": \"pixels\"", "\"x-doc\": \"pixels\""},
          {"\"data\": {\"splat\": 1e-05}", "\"trainable\": true, \"data\": {\"splat\": 1e-05}"},
          {", \"data\": {\"splat\": 1e-05}", ""},
          {"{\"splat\": 1e-05}", "{\"splat\": 1e-05, \"seed\": 1}"},
          {"{\"splat\": 1e-05}", "{}"},
          {"{\"splat\": 1e-05}", "{\"splat\": \"1\"}"},
          {"{\"splat\": 1e-05}", "{\"inline\": [[1]]}"},
          {"\"file\": \"w\", ", ""},
          {"\"low\": -0.5", "\"std\": 1.0"},
          {"\"low\": -0.5", "\"low\": \"-inf\""},
          {"\"init\": \"zeros\"", "\"init\": \"zeroes\""},
          {"\"init\": \"zeros\"", "\"init\": \"zeros\", \"low\": 1"},
          {"\"seed\": 7", "\"seed\": -1"},
          {"AACAPw==", "AACA!w=="},
          {"\"transB\": 0", "\"transB\": null"},
          {"\"transB\": 0", "\"transB\": [1, \"a\"]"},
          {"\"transB\": 0", "\"\": 1"},
          {"\"Gemm\"", "\"Ge mm\""},
          {"\"Gemm\"", "\".Gemm\""},
          {"\"Gemm\"", "\"a.b.Gemm\""},
          {"\"cpu:0\"", "\"gpu:0\""},
          {"\"cpu:0\"", "\"cpu:\""},
          {"\"stream\": 0", "\"stream\": -1"},
          {"\"after\": [\"act\"]", "\"after\": [null]"},
          {"\"else_branch\": {", "\"else_branch\": {\"params\": [],"},
          {"\"else_branch\": {", "\"else_branch\": {\"symbols\": {},"},
          {"example.safetensors", "../example.safetensors"},
          {"example.safetensors", "a/../example.safetensors"},
          {"example.safetensors", "/example.safetensors"},
          {"example.safetensors", "a\\\\example.safetensors"},
          {"example.safetensors", "example.bin"},
          {"\"path\": \"example", "\"sha256\": \"00\", \"path\": \"example"},
          {"\"min\": 1", "\"mni\": 1"},
          {"\"multiple_of\": 2", "\"multiple_of\": 0"},
          {"\"N\": {\"min\"", "\"1N\": {\"min\""},
          {"\"data=2\"", "\"data\""},
          {"\"data=2\"", "\"data=2,\""},
          {"\"core\": 17", "\"core\": 0"},
          {"\"value\": \"next_step\"", "\"x-value\": \"next_step\""},
          {"\"producer\": {\"name\":\"hand\"}", "\"producer\": \"hand\""},
          {"\"outputs\": [\"clipped\"]", "\"outputs\": [null]"},
      },
      false, false);
}

// Each rule that the schema's description lists as beyond it.
TEST(GraphSchemaTest, TheLoaderAloneRefusesFaultsOfMeaning) {
  ExpectVerdicts(
      {
          {"\"x-made-by\": \"hand\"", "\"x-made-by\": \"hand\", \"x-made-by\": \"hand\""},
          {"\"stream\": 0", "\"stream\": 0.0"},
          {"\"name\": \"train\"", "\"name\": \"x\""},
          {"\"name\": \"act\"", "\"name\": \"fc\""},
          {"\"inputs\": [\"h\"]", "\"inputs\": [\"hh\"]"},
          {"\"after\": [\"act\"]", "\"after\": [\"nobody\"]"},
          {"\"inputs\": [\"a\", \"scale\"]", "\"inputs\": [\"a\", \"eps\"]"},
          {"\"inputs\": [\"h\"]", "\"inputs\": [\"clipped\"]"},
          {"[\"N\", 784]", "[\"M\", 784]"},
          {"[\"N\", 784]", "[\"N/3\", 784]"},
          {"[\"N\", 784]", "[\"((N\", 784]"},
          {"[\"N\", 784]", "[281474976710656, 281474976710656]"},
          {"{\"inline\": [1]}", "{\"inline\": [1, 2]}"},
          {"{\"inline\": [1]}", "{\"inline\": [1.5]}"},
          {"{\"inline\": [1]}", "{\"inline\": [true]}"},
          {"{\"splat\": 1e-05}", "{\"splat\": 1e39}"},
          {"{\"splat\": 1e-05}", "{\"init\": \"he_normal\"}"},
          {"\"low\": -0.5", "\"low\": 5"},
          {"AACAPw==", "AACA"},
          {"AACAPw==", "AACAPx=="},
          {"\"file\": \"w\"", "\"file\": \"v\""},
          {"\"transB\": 0", "\"transB\": 9223372036854775808"},
          {"\"x\": \"data:0\"", "\"x\": \"tensor:0\""},
          {"\"x\": \"data:0\"", "\"x\": \"data:7\""},
          {"\"data=2\"", "\"data=2,data=2\""},
          {"\"param\": \"step\"", "\"param\": \"x\""},
          {"\"default\": 8", "\"default\": 7"},
          {", \"default\": 8", ""},
          {"\"h\": {\"dtype\"", "\"x\": {\"dtype\""},
          {"\"outputs\": [\"clipped\"]", "\"outputs\": [\"clipped\", \"clipped\"]"},
      },
      true, false);
}

}  // namespace
}  // namespace millrace
