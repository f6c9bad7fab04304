// The model zoo: the sizes of its models are the published ones, and their numbers stay sane.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "bench/models/model.h"
#include "graph/builder.h"
#include "graph/verify.h"
#include "ops/evaluate_graph.h"
#include "tools/graph_summary.h"
#include "tools/run_graph.h"

namespace millrace {
namespace {

using testing::HasSubstr;

Graph BuildModel(const std::string& name, const std::vector<std::string>& sets = {}) {
  const absl::StatusOr<const Model*> model = FindModel(name);
  EXPECT_TRUE(model.ok()) << model.status();
  const absl::StatusOr<ModelSettings> settings = ParseModelSettings(**model, sets);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return (*model)->build(*settings);
}

// Multiply-adds of what published counts count: convolutions and products of matrices.
double MultiplyAdds(const GraphSummary& summary) {
  double flops = 0;
  for (const OpSummary& op : summary.ops) {
    for (const char* counted : {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM"}) {
      if (op.op == counted) flops += op.work.flops;
    }
  }
  return flops / 2;
}

struct PublishedSize {
  std::string model;
  std::vector<std::string> sets;
  int64_t parameters = 0;
  double giga_multiply_adds = 0;
};

void PrintTo(const PublishedSize& size, std::ostream* out) { *out << size.model; }

class PublishedSizes : public testing::TestWithParam<PublishedSize> {};

TEST_P(PublishedSizes, AreMet) {
  const PublishedSize& expected = GetParam();
  const GraphSummary summary = SummarizeGraph(BuildModel(expected.model, expected.sets));
  EXPECT_EQ(summary.trainable.elements, expected.parameters);
  // FLOPs here count additions of biases too.
  EXPECT_NEAR(MultiplyAdds(summary) / 1e9, expected.giga_multiply_adds,
              0.01 * expected.giga_multiply_adds);
}

// Image models: torchvision's table of weights ("num_params", "GFLOPS", which are multiply-adds).
// Language models: parameters as their checkpoints have them; multiply-adds of a layer are 12
// width^2 for each token and 2 width for each pair of tokens, and GPT-2's of logits its vocabulary
// times its width a token. Those of the last five were worked out from their papers' layer lists.
INSTANTIATE_TEST_SUITE_P(Models, PublishedSizes,
                         testing::ValuesIn(std::vector<PublishedSize>{
                             {"mlp", {}, 669'706, 0.000668672},
                             {"lenet", {}, 61'706, 0.00041652},
                             {"alexnet", {}, 61'100'840, 0.714},
                             {"vgg16", {}, 138'357'544, 15.470},
                             {"inception-v3", {}, 23'834'568, 5.713},
                             {"densenet121", {}, 7'978'856, 2.834},
                             {"vit-b-16", {}, 86'567'656, 17.564},
                             {"resnet18", {}, 11'689'512, 1.814},
                             {"resnet50", {}, 25'557'032, 4.089},
                             {"resnet152", {}, 60'192'808, 11.514},
                             {"wide-resnet50", {}, 68'883'240, 11.398},
                             {"mobilenet-v2", {}, 3'504'872, 0.301},
                             {"bert-base", {}, 109'482'240, 11.174},
                             {"bert-base", {"spelling=primitive"}, 109'482'240, 11.174},
                             {"bert-large", {}, 335'141'888, 39.464},
                             {"gpt", {"parameters=145b", "tokens=2048"}, 145'622'261'760, 306.4e3},
                             {"gpt2", {}, 124'439'808, 16.114},
                             {"gpt2-decode", {}, 124'439'808, 0.1424},
                             {"lstm", {}, 4'202'496, 0.26844},
                             {"seq2seq", {}, 53'910'784, 1.3548},
                             {"mixture-of-experts", {}, 71'336'960, 3.4582},
                             {"unet", {}, 31'030'658, 150.43},
                             {"dlrm", {}, 42'075'985, 0.00048603},
                         }),
                         [](const auto& info) {
                           std::string name = info.param.model;
                           if (!info.param.sets.empty()) name += "_" + info.param.sets[0];
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

// Small settings, for what goes through reference kernels.
std::vector<std::string> SmallSettings(const Model& model) {
  std::vector<std::string> sets;
  for (const ModelOption& option : model.options) {
    if (option.name == "size") sets.push_back("size=" + std::to_string(option.min));
    if (option.name == "tokens") sets.push_back("tokens=5");
    if (option.name == "context") sets.push_back("context=8");
    if (option.name == "layers") sets.push_back("layers=2");
    if (option.name == "width") sets.push_back("width=4");
    if (option.name == "rows") sets.push_back("rows=10");
  }
  return sets;
}

class EveryModel : public testing::TestWithParam<std::string> {};

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const Model& model : AllModels()) names.push_back(model.name);
  return names;
}

TEST_P(EveryModel, IsWellFormedInEverySpelling) {
  const Model& model = **FindModel(GetParam());
  for (const ModelOption& option : model.options) {
    for (const int64_t value : {option.words.empty() ? option.min : int64_t{0},
                                option.words.empty() ? std::min(option.max, option.value + 1)
                                                     : std::ssize(option.words) - 1}) {
      ModelSettings settings(model.options);
      settings.Set(option.name, value);
      const Graph graph = model.build(settings);
      EXPECT_TRUE(VerifyGraphAfter(graph, "build").ok()) << option.name << "=" << value;
      EXPECT_EQ(graph.name, model.name);
    }
  }
}

TEST_P(EveryModel, TwiceTheBatchIsTwiceTheWork) {
  const double one = MultiplyAdds(SummarizeGraph(BuildModel(GetParam(), {"batch=1"})));
  const double two = MultiplyAdds(SummarizeGraph(BuildModel(GetParam(), {"batch=2"})));
  // A mixture of experts sends more tokens to more places.
  EXPECT_NEAR(two, 2 * one, GetParam() == "mixture-of-experts" ? 0.1 * one : 0);
}

// The plan runs to what reference kernels give, up to the rounding of sums.
void ExpectRunsTo(const Graph& graph, const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& expected) {
  std::map<std::string, Tensor> by_name;
  for (size_t i = 0; i < inputs.size(); ++i) {
    by_name[graph.value(graph.inputs[i]).name] = inputs[i];
  }
  const absl::StatusOr<std::vector<Tensor>> outputs = RunGraph(graph, by_name);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), expected.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    double scale = 0, error = 0;
    for (int64_t i = 0; i < expected[k].num_elements(); ++i) {
      scale = std::max(scale, std::abs(expected[k].AsDouble(i)));
      error = std::max(error, std::abs((*outputs)[k].AsDouble(i) - expected[k].AsDouble(i)));
    }
    EXPECT_LT(error, 1e-4 * scale) << "output " << k;
  }
}

// All numbers that a node reads are finite, and those of a result neither vanish nor explode.
TEST_P(EveryModel, NumbersStayOfOrderOneAndThePlanRuns) {
  const Graph graph = BuildModel(GetParam(), SmallSettings(**FindModel(GetParam())));
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    Tensor tensor = Tensor::Zeros(graph.value(id).type);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.Set(i, IsFloat(tensor.dtype()) ? 0.5 + 0.5 * std::sin(double(i)) : 1);
    }
    inputs.push_back(std::move(tensor));
  }
  const auto check = [&](const Graph& g, const Node& node, std::vector<Tensor>& operands) {
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!operands[k].has_data() || !IsFloat(operands[k].dtype())) continue;
      double largest = 0;
      for (int64_t i = 0; i < operands[k].num_elements(); ++i) {
        const double x = operands[k].AsDouble(i);
        const bool masked = x == std::numeric_limits<float>::lowest();
        if (!masked) largest = std::max(largest, std::abs(x));
      }
      const bool computed = g.value(node.inputs[k]).kind == ValueKind::kResult;
      EXPECT_TRUE(std::isfinite(largest)) << node.name;
      // A mask that hides nothing is all zeros.
      EXPECT_TRUE(!computed || largest == 0 || largest > 1e-3) << node.name << " " << largest;
      EXPECT_TRUE(!computed || largest < 1e3) << node.name << " " << largest;
    }
  };
  const auto outputs = EvaluateGraph(graph, inputs, check);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ExpectRunsTo(graph, inputs, *outputs);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(ModelNames()), [](const auto& info) {
  std::string name = info.param;
  std::erase_if(name, [](char c) { return !std::isalnum(c); });
  return name;
});

// Token after token, from what each step leaves, as all at once.
TEST(Gpt2Decode, StepsGiveWhatThePromptGives) {
  const std::vector<int64_t> tokens = {5, 17, 42};
  const Graph prompt = BuildModel("gpt2", {"tokens=3", "layers=2"});
  const auto all =
      EvaluateGraph(prompt, {Tensor::FromSpan(Shape{1, 3}, std::span<const int64_t>(tokens))});
  ASSERT_TRUE(all.ok()) << all.status();

  Graph step = BuildModel("gpt2-decode", {"context=4", "layers=2"});
  for (const Update& update : step.updates) step.outputs.push_back(update.value);
  for (int64_t position = 0; position < std::ssize(tokens); ++position) {
    const auto results = EvaluateGraph(
        step, {Tensor::Of<int64_t>({1, 1}, {tokens[position]}), Tensor::Scalar(position)});
    ASSERT_TRUE(results.ok()) << results.status();
    const int64_t logits = (*results)[0].num_elements();
    double error = 0;
    for (int64_t i = 0; i < logits; ++i) {
      const double expected = (*all)[0].AsDouble(position * logits + i);
      error = std::max(error, std::abs((*results)[0].AsDouble(i) - expected));
    }
    EXPECT_LT(error, 1e-4) << position;
    for (size_t i = 0; i < step.updates.size(); ++i) {
      step.data[step.value(step.updates[i].param).data] = InlineData((*results)[i + 1]);
    }
  }
}

TEST(ModelSettings, SayWhatIsWrong) {
  const Model& bert = **FindModel("bert-base");
  const auto error = [&](const std::vector<std::string>& sets) {
    return std::string(ParseModelSettings(bert, sets).status().message());
  };
  EXPECT_EQ(error({"batch"}), "--set batch: expected NAME=VALUE, such as batch=8");
  EXPECT_EQ(error({"batch=0"}), "--set batch=0: expected an integer from 1 to 1024");
  EXPECT_EQ(error({"batch=x"}), "--set batch=x: expected an integer from 1 to 1024");
  EXPECT_EQ(error({"tokens=513"}), "--set tokens=513: expected an integer from 1 to 512");
  EXPECT_EQ(error({"spelling=tf"}), "--set spelling=tf: expected ops or primitive");
  EXPECT_EQ(error({"batch=2", "batch=3"}), "--set batch=3: 'batch' is set twice");
  EXPECT_THAT(error({"token=2"}), HasSubstr("did you mean 'tokens'?"));
  EXPECT_THAT(error({"size=224"}), HasSubstr("bert-base has no such setting; it has batch"));
}

TEST(FindModel, NamesTheNearest) {
  EXPECT_THAT(std::string(FindModel("resnet51").status().message()),
              HasSubstr("no model is called 'resnet51'; did you mean 'resnet50'?"));
}

}  // namespace
}  // namespace millrace
