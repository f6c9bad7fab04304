// Ops on images: resampling, sampling, regions, deformed windows.
#include "tests/ops/case_list.h"

namespace millrace::optest {
namespace {

using Ints = std::vector<int64_t>;

Tensor Floats(const std::vector<float>& values) {
  return Tensor::FromSpan<float>({static_cast<int64_t>(values.size())}, values);
}

Attrs With(Attrs attrs, std::string_view name, AttrValue value) {
  attrs.Set(name, std::move(value));
  return attrs;
}

// Resize, and its gradient with dY of the result's shape.
void AddResize(CaseList& l, const Shape& x, const Shape& y, std::vector<Tensor> operands,
               const Attrs& attrs) {
  const auto with = [&](Tensor first) {
    std::vector<Tensor> all = {std::move(first)};
    all.insert(all.end(), operands.begin(), operands.end());
    return all;
  };
  l.Add("Resize", with(l.Data(x)), attrs);
  Attrs grad = With(attrs, "input_shape", Ints(x.begin(), x.end()));
  grad.Erase("extrapolation_value");
  l.Add("grad.Resize", with(l.Data(y)), std::move(grad));
}

void AddResizes(CaseList& l) {
  const Tensor none, larger = Floats({1, 1, 1.5, 2}), smaller = Floats({1, 1, 0.6, 0.5});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const Attrs attrs = MakeAttrs({{"mode", mode}});
    AddResize(l, {2, 3, 4, 3}, {2, 3, 6, 6}, {none, larger}, attrs);
    AddResize(l, {1, 2, 5, 6}, {1, 2, 3, 3}, {none, smaller}, attrs);
    AddResize(l, {1, 2, 5, 6}, {1, 2, 3, 3}, {none, smaller}, With(attrs, "antialias", true));
    AddResize(l, {1, 2, 5, 6}, {1, 2, 3, 3}, {none, smaller}, With(attrs, "exclude_outside", true));
    for (const char* coordinates : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                    "align_corners", "asymmetric", "tf_half_pixel_for_nn"}) {
      AddResize(l, {2, 4, 5}, {2, 7, 3}, {none, none, CaseList::List({2, 7, 3})},
                With(attrs, "coordinate_transformation_mode", coordinates));
    }
    const Attrs crop = With(attrs, "coordinate_transformation_mode", "tf_crop_and_resize");
    AddResize(l, {4, 5}, {3, 6}, {Floats({0.2, -0.3, 0.9, 1.2}), none, CaseList::List({3, 6})},
              crop);
    for (const char* policy : {"not_larger", "not_smaller"}) {
      const bool small = policy == std::string_view("not_larger");
      AddResize(l, {6, 2, 4}, small ? Shape{6, 3, 6} : Shape{6, 4, 8},
                {none, none, CaseList::List({8, 3})},
                With(With(attrs, "keep_aspect_ratio_policy", policy), "axes", Ints{2, 1}));
    }
  }
  for (const char* rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
    AddResize(
        l, {5}, {8}, {none, none, CaseList::List({8})},
        MakeAttrs({{"nearest_mode", rounding}, {"coordinate_transformation_mode", "asymmetric"}}));
  }
  l.Add("Resize", {l.Data({3}), Floats({-0.5, 1.5}), none, CaseList::List({4})},
        MakeAttrs({{"mode", "linear"},
                   {"coordinate_transformation_mode", "tf_crop_and_resize"},
                   {"extrapolation_value", 7.0}}));
  AddResize(l, {0, 3}, {0, 6}, {none, Floats({1, 2})}, {});
}

void AddSampling(CaseList& l) {
  for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const bool align : {false, true}) {
        const Attrs attrs =
            MakeAttrs({{"mode", mode}, {"padding_mode", padding}, {"align_corners", align}});
        l.Add("GridSample", {l.Data({2, 4, 5, 3}), l.Data({2, 3, 6, 2}, -1.5, 1.5)}, attrs);
        l.Add("GridSample", {l.Data({1, 2, 3, 1, 4}), l.Data({1, 2, 2, 2, 3}, -1.5, 1.5)}, attrs);
        l.Add("GridSample", {l.Data({2, 2, 6}), l.Data({2, 4, 1}, -2.5, 2.5)}, attrs);
      }
    }
  }
  for (const bool align : {false, true}) {
    const Attrs attrs = MakeAttrs({{"align_corners", align}});
    l.Add("AffineGrid", {l.Data({2, 2, 3}), CaseList::List({2, 4, 3, 5})}, attrs);
    l.Add("AffineGrid", {l.Data({1, 3, 4}), CaseList::List({1, 1, 2, 1, 3})}, attrs);
  }
}

void AddRegions(CaseList& l) {
  const Tensor rois =
      Tensor::Of<double>({4, 4}, {0, 0, 4, 4, 1.5, 0.5, 5, 3.5, -1, -2, 3, 2, 2, 2, 2.25, 2.5});
  const Tensor batch = Tensor::Of<int64_t>({4}, {0, 1, 1, 0});
  for (const char* mode : {"avg", "max"}) {
    for (const char* coordinates : {"half_pixel", "output_half_pixel"}) {
      for (const int64_t ratio : {0, 2}) {
        l.Add("RoiAlign", {l.Data({2, 4, 6, 5}), rois, batch},
              MakeAttrs({{"mode", mode},
                         {"coordinate_transformation_mode", coordinates},
                         {"sampling_ratio", ratio},
                         {"spatial_scale", 0.75},
                         {"output_height", int64_t{2}},
                         {"output_width", int64_t{3}}}));
      }
    }
  }
  const Tensor whole =
      Tensor::Of<double>({4, 5}, {0, 0, 0, 4, 4, 1, 1, 1, 3, 2, 1, -3, 0, 2, 9, 0, 4, 4, 4, 4});
  l.Add("MaxRoiPool", {l.Data({2, 4, 6, 5}), whole}, MakeAttrs({{"pooled_shape", Ints{2, 3}}}));
  l.Add("MaxRoiPool", {l.Data({2, 4, 6, 5}), whole},
        MakeAttrs({{"pooled_shape", Ints{1, 1}}, {"spatial_scale", 0.5}}));
}

void AddBorders(CaseList& l) {
  l.Add("CenterCropPad", {l.Data({4, 5, 6}), CaseList::List({2, 8, 6})});
  l.Add("CenterCropPad", {l.Data({4, 5, 6}), CaseList::List({9, 3})},
        MakeAttrs({{"axes", Ints{-1, 1}}}));
  l.Add("CenterCropPad", {l.Data({0, 2}), CaseList::List({2, 0})});
  l.Add("Col2Im", {l.Data({4, 12, 20}), CaseList::List({5, 6}), CaseList::List({2, 2})},
        MakeAttrs({{"pads", Ints{0, 0, 0, 0}}}));
  l.Add(
      "Col2Im", {l.Data({2, 6, 6}), CaseList::List({5, 4}), CaseList::List({3, 1})},
      MakeAttrs({{"pads", Ints{0, 1, 1, 0}}, {"strides", Ints{2, 2}}, {"dilations", Ints{1, 2}}}));
  l.Add("Col2Im", {l.Data({2, 6, 4}), CaseList::List({5}), CaseList::List({2})});
}

void AddDeformed(CaseList& l) {
  l.Add("DeformConv", {l.Data({2, 4, 5, 6}), l.Data({6, 4, 3, 2}), l.Data({2, 12, 3, 5})});
  l.Add("DeformConv",
        {l.Data({2, 4, 5, 6}), l.Data({4, 2, 2, 2}), l.Data({2, 16, 3, 7}), l.Data({4}),
         l.Data({2, 8, 3, 7})},
        MakeAttrs({{"group", int64_t{2}},
                   {"offset_group", int64_t{2}},
                   {"pads", Ints{1, 1, 0, 1}},
                   {"strides", Ints{2, 1}}}));
}

}  // namespace

void AddImageCases(CaseList& l) {
  AddResizes(l);
  AddSampling(l);
  AddRegions(l);
  AddBorders(l);
  AddDeformed(l);
}

}  // namespace millrace::optest
