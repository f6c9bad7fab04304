#include "tests/ops/case_list.h"

namespace millrace::optest {

using Ints = std::vector<int64_t>;

void AddNormalizationCases(CaseList& l) {
  for (const Shape& x : {Shape{4, 6, 3, 2}, Shape{6, 4}, Shape{2, 3, 6}, Shape{6}}) {
    const Shape channels{x.rank() > 1 ? x[1] : 1};
    const auto batch_norm = [&](const Attrs& attrs, int outputs) {
      l.Add("BatchNormalization",
            {l.Data(x), l.Data(channels), l.Data(channels), l.Data(channels),
             l.Data(channels, 0.5, 2)},
            attrs, outputs);
    };
    batch_norm(MakeAttrs({{"epsilon", 0.1}}), 1);
    batch_norm(MakeAttrs({{"epsilon", 0.1}, {"training_mode", true}}), 1);
    batch_norm(MakeAttrs({{"momentum", 0.75}, {"training_mode", true}}), 3);
    l.Add("grad.BatchNormalization", {l.Data(x), l.Data(x), l.Data(channels)},
          MakeAttrs({{"epsilon", 0.1}}), 3);
    if (x.rank() < 2) continue;
    for (const int64_t size : {1, 2, 5}) {
      const Attrs attrs =
          MakeAttrs({{"size", size}, {"alpha", 0.5}, {"beta", 0.75}, {"bias", 2.0}});
      l.Add("LRN", {l.Data(x)}, attrs);
      l.Add("grad.LRN", {l.Data(x), l.Data(x)}, attrs);
    }
    if (x.rank() < 3) continue;
    l.Add("InstanceNormalization", {l.Data(x), l.Data(channels), l.Data(channels)},
          MakeAttrs({{"epsilon", 0.1}}));
    for (const int64_t groups : {1, 3}) {
      l.Add("GroupNormalization", {l.Data(x), l.Data(channels), l.Data(channels)},
            MakeAttrs({{"epsilon", 0.1}, {"num_groups", groups}}));
    }
  }
  l.Add("BatchNormalization",
        {l.Data({0, 2}), l.Data({2}), l.Data({2}), l.Data({2}), l.Data({2}, 0.5, 2)});
  for (const int64_t axis : {0, 1, -1}) {
    const Shape normalized = axis == 0 ? Shape{3, 6, 4} : axis == 1 ? Shape{6, 4} : Shape{4};
    l.Add("RMSNormalization", {l.Data({3, 6, 4}), l.Data(normalized)},
          MakeAttrs({{"axis", axis}, {"epsilon", 0.1}}));
    for (const int64_t p : {1, 2}) {
      l.Add("LpNormalization", {l.Data({3, 6, 4})}, MakeAttrs({{"axis", axis}, {"p", p}}));
    }
  }
  l.Add("MeanVarianceNormalization", {l.Data({3, 6, 4, 2})});
  l.Add("MeanVarianceNormalization", {l.Data({3, 6})}, MakeAttrs({{"axes", Ints{-1}}}));
}

}  // namespace millrace::optest
