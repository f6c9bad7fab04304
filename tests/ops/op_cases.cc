#include "tests/ops/op_cases.h"

#include "tests/ops/case_list.h"

namespace millrace::optest {
namespace {

using Ints = std::vector<int64_t>;

void AddProducts(CaseList& l) {
  const std::pair<Shape, Shape> kPairs[] = {
      {{4, 6}, {6, 8}},    {{6}, {6, 4}},          {{4, 6}, {6}},       {{6}, {6}},
      {{3, 4, 6}, {6, 4}}, {{3, 4, 6}, {3, 6, 2}}, {{6, 4}, {3, 4, 2}}, {{2, 1, 4, 6}, {3, 6, 2}},
      {{4, 0}, {0, 6}},    {{0, 4}, {4, 6}},       {{3, 4, 6}, {6}},    {{6}, {3, 6, 4}},
  };
  for (const auto& [a, b] : kPairs) l.Add("MatMul", {l.Data(a), l.Data(b)});
  for (int flags = 0; flags < 4; ++flags) {
    const bool trans_a = flags & 1, trans_b = flags & 2;
    const Shape a = trans_a ? Shape{6, 4} : Shape{4, 6}, b = trans_b ? Shape{3, 6} : Shape{6, 3};
    const Attrs attrs =
        MakeAttrs({{"transA", trans_a}, {"transB", trans_b}, {"alpha", 0.5}, {"beta", -1.5}});
    l.Add("Gemm", {l.Data(a), l.Data(b)}, attrs);
    for (const Shape& c : {Shape{4, 3}, Shape{3}, Shape{4, 1}, Shape{}}) {
      l.Add("Gemm", {l.Data(a), l.Data(b), l.Data(c)}, attrs);
    }
  }
  const std::pair<std::string, std::vector<Shape>> kEquations[] = {
      {"ij,jk->ik", {{4, 6}, {6, 3}}},
      {"bij,bjk->bik", {{2, 4, 3}, {2, 3, 6}}},
      {"ij->ji", {{4, 6}}},
      {"ij->", {{4, 6}}},
      {"ij->j", {{4, 6}}},
      {"ii->i", {{4, 4}}},
      {"ii", {{4, 4}}},
      {"iij,jkk->ik", {{3, 3, 4}, {4, 2, 2}}},
      {"i,j->ij", {{4}, {6}}},
      {"i,i", {{6}, {6}}},
      {"ij,jk,kl->il", {{4, 2}, {2, 6}, {6, 3}}},
      {"ij,ij,ij->ij", {{4, 6}, {4, 6}, {4, 6}}},
      {"i,j,k,ij,jk,ik->", {{6}, {6}, {6}, {6, 6}, {6, 6}, {6, 6}}},
      {"...ij,...jk->...ik", {{2, 1, 4, 3}, {6, 3, 2}}},
      {"...i->...", {{2, 4, 6}}},
      {"b...,bc->c...", {{4, 2, 3}, {4, 6}}},
      {"ij,j->ij", {{4, 1}, {6}}},
      {"ij,ij->i", {{4, 6}, {4, 1}}},
      {" a b , b -> a ", {{4, 6}, {6}}},
      {",ij->ij", {{}, {4, 6}}},
      {"ij,jk->ik", {{4, 0}, {0, 6}}},
  };
  for (const auto& [equation, shapes] : kEquations) {
    std::vector<Tensor> operands;
    for (const Shape& shape : shapes) operands.push_back(l.Data(shape));
    l.Add("Einsum", std::move(operands), MakeAttrs({{"equation", equation}}));
  }
}

void AddWindows(CaseList& l) {
  const Attrs plain, padded = MakeAttrs({{"pads", Ints{1, 2, 2, 1}}, {"strides", Ints{2, 1}}}),
                     dilated = MakeAttrs({{"dilations", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 0}}}),
                     same = MakeAttrs({{"auto_pad", "SAME_LOWER"}, {"strides", Ints{2, 2}}});
  for (const Attrs& attrs : {plain, padded, dilated, same}) {
    l.Add("Conv", {l.Data({4, 2, 5, 6}), l.Data({6, 2, 3, 2})}, attrs);
    l.Add("Conv", {l.Data({2, 4, 5, 6}), l.Data({6, 2, 3, 2}), l.Data({6})}, [&] {
      Attrs grouped = attrs;
      grouped.Set("group", int64_t{2});
      return grouped;
    }());
    Attrs pool = attrs;
    pool.Set("kernel_shape", Ints{3, 3});
    l.Add("MaxPool", {l.Data({3, 4, 6, 5})}, pool);
    l.Add("MaxPool", {l.Data({3, 4, 6, 5})}, pool, 2);
    pool.Set("ceil_mode", true);
    l.Add("MaxPool", {l.Data({3, 4, 6, 5})}, pool);
  }
  l.Add("Conv", {l.Data({2, 4, 9}), l.Data({6, 4, 3}), l.Data({6})});
  l.Add("Conv", {l.Data({2, 2, 3, 4, 5}), l.Data({2, 2, 2, 3, 2}), l.Data({2})},
        MakeAttrs({{"pads", Ints{1, 1, 0, 0, 1, 1}}}));
  l.Add("Conv", {l.Data({0, 4, 9}), l.Data({6, 4, 3}), l.Data({6})});
  l.Add("MaxPool", {l.Data({2, 3, 7})},
        MakeAttrs({{"kernel_shape", Ints{2}}, {"strides", Ints{3}}}));

  // Y of the Conv cases below: [4,6,3,7] and [2,6,3,5].
  const auto with = [](Attrs attrs, std::string_view name, AttrValue value) {
    attrs.Set(name, std::move(value));
    return attrs;
  };
  const Attrs grouped = with(dilated, "group", int64_t{2});
  l.Add("grad.ConvInput", {l.Data({4, 6, 3, 8}), l.Data({6, 2, 3, 2})},
        with(padded, "input_shape", Ints{5, 6}));
  l.Add("grad.ConvInput", {l.Data({2, 6, 3, 5}), l.Data({6, 2, 3, 2})},
        with(grouped, "input_shape", Ints{5, 6}));
  l.Add("grad.ConvWeight", {l.Data({4, 2, 5, 6}), l.Data({4, 6, 3, 8})},
        with(padded, "kernel_shape", Ints{3, 2}));
  l.Add("grad.ConvWeight", {l.Data({2, 4, 5, 6}), l.Data({2, 6, 3, 5})},
        with(grouped, "kernel_shape", Ints{3, 2}));
  // Slack at the end: none, some, and more than a stride.
  for (const Attrs& attrs : {plain, padded, with(padded, "output_padding", Ints{1, 0}),
                             MakeAttrs({{"dilations", Ints{1, 3}}, {"output_padding", Ints{0, 2}}}),
                             MakeAttrs({{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2, 3}}}),
                             MakeAttrs({{"output_shape", Ints{13, 7}}, {"strides", Ints{2, 2}}})}) {
    l.Add("ConvTranspose", {l.Data({4, 6, 4, 3}), l.Data({6, 4, 3, 2})}, attrs);
    l.Add("ConvTranspose", {l.Data({2, 4, 4, 3}), l.Data({4, 3, 3, 2}), l.Data({6})},
          with(attrs, "group", int64_t{2}));
  }
  l.Add("ConvTranspose", {l.Data({2, 4, 5}), l.Data({4, 6, 3}), l.Data({6})},
        MakeAttrs({{"strides", Ints{2}}, {"pads", Ints{1, 0}}}));
  l.Add("ConvTranspose", {l.Data({2, 2, 2, 3, 2}), l.Data({2, 2, 2, 3, 2})});
  l.Add("ConvTranspose", {l.Data({2, 2, 1}), l.Data({2, 2, 1})},  // no position is reached
        MakeAttrs({{"dilations", Ints{9}}, {"output_padding", Ints{5}}, {"pads", Ints{3, 0}}}));
  l.Add("grad.MaxPool", {l.Data({2, 3, 3, 2}), l.Data({2, 3, 6, 4})},
        MakeAttrs({{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}));
  l.Add("GlobalAveragePool", {l.Data({4, 6, 3, 6})});
  l.Add("GlobalAveragePool", {l.Data({4, 6, 5})});
}

void AddReductions(CaseList& l) {
  for (const bool keep : {false, true}) {
    const Attrs attrs = MakeAttrs({{"keepdims", keep}});
    for (const Ints& axes : {Ints{1}, Ints{-1, 0}, Ints{}, Ints{0, 1, 2}}) {
      l.Add("ReduceSum", {l.Data({2, 6, 4}), CaseList::List(axes)}, attrs);
      for (std::string_view op : {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                                  "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"}) {
        l.Add(op, {l.Data({2, 6, 4})}, MakeAttrs({{"keepdims", keep}, {"axes", axes}}));
      }
      l.Add("ReduceLogSum", {l.Data({2, 6, 4}, 0.5, 2)},
            MakeAttrs({{"keepdims", keep}, {"axes", axes}}));
    }
    l.Add("ReduceSum", {l.Data({2, 6})}, attrs);
    for (std::string_view op :
         {"ReduceMean", "ReduceMax", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp"}) {
      l.Add(op, {l.Data({})}, attrs);
    }
    // Products of zeros: none, one and two in a row.
    l.Add("ReduceProd", {Tensor::Of<double>({3, 4}, {1, 2, 3, 4, 5, 0, 7, 8, 0, 1, 0, 2})},
          MakeAttrs({{"keepdims", keep}, {"axes", Ints{1}}}));
    l.Add("ReduceSum", {l.Data({4, 4}), CaseList::List({1})}, attrs);
    l.Add("ReduceSum", {l.Data({4, 0}), CaseList::List({1})}, attrs);
    for (const int64_t axis : {0, 1, -1}) {
      for (std::string_view op : {"ArgMax", "ArgMin"}) {
        l.Add(op, {l.Data({2, 6, 4})}, MakeAttrs({{"axis", axis}, {"keepdims", keep}}));
      }
    }
  }
  l.Add("ReduceSum", {l.Data({2, 6}), Tensor()}, MakeAttrs({{"noop_with_empty_axes", true}}));
  for (const int64_t axis : {0, 1, -1}) {
    for (std::string_view op : {"Softmax", "LogSoftmax", "Hardmax"}) {
      l.Add(op, {l.Data({3, 6, 4})}, MakeAttrs({{"axis", axis}}));
    }
    for (const bool reverse : {false, true}) {
      for (const bool exclusive : {false, true}) {
        l.Add("CumSum", {l.Data({3, 6, 4}), Tensor::Scalar(axis)},
              MakeAttrs({{"reverse", reverse}, {"exclusive", exclusive}}));
      }
    }
    const Shape normalized = axis == 0 ? Shape{3, 6, 4} : axis == 1 ? Shape{6, 4} : Shape{4};
    for (const int outputs : {1, 3}) {
      l.Add("LayerNormalization", {l.Data({3, 6, 4}), l.Data(normalized), l.Data(normalized)},
            MakeAttrs({{"axis", axis}, {"epsilon", 0.1}}), outputs);
    }
    l.Add("LayerNormalization", {l.Data({3, 6, 4}), l.Data(normalized)},
          MakeAttrs({{"axis", axis}}));
  }
}

}  // namespace

Attrs MakeAttrs(std::initializer_list<std::pair<std::string_view, AttrValue>> items) {
  Attrs attrs;
  for (const auto& [name, value] : items) attrs.Set(name, value);
  return attrs;
}

std::vector<OpCase> OpCases() {
  CaseList list;
  AddElementwiseCases(list);
  AddImageCases(list);
  AddProducts(list);
  AddWindows(list);
  AddReductions(list);
  AddMoveCases(list);
  AddPoolCases(list);
  AddAttentionCases(list);
  AddNormalizationCases(list);
  AddRecurrentCases(list);
  AddQuantizedCases(list);
  AddTrainingCases(list);
  AddSignalCases(list);
  return std::move(list.cases);
}

}  // namespace millrace::optest
