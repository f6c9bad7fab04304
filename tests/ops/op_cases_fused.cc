// Cases of fused products, and of what packs their weights.
#include "ops/prepack.h"
#include "tests/ops/case_list.h"

namespace millrace::optest {

void AddFusedCases(CaseList& l) {
  using Ints = std::vector<int64_t>;
  // y + residual, then Relu.
  l.Add("fused.Conv",
        {l.Data({2, 4, 5, 6}), l.Data({6, 2, 3, 2}), l.Data({6}), l.Data({2, 6, 3, 6})},
        MakeAttrs({{"epilogue",
                    "dims [2 outer, 6 outer, 3 outer, 6 outer]; in f64 [108, 18, 6, 1]; in f64 "
                    "[108, 18, 6, 1]; %0 = load f64 @0; %1 = load f64 @1; %2 = add f64 %0 %1; %3 = "
                    "constant f64 0.0; %4 = less bool %2 %3; %5 = select f64 %4 %3 %2; out f64 "
                    "[108, 18, 6, 1] = %5"},
                   {"group", int64_t{2}},
                   {"pads", Ints{0, 1, 0, 0}}}));
  l.Add("fused.Conv", {l.Data({1, 2, 4}), l.Data({3, 2, 1})},
        MakeAttrs({{"epilogue",
                    "dims [1 outer, 3 outer, 4 outer]; in f64 [12, 4, 1]; %0 = load f64 @0; %1 = "
                    "tanh f64 %0; out f64 [12, 4, 1] = %1"}}));
  l.Add(
      "fused.MatMul", {l.Data({2, 3, 4}), l.Data({4, 5}), l.Data({5})},
      MakeAttrs({{"epilogue",
                  "dims [2 outer, 3 outer, 5 outer]; in f64 [15, 5, 1]; in f64 [0, 0, 1]; %0 = "
                  "load f64 @0; %1 = load f64 @1; %2 = mul f64 %0 %1; out f64 [15, 5, 1] = %2"}}));
  l.Add("fused.MatMul", {l.Data({4, 3}), l.Data({5, 4})},
        MakeAttrs({{"epilogue",
                    "dims [3 outer, 5 outer]; in f64 [5, 1]; %0 = load f64 @0; %1 = gelu f64 %0; "
                    "out f64 [5, 1] = %1"},
                   {"transA", true},
                   {"transB", true}}));
  NodeQuery reader;
  reader.op = "Conv";
  reader.inputs = {TensorType{DType::kF32, {4, 2, 5, 6}}, TensorType{DType::kF32, {6, 2, 3, 2}}};
  reader.outputs = {TensorType{DType::kF32, {4, 6, 3, 5}}};
  l.Add(kPrepack, {l.Data({6, 2, 3, 2})}, PrepackAttrs(reader, 1));
}

}  // namespace millrace::optest
