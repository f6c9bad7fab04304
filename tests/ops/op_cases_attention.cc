#include "tests/ops/case_list.h"

namespace millrace::optest {

// Batches, heads, groups, layouts, and masks of every rank and kind.
void AddAttentionCases(CaseList& l) {
  const std::string tokens_first = "bthd";
  const Attrs none, causal = MakeAttrs({{"causal", true}}), scaled = MakeAttrs({{"scale", 0.3}});
  const Tensor q = l.Data({2, 6, 5, 3});
  l.Add("fused.Attention", {q, l.Data({2, 6, 4, 3}), l.Data({2, 6, 4, 2})}, none);
  l.Add("fused.Attention", {q, l.Data({2, 3, 4, 3}), l.Data({2, 3, 4, 2})}, scaled);
  l.Add("fused.Attention", {q, l.Data({2, 1, 7, 3}), l.Data({2, 1, 7, 3})}, causal);
  for (const Shape& mask :
       {Shape{4}, Shape{5, 1}, Shape{6, 1, 4}, Shape{2, 1, 1, 4}, Shape{2, 6, 5, 4}}) {
    l.Add("fused.Attention", {q, l.Data({2, 6, 4, 3}), l.Data({2, 6, 4, 3}), l.Data(mask)}, none);
  }
  Tensor seen = l.Bools({2, 1, 5, 4});
  for (int64_t i = 0; i < seen.num_elements(); i += 4) seen.Set(i, 1);  // each query sees some
  l.Add("fused.Attention", {q, l.Data({2, 3, 4, 3}), l.Data({2, 3, 4, 3}), seen}, causal);
  const Tensor k = l.Data({2, 4, 6, 3}), v = l.Data({2, 4, 6, 2});
  const Attrs all = MakeAttrs({{"q_layout", tokens_first},
                               {"k_layout", tokens_first},
                               {"v_layout", tokens_first},
                               {"y_layout", tokens_first}});
  l.Add("fused.Attention", {l.Data({2, 5, 6, 3}), k, v}, all);
  l.Add("fused.Attention", {l.Data({2, 5, 6, 3}), k, v, l.Data({6, 5, 4})}, all);
  for (const char* name : {"q_layout", "k_layout", "v_layout", "y_layout"}) {
    l.Add("fused.Attention", {l.Data({2, 4, 4, 3}), l.Data({2, 4, 4, 3}), l.Data({2, 4, 4, 3})},
          MakeAttrs({{name, tokens_first}}));
  }
  l.Add("fused.Attention", {l.Data({1, 1, 1, 1}), l.Data({1, 1, 1, 1}), l.Data({1, 1, 1, 1})});
  l.Add("fused.Attention", {l.Data({1, 2, 3, 4}), l.Data({1, 2, 0, 4}), l.Data({1, 2, 0, 4})});
  l.Add("fused.Attention", {l.Data({1, 2, 3, 0}), l.Data({1, 2, 4, 0}), l.Data({1, 2, 4, 3})});
  l.Add("fused.Attention", {l.Data({1, 0, 3, 2}), l.Data({1, 0, 4, 2}), l.Data({1, 0, 4, 3})});
}

}  // namespace millrace::optest
