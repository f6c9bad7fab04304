#include "tests/ops/case_list.h"

namespace millrace::optest {
namespace {

const std::pair<Shape, Shape> kPairs[] = {
    {{6, 4}, {6, 4}}, {{6, 4}, {4}},    {{6, 1}, {1, 4}},       {{}, {6}},     {{6, 4}, {}},
    {{}, {}},         {{0, 4}, {1, 4}}, {{2, 1, 6}, {2, 4, 1}}, {{1, 6}, {1}},
};
const Shape kShapes[] = {{6, 4}, {}, {0, 3}, {2, 3, 1, 4}};

void AddUnary(CaseList& l) {
  for (const Shape& shape : kShapes) {
    for (std::string_view op : {"Identity", "Relu", "Tanh",  "Erf",   "Exp",   "Sigmoid", "Neg",
                                "Abs",      "Sign", "Ceil",  "Floor", "Round", "Sin",     "Cos",
                                "Sinh",     "Cosh", "Asinh", "Atan",  "IsNaN", "IsInf",   "Gelu"}) {
      l.Add(op, {l.Data(shape)});
    }
    for (std::string_view op : {"Sqrt", "Log", "Reciprocal"}) l.Add(op, {l.Data(shape, 0.5, 4)});
    for (std::string_view op : {"Tan", "Asin", "Acos", "Atanh"}) {
      l.Add(op, {l.Data(shape, -0.75, 0.75)});
    }
    l.Add("Acosh", {l.Data(shape, 1.25, 4)});
    l.Add("Gelu", {l.Data(shape)}, MakeAttrs({{"approximate", "tanh"}}));
    l.Add("Cast", {l.Data(shape)}, MakeAttrs({{"to", "f64"}}));
    l.Add("Not", {l.Bools(shape)});
    l.Add("BitwiseNot", {l.Indices(shape, -9, 9)});
  }
}

void AddActivations(CaseList& l) {
  for (const Shape& shape : kShapes) {
    for (std::string_view op :
         {"Celu", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Selu", "Shrink",
          "Softplus", "Softsign", "Swish", "ThresholdedRelu"}) {
      l.Add(op, {l.Data(shape, -4, 4)});
    }
    for (std::string_view op : {"Celu", "Elu", "LeakyRelu", "Swish", "ThresholdedRelu"}) {
      l.Add(op, {l.Data(shape)}, MakeAttrs({{"alpha", 0.5}}));
    }
    l.Add("Selu", {l.Data(shape)}, MakeAttrs({{"alpha", 2.0}, {"gamma", 3.0}}));
    l.Add("HardSigmoid", {l.Data(shape)}, MakeAttrs({{"alpha", 0.5}, {"beta", 0.25}}));
    l.Add("Shrink", {l.Data(shape)}, MakeAttrs({{"bias", 0.25}, {"lambd", 1.0}}));
  }
}

void AddBinary(CaseList& l) {
  for (const auto& [a, b] : kPairs) {
    for (std::string_view op :
         {"Add", "Sub", "Mul", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
      l.Add(op, {l.Data(a), l.Data(b)});
    }
    l.Add("Div", {l.Data(a), l.Data(b, 0.5, 2)});
    l.Add("Where", {l.Bools(a), l.Data(b), l.Data(a)});
    l.Add("Where", {l.Bools(b), l.Data({}), l.Data(a)});
    for (std::string_view op : {"And", "Or", "Xor", "Equal"}) l.Add(op, {l.Bools(a), l.Bools(b)});
    for (std::string_view op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal"}) {
      l.Add(op, {l.Indices(a, -9, 9), l.Indices(b, -9, 9)});
    }
    l.Add("Pow", {l.Data(a, 0.5, 2), l.Data(b)});
    l.Add("Pow", {l.Data(a), l.Indices(b, -3, 4)});
    l.Add("Mod", {l.Data(a, -8, 8), l.Data(b, 0.5, 3)}, MakeAttrs({{"fmod", true}}));
    l.Add("Mod", {l.Indices(a, -9, 9), l.Indices(b, -4, 4)});
    l.Add("CastLike", {l.Data(a), l.Data(b)});
    for (std::string_view op : {"Max", "Min", "Sum", "Mean"}) {
      l.Add(op, {l.Data(a), l.Data(b)});
      l.Add(op, {l.Data(a), l.Data({}), l.Data(b), l.Data(a)});
    }
    for (const char* direction : {"LEFT", "RIGHT"}) {
      l.Add("BitShift", {l.Bits(a, 1000), l.Bits(b, 9)}, MakeAttrs({{"direction", direction}}));
    }
  }
}

void AddBounded(CaseList& l) {
  for (const Shape& shape : kShapes) {
    for (std::string_view op : {"Max", "Min", "Sum", "Mean"}) l.Add(op, {l.Data(shape)});
    const Tensor low = l.Data({}, -1, 0), high = l.Data({1}, 0, 1);
    l.Add("Clip", {l.Data(shape), low, high});
    l.Add("Clip", {l.Data(shape), high, low});  // the larger one first: all become `low`
    l.Add("Clip", {l.Data(shape), low});
    l.Add("Clip", {l.Data(shape), Tensor(), high});
    l.Add("Clip", {l.Data(shape)});
    l.Add("PRelu", {l.Data(shape), l.Data(shape)});
    l.Add("PRelu", {l.Data(shape), l.Data({})});
  }
  l.Add("PRelu", {l.Data({2, 6, 4}), l.Data({6, 1})});
}

void AddFused(CaseList& l, const char* program, std::vector<std::string> shapes,
              std::vector<Tensor> operands) {
  const int outputs = static_cast<int>(shapes.size());
  l.Add("fused.Program", std::move(operands),
        MakeAttrs({{"program", program}, {"shapes", std::move(shapes)}}), outputs);
}

void AddFusedPrograms(CaseList& l) {
  AddFused(l,
           "dims [6 outer, 4 outer]; in f64 [4, 1]; in f64 [0, 1]; %0 = load f64 @0; %1 = load "
           "f64 @1; %2 = mul f64 %0 %1; %3 = tanh f64 %2; %4 = less bool %2 %0; out f64 [4, 1] = "
           "%3; out bool [4, 1] = %4",
           {"[6,4]", "[6,4]"}, {l.Data({6, 4}), l.Data({4})});
  AddFused(l, "dims []; %0 = constant f64 1.5; out f64 [] = %0", {"[]"}, {});
  // Softmax of rows, and of columns, with what was taken out.
  AddFused(l,
           "dims [6 outer, 4 reduce]; in f64 [4, 1]; %0 = load f64 @0; %1 = reduce_max f64 %0; %2 "
           "= sub f64 %0 %1; %3 = exp f64 %2; %4 = reduce_sum f64 %3; %5 = div f64 %3 %4; out f64 "
           "[4, 1] = %5; out f64 [1, 0] = %1",
           {"[6,4]", "[6]"}, {l.Data({6, 4})});
  AddFused(l,
           "dims [6 reduce, 4 inner]; in f64 [4, 1]; %0 = load f64 @0; %1 = reduce_max f64 %0; %2 "
           "= sub f64 %0 %1; %3 = exp f64 %2; %4 = reduce_sum f64 %3; %5 = div f64 %3 %4; out f64 "
           "[4, 1] = %5; out f64 [0, 1] = %1",
           {"[6,4]", "[4]"}, {l.Data({6, 4})});
}

}  // namespace

void AddElementwiseCases(CaseList& l) {
  AddUnary(l);
  AddActivations(l);
  AddBinary(l);
  AddBounded(l);
  AddFusedPrograms(l);
}

}  // namespace millrace::optest
