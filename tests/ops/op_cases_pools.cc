#include "tests/ops/case_list.h"

namespace millrace::optest {

using Ints = std::vector<int64_t>;

void AddPoolCases(CaseList& l) {
  const Attrs windows[] = {
      MakeAttrs({{"kernel_shape", Ints{3, 3}}}),
      MakeAttrs(
          {{"kernel_shape", Ints{2, 3}}, {"pads", Ints{1, 2, 0, 1}}, {"strides", Ints{2, 1}}}),
      MakeAttrs(
          {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{3, 2}}, {"pads", Ints{2, 1, 2, 1}}}),
      MakeAttrs(
          {{"kernel_shape", Ints{3, 2}}, {"auto_pad", "SAME_UPPER"}, {"strides", Ints{2, 2}}}),
      MakeAttrs({{"kernel_shape", Ints{3, 3}},
                 {"pads", Ints{0, 1, 1, 1}},
                 {"strides", Ints{2, 3}},
                 {"ceil_mode", true}}),
  };
  for (Attrs attrs : windows) {
    l.Add("AveragePool", {l.Data({3, 4, 6, 5})}, attrs);
    l.Add("LpPool", {l.Data({3, 4, 6, 5})}, attrs);
    attrs.Set("count_include_pad", true);
    l.Add("AveragePool", {l.Data({3, 4, 6, 5})}, attrs);
  }
  const Attrs line = MakeAttrs({{"kernel_shape", Ints{2}}, {"strides", Ints{3}}});
  l.Add("AveragePool", {l.Data({2, 3, 7})}, line);
  l.Add("AveragePool", {l.Data({0, 3, 7})}, line);
  l.Add("AveragePool", {l.Data({2, 2, 3, 4, 3})},
        MakeAttrs({{"kernel_shape", Ints{2, 2, 1}}, {"pads", Ints{1, 0, 0, 0, 1, 0}}}));
  l.Add("grad.AveragePool", {l.Data({2, 3, 3, 2})},
        MakeAttrs(
            {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"input_shape", Ints{6, 5}}}));
  l.Add("grad.AveragePool", {l.Data({2, 3, 4})},
        MakeAttrs({{"kernel_shape", Ints{3}},
                   {"pads", Ints{1, 1}},
                   {"strides", Ints{2}},
                   {"count_include_pad", true},
                   {"input_shape", Ints{7}}}));
  for (const int64_t p : {1, 3}) {
    l.Add("LpPool", {l.Data({2, 3, 7})}, MakeAttrs({{"kernel_shape", Ints{3}}, {"p", p}}));
    l.Add("GlobalLpPool", {l.Data({2, 3, 4, 5})}, MakeAttrs({{"p", p}}));
  }
  l.Add("GlobalMaxPool", {l.Data({4, 6, 3, 5})});
  l.Add("GlobalMaxPool", {l.Data({2, 3, 2, 1, 3, 2})});
  l.Add("MaxUnpool", {l.Data({1, 2, 3}), l.Indices({1, 2, 3}, 0, 12)},
        MakeAttrs({{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}));
}

}  // namespace millrace::optest
