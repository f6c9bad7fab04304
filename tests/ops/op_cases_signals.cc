// Transforms, windows, determinants, random numbers, and results whose size the data decide.
#include "tests/ops/case_list.h"

namespace millrace::optest {
namespace {

Tensor Number(int64_t value) { return Tensor::Scalar<int64_t>(value); }

void AddSpectra(CaseList& l) {
  for (const bool inverse : {false, true}) {
    l.Add("DFT", {l.Data({4, 6, 2})}, MakeAttrs({{"inverse", inverse}}));
    l.Add("DFT", {l.Data({2, 8, 4, 1})}, MakeAttrs({{"inverse", inverse}, {"axis", int64_t{-2}}}));
    for (const int64_t length : {3, 7, 8}) {
      l.Add("DFT", {l.Data({4, 5, 1}), Number(length)}, MakeAttrs({{"inverse", inverse}}));
    }
  }
  l.Add("DFT", {l.Data({4, 6, 1})}, MakeAttrs({{"onesided", true}}));
  l.Add("DFT", {l.Data({0, 6, 1})});
  l.Add("STFT", {l.Data({4, 16, 1}), Number(3), l.Data({5})});
  l.Add("STFT", {l.Data({4, 16, 2}), Number(4), Tensor(), Number(8)},
        MakeAttrs({{"onesided", false}}));
  l.Add("STFT", {l.Data({2, 6, 1}), Number(1)});
  for (const char* window : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    for (const bool periodic : {false, true}) {
      for (const int64_t size : {0, 1, 2, 9}) {
        l.Add(window, {Number(size)},
              MakeAttrs({{"periodic", periodic}, {"output_datatype", "f64"}}));
      }
    }
  }
  l.Add("MelWeightMatrix",
        {Number(4), Number(32), Number(8000), l.Data({}, 0, 1), l.Data({}, 2000, 3000)},
        MakeAttrs({{"output_datatype", "f64"}}));
  l.Add("Det", {l.Data({4, 4})});
  l.Add("Det", {l.Data({4, 6, 3, 3})});
  l.Add("Det", {l.Data({2, 1, 1})});
}

void AddRandom(CaseList& l) {
  const Attrs seeded = MakeAttrs({{"seed", int64_t{7}}});
  for (const char* op : {"RandomNormal", "RandomUniform"}) {
    Attrs attrs = seeded;
    attrs.Set("shape", std::vector<int64_t>{3, 4});
    l.Add(op, {}, attrs);
    l.Add(op, {Number(5)}, attrs);
  }
  for (const char* op : {"RandomNormalLike", "RandomUniformLike"}) {
    l.Add(op, {l.Data({3, 4})}, seeded);
    l.Add(op, {l.Bools({3, 4}), Number(5)}, MakeAttrs({{"dtype", "f64"}}));
  }
  l.Add("Bernoulli", {l.Data({3, 4}, 0, 1)}, seeded);
  l.Add("Bernoulli", {l.Data({3, 4}, 0, 1), Number(1)}, MakeAttrs({{"dtype", "bool"}}));
  l.Add("Multinomial", {l.Data({3, 4})}, MakeAttrs({{"sample_size", int64_t{5}}}));
  l.Add("Multinomial", {l.Data({1, 2}), Number(1)}, MakeAttrs({{"dtype", "i64"}}));
}

void AddDataDependent(CaseList& l) {
  l.Add("Unique", {l.Indices({12}, 0, 5)}, {}, 4);
  l.Add("Unique", {l.Data({3, 4})}, MakeAttrs({{"sorted", false}}), 4);
  l.Add("Unique", {l.Indices({6, 2}, 0, 2)}, MakeAttrs({{"axis", int64_t{0}}}), 4);
  l.Add("Unique", {l.Data({0, 4})}, MakeAttrs({{"axis", int64_t{1}}}), 4);
  l.Add("Compress", {l.Data({3, 4}), l.Bools({4})}, MakeAttrs({{"axis", int64_t{-1}}}));
  l.Add("Compress", {l.Data({3, 4}), l.Bools({10})});
  const auto floats = [&](const Shape& shape) {
    return Converted(l.Data(shape, 0, 4), DType::kF32);
  };
  l.Add("NonMaxSuppression", {floats({2, 6, 4}), floats({2, 3, 6}), Number(3),
                              Tensor::Scalar(0.25f), Tensor::Scalar(0.5f)});
  l.Add("NonMaxSuppression", {floats({1, 6, 4}), floats({1, 1, 6}), Number(9)},
        MakeAttrs({{"center_point_box", int64_t{1}}}));
}

}  // namespace

void AddSignalCases(CaseList& l) {
  AddSpectra(l);
  AddRandom(l);
  AddDataDependent(l);
}

}  // namespace millrace::optest
