// GPT-2 small (Radford et al. 2019): twelve decoder layers, normalized before each branch, logits
// by the transposed embedding of tokens. Projections are Gemms over rows, as its checkpoints have
// them; each token sees itself and those before.
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
  explicit Gpt2Builder(const ModelSettings& settings)
      : batch_(settings["batch"]),
        tokens_(settings["tokens"]),
        layers_(settings["layers"]),
        spelling_(static_cast<Spelling>(settings["spelling"])) {}

  Graph Build() && {
    const ValueId input_ids = l_.Input("input_ids", {DType::kI64, Shape{batch_, tokens_}});
    const double deviation = 1 / std::sqrt(double{kGpt2Width});
    const ValueId words = l_.Normal("wte", Shape{kGpt2Vocabulary, kGpt2Width}, deviation);
    const ValueId positions = l_.Normal("wpe", Shape{kGpt2Context, kGpt2Width}, deviation);
    const ValueId numbers = l_.Range(tokens_, Shape{1, tokens_});
    ValueId x =
        l_.Op("Add", {l_.Op("Gather", {words, input_ids}), l_.Op("Gather", {positions, numbers})});
    const AttentionMask mask = {AttentionMask::Kind::kSelected, CausalMask()};
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const LayerBuilder::Scope scope(l_, StrCat("h", layer));
      x = l_.Op("Add", {SelfAttention(Norm("ln_1", x), mask), x});
      x = l_.Op("Add", {x, FeedForward(Norm("ln_2", x))});
    }
    x = l_.Reshape(Norm("ln_f", x), {batch_ * tokens_, kGpt2Width});
    const ValueId logits = l_.Op("Gemm", {x, words}, MakeAttrs({{"transB", true}}));
    l_.Output(l_.Reshape(logits, {batch_, tokens_, kGpt2Vocabulary}));
    return std::move(l_).Finish();
  }

 private:
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
    const ValueId weight = l_.Normal("weight", Shape{in, out}, std::sqrt(gain / double(in)));
    const ValueId bias = l_.Uniform("bias", Shape{out}, -0.1, 0.1);
    const ValueId rows = l_.Reshape(x, {-1, in});
    return l_.Reshape(l_.Op("Gemm", {rows, weight, bias}), {batch_, tokens_, out});
  }

  // What is added to the residual stream shrinks with depth, so that the sum of all does not grow.
  double BranchGain() const { return 1 / (2.0 * static_cast<double>(layers_)); }

  ValueId SelfAttention(ValueId x, const AttentionMask& mask) {
    const LayerBuilder::Scope scope(l_, "attn");
    const AttentionShape shape = {batch_, tokens_, tokens_, kGpt2Heads, kGpt2Width};
    const std::vector<ValueId> parts = l_.Split(Project("c_attn", x, kGpt2Width, 3 * kGpt2Width), 2,
                                                {kGpt2Width, kGpt2Width, kGpt2Width});
    const ValueId query = SplitHeads(l_, parts[0], tokens_, shape);
    const ValueId key = SplitHeadsTransposed(l_, parts[1], tokens_, shape);
    const ValueId value = SplitHeads(l_, parts[2], tokens_, shape);
    const ValueId mixed = MergeHeads(l_, AttendTo(l_, query, key, value, mask, shape), shape);
    return Project("c_proj", mixed, kGpt2Width, kGpt2Width, BranchGain());
  }

  ValueId FeedForward(ValueId x) {
    const LayerBuilder::Scope scope(l_, "mlp");
    const ValueId hidden =
        Gelu(l_, Project("c_fc", x, kGpt2Width, 4 * kGpt2Width), GeluKind::kTanh, spelling_);
    return Project("c_proj", hidden, 4 * kGpt2Width, kGpt2Width, BranchGain());
  }

  LayerBuilder l_{"gpt2"};
  const int64_t batch_, tokens_, layers_;
  const Spelling spelling_;
};

}  // namespace

Model Gpt2Model() {
  return {"gpt2",
          "GPT-2 small (Radford et al. 2019), logits of all tokens of a prompt",
          {BatchOption(),
           {.name = "tokens", .doc = "tokens a sample", .value = 128, .max = kGpt2Context},
           {.name = "layers", .doc = "decoder layers", .value = 12, .max = 96},
           SpellingOption()},
          [](const ModelSettings& settings) { return Gpt2Builder(settings).Build(); }};
}

}  // namespace millrace
