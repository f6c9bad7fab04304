#include "tests/ops/case_list.h"

namespace millrace::optest {

using Ints = std::vector<int64_t>;

void AddQuantizedCases(CaseList& l) {
  constexpr DType kI8 = DType::kI8, kU8 = DType::kU8, kF32 = DType::kF32;
  const auto scales = [](const Shape& shape) { return RandomTensor({kF32, shape}, 7, 0.01, 0.1); };
  const auto scale = [](float value) { return Tensor::Scalar(value); };

  // One for all, along an axis, in blocks of two.
  const std::pair<Shape, Attrs> kGrids[] = {
      {{}, {}},
      {{4}, {}},
      {{3}, MakeAttrs({{"axis", int64_t{0}}})},
      {{3, 2, 2}, MakeAttrs({{"axis", int64_t{1}}, {"block_size", int64_t{2}}})},
  };
  for (const auto& [shape, attrs] : kGrids) {
    for (const DType dtype : {kI8, kU8}) {
      l.Add("QuantizeLinear", {l.Data({3, 4, 2}), scales(shape), l.Bytes(dtype, shape)}, attrs);
      l.Add("DequantizeLinear", {l.Bytes(dtype, {3, 4, 2}), scales(shape), l.Bytes(dtype, shape)},
            attrs);
    }
    l.Add("QuantizeLinear", {l.Data({3, 4, 2}), scales(shape)}, attrs);
  }
  l.Add("DynamicQuantizeLinear", {RandomTensor({kF32, {5, 7}}, 3)}, {}, 3);

  for (const auto& [a, b] : {std::pair<Shape, Shape>{{4, 3}, {3, 5}}, {{2, 4, 3}, {3, 5}}}) {
    l.Add("MatMulInteger", {l.Bytes(kU8, a), l.Bytes(kI8, b)});
    l.Add("MatMulInteger",
          {l.Bytes(kI8, a), l.Bytes(kU8, b), l.Bytes(kI8, {4}), l.Bytes(kU8, {5})});
    l.Add("QLinearMatMul", {l.Bytes(kU8, a), scale(0.02f), l.Bytes(kU8, {}), l.Bytes(kI8, b),
                            scales({5}), l.Bytes(kI8, {5}), scale(0.5f), l.Bytes(kU8, {})});
  }
  for (const int64_t group : {1, 2}) {
    const Attrs attrs = MakeAttrs({{"group", group}, {"pads", Ints{1, 0, 1, 1}}});
    const Shape x = {2, 4, 5, 4}, w = {6, 4 / group, 3, 2};
    l.Add("ConvInteger", {l.Bytes(kU8, x), l.Bytes(kI8, w)}, attrs);
    l.Add("ConvInteger", {l.Bytes(kU8, x), l.Bytes(kI8, w), l.Bytes(kU8, {}), l.Bytes(kI8, {6})},
          attrs);
    l.Add("QLinearConv",
          {l.Bytes(kU8, x), scale(0.02f), l.Bytes(kU8, {}), l.Bytes(kI8, w), scales({6}),
           l.Bytes(kI8, {}), scale(0.5f), l.Bytes(kI8, {}),
           RandomTensor({DType::kI32, {6}}, 9, -1000, 1000)},
          attrs);
  }
}

}  // namespace millrace::optest
