// The GPT family from 1.7 to 1,008 billion parameters, as Megatron-LM trained it (Narayanan et al.
// 2021, table 1), and GPT-3 (Brown et al. 2020): decoder layers normalized before each branch,
// learned positions, logits by the transposed embedding of tokens. Queries, keys and values have a
// projection each, so that heads can be spread over devices. Weights are seeded and never made
// unless the graph is run.
#include <cmath>

#include "bench/models/model.h"
#include "bench/models/transformer_layers.h"
#include "graph/strings.h"

namespace millrace {
namespace {

struct GptSize {
  std::string_view name;
  int64_t layers, width, heads;
};
constexpr GptSize kGptSizes[] = {
    {"tiny", 2, 64, 4},       {"1.7b", 24, 2304, 24},    {"3.6b", 30, 3072, 32},
    {"7.5b", 36, 4096, 32},   {"18b", 40, 6144, 48},     {"39b", 48, 8192, 64},
    {"76b", 60, 10240, 80},   {"145b", 80, 12288, 96},   {"175b", 96, 12288, 96},
    {"310b", 96, 16384, 128}, {"530b", 105, 20480, 128}, {"1t", 128, 25600, 160}};
constexpr double kGptEpsilon = 1e-5;

class GptBuilder {
 public:
  explicit GptBuilder(const ModelSettings& settings)
      : l_("gpt"),
        size_(kGptSizes[settings["parameters"]]),
        batch_(settings["batch"]),
        tokens_(settings["tokens"]),
        vocabulary_(settings["vocabulary"]),
        layers_(settings["layers"] == 0 ? size_.layers : settings["layers"]) {}

  Graph Build() && {
    const int64_t width = size_.width;
    const double deviation = 1 / std::sqrt(static_cast<double>(width));
    const ValueId input_ids = l_.Input("input_ids", {DType::kI64, Shape{batch_, tokens_}});
    const ValueId words = l_.Normal("words", Shape{vocabulary_, width}, deviation);
    const ValueId places = l_.Normal("positions", Shape{tokens_, width}, deviation);
    const ValueId numbers = l_.Range(tokens_, Shape{1, tokens_});
    mask_ = l_.Op("LessOrEqual", {numbers, l_.Range(tokens_, Shape{tokens_, 1})});
    ValueId x =
        l_.Op("Add", {l_.Op("Gather", {words, input_ids}), l_.Op("Gather", {places, numbers})});
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const LayerBuilder::Scope scope(l_, StrCat("layer", layer));
      x = l_.Op("Add", {x, SelfAttention(Norm("norm_1", x))});
      x = l_.Op("Add", {x, FeedForward(Norm("norm_2", x))});
    }
    x = l_.Reshape(Norm("norm", x), {batch_ * tokens_, width});
    const ValueId logits = l_.Op("Gemm", {x, words}, MakeAttrs({{"transB", true}}));
    l_.Output(l_.Reshape(logits, {batch_, tokens_, vocabulary_}));
    return std::move(l_).Finish();
  }

 private:
  ValueId Norm(std::string_view name, ValueId x) {
    return LayerNorm(l_, name, x, size_.width, kGptEpsilon, Spelling::kOps);
  }

  ValueId SelfAttention(ValueId x) {
    const LayerBuilder::Scope scope(l_, "attention");
    const int64_t width = size_.width;
    const AttentionShape shape = {batch_, tokens_, tokens_, size_.heads, width};
    const ValueId query = SplitHeads(l_, l_.Linear("query", x, width, width), tokens_, shape);
    const ValueId key = SplitHeadsTransposed(l_, l_.Linear("key", x, width, width), tokens_, shape);
    const ValueId value = SplitHeads(l_, l_.Linear("value", x, width, width), tokens_, shape);
    const AttentionMask mask = {AttentionMask::Kind::kSelected, mask_};
    const ValueId mixed = MergeHeads(l_, AttendTo(l_, query, key, value, mask, shape), shape);
    return l_.Linear("out", mixed, width, width, BranchGain());
  }

  ValueId FeedForward(ValueId x) {
    const LayerBuilder::Scope scope(l_, "mlp");
    const int64_t width = size_.width;
    const ValueId hidden =
        Gelu(l_, l_.Linear("in", x, width, 4 * width), GeluKind::kTanh, Spelling::kOps);
    return l_.Linear("out", hidden, 4 * width, width, BranchGain());
  }

  // What is added to the residual stream shrinks with depth, so that the sum of all does not grow.
  double BranchGain() const { return 1 / (2.0 * static_cast<double>(layers_)); }

  LayerBuilder l_;
  const GptSize& size_;
  const int64_t batch_, tokens_, vocabulary_, layers_;
  ValueId mask_;  // which keys each token sees
};

}  // namespace

Model GptModel() {
  std::vector<std::string> sizes;
  for (const GptSize& size : kGptSizes) sizes.emplace_back(size.name);
  return {"gpt",
          "GPT, of Megatron-LM's sizes up to 1T (Narayanan et al. 2021), and GPT-3's 175B",
          {{.name = "batch", .doc = "samples a step", .value = 1, .max = 65536},
           {.name = "parameters", .doc = "how many there are", .value = 0, .words = sizes},
           {.name = "layers", .doc = "decoder layers, 0: as the size says", .min = 0, .max = 1024},
           {.name = "tokens", .doc = "tokens a sample", .value = 128, .max = 65536},
           {.name = "vocabulary", .doc = "tokens there are", .value = 51200, .max = 1 << 20}},
          [](const ModelSettings& settings) { return GptBuilder(settings).Build(); }};
}

}  // namespace millrace
