// DLRM (Naumov et al. 2019) as its authors run it on Criteo's Kaggle data: 13 numbers through a
// bottom MLP, 26 categories through embeddings of width 16, dot products of all pairs, a top MLP.
#include <vector>

#include "bench/models/layers.h"
#include "bench/models/model.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kDenseFeatures = 13, kCategories = 26, kEmbeddingWidth = 16;
constexpr int64_t kVectors = kCategories + 1;

// `widths`: of what comes in, and of each layer; each but the last of the top is followed by Relu.
ValueId Mlp(LayerBuilder& l, std::string_view name, ValueId x, const std::vector<int64_t>& widths,
            bool relu_at_end) {
  const LayerBuilder::Scope scope(l, name);
  for (size_t i = 1; i < widths.size(); ++i) {
    x = l.Gemm(StrCat(i), x, widths[i - 1], widths[i], 2);
    if (relu_at_end || i + 1 < widths.size()) x = l.Relu(x);
  }
  return x;
}

// Where in a flattened matrix of all pairs those below the diagonal are.
std::vector<int64_t> PairsBelowDiagonal() {
  std::vector<int64_t> places;
  for (int64_t row = 0; row < kVectors; ++row) {
    for (int64_t column = 0; column < row; ++column) places.push_back(row * kVectors + column);
  }
  return places;
}

Graph BuildDlrm(const ModelSettings& settings) {
  const int64_t batch = settings["batch"], rows = settings["rows"];
  LayerBuilder l("dlrm");
  const ValueId dense = l.Input("dense", {DType::kF32, Shape{batch, kDenseFeatures}});
  const ValueId bottom =
      Mlp(l, "bottom", dense, {kDenseFeatures, 512, 256, 64, kEmbeddingWidth}, true);
  std::vector<ValueId> vectors = {l.Reshape(bottom, {batch, 1, kEmbeddingWidth})};
  for (int64_t i = 0; i < kCategories; ++i) {
    const ValueId index = l.Input(StrCat("category", i), {DType::kI64, Shape{batch, 1}});
    const ValueId table = l.Normal(StrCat("embedding", i), Shape{rows, kEmbeddingWidth}, 0.5);
    vectors.push_back(l.Op("Gather", {table, index}));
  }
  const ValueId all = l.Concat(std::move(vectors), 1);
  const ValueId products = l.Op("MatMul", {all, l.Transpose(all, {0, 2, 1})});
  const std::vector<int64_t> pairs = PairsBelowDiagonal();
  const ValueId flat = l.Reshape(products, {batch, kVectors * kVectors});
  const ValueId picked = l.Op("Gather", {flat, l.Ints(pairs)}, MakeAttrs({{"axis", int64_t{1}}}));
  const int64_t features = kEmbeddingWidth + std::ssize(pairs);
  const ValueId top = Mlp(l, "top", l.Concat({bottom, picked}, 1), {features, 512, 256, 1}, false);
  l.Output(l.Op("Sigmoid", {top}));
  return std::move(l).Finish();
}

}  // namespace

Model DlrmModel() {
  return {"dlrm",
          "DLRM (Naumov et al. 2019), as for Criteo's Kaggle data",
          {BatchOption(),
           {.name = "rows", .doc = "rows of each embedding", .value = 100000, .max = 10000000}},
          BuildDlrm};
}

}  // namespace millrace
