// Ops that move, pick and place elements, and those that make some up, against values worked out by
// hand; and what is said of positions that are not there.
#include "tests/ops/op_cases.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using optest::Eval;
using optest::F32;
using optest::I64;
using optest::Is;
using optest::MakeAttrs;
using optest::RunAll;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

Tensor List(const Ints& values) {
  return Tensor::FromSpan<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// --- Slice -------------------------------------------------------------------------------------

// 0, 1, ... as [2,5].
Tensor Counting() { return F32({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}); }

TEST(Slice, TakesStepsAndClamps) {
  const auto slice = [](Ints starts, Ints ends, Ints axes, Ints steps) {
    return Eval("Slice", {Counting(), List(starts), List(ends), List(axes), List(steps)});
  };
  EXPECT_THAT(slice({1, 0}, {2, 4}, {0, 1}, {1, 2}), Is(F32({1, 2}, {5, 7})));
  EXPECT_THAT(slice({-2}, {1000}, {1}, {1}), Is(F32({2, 2}, {3, 4, 8, 9})));
  EXPECT_THAT(slice({-1}, {-1000}, {-1}, {-2}), Is(F32({2, 3}, {4, 2, 0, 9, 7, 5})));
  EXPECT_THAT(slice({1000}, {2}, {1}, {-1}), Is(F32({2, 2}, {4, 3, 9, 8})));
  EXPECT_THAT(slice({3}, {-4}, {1}, {1}), Is(F32({2, 0}, {})));
  EXPECT_THAT(slice({INT64_MAX}, {INT64_MIN}, {0}, {-1}),
              Is(F32({2, 5}, {5, 6, 7, 8, 9, 0, 1, 2, 3, 4})));
  EXPECT_THAT(slice({0}, {INT64_MAX}, {1}, {INT64_MAX}), Is(F32({2, 1}, {0, 5})));
  EXPECT_THAT(slice({4}, {INT64_MIN}, {1}, {INT64_MIN}), Is(F32({2, 1}, {4, 9})));
  EXPECT_THAT(Eval("Slice", {Counting(), List({1}), List({2})}), Is(F32({1, 5}, {5, 6, 7, 8, 9})));
}

TEST(Slice, Refuses) {
  const auto error = [](Ints starts, Ints ends, Ints axes, Ints steps) {
    return optest::ErrorOf("Slice",
                           {Counting(), List(starts), List(ends), List(axes), List(steps)});
  };
  EXPECT_THAT(error({0}, {1}, {2}, {1}), HasSubstr("axis 2 is out of range [-2,2)"));
  EXPECT_THAT(error({0, 0}, {1, 1}, {1, -1}, {1, 1}), HasSubstr("axis -1 is given twice"));
  EXPECT_THAT(error({0}, {1}, {1}, {0}), HasSubstr("the step along axis 1 is 0"));
  EXPECT_THAT(error({0}, {1, 2}, {1}, {1}), HasSubstr("'ends' has 2 entries, 'starts' has 1"));
}

// --- Pad ---------------------------------------------------------------------------------------

TEST(Pad, Modes) {
  const Tensor x = F32({3}, {1, 2, 3});
  const auto pad = [&](std::string_view mode, Ints pads) {
    return Eval("Pad", {x, List(pads)}, MakeAttrs({{"mode", std::string(mode)}}));
  };
  EXPECT_THAT(pad("constant", {2, 1}), Is(F32({6}, {0, 0, 1, 2, 3, 0})));
  EXPECT_THAT(pad("edge", {2, 1}), Is(F32({6}, {1, 1, 1, 2, 3, 3})));
  EXPECT_THAT(pad("reflect", {2, 1}), Is(F32({6}, {3, 2, 1, 2, 3, 2})));
  EXPECT_THAT(pad("reflect", {0, 5}), Is(F32({8}, {1, 2, 3, 2, 1, 2, 3, 2})));
  EXPECT_THAT(pad("wrap", {4, 1}), Is(F32({8}, {3, 1, 2, 3, 1, 2, 3, 1})));
  EXPECT_THAT(pad("constant", {-1, 1}), Is(F32({3}, {2, 3, 0})));
  EXPECT_THAT(pad("edge", {-1, -1}), Is(F32({1}, {2})));
  EXPECT_THAT(Eval("Pad", {x, List({1, 0}), F32({}, {9})}), Is(F32({4}, {9, 1, 2, 3})));
}

TEST(Pad, ConstantsFillEveryDim) {
  EXPECT_THAT(Eval("Pad", {F32({2, 1}, {1, 2}), List({0, 1, 1, 0}), F32({}, {7})}),
              Is(F32({3, 2}, {7, 1, 7, 2, 7, 7})));
  EXPECT_THAT(Eval("Pad", {Tensor::Of<bool>({1}, {true}), List({1, 1})}),
              Is(Tensor::Of<bool>({3}, {false, true, false})));
  EXPECT_THAT(Eval("Pad", {F32({2, 2}, {1, 2, 3, 4}), List({1, 0}), Tensor(), List({-1})}),
              Is(F32({2, 3}, {0, 1, 2, 0, 3, 4})));
}

TEST(Pad, Refuses) {
  const Tensor x = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(optest::ErrorOf("Pad", {x, List({1, 2})}),
              HasSubstr("'pads' has 2 entries, expected are 4, two for each axis"));
  EXPECT_THAT(optest::ErrorOf("Pad", {x, List({0, -2, 0, -2})}),
              HasSubstr("dim 1 of 3 cannot be cut by 4"));
  EXPECT_THAT(optest::ErrorOf("Pad", {x, List({0, INT64_MAX, 0, 0})}),
              HasSubstr("a pad of 9223372036854775807 along axis 1 is out of range"));
  EXPECT_THAT(optest::ErrorOf("Pad", {F32({0}, {}), List({1, 0})}, MakeAttrs({{"mode", "edge"}})),
              HasSubstr("dim 0 is empty: 'edge' has nothing to pad with"));
  EXPECT_THAT(optest::ErrorOf("Pad", {x, List({1, 1, 1, 1}), F32({2}, {1, 2})}),
              HasSubstr("'constant_value' must have one element, but is [2]"));
}

// --- Repeating, reshaping, reordering ----------------------------------------------------------

TEST(Moves, TileRepeatsEveryDim) {
  EXPECT_THAT(Eval("Tile", {F32({2, 2}, {1, 2, 3, 4}), List({2, 2})}),
              Is(F32({4, 4}, {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4})));
  EXPECT_THAT(optest::ErrorOf("Tile", {F32({2}, {1, 2}), List({1, 1})}),
              HasSubstr("'repeats' has 2 entries for rank 1"));
  EXPECT_THAT(optest::ErrorOf("Tile", {F32({2}, {1, 2}), List({-1})}),
              HasSubstr("repeated -1 times"));
  EXPECT_THAT(optest::ErrorOf("Tile", {F32({2}, {1, 2}), List({INT64_MAX})}),
              HasSubstr("the result is too large"));
}

TEST(Moves, SqueezeAndUnsqueezeDims) {
  const Tensor x = F32({1, 2, 1}, {1, 2});
  EXPECT_EQ(Eval("Squeeze", {x}).shape(), (Shape{2}));
  EXPECT_EQ(Eval("Squeeze", {x, List({-1})}).shape(), (Shape{1, 2}));
  EXPECT_EQ(Eval("Squeeze", {x, List({})}).shape(), (Shape{1, 2, 1}));
  EXPECT_EQ(Eval("Unsqueeze", {x, List({4, 0})}).shape(), (Shape{1, 1, 2, 1, 1}));
  EXPECT_EQ(Eval("Unsqueeze", {x, List({-1})}).shape(), (Shape{1, 2, 1, 1}));
  EXPECT_THAT(optest::ErrorOf("Squeeze", {x, List({1})}), HasSubstr("dim 1 of [1,2,1] is not 1"));
  EXPECT_THAT(optest::ErrorOf("Unsqueeze", {x, List({5})}),
              HasSubstr("axis 5 is out of range [-4,4)"));
  EXPECT_THAT(optest::ErrorOf("Unsqueeze", {x, List({0, 1, 2, 3, 4, 5})}),
              HasSubstr("the result would have 9 dims"));
}

TEST(Moves, DepthToSpaceAndBack) {
  const Tensor x = F32({1, 4, 1, 2}, {0, 1, 10, 11, 20, 21, 30, 31});
  const Attrs block = MakeAttrs({{"blocksize", int64_t{2}}});
  const Tensor y = Eval("DepthToSpace", {x}, block);
  EXPECT_THAT(y, Is(F32({1, 1, 2, 4}, {0, 10, 1, 11, 20, 30, 21, 31})));
  EXPECT_THAT(Eval("SpaceToDepth", {y}, block), Is(x));

  // With two channels in the result the modes differ.
  const Tensor z = F32({1, 8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(Eval("DepthToSpace", {z}, block), Is(F32({1, 2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7})));
  Attrs crd = block;
  crd.Set("mode", std::string("CRD"));
  EXPECT_THAT(Eval("DepthToSpace", {z}, crd), Is(F32({1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})));
  EXPECT_THAT(optest::ErrorOf("DepthToSpace", {F32({1, 2, 1, 1}, {0, 1})}, block),
              HasSubstr("2 channels do not divide in blocks of 2 x 2"));
  EXPECT_THAT(optest::ErrorOf("SpaceToDepth", {F32({1, 1, 1, 2}, {0, 1})}, block),
              HasSubstr("1 x 2 pixels do not divide in blocks of 2"));
  EXPECT_THAT(optest::ErrorOf("SpaceToDepth", {x}, MakeAttrs({{"blocksize", int64_t{0}}})),
              HasSubstr("'blocksize' is 0"));
}

TEST(Moves, TriluKeepsOneSideOfADiagonal) {
  const Tensor x = I64({2, 3}, {1, 2, 3, 4, 5, 6});
  const Attrs lower = MakeAttrs({{"upper", false}});
  EXPECT_THAT(Eval("Trilu", {x}), Is(I64({2, 3}, {1, 2, 3, 0, 5, 6})));
  EXPECT_THAT(Eval("Trilu", {x, Tensor::Scalar<int64_t>(1)}), Is(I64({2, 3}, {0, 2, 3, 0, 0, 6})));
  EXPECT_THAT(Eval("Trilu", {x, Tensor::Scalar<int64_t>(-9)}), Is(x));
  EXPECT_THAT(Eval("Trilu", {x}, lower), Is(I64({2, 3}, {1, 0, 0, 4, 5, 0})));
  EXPECT_THAT(Eval("Trilu", {x, Tensor::Scalar<int64_t>(INT64_MAX)}, lower), Is(x));
  EXPECT_THAT(Eval("Trilu", {x, Tensor::Scalar<int64_t>(INT64_MIN)}, lower),
              Is(I64({2, 3}, {0, 0, 0, 0, 0, 0})));
}

TEST(Moves, ReverseSequenceReversesBeginnings) {
  const Tensor x = F32({3, 2}, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(Eval("ReverseSequence", {x, List({3, 2})}), Is(F32({3, 2}, {4, 3, 2, 1, 0, 5})));
  EXPECT_THAT(Eval("ReverseSequence", {x, List({1, 2, 0})},
                   MakeAttrs({{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}})),
              Is(F32({3, 2}, {0, 1, 3, 2, 4, 5})));
  EXPECT_THAT(optest::ErrorOf("ReverseSequence", {x, List({4, 0})}),
              HasSubstr("length 4 (element 0 of 'sequence_lens') is not in [0,3]"));
  EXPECT_THAT(
      optest::ErrorOf("ReverseSequence", {x, List({1, 1})}, MakeAttrs({{"time_axis", int64_t{1}}})),
      HasSubstr("one must be 0, the other 1"));
}

// --- Gather and Scatter ------------------------------------------------------------------------

TEST(Gathers, ElementsAlongAnAxis) {
  const Tensor x = F32({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_THAT(Eval("GatherElements", {x, I64({2, 3}, {1, 2, 0, -1, 0, 0})}),
              Is(F32({2, 3}, {4, 8, 3, 7, 2, 3})));
  EXPECT_THAT(Eval("GatherElements", {x, I64({2, 1}, {2, -3})}, MakeAttrs({{"axis", int64_t{1}}})),
              Is(F32({2, 1}, {3, 4})));
  EXPECT_THAT(optest::ErrorOf("GatherElements", {x, I64({1, 1}, {3})}),
              HasSubstr("index 3 (element 0 of 'indices') is out of range [-3,3)"));
  EXPECT_THAT(optest::ErrorOf("GatherElements", {x, I64({1, 4}, {0, 0, 0, 0})}),
              HasSubstr("must have the rank of data, [3,3], and be no larger beside axis 0"));
}

TEST(Gathers, SlicesByTuples) {
  const Tensor x = I64({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(Eval("GatherND", {x, I64({2, 2}, {0, 1, 1, -2})}), Is(I64({2, 2}, {2, 3, 4, 5})));
  EXPECT_THAT(Eval("GatherND", {x, I64({2, 3}, {0, 0, 1, 1, 1, 0})}), Is(I64({2}, {1, 6})));
  EXPECT_THAT(Eval("GatherND", {x, I64({2, 1}, {1, 0})}, MakeAttrs({{"batch_dims", int64_t{1}}})),
              Is(I64({2, 2}, {2, 3, 4, 5})));
  EXPECT_THAT(Eval("GatherND", {x, Tensor::Zeros({DType::kI64, {1, 0}})}),
              Is(x.Reshaped({1, 2, 2, 2})));
  EXPECT_THAT(optest::ErrorOf("GatherND", {x, I64({1}, {-3})}), HasSubstr("index -3 (element 0"));
  EXPECT_THAT(optest::ErrorOf("GatherND", {x, I64({4}, {0, 0, 0, 0})}),
              HasSubstr("indices of 4 coordinates are too long for data, [2,2,2]"));
  EXPECT_THAT(optest::ErrorOf("GatherND", {x, I64({3, 1}, {0, 0, 0})},
                              MakeAttrs({{"batch_dims", int64_t{1}}})),
              HasSubstr("batch dim 0 is 2 in data and 3 in indices"));
}

TEST(Scatters, ElementsTakePlacesOrCombine) {
  const Tensor x = F32({4}, {1, 2, 3, 4}), at = I64({3}, {1, -1, 1}), u = F32({3}, {10, -20, 30});
  const auto scatter = [&](const char* reduction) {
    return Eval("ScatterElements", {x, at, u}, MakeAttrs({{"reduction", reduction}}));
  };
  EXPECT_THAT(scatter("none"), Is(F32({4}, {1, 30, 3, -20})));  // in order
  EXPECT_THAT(scatter("add"), Is(F32({4}, {1, 42, 3, -16})));
  EXPECT_THAT(scatter("mul"), Is(F32({4}, {1, 600, 3, -80})));
  EXPECT_THAT(scatter("max"), Is(F32({4}, {1, 30, 3, 4})));
  EXPECT_THAT(scatter("min"), Is(F32({4}, {1, 2, 3, -20})));
}

TEST(Scatters, ReductionsOfIntegersHaveSignsAndWrap) {
  const Tensor x = Tensor::Of<int8_t>({2}, {-5, 100}), at = I64({2}, {0, 1}),
               u = Tensor::Of<int8_t>({2}, {3, 100});
  const auto scatter = [&](const char* reduction) {
    return Eval("ScatterElements", {x, at, u}, MakeAttrs({{"reduction", reduction}}));
  };
  EXPECT_THAT(scatter("max"), Is(Tensor::Of<int8_t>({2}, {3, 100})));
  EXPECT_THAT(scatter("min"), Is(Tensor::Of<int8_t>({2}, {-5, 100})));
  EXPECT_THAT(scatter("add"), Is(Tensor::Of<int8_t>({2}, {-2, -56})));
}

TEST(Scatters, SlicesByTuples) {
  const Tensor x = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Eval("ScatterND", {x, I64({2, 1}, {2, 0}), F32({2, 2}, {7, 8, 9, 10})}),
              Is(F32({3, 2}, {9, 10, 3, 4, 7, 8})));
  EXPECT_THAT(Eval("ScatterND", {x, I64({2, 2}, {1, 1, -2, 1}), F32({2}, {10, 20})},
                   MakeAttrs({{"reduction", "add"}})),
              Is(F32({3, 2}, {1, 2, 3, 34, 5, 6})));
}

TEST(Scatters, Refuse) {
  const Tensor x = F32({3}, {1, 2, 3});
  EXPECT_THAT(optest::ErrorOf("ScatterElements", {x, I64({2}, {0, 1}), F32({1}, {9})}),
              HasSubstr("'updates' must be [2], but is [1]"));
  EXPECT_THAT(optest::ErrorOf("ScatterND", {x, I64({2, 1}, {0, 3}), F32({2}, {9, 9})}),
              HasSubstr("index 3 (element 1 of 'indices') is out of range [-3,3)"));
  EXPECT_THAT(optest::ErrorOf(
                  "ScatterND",
                  {Tensor::Of<bool>({1}, {true}), I64({1, 1}, {0}), Tensor::Of<bool>({1}, {true})},
                  MakeAttrs({{"reduction", "add"}})),
              HasSubstr("bools have no reduction 'add'"));
}

TEST(TopK, LargestOrSmallestFirstOfEqualsFirst) {
  const Tensor x = F32({2, 4}, {3, 1, 3, 2, 0, NAN, 5, -1});
  const std::vector<Tensor> top = RunAll("TopK", {x, List({2})}, {}, 2);
  EXPECT_THAT(top[0], Is(F32({2, 2}, {3, 3, NAN, 5})));
  EXPECT_THAT(top[1], Is(I64({2, 2}, {0, 2, 1, 2})));
  const std::vector<Tensor> low =
      RunAll("TopK", {x, List({1})}, MakeAttrs({{"axis", int64_t{0}}, {"largest", false}}), 2);
  EXPECT_THAT(low[0], Is(F32({1, 4}, {0, NAN, 3, -1})));
  EXPECT_THAT(low[1], Is(I64({1, 4}, {1, 1, 0, 1})));
  EXPECT_THAT(optest::ErrorOf("TopK", {x, List({5})}),
              HasSubstr("'K' must be one number in [0,4], the size of axis 1, not 5"));
}

// --- Made up -----------------------------------------------------------------------------------

TEST(Making, ShapesAndSizes) {
  const Tensor x = Tensor::Zeros({DType::kF32, {3, 4, 5}});
  EXPECT_THAT(Eval("Shape", {x}), Is(I64({3}, {3, 4, 5})));
  EXPECT_THAT(Eval("Shape", {x}, MakeAttrs({{"start", int64_t{-2}}, {"end", int64_t{-1}}})),
              Is(I64({1}, {4})));
  EXPECT_THAT(Eval("Shape", {x}, MakeAttrs({{"start", int64_t{-10}}, {"end", int64_t{10}}})),
              Is(I64({3}, {3, 4, 5})));
  EXPECT_THAT(Eval("Shape", {x}, MakeAttrs({{"start", int64_t{2}}, {"end", int64_t{1}}})),
              Is(I64({0}, {})));
  EXPECT_THAT(Eval("Size", {x}), Is(I64({}, {60})));
}

TEST(Making, ConstantsAndDiagonals) {
  EXPECT_THAT(Eval("ConstantOfShape", {List({2})}, MakeAttrs({{"value", 1.5}})),
              Is(F32({2}, {1.5f, 1.5f})));
  EXPECT_THAT(Eval("ConstantOfShape", {List({})}, MakeAttrs({{"dtype", "i64"}, {"value", 7.0}})),
              Is(I64({}, {7})));
  EXPECT_THAT(optest::ErrorOf("ConstantOfShape", {List({2, -1})}),
              HasSubstr("the shape has a dim of -1"));
  const Tensor x = Tensor::Zeros({DType::kF32, {2, 3}});
  EXPECT_THAT(Eval("EyeLike", {x}), Is(F32({2, 3}, {1, 0, 0, 0, 1, 0})));
  EXPECT_THAT(Eval("EyeLike", {x}, MakeAttrs({{"dtype", "i64"}, {"k", int64_t{1}}})),
              Is(I64({2, 3}, {0, 1, 0, 0, 0, 1})));
  EXPECT_THAT(Eval("EyeLike", {x}, MakeAttrs({{"k", int64_t{INT64_MIN}}})),
              Is(F32({2, 3}, {0, 0, 0, 0, 0, 0})));
}

template <typename T>
Tensor RangeOf(T start, T limit, T delta) {
  return Eval("Range", {Tensor::Scalar(start), Tensor::Scalar(limit), Tensor::Scalar(delta)});
}

TEST(Making, Ranges) {
  EXPECT_THAT(RangeOf<float>(1, 2.5f, 0.5f), Is(F32({3}, {1, 1.5f, 2})));
  EXPECT_THAT(RangeOf<int32_t>(10, 4, -2), Is(Tensor::Of<int32_t>({3}, {10, 8, 6})));
  EXPECT_THAT(RangeOf<int64_t>(5, 5, 1), Is(I64({0}, {})));
  EXPECT_THAT(RangeOf<int64_t>(5, 9, -1), Is(I64({0}, {})));
  EXPECT_THAT(RangeOf<int64_t>(INT64_MIN, INT64_MAX, INT64_MAX),
              Is(I64({3}, {INT64_MIN, -1, INT64_MAX - 1})));
  const auto error = [](double start, double limit, double delta) {
    return optest::ErrorOf("Range",
                           {Tensor::Scalar(start), Tensor::Scalar(limit), Tensor::Scalar(delta)});
  };
  EXPECT_THAT(error(0, 1, 0), HasSubstr("'delta' is 0"));
  EXPECT_THAT(error(0, INFINITY, 1), HasSubstr("the result is too large"));
  EXPECT_THAT(error(0, NAN, 1), HasSubstr("is no number"));
}

TEST(Making, OneHotRows) {
  EXPECT_THAT(
      Eval("OneHot", {I64({4}, {0, 2, -1, 3}), Tensor::Scalar<int64_t>(3), F32({2}, {-1, 5})}),
      Is(F32({4, 3}, {5, -1, -1, -1, -1, 5, -1, -1, 5, -1, -1, -1})));
  EXPECT_THAT(Eval("OneHot", {F32({2}, {1, 0}), F32({1}, {2}), I64({2}, {0, 1})},
                   MakeAttrs({{"axis", int64_t{0}}})),
              Is(I64({2, 2}, {0, 1, 1, 0})));
  EXPECT_THAT(
      optest::ErrorOf("OneHot", {I64({}, {0}), Tensor::Scalar<int64_t>(-1), F32({2}, {0, 1})}),
      HasSubstr("'depth' is -1"));
  EXPECT_THAT(optest::ErrorOf("OneHot", {I64({}, {0}), Tensor::Scalar<int64_t>(2), F32({1}, {0})}),
              HasSubstr("'values' must be [2], for off and on, but is [1]"));
}

}  // namespace
}  // namespace millrace
