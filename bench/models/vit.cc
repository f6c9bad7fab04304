// ViT-B/16 (Dosovitskiy et al. 2020): an encoder over patches of 16x16 pixels and a class token,
// normalized before each branch.
#include <cmath>

#include "bench/models/conv_layers.h"
#include "bench/models/model.h"
#include "bench/models/transformer_layers.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kVitWidth = 768, kVitHeads = 12, kVitPatch = 16;
constexpr double kVitEpsilon = 1e-6;

class VitBuilder {
 public:
  explicit VitBuilder(const ModelSettings& settings)
      : batch_(settings["batch"]),
        size_(settings["size"]),
        layers_(settings["layers"]),
        patches_((size_ / kVitPatch) * (size_ / kVitPatch)),
        spelling_(static_cast<Spelling>(settings["spelling"])) {}

  Graph Build() && {
    ValueId x = Embed();
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const LayerBuilder::Scope scope(l_, StrCat("encoder/layer", layer));
      x = l_.Op("Add", {SelfAttention(Norm("ln_1", x)), x});
      const ValueId hidden = l_.Linear("mlp/0", Norm("ln_2", x), kVitWidth, 4 * kVitWidth);
      const ValueId active = Gelu(l_, hidden, GeluKind::kErf, spelling_);
      x = l_.Op("Add", {x, l_.Linear("mlp/3", active, 4 * kVitWidth, kVitWidth, BranchGain())});
    }
    x = Norm("encoder/ln", x);
    const ValueId first = l_.Op("Gather", {x, l_.Int(0)}, MakeAttrs({{"axis", int64_t{1}}}));
    l_.Output(l_.Gemm("head", first, kVitWidth, 1000, 1));
    return std::move(l_).Finish();
  }

 private:
  ValueId Norm(std::string_view name, ValueId x) {
    return LayerNorm(l_, name, x, kVitWidth, kVitEpsilon, spelling_);
  }
  double BranchGain() const { return 1 / (2.0 * static_cast<double>(layers_)); }

  ValueId Embed() {
    const LayerBuilder::Scope scope(l_, "embeddings");
    const ConvLayer patch = {.channels = kVitWidth,
                             .kernel = {kVitPatch, kVitPatch},
                             .pads = {0, 0},
                             .stride = kVitPatch};
    const FeatureMap maps = ConvWithBias(l_, "conv_proj", Image(l_, batch_, 3, size_), patch);
    const ValueId rows = l_.Reshape(maps.value, {batch_, kVitWidth, patches_});
    const ValueId token = l_.Normal("class_token", Shape{1, 1, kVitWidth}, 1);
    const ValueId tokens = l_.Op("Expand", {token, l_.Ints({batch_, 1, kVitWidth})});
    const ValueId x = l_.Concat({tokens, l_.Transpose(rows, {0, 2, 1})}, 1);
    return l_.Op("Add", {x, l_.Normal("positions", Shape{1, patches_ + 1, kVitWidth}, 0.1)});
  }

  ValueId SelfAttention(ValueId x) {
    const LayerBuilder::Scope scope(l_, "attention");
    const int64_t tokens = patches_ + 1;
    const AttentionShape shape = {batch_, tokens, tokens, kVitHeads, kVitWidth};
    const std::vector<ValueId> parts = l_.Split(l_.Linear("in_proj", x, kVitWidth, 3 * kVitWidth),
                                                2, {kVitWidth, kVitWidth, kVitWidth});
    const ValueId query = SplitHeads(l_, parts[0], tokens, shape);
    const ValueId key = SplitHeadsTransposed(l_, parts[1], tokens, shape);
    const ValueId value = SplitHeads(l_, parts[2], tokens, shape);
    const ValueId mixed = MergeHeads(l_, AttendTo(l_, query, key, value, {}, shape), shape);
    return l_.Linear("out_proj", mixed, kVitWidth, kVitWidth, BranchGain());
  }

  LayerBuilder l_{"vit-b-16"};
  const int64_t batch_, size_, layers_, patches_;
  const Spelling spelling_;
};

}  // namespace

Model VitB16Model() {
  return {"vit-b-16",
          "ViT-B/16 (Dosovitskiy et al. 2020)",
          {BatchOption(),
           SizeOption(224, 16),
           {.name = "layers", .doc = "encoder layers", .value = 12, .max = 96},
           SpellingOption()},
          [](const ModelSettings& settings) { return VitBuilder(settings).Build(); }};
}

}  // namespace millrace
