// LSTM layers, and sequence to sequence with attention (Luong et al. 2015, global, by dot products,
// without feeding attention back), the target's words given. Sequences are [tokens, batch, width].
#include <cmath>

#include "bench/models/layers.h"
#include "bench/models/model.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kLstmWidth = 512, kSeq2SeqVocabulary = 32000;

struct LstmResult {
  ValueId sequence;  // [tokens, batch, width]
  ValueId h, c;      // after the last token, [1, batch, width]
};

// `before`: the states to begin with, or none.
LstmResult LstmLayer(LayerBuilder& l, std::string_view name, ValueId x,
                     const LstmResult& before = {}) {
  const LayerBuilder::Scope scope(l, name);
  const double deviation = 1 / std::sqrt(double{kLstmWidth});
  const Shape weights{1, 4 * kLstmWidth, kLstmWidth};
  const ValueId w = l.Normal("W", weights, deviation), r = l.Normal("R", weights, deviation);
  const ValueId b = l.Uniform("B", Shape{1, 8 * kLstmWidth}, -0.1, 0.1);
  std::vector<ValueId> inputs = {x, w, r, b};
  if (before.h.valid()) inputs.insert(inputs.end(), {ValueId(), before.h, before.c});
  const std::vector<ValueId> results =
      l.OpWithResults("LSTM", std::move(inputs), 3, MakeAttrs({{"hidden_size", kLstmWidth}}));
  // The dim of directions, of which there is one.
  return {l.Op("Squeeze", {results[0], l.Ints({1})}), results[1], results[2]};
}

Graph BuildLstm(const ModelSettings& settings) {
  LayerBuilder l("lstm");
  const Shape shape{settings["tokens"], settings["batch"], kLstmWidth};
  ValueId x = l.Input("x", {DType::kF32, shape});
  for (int layer = 0; layer < 2; ++layer) x = LstmLayer(l, StrCat("layer", layer), x).sequence;
  l.Output(x);
  return std::move(l).Finish();
}

ValueId EmbedWords(LayerBuilder& l, std::string_view name, ValueId words) {
  const ValueId table = l.Normal(name, Shape{kSeq2SeqVocabulary, kLstmWidth}, 1);
  return l.Op("Gather", {table, words});
}

Graph BuildSeq2Seq(const ModelSettings& settings) {
  LayerBuilder l("seq2seq");
  const TensorType words{DType::kI64, Shape{settings["tokens"], settings["batch"]}};
  const ValueId source = l.Input("source", words), target = l.Input("target", words);
  const LstmResult encoded = LstmLayer(l, "encoder", EmbedWords(l, "encoder/words", source));
  const LstmResult decoded =
      LstmLayer(l, "decoder", EmbedWords(l, "decoder/words", target), encoded);

  const LayerBuilder::Scope scope(l, "attention");
  const ValueId query = l.Transpose(decoded.sequence, {1, 0, 2});
  const ValueId key = l.Transpose(encoded.sequence, {1, 2, 0});
  const ValueId value = l.Transpose(encoded.sequence, {1, 0, 2});
  const ValueId weights = l.Op("Softmax", {l.Op("MatMul", {query, key})});
  const ValueId both = l.Concat({l.Op("MatMul", {weights, value}), query}, 2);
  const ValueId mix = l.Normal("mix", Shape{2 * kLstmWidth, kLstmWidth}, 0.1);
  const ValueId attended = l.Op("Tanh", {l.Op("MatMul", {both, mix})});
  l.Output(l.Linear("logits", attended, kLstmWidth, kSeq2SeqVocabulary));
  return std::move(l).Finish();
}

ModelOption SequenceOption() {
  return {.name = "tokens", .doc = "tokens a sequence", .value = 64, .max = 1024};
}

}  // namespace

Model LstmModel() {
  return {"lstm", "Two LSTM layers of width 512", {BatchOption(), SequenceOption()}, BuildLstm};
}

Model Seq2SeqModel() {
  return {"seq2seq",
          "LSTM encoder and decoder of width 512 with attention (Luong et al. 2015)",
          {BatchOption(), SequenceOption()},
          BuildSeq2Seq};
}

}  // namespace millrace
