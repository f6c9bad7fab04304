// Cases of ops that move, pick and place elements, and of those that make some up.
#include "tests/ops/case_list.h"

namespace millrace::optest {
namespace {

using Ints = std::vector<int64_t>;

void AddReshaping(CaseList& l) {
  const std::pair<Shape, Ints> kReshapes[] = {
      {{6, 8}, {6, 2, 4}}, {{6, 8}, {-1}},         {{6, 2, 4}, {0, -1}}, {{6, 4}, {4, 6}},
      {{12, 2}, {4, 6}},   {{1, 6, 1}, {6, 1, 1}}, {{}, {1, 1}},         {{0, 4}, {0, 9}},
      {{4, 6}, {2, 2, 6}}, {{2, 3, 4}, {6, 4}},
  };
  for (const auto& [from, to] : kReshapes) {
    const bool allow_zero = from.rank() > 0 && from[0] == 0;
    l.Add("Reshape", {l.Data(from), CaseList::List(to)}, MakeAttrs({{"allowzero", allow_zero}}));
  }
  for (const int64_t axis : {0, 1, 2, 3, -1}) {
    l.Add("Flatten", {l.Data({2, 3, 4})}, MakeAttrs({{"axis", axis}}));
  }
  l.Add("Flatten", {l.Data({})}, MakeAttrs({{"axis", int64_t{0}}}));
  l.Add("Squeeze", {l.Data({1, 6, 1, 4})});
  l.Add("Squeeze", {l.Data({1, 6, 1, 4}), CaseList::List({-2})});
  l.Add("Squeeze", {l.Data({1}), CaseList::List({0})});
  l.Add("Unsqueeze", {l.Data({6, 4}), CaseList::List({0, -1, 2})});
  l.Add("Unsqueeze", {l.Data({}), CaseList::List({0})});
  l.Add("Transpose", {l.Data({2, 6, 4})});
  l.Add("Transpose", {l.Data({2, 6, 4})}, MakeAttrs({{"perm", Ints{1, 2, 0}}}));
  l.Add("Transpose", {l.Data({})});
  for (const char* mode : {"DCR", "CRD"}) {
    l.Add("DepthToSpace", {l.Data({2, 12, 3, 2})},
          MakeAttrs({{"blocksize", int64_t{2}}, {"mode", mode}}));
  }
  l.Add("SpaceToDepth", {l.Data({2, 3, 6, 4})}, MakeAttrs({{"blocksize", int64_t{2}}}));
}

void AddJoining(CaseList& l) {
  for (const int64_t axis : {1, -1}) {
    l.Add("Concat", {l.Data({4, 2, 6}), l.Data({4, 2, 6}), l.Data({4, 2, 6})},
          MakeAttrs({{"axis", axis}}));
  }
  l.Add("Concat", {l.Data({4, 2}), l.Data({0, 2}), l.Data({1, 2})},
        MakeAttrs({{"axis", int64_t{0}}}));
  l.Add("Concat", {l.Data({3})}, MakeAttrs({{"axis", int64_t{0}}}));
  l.Add("Split", {l.Data({6, 4})}, {}, 3);
  l.Add("Split", {l.Data({6, 4}), CaseList::List({1, 0, 3})}, MakeAttrs({{"axis", int64_t{-1}}}),
        3);
}

void AddPicking(CaseList& l) {
  const auto slice = [&](const Shape& shape, Ints starts, Ints ends, Ints axes, Ints steps) {
    l.Add("Slice", {l.Data(shape), CaseList::List(starts), CaseList::List(ends),
                    CaseList::List(axes), CaseList::List(steps)});
  };
  slice({6, 4, 9}, {1, 0}, {5, 100}, {0, 2}, {1, 2});
  slice({6, 4, 9}, {-1, -2}, {-100, 1}, {-1, 0}, {-1, -2});
  slice({6, 4}, {0, 4}, {6, 0}, {0, 1}, {1, 1});
  slice({6, 4}, {INT64_MAX}, {INT64_MIN}, {1}, {-1});
  slice({6, 4}, {0}, {INT64_MAX}, {1}, {INT64_MAX});
  l.Add("Slice", {l.Data({6, 4}), CaseList::List({2}), CaseList::List({-1})});
  l.Add("Slice", {l.Data({}), CaseList::List({}), CaseList::List({})});
  l.Add("Expand", {l.Data({6, 1}), CaseList::List({2, 1, 4})});
  l.Add("Expand", {l.Data({}), CaseList::List({3})});
  l.Add("Tile", {l.Data({6, 4}), CaseList::List({1, 3})});
  l.Add("Tile", {l.Data({2, 3, 4}), CaseList::List({3, 1, 2})});
  l.Add("Tile", {l.Data({2, 3}), CaseList::List({0, 2})});
  l.Add("Tile", {l.Data({}), CaseList::List({})});
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    const Attrs attrs = MakeAttrs({{"mode", mode}});
    l.Add("Pad", {l.Data({6, 4}), CaseList::List({0, 2, 0, 1})}, attrs);
    l.Add("Pad", {l.Data({6, 4}), CaseList::List({9, -1, -2, 3})}, attrs);
    l.Add("Pad", {l.Data({2, 6, 4}), CaseList::List({1, 3}), Tensor(), CaseList::List({-1})},
          attrs);
    l.Add("Pad", {l.Data({1, 6}), CaseList::List({2, 0, 2, 0})}, attrs);
  }
  l.Add("Pad", {l.Data({6, 4}), CaseList::List({0, 2, 0, 1}), l.Data({})});
  l.Add("Pad", {l.Data({0, 4}), CaseList::List({2, 0, 1, -1}), l.Data({1})});
  for (const bool upper : {false, true}) {
    const Attrs attrs = MakeAttrs({{"upper", upper}});
    for (const int64_t k : {0, 1, -2, 7, -7}) {
      l.Add("Trilu", {l.Data({2, 6, 4}), Tensor::Scalar(k)}, attrs);
    }
    l.Add("Trilu", {l.Data({4, 4})}, attrs);
    l.Add("Trilu", {l.Data({0, 4})}, attrs);
  }
  l.Add("ReverseSequence", {l.Data({4, 6, 2}), CaseList::List({0, 1, 2, 3, 4, 3})});
  l.Add("ReverseSequence", {l.Data({4, 6, 2}), CaseList::List({0, 6, 2, 3})},
        MakeAttrs({{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}}));
}

void AddGathers(CaseList& l) {
  for (const int64_t axis : {0, 1, -1}) {
    const int64_t size = axis == 0 ? 3 : axis == 1 ? 6 : 4;
    const Attrs attrs = MakeAttrs({{"axis", axis}});
    for (const Shape& indices : {Shape{}, Shape{6}, Shape{2, 4}, Shape{0}}) {
      l.Add("Gather", {l.Data({3, 6, 4}), l.Indices(indices, -size, size)}, attrs);
    }
    for (const Shape& indices : {Shape{3, 6, 4}, Shape{2, 4, 3}, Shape{3, 0, 4}}) {
      l.Add("GatherElements", {l.Data({3, 6, 4}), l.Indices(indices, -size, size)}, attrs);
    }
  }
  l.Add("grad.Gather", {l.Data({3, 6, 2, 4}), l.Indices({6, 2}, -5, 5)},
        MakeAttrs({{"axis", int64_t{1}}, {"size", int64_t{5}}}));
  l.Add("grad.Gather", {l.Data({4}), l.Indices({}, 0, 3)}, MakeAttrs({{"size", int64_t{3}}}));
  for (const Shape& indices : {Shape{6, 2}, Shape{4, 6, 1}, Shape{3}, Shape{0, 2}, Shape{4, 0}}) {
    l.Add("GatherND", {l.Data({3, 4, 6}), l.Indices(indices, -3, 3)});
  }
  l.Add("GatherND", {l.Data({4, 3, 6}), l.Indices({4, 2, 1}, -3, 3)},
        MakeAttrs({{"batch_dims", int64_t{1}}}));
  l.Add("GatherND", {l.Data({4, 2, 6}), l.Indices({4, 2, 1}, -6, 6)},
        MakeAttrs({{"batch_dims", int64_t{2}}}));
  l.Add("TopK", {l.Data({6, 4}), CaseList::List({2})}, {}, 2);
  l.Add("TopK", {l.Data({6, 4}), CaseList::List({3})},
        MakeAttrs({{"axis", int64_t{0}}, {"largest", false}, {"sorted", false}}), 2);
  l.Add("TopK", {l.Data({6, 4}), CaseList::List({4})});
  l.Add("TopK", {l.Data({6, 4}), CaseList::List({0})}, {}, 2);
}

void AddScatters(CaseList& l) {
  // Without a reduction, the same position twice would leave the result open.
  l.Add("ScatterElements",
        {l.Data({3, 4}), CaseList::Matrix(2, {2, 0, 1, -1, 0, 2, -3, 1}), l.Data({2, 4})});
  l.Add("ScatterElements",
        {l.Data({4, 6}), CaseList::Matrix(4, {2, 0, -1, 4, 1, 5, 3, 0}), l.Data({4, 2})},
        MakeAttrs({{"axis", int64_t{1}}}));
  l.Add("ScatterND", {l.Data({6, 4}), CaseList::Matrix(3, {4, -1, 0}), l.Data({3, 4})});
  l.Add("ScatterND", {l.Data({6, 4}), CaseList::Matrix(2, {4, -1, 0, 2}), l.Data({2})});
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    Attrs attrs = MakeAttrs({{"reduction", reduction}});
    l.Add("ScatterND", {l.Data({6, 4}), l.Indices({8, 1}, -6, 6), l.Data({8, 4})}, attrs);
    l.Add("ScatterND", {l.Data({3, 4}), l.Indices({2, 4, 2}, -3, 3), l.Data({2, 4})}, attrs);
    l.Add("ScatterND", {l.Data({3, 4}), l.Indices({0, 2}, -3, 3), l.Data({0})}, attrs);
    l.Add("ScatterElements", {l.Data({3, 4}), l.Indices({6, 4}, -3, 3), l.Data({6, 4})}, attrs);
    attrs.Set("axis", int64_t{-1});
    l.Add("ScatterElements", {l.Data({6, 4}), l.Indices({6, 8}, -4, 4), l.Data({6, 8})}, attrs);
  }
}

void AddMaking(CaseList& l) {
  for (const Shape& shape : {Shape{}, Shape{2, 0, 4}, Shape{5, 6}}) {
    l.Add("Shape", {l.Data(shape)});
    l.Add("Shape", {l.Data(shape)}, MakeAttrs({{"start", int64_t{-2}}, {"end", int64_t{9}}}));
    l.Add("Size", {l.Data(shape)});
    const Ints dims(shape.begin(), shape.end());
    l.Add("ConstantOfShape", {CaseList::List(dims)}, MakeAttrs({{"value", 2.5}}));
    l.Add("ConstantOfShape", {CaseList::List(dims)}, MakeAttrs({{"dtype", "i64"}}));
  }
  l.Add("EyeLike", {l.Data({4, 6})});
  l.Add("EyeLike", {l.Data({6, 4})}, MakeAttrs({{"k", int64_t{-2}}, {"dtype", "i32"}}));
  for (const Ints& r : {Ints{3, 9, 2}, Ints{5, -5, -3}, Ints{0, 0, 1}, Ints{4, 1, 1}}) {
    l.Add("Range", {Tensor::Scalar(r[0]), Tensor::Scalar(r[1]), Tensor::Scalar(r[2])});
  }
  for (const int64_t axis : {-1, 0, 1}) {
    l.Add("OneHot", {l.Indices({6, 4}, -6, 6), Tensor::Scalar(int64_t{5}), l.Data({2})},
          MakeAttrs({{"axis", axis}}));
  }
  l.Add("OneHot", {l.Indices({}, 0, 3), CaseList::List({3}), l.Data({2})});
  l.Add("NonZero", {l.Data({3, 4})});
}

}  // namespace

void AddMoveCases(CaseList& l) {
  AddReshaping(l);
  AddJoining(l);
  AddPicking(l);
  AddGathers(l);
  AddScatters(l);
  AddMaking(l);
}

}  // namespace millrace::optest
