// Pretrained models of many families, as tests/onnx/fetch_models.sh finds them in PyPI packages:
// what they give is what ONNX Runtime gave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "graph/files.h"
#include "graph/npy.h"
#include "graph/strings.h"
#include "nlohmann/json.hpp"
#include "ops/onnx/onnx.h"
#include "tools/run_graph.h"
#include "tools/compare.h"

namespace millrace {
namespace {

constexpr double kTolerance = 1e-4;

std::string ModelsFolder() {
  const char* folder = std::getenv("MILLRACE_ONNX_MODELS");
  return folder != nullptr ? folder : StrCat(MILLRACE_SOURCE_DIR, "/build/onnx_models");
}

class RealModels : public testing::TestWithParam<const char*> {};

TEST_P(RealModels, GiveWhatOnnxRuntimeGives) {
  const std::string folder = StrCat(ModelsFolder(), "/cases/", GetParam(), "/");
  if (!std::filesystem::exists(folder + "case.json")) {
    GTEST_SKIP() << "not fetched: run tests/onnx/fetch_models.sh";
  }
  const nlohmann::json description =
      nlohmann::json::parse(*ReadFile(folder + "case.json"), nullptr, false);
  std::map<std::string, Tensor> inputs;
  for (const auto& [name, file] : description["inputs"].items()) {
    const absl::StatusOr<Tensor> tensor = ReadNpy(folder + file.get<std::string>());
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    inputs[name] = *tensor;
  }
  OnnxImportOptions options;
  for (const auto& [name, value] : description["symbols"].items()) {
    options.symbols[name] = value.get<int64_t>();
  }
  for (const std::string& name : description.value("constants", std::vector<std::string>())) {
    options.constants.insert(inputs.extract(name));
  }
  const absl::StatusOr<Graph> graph = ImportOnnx(folder + "model.onnx", options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<std::vector<Tensor>> outputs = RunGraph(*graph, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), description["outputs"].size());
  double max_error = 0;
  for (size_t i = 0; i < outputs->size(); ++i) {
    const absl::StatusOr<Tensor> expected =
        ReadNpy(folder + description["outputs"][i].get<std::string>());
    ASSERT_TRUE(expected.ok()) << expected.status();
    const absl::StatusOr<Comparison> comparison =
        Compare((*outputs)[i], *expected, kTolerance, kTolerance);
    ASSERT_TRUE(comparison.ok()) << comparison.status();
    max_error = std::max(max_error, comparison->max_absolute_error);
    EXPECT_EQ(comparison->mismatches, 0)
        << "of " << comparison->elements << " elements of output " << i << "; largest error "
        << comparison->max_absolute_error;
  }
  // A row of the table in tests/README.md.
  std::printf("| %s | %s | %.1e |\n", GetParam(), description["family"].get<std::string>().c_str(),
              max_error);
}

INSTANTIATE_TEST_SUITE_P(All, RealModels,
                         testing::Values("basic_pitch", "deepcut", "magika", "nudenet",
                                         "oskut_scads", "ppocr_cls", "ppocr_det", "ppocr_rec",
                                         "romanizer_decoder", "romanizer_encoder", "rxnmap",
                                         "silero_vad", "silero_vad_op18", "whisper_vad"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace millrace
