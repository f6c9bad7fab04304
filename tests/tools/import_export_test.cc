// `millrace export` and `import`, and .onnx files given to the other subcommands.
#ifdef MILLRACE_HAVE_ONNX
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The tiny graph as an ONNX model; its path.
std::string TinyModel() {
  const std::string path = TestFolder() + "/tiny.onnx";
  const CommandResult result =
      RunMillrace({"export", WriteTestFile("tiny.json", kTinyGraph), "--to", "onnx", "-o", path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, path + ": ONNX model of 2 nodes\n");
  return path;
}

const std::vector<std::string> kRunTiny = {
    "--set", "N=2", "--input", "x=2x2xf32=1 0 0 -1", "--expect", "y=2x2xf32=1 2 0 0"};

std::vector<std::string> RunTiny(const std::string& path) {
  std::vector<std::string> arguments = {"run", path};
  arguments.insert(arguments.end(), kRunTiny.begin(), kRunTiny.end());
  return arguments;
}

TEST(ImportExport, AModelRunsAsTheGraphDid) {
  const CommandResult result = RunMillrace(RunTiny(TinyModel()));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(ImportExport, AModelIsImportedWithItsSymbols) {
  const std::string model = TinyModel(), graph = TestFolder() + "/again.json";
  const CommandResult result = RunMillrace({"import", model, "-o", graph});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, graph +
                            ": graph of 2 nodes, 4 values\n"
                            "symbols, to be given with --set: N\n");
  EXPECT_EQ(RunMillrace(RunTiny(graph)).exit_code, 0);
}

TEST(ImportExport, SymbolsAreFixedBySet) {
  const std::string graph = TestFolder() + "/fixed.json";
  EXPECT_EQ(RunMillrace({"import", TinyModel(), "-o", graph, "--set", "N=2"}).exit_code, 0);
  EXPECT_THAT(ReadTestFile(graph),
              AllOf(HasSubstr("\"shape\": [2, 2]"), testing::Not(HasSubstr("symbols"))));
  const std::string model = TestFolder() + "/fixed.onnx";
  EXPECT_EQ(RunMillrace({"export", TinyModel(), "-o", model, "--set", "N=2"}).exit_code, 0);
  EXPECT_EQ(RunMillrace({"check", model}).exit_code, 0);
}

TEST(ImportExport, InputsBecomeConstants) {
  const std::string graph = TestFolder() + "/constant.json";
  EXPECT_EQ(RunMillrace({"import", TinyModel(), "-o", graph, "--constant", "x=2x2xf32=1 0 0 -1"})
                .exit_code,
            0);
  EXPECT_EQ(RunMillrace({"run", graph, "--expect", "y=2x2xf32=1 2 0 0"}).exit_code, 0);
  const CommandResult wrong =
      RunMillrace({"import", TinyModel(), "-o", graph, "--constant", "z=f32=1"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("the model has no input 'z'"));
}

TEST(ImportExport, OtherSubcommandsTakeModels) {
  const std::string model = TinyModel();
  EXPECT_THAT(RunMillrace({"check", model, "--set", "N=2"}).out, HasSubstr("ok: graph of 2 nodes"));
  EXPECT_THAT(RunMillrace({"inspect", model, "--set", "N=2", "--text"}).out,
              HasSubstr("h : f32[2,2] = MatMul(x, w)"));
  EXPECT_EQ(RunMillrace({"plan", model, "--set", "N=2"}).exit_code, 0);
}

TEST(ImportExport, Mistakes) {
  const std::string model = TinyModel();
  const CommandResult open = RunMillrace({"run", model});
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_THAT(open.err, HasSubstr("symbol 'N' has no value; give one with --set N=..."));
  const CommandResult format = RunMillrace({"export", model, "--to", "tflite", "-o", "x"});
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_THAT(format.err, HasSubstr("--to tflite: expected onnx"));
  const CommandResult nothing = RunMillrace({"check", TestFolder() + "/gone.onnx"});
  EXPECT_EQ(nothing.exit_code, 3);
  const CommandResult text = RunMillrace({"check", WriteTestFile("text.onnx", "this is no model")});
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_THAT(text.err, HasSubstr("text.onnx:byte 0: "));
}

TEST(ImportExport, Json) {
  const std::string model = TinyModel();
  const nlohmann::json import =
      RunMillrace({"import", model, "-o", TestFolder() + "/j.json", "--json"}).Json();
  EXPECT_EQ(import["format"], "millrace-import");
  EXPECT_EQ(import["symbols"], nlohmann::json({"N"}));
  const nlohmann::json again =
      RunMillrace({"export", TestFolder() + "/j.json", "--set", "N=2", "-o",
                   TestFolder() + "/j.onnx", "--external-data", "--json"})
          .Json();
  EXPECT_EQ(again["nodes"], 2);
  EXPECT_EQ(ReadTestFile(TestFolder() + "/j.onnx.data").size(), 16u);
}

}  // namespace
}  // namespace millrace
#endif  // MILLRACE_HAVE_ONNX
