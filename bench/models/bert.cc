// BERT (Devlin et al. 2018), uncased, base and large: encoder layers, normalized after each sum,
// and a pooler. The attention mask is an input, made into numbers to add to scores.
#include <cmath>
#include <limits>

#include "bench/models/model.h"
#include "bench/models/transformer_layers.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kBertVocabulary = 30522, kBertPositions = 512;
constexpr double kBertEpsilon = 1e-12;

struct BertSize {
  std::string_view name;
  int64_t width, heads;
};
constexpr BertSize kBertBase = {"bert-base", 768, 12}, kBertLarge = {"bert-large", 1024, 16};

class BertBuilder {
 public:
  BertBuilder(const BertSize& size, const ModelSettings& settings)
      : l_(size.name),
        width_(size.width),
        heads_(size.heads),
        batch_(settings["batch"]),
        tokens_(settings["tokens"]),
        layers_(settings["layers"]),
        spelling_(static_cast<Spelling>(settings["spelling"])) {}

  Graph Build() && {
    const TensorType ids{DType::kI64, Shape{batch_, tokens_}};
    const ValueId input_ids = l_.Input("input_ids", ids);
    const ValueId attention_mask = l_.Input("attention_mask", ids);
    const ValueId token_type_ids = l_.Input("token_type_ids", ids);
    const AttentionMask mask = {AttentionMask::Kind::kAdded, AddedMask(attention_mask)};
    ValueId x = Embed(input_ids, token_type_ids);
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const LayerBuilder::Scope scope(l_, StrCat("encoder/layer", layer));
      x = EncoderLayer(x, mask);
    }
    const ValueId first = l_.Op("Gather", {x, l_.Int(0)}, MakeAttrs({{"axis", int64_t{1}}}));
    l_.Output(x);
    l_.Output(l_.Op("Tanh", {l_.Gemm("pooler", first, width_, width_, 1)}));
    return std::move(l_).Finish();
  }

 private:
  // 0 where the mask is 1, the least number where it is 0; [batch, 1, 1, tokens].
  ValueId AddedMask(ValueId mask) {
    const LayerBuilder::Scope scope(l_, "mask");
    mask = l_.Op("Unsqueeze", {mask, l_.Ints({1, 2})});
    mask = l_.Op("Cast", {mask}, MakeAttrs({{"to", "f32"}}));
    const ValueId hidden = l_.Op("Sub", {l_.Float(1), mask});
    return l_.Op("Mul", {hidden, l_.Float(std::numeric_limits<float>::lowest())});
  }

  ValueId Embed(ValueId input_ids, ValueId token_type_ids) {
    const LayerBuilder::Scope scope(l_, "embeddings");
    const ValueId words = Table("word", kBertVocabulary), types = Table("token_type", 2);
    const ValueId positions = Table("position", kBertPositions);
    ValueId x = l_.Op(
        "Add", {l_.Op("Gather", {words, input_ids}), l_.Op("Gather", {types, token_type_ids})});
    const ValueId numbers = l_.Range(tokens_, Shape{1, tokens_});
    x = l_.Op("Add", {x, l_.Op("Gather", {positions, numbers})});
    return LayerNorm(l_, "norm", x, width_, kBertEpsilon, spelling_);
  }

  ValueId Table(std::string_view name, int64_t rows) {
    return l_.Normal(name, Shape{rows, width_}, 1 / std::sqrt(static_cast<double>(width_)));
  }

  ValueId SelfAttention(ValueId x, const AttentionMask& mask) {
    const LayerBuilder::Scope scope(l_, "attention");
    const AttentionShape shape = {batch_, tokens_, tokens_, heads_, width_};
    const auto project = [&](const char* name) { return l_.Linear(name, x, width_, width_); };
    const ValueId query = SplitHeads(l_, project("query"), tokens_, shape);
    const ValueId key = SplitHeadsTransposed(l_, project("key"), tokens_, shape);
    const ValueId value = SplitHeads(l_, project("value"), tokens_, shape);
    const ValueId mixed = MergeHeads(l_, AttendTo(l_, query, key, value, mask, shape), shape);
    return l_.Linear("output", mixed, width_, width_);
  }

  ValueId EncoderLayer(ValueId x, const AttentionMask& mask) {
    x = l_.Op("Add", {SelfAttention(x, mask), x});
    x = LayerNorm(l_, "attention/norm", x, width_, kBertEpsilon, spelling_);
    ValueId hidden = l_.Linear("intermediate", x, width_, 4 * width_);
    hidden = Gelu(l_, hidden, GeluKind::kErf, spelling_);
    x = l_.Op("Add", {l_.Linear("output", hidden, 4 * width_, width_), x});
    return LayerNorm(l_, "output/norm", x, width_, kBertEpsilon, spelling_);
  }

  LayerBuilder l_;
  const int64_t width_, heads_, batch_, tokens_, layers_;
  const Spelling spelling_;
};

std::vector<ModelOption> BertOptions(int64_t layers) {
  return {BatchOption(),
          {.name = "tokens", .doc = "tokens a sample", .value = 128, .max = kBertPositions},
          {.name = "layers", .doc = "encoder layers", .value = layers, .max = 96},
          SpellingOption()};
}

}  // namespace

Model BertBaseModel() {
  return {"bert-base", "BERT base, uncased (Devlin et al. 2018), with its pooler", BertOptions(12),
          [](const ModelSettings& settings) { return BertBuilder(kBertBase, settings).Build(); }};
}

Model BertLargeModel() {
  return {"bert-large", "BERT large, uncased (Devlin et al. 2018), with its pooler",
          BertOptions(24),
          [](const ModelSettings& settings) { return BertBuilder(kBertLarge, settings).Build(); }};
}

}  // namespace millrace
