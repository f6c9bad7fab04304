// A decoder-like transformer whose feed-forward layers are mixtures of experts, two for each token
// (GShard, Lepikhin et al. 2020). Shapes are static: an expert takes up to `capacity` tokens, first
// choices before second and early tokens before late; what finds no room passes by on the residual
// connection. Tokens go to their experts and come back by products with sparse matrices.
#include <cmath>

#include "bench/models/model.h"
#include "bench/models/transformer_layers.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kMoeWidth = 512, kMoeHeads = 8, kMoeHidden = 2048, kChoices = 2;
constexpr double kMoeEpsilon = 1e-5;

class MoeBuilder {
 public:
  explicit MoeBuilder(const ModelSettings& settings)
      : batch_(settings["batch"]),
        tokens_(settings["tokens"]),
        layers_(settings["layers"]),
        experts_(settings["experts"]),
        rows_(batch_ * tokens_),
        // A quarter more than an even share.
        capacity_((5 * kChoices * rows_ + 4 * experts_ - 1) / (4 * experts_)),
        spelling_(static_cast<Spelling>(settings["spelling"])) {}

  Graph Build() && {
    ValueId x = l_.Input("x", {DType::kF32, Shape{batch_, tokens_, kMoeWidth}});
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const LayerBuilder::Scope scope(l_, StrCat("layer", layer));
      x = l_.Op("Add", {x, SelfAttention(Norm("ln_1", x))});
      x = l_.Op("Add", {x, Mixture(Norm("ln_2", x))});
    }
    l_.Output(Norm("ln", x));
    return std::move(l_).Finish();
  }

 private:
  // Rows to the places of experts: for each choice of a row (first choices of all rows, then second
  // ones) 1 at [its expert, its place there].
  struct Routing {
    ValueId places;   // [choices rows, experts, capacity]
    ValueId weights;  // of the choices, [choices rows, 1, 1]
  };

  ValueId Norm(std::string_view name, ValueId x) {
    return LayerNorm(l_, name, x, kMoeWidth, kMoeEpsilon, spelling_);
  }
  double BranchGain() const { return 1 / (2.0 * static_cast<double>(layers_)); }

  ValueId SelfAttention(ValueId x) {
    const LayerBuilder::Scope scope(l_, "attention");
    const AttentionShape shape = {batch_, tokens_, tokens_, kMoeHeads, kMoeWidth};
    const auto project = [&](const char* name) { return l_.Linear(name, x, kMoeWidth, kMoeWidth); };
    const ValueId query = SplitHeads(l_, project("query"), tokens_, shape);
    const ValueId key = SplitHeadsTransposed(l_, project("key"), tokens_, shape);
    const ValueId value = SplitHeads(l_, project("value"), tokens_, shape);
    const ValueId mixed = MergeHeads(l_, AttendTo(l_, query, key, value, {}, shape), shape);
    return l_.Linear("output", mixed, kMoeWidth, kMoeWidth, BranchGain());
  }

  ValueId OneHot(ValueId indices, int64_t depth) {
    const ValueId off_on = l_.builder().Constant("off_on", Tensor::Of<float>({2}, {0, 1}));
    return l_.Op("OneHot", {indices, l_.Int(depth), off_on});
  }

  Routing Route(ValueId x) {
    const LayerBuilder::Scope scope(l_, "router");
    const ValueId gate = l_.Normal("gate", Shape{kMoeWidth, experts_}, 1 / std::sqrt(512.0));
    const ValueId odds = l_.Op("Softmax", {l_.Op("MatMul", {x, gate})});
    const std::vector<ValueId> best = l_.OpWithResults("TopK", {odds, l_.Ints({kChoices})}, 2,
                                                       MakeAttrs({{"axis", int64_t{-1}}}));
    const ValueId sum = l_.Op("ReduceSum", {best[0], l_.Ints({-1})});
    const ValueId shares = l_.Transpose(l_.Op("Div", {best[0], sum}), {1, 0});
    const ValueId chosen = l_.Reshape(l_.Transpose(best[1], {1, 0}), {kChoices * rows_});

    const ValueId expert = OneHot(chosen, experts_);
    const ValueId before = l_.Op("CumSum", {expert, l_.Int(0)}, MakeAttrs({{"exclusive", true}}));
    ValueId place = l_.Op("ReduceSum", {l_.Op("Mul", {before, expert}), l_.Ints({-1})},
                          MakeAttrs({{"keepdims", false}}));
    place = OneHot(l_.Op("Cast", {place}, MakeAttrs({{"to", "i64"}})), capacity_);
    const ValueId places = l_.Op("Mul", {l_.Op("Unsqueeze", {expert, l_.Ints({2})}),
                                         l_.Op("Unsqueeze", {place, l_.Ints({1})})});
    return {places, l_.Reshape(shares, {kChoices * rows_, 1, 1})};
  }

  // Of both choices of a row together: [rows, experts capacity].
  ValueId OfBothChoices(ValueId places) {
    const ValueId split = l_.Reshape(places, {kChoices, rows_, experts_ * capacity_});
    return l_.Op("ReduceSum", {split, l_.Ints({0})}, MakeAttrs({{"keepdims", false}}));
  }

  ValueId PerExpert(std::string_view name, ValueId x, int64_t in, int64_t out, double gain) {
    const double deviation = std::sqrt(gain / static_cast<double>(in));
    const ValueId weight = l_.Normal(name, Shape{experts_, in, out}, deviation);
    return l_.Op("MatMul", {x, weight});
  }

  ValueId Mixture(ValueId x) {
    const LayerBuilder::Scope scope(l_, "experts");
    const ValueId rows = l_.Reshape(x, {rows_, kMoeWidth});
    const Routing routing = Route(rows);
    const ValueId dispatch = l_.Transpose(OfBothChoices(routing.places), {1, 0});
    const ValueId combine = OfBothChoices(l_.Op("Mul", {routing.places, routing.weights}));

    const ValueId taken = l_.Op("MatMul", {dispatch, rows});
    ValueId y = l_.Reshape(taken, {experts_, capacity_, kMoeWidth});
    y = Gelu(l_, PerExpert("up", y, kMoeWidth, kMoeHidden, 1), GeluKind::kErf, spelling_);
    y = PerExpert("down", y, kMoeHidden, kMoeWidth, BranchGain());
    y = l_.Op("MatMul", {combine, l_.Reshape(y, {experts_ * capacity_, kMoeWidth})});
    return l_.Reshape(y, {batch_, tokens_, kMoeWidth});
  }

  LayerBuilder l_{"mixture-of-experts"};
  const int64_t batch_, tokens_, layers_, experts_, rows_, capacity_;
  const Spelling spelling_;
};

}  // namespace

Model MixtureOfExpertsModel() {
  return {"mixture-of-experts",
          "Transformer of width 512 with two experts for each token (Lepikhin et al. 2020)",
          {BatchOption(),
           {.name = "tokens", .doc = "tokens a sample", .value = 128, .max = 1024},
           {.name = "layers", .doc = "layers", .value = 4, .max = 96},
           {.name = "experts", .doc = "experts a layer", .value = 8, .min = 2, .max = 64},
           SpellingOption()},
          [](const ModelSettings& settings) { return MoeBuilder(settings).Build(); }};
}

}  // namespace millrace
