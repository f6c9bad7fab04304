// GPT-2 small (Radford et al. 2019): twelve decoder layers, normalized before each branch, logits
// by the transposed embedding of tokens. Projections are Gemms over rows, as its checkpoints have
// them; each token sees itself and those before.
//
// A decode step computes one token from keys and values of those before, which are state: the step
// writes its own at `position`, a scalar known at run time only, and sees no further.
#include <cmath>

#include "bench/models/model.h"
#include "bench/models/transformer_layers.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kGpt2Vocabulary = 50257, kGpt2Context = 1024, kGpt2Width = 768;
constexpr int64_t kGpt2Heads = 12;
constexpr double kGpt2Epsilon = 1e-5;

class Gpt2Builder {
 public:
  Gpt2Builder(std::string_view name, const ModelSettings& settings, int64_t tokens)
      : l_(name),
        batch_(settings["batch"]),
        tokens_(tokens),
        layers_(settings["layers"]),
        spelling_(static_cast<Spelling>(settings["spelling"])) {}

  Graph BuildPrompt() && {
    const ValueId input_ids = l_.Input("input_ids", {DType::kI64, Shape{batch_, tokens_}});
    keys_ = tokens_;
    numbers_ = l_.Range(tokens_, Shape{1, tokens_});
    mask_ = CausalMask();
    return std::move(*this).Build(input_ids);
  }

  Graph BuildDecodeStep(int64_t context) && {
    const ValueId input_ids = l_.Input("input_ids", {DType::kI64, Shape{batch_, 1}});
    position_ = l_.Input("position", {DType::kI64, Shape{}});
    keys_ = context;
    numbers_ = l_.Reshape(position_, {1, 1});
    mask_ = l_.Op("LessOrEqual", {l_.Range(context, Shape{context}), position_});
    return std::move(*this).Build(input_ids);
  }

 private:
  Graph Build(ValueId input_ids) && {
    const double deviation = 1 / std::sqrt(double{kGpt2Width});
    const ValueId words = l_.Normal("wte", Shape{kGpt2Vocabulary, kGpt2Width}, deviation);
    const ValueId positions = l_.Normal("wpe", Shape{kGpt2Context, kGpt2Width}, deviation);
    ValueId x =
        l_.Op("Add", {l_.Op("Gather", {words, input_ids}), l_.Op("Gather", {positions, numbers_})});
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const LayerBuilder::Scope scope(l_, StrCat("h", layer));
      x = l_.Op("Add", {SelfAttention(Norm("ln_1", x)), x});
      x = l_.Op("Add", {x, FeedForward(Norm("ln_2", x))});
    }
    x = l_.Reshape(Norm("ln_f", x), {batch_ * tokens_, kGpt2Width});
    const ValueId logits = l_.Op("Gemm", {x, words}, MakeAttrs({{"transB", true}}));
    l_.Output(l_.Reshape(logits, {batch_, tokens_, kGpt2Vocabulary}));
    return std::move(l_).Finish();
  }

  ValueId Norm(std::string_view name, ValueId x) {
    return LayerNorm(l_, name, x, kGpt2Width, kGpt2Epsilon, spelling_);
  }

  ValueId CausalMask() {
    const LayerBuilder::Scope scope(l_, "mask");
    const ValueId key = l_.Range(tokens_, Shape{1, tokens_});
    const ValueId query = l_.Range(tokens_, Shape{tokens_, 1});
    return l_.Op("LessOrEqual", {key, query});
  }

  ValueId Project(std::string_view name, ValueId x, int64_t in, int64_t out, double gain = 1) {
    const LayerBuilder::Scope scope(l_, name);
    const double deviation = std::sqrt(gain / static_cast<double>(in));
    const ValueId weight = l_.Normal("weight", Shape{in, out}, deviation);
    const ValueId bias = l_.Uniform("bias", Shape{out}, -0.1, 0.1);
    const ValueId rows = l_.Reshape(x, {-1, in});
    return l_.Reshape(l_.Op("Gemm", {rows, weight, bias}), {batch_, tokens_, out});
  }

  // What is added to the residual stream shrinks with depth, so that the sum of all does not grow.
  double BranchGain() const { return 1 / (2.0 * static_cast<double>(layers_)); }

  // All keys or values so far, [batch, heads, keys, per_head]: a decode step puts its own, `fresh`,
  // into what it remembers.
  ValueId Remember(std::string_view name, ValueId fresh, const AttentionShape& shape) {
    if (!position_.valid()) return fresh;
    const ValueId cache = l_.State(name, Shape{batch_, shape.heads, shape.keys, shape.per_head()});
    const ValueId everywhere =
        l_.Op("Expand", {position_, l_.Ints({batch_, shape.heads, 1, shape.per_head()})});
    const ValueId filled =
        l_.Op("ScatterElements", {cache, everywhere, fresh}, MakeAttrs({{"axis", int64_t{2}}}));
    l_.builder().AddUpdate(cache, filled);
    return filled;
  }

  ValueId SelfAttention(ValueId x) {
    const LayerBuilder::Scope scope(l_, "attn");
    const AttentionShape shape = {batch_, tokens_, keys_, kGpt2Heads, kGpt2Width};
    const std::vector<ValueId> parts = l_.Split(Project("c_attn", x, kGpt2Width, 3 * kGpt2Width), 2,
                                                {kGpt2Width, kGpt2Width, kGpt2Width});
    const ValueId query = SplitHeads(l_, parts[0], tokens_, shape);
    const ValueId value = Remember("values", SplitHeads(l_, parts[2], tokens_, shape), shape);
    ValueId key;
    if (position_.valid()) {
      key = Remember("keys", SplitHeads(l_, parts[1], tokens_, shape), shape);
      key = l_.Transpose(key, {0, 1, 3, 2});
    } else {
      key = SplitHeadsTransposed(l_, parts[1], tokens_, shape);
    }
    const AttentionMask mask = {AttentionMask::Kind::kSelected, mask_};
    const ValueId mixed = MergeHeads(l_, AttendTo(l_, query, key, value, mask, shape), shape);
    return Project("c_proj", mixed, kGpt2Width, kGpt2Width, BranchGain());
  }

  ValueId FeedForward(ValueId x) {
    const LayerBuilder::Scope scope(l_, "mlp");
    const ValueId hidden =
        Gelu(l_, Project("c_fc", x, kGpt2Width, 4 * kGpt2Width), GeluKind::kTanh, spelling_);
    return Project("c_proj", hidden, 4 * kGpt2Width, kGpt2Width, BranchGain());
  }

  LayerBuilder l_;
  const int64_t batch_, tokens_, layers_;
  const Spelling spelling_;
  int64_t keys_ = 0;  // as many tokens as can be seen
  ValueId position_;  // of a decode step
  ValueId numbers_;   // positions of the tokens
  ValueId mask_;      // which keys each token sees
};

ModelOption LayersOfGpt2() {
  return {.name = "layers", .doc = "decoder layers", .value = 12, .max = 96};
}

}  // namespace

Model Gpt2Model() {
  return {"gpt2",
          "GPT-2 small (Radford et al. 2019), logits of all tokens of a prompt",
          {BatchOption(),
           {.name = "tokens", .doc = "tokens a sample", .value = 128, .max = kGpt2Context},
           LayersOfGpt2(),
           SpellingOption()},
          [](const ModelSettings& settings) {
            return Gpt2Builder("gpt2", settings, settings["tokens"]).BuildPrompt();
          }};
}

Model Gpt2DecodeModel() {
  return {"gpt2-decode",
          "GPT-2 small, one token after those whose keys and values it keeps",
          {BatchOption(),
           {.name = "context",
            .doc = "tokens there is room for",
            .value = kGpt2Context,
            .max = kGpt2Context},
           LayersOfGpt2(),
           SpellingOption()},
          [](const ModelSettings& settings) {
            return Gpt2Builder("gpt2-decode", settings, 1).BuildDecodeStep(settings["context"]);
          }};
}

}  // namespace millrace
