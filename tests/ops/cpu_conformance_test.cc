// Every variant of every op with a fast kernel, against the reference: random shapes, broadcasts,
// sizes 0 and 1, rank 0, element types, results on the bytes of operands, teams of 1 and 2, and
// every instruction set Highway compiled for that this processor has.
//
// Tolerances, |actual - expected| <= absolute + relative * |expected|:
//   exact          copies; f32 + - * / sqrt relu and max (correctly rounded); loops on other types
//   1e-6           tanh erf exp sigmoid: a few units in the last place (cpu_simd_math_test.cc says
//                  exactly how many)
//   4e-6 relative  softmax: each exponent is rounded before it is raised
//   2e-7 sum |x|   sums and products, as bounds on sums: see SumTolerance
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "ops/cpu/simd_targets.h"
// Highway must see what the line above leaves out.
#include "hwy/highway.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/op_def.h"
#include "tests/ops/cpu_kernel_runner.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

struct Tolerance {
  double absolute = 0, relative = 0;
};
constexpr Tolerance kExact = {};

// Of a sum of `count` terms of size up to `size`, added in f32.
Tolerance SumTolerance(int64_t count, double size) {
  return {2e-7 * size * static_cast<double>(count + 4), 1e-6};
}

testing::AssertionResult Near(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  if (actual.type() != expected.type()) return testing::AssertionFailure() << "types differ";
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    if (!IsFloat(expected.dtype())) {
      if (actual.AsInt64(i) == expected.AsInt64(i)) continue;
      return testing::AssertionFailure() << "element " << i << " is " << actual.AsInt64(i)
                                         << ", expected " << expected.AsInt64(i);
    }
    const double a = actual.AsDouble(i), e = expected.AsDouble(i);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    if (std::abs(a - e) <= tolerance.absolute + tolerance.relative * std::abs(e)) continue;
    return testing::AssertionFailure() << "element " << i << " is " << a << ", expected " << e;
  }
  return testing::AssertionSuccess();
}

// The variant for what oneDNN is there for.
std::string_view OneDnnFast() {
#ifdef MILLRACE_HAVE_ONEDNN
  return "onednn";
#else
  return "reference";
#endif
}

class CpuConformance : public testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  // Runs every variant; `fast` is the name the first one must have ("": any).
  void Check(const KernelCase& c, Tolerance tolerance, std::string_view fast = "") {
    SCOPED_TRACE(Describe(c));
    const std::vector<KernelVariant> variants = CpuTarget().Variants(c.query);
    ASSERT_FALSE(variants.empty());
    ASSERT_EQ(variants.back().name, "reference");
    const std::string first = variants.front().name.substr(0, variants.front().name.find(':'));
    if (!fast.empty()) {
      EXPECT_EQ(first, fast);
    }
    const auto expected = RunVariant(*library_, c, variants.back());
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const KernelVariant& variant : variants) {
      SCOPED_TRACE(variant.name);
      if (variant.name != "simd") {
        CheckVariant(c, variant, *expected, tolerance);
        continue;
      }
      for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
        SCOPED_TRACE(hwy::TargetName(target));
        hwy::SetSupportedTargetsForTest(target);
        CheckVariant(c, variant, *expected, tolerance);
        hwy::SetSupportedTargetsForTest(0);
      }
    }
  }

  void CheckVariant(const KernelCase& c, const KernelVariant& variant,
                    const std::vector<Tensor>& expected, Tolerance tolerance) {
    for (int threads : {1, 2}) {
      std::vector<InPlacePair> pairs = {{-1, -1}};
      for (const InPlacePair& pair : FindOp(c.query.op)->traits.in_place) {
        if (pair.input < static_cast<int>(c.inputs.size()) &&
            pair.output < static_cast<int>(c.query.outputs.size()) &&
            c.query.inputs[pair.input] == c.query.outputs[pair.output]) {
          pairs.push_back(pair);
        }
      }
      for (const InPlacePair& pair : pairs) {
        SCOPED_TRACE(testing::Message() << threads << " threads, output " << pair.output
                                        << " on input " << pair.input);
        const auto actual = RunVariant(*library_, c, variant, {threads, pair});
        ASSERT_TRUE(actual.ok()) << actual.status();
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(Near((*actual)[i], expected[i], tolerance)) << "output " << i;
        }
      }
    }
  }

  int64_t Draw(std::initializer_list<int64_t> values) {
    return values.begin()[random_() % values.size()];
  }
  Shape RandomShape(int min_rank, int max_rank) {
    Shape shape;
    const int rank = min_rank + static_cast<int>(random_() % (max_rank - min_rank + 1));
    for (int d = 0; d < rank; ++d) shape.push_back(Draw({1, 1, 2, 3, 5, 8, 17, 33}));
    return shape;
  }
  Tensor F32(const Shape& shape, double limit = 2) {
    return RandomTensor(random_, DType::kF32, shape, limit);
  }

  std::mt19937 random_{1234};
  std::unique_ptr<KernelLibrary> library_ = CreateCpuKernelLibrary();
};

// --- Elementwise --------------------------------------------------------------------------------

// A shape that broadcasts to `full`: dims dropped in front, others set to 1.
Shape Narrowed(std::mt19937& random, const Shape& full) {
  Shape shape;
  const int drop = full.rank() == 0 ? 0 : static_cast<int>(random() % (full.rank() + 1));
  for (int d = drop; d < full.rank(); ++d) shape.push_back(random() % 3 == 0 ? 1 : full[d]);
  return shape;
}

TEST_F(CpuConformance, BinaryF32) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Equal", "Greater",
                         "GreaterOrEqual", "Less", "LessOrEqual"}) {
    for (int i = 0; i < 40; ++i) {
      const Shape full = RandomShape(0, 4);
      const bool one_way = op == std::string_view("PRelu");
      Tensor a = F32(i % 2 || one_way ? full : Narrowed(random_, full));
      Tensor b = F32(i % 2 || one_way ? Narrowed(random_, full) : full);
      for (int64_t k = 0; k < b.num_elements(); k += 3) b.Set(k, 1);  // some are equal
      for (int64_t k = 0; k < a.num_elements(); k += 2) a.Set(k, 1);
      Check(MakeCase(op, {}, {a, b}), kExact, "simd");
    }
  }
}

TEST_F(CpuConformance, BinaryF32WithNaN) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor a = Tensor::Of<float>({9}, {nan, 1, nan, inf, -inf, 0, -0.0f, 2, 3});
  const Tensor b = Tensor::Of<float>({9}, {1, nan, nan, -inf, -inf, -0.0f, 0, 2, 4});
  for (const char* op :
       {"Max", "Min", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    Check(MakeCase(op, {}, {a, b}), kExact, "simd");
  }
}

TEST_F(CpuConformance, ManyOperandsAreTheReferences) {
  Check(MakeCase("Max", {}, {F32({3}), F32({3}), F32({3})}), kExact, "reference");
  Check(MakeCase("Min", {}, {F32({3})}), kExact, "reference");
}

TEST_F(CpuConformance, BinaryLargeEnoughForATeam) {
  Check(MakeCase("Add", {}, {F32({257, 513}), F32({513})}), kExact, "simd");
  Check(MakeCase("Mul", {}, {F32({3, 70001}), F32({3, 1})}), kExact, "simd");
  Check(MakeCase("Sub", {}, {F32({1, 131073}), F32({1, 131073})}), kExact, "simd");
}

TEST_F(CpuConformance, BinaryOfEveryNumericType) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    if (dtype == DType::kBool) continue;
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Greater",
                           "GreaterOrEqual", "Less", "LessOrEqual"}) {
      const std::string_view fast = dtype == DType::kF32 ? "simd" : "loop";
      const Tensor a = RandomTensor(random_, dtype, {3, 1, 17}, 100);
      const Tensor b = RandomTensor(random_, dtype, {5, 17}, 100);
      Check(MakeCase(op, {}, {a, b}), kExact, fast);
      Check(MakeCase(op, {}, {a, a}), kExact, fast);
      Check(MakeCase(op, {}, {RandomTensor(random_, dtype, {}), b}), kExact, fast);
    }
  }
}

TEST_F(CpuConformance, LogicAndBits) {
  const Tensor a = RandomTensor(random_, DType::kBool, {3, 1, 17}, 1);
  const Tensor b = RandomTensor(random_, DType::kBool, {5, 17}, 1);
  for (const char* op : {"And", "Or", "Xor", "Equal"}) {
    Check(MakeCase(op, {}, {a, b}), kExact, "loop");
  }
  for (DType dtype : {DType::kI8, DType::kU16, DType::kI32, DType::kU64}) {
    const Tensor x = RandomTensor(random_, dtype, {3, 1, 17}, 100);
    const Tensor y = RandomTensor(random_, dtype, {5, 17}, 100);
    for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
      Check(MakeCase(op, {}, {x, y}), kExact, "loop");
    }
  }
}

TEST_F(CpuConformance, Pow) {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    Tensor x = RandomTensor(random_, dtype, {7, 33}, 3);
    Check(MakeCase("Pow", {}, {x, Tensor::Scalar(2.0f)}), kExact,
          dtype == DType::kF32 ? "loop" : "reference");
    Tensor n = RandomTensor(random_, dtype, {33}, 3);
    n.Set(5, 2);
    Check(MakeCase("Pow", {}, {x, n}), kExact, "loop");
  }
}

TEST_F(CpuConformance, Where) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (int i = 0; i < 20; ++i) {
      const Shape full = RandomShape(0, 4);
      const auto some = [&](DType type, bool whole) {
        return RandomTensor(random_, type, whole ? full : Narrowed(random_, full), 100);
      };
      const Tensor c = some(DType::kBool, i % 3 == 0), x = some(dtype, i % 3 == 1);
      Check(MakeCase("Where", {}, {c, x, some(dtype, i % 3 == 2)}), kExact,
            SizeOf(dtype) >= 4 ? "simd" : "reference");
    }
  }
  Check(MakeCase("Where", {},
                 {RandomTensor(random_, DType::kBool, {300, 1}, 1), F32({300, 257}), F32({})}),
        kExact, "simd");
}

TEST_F(CpuConformance, IntegersWrapAround) {
  const Tensor a = Tensor::Of<int8_t>({3}, {127, -128, 100});
  Check(MakeCase("Add", {}, {a, a}), kExact, "loop");
  Check(MakeCase("Mul", {}, {a, a}), kExact, "loop");
}

TEST_F(CpuConformance, UnaryF32) {
  const std::vector<std::string_view> kExactOps = {"Relu", "Sqrt",  "Neg",   "Abs",       "Sign",
                                                   "Ceil", "Floor", "Round", "Reciprocal"};
  for (const char* op :
       {"Relu", "Tanh",     "Erf",       "Gelu", "Exp",   "Sqrt",        "Sigmoid",
        "Neg",  "Abs",      "Sign",      "Ceil", "Floor", "Round",       "Reciprocal",
        "Log",  "Softplus", "LeakyRelu", "Elu",  "Swish", "HardSigmoid", "HardSwish"}) {
    const bool exact = std::find(kExactOps.begin(), kExactOps.end(), op) != kExactOps.end();
    // The reference's own Gelu, in f32, loses what 1 + erf cancels: 1e-6 of x.
    const Tolerance tolerance = exact ? kExact : Tolerance{4e-6, 1e-6};
    for (int i = 0; i < 12; ++i) {
      Tensor x = F32(RandomShape(0, 4), 4);
      if (op == std::string_view("Sqrt") || op == std::string_view("Log")) {
        for (int64_t k = 0; k < x.num_elements(); ++k) x.Set(k, std::abs(x.AsDouble(k)));
      }
      Check(MakeCase(op, {}, {x}), tolerance, "simd");
    }
    Check(MakeCase(op, {}, {RandomTensor(random_, DType::kF64, {7, 3}, 1)}), {1e-15, 1e-15},
          "reference");
  }
  const Attrs alpha = MakeAttrs({{"alpha", 0.7}});
  for (const char* op : {"LeakyRelu", "Elu", "Swish"}) {
    Check(MakeCase(op, alpha, {F32({1000}, 6)}), {1e-6, 1e-6}, "simd");
  }
  Check(MakeCase("HardSigmoid", MakeAttrs({{"alpha", 0.3}, {"beta", 0.4}}), {F32({1000}, 6)}),
        {1e-6, 1e-6}, "simd");
  const Attrs tanh = MakeAttrs({{"approximate", std::string("tanh")}});
  Check(MakeCase("Gelu", tanh, {F32({1000}, 6)}), {4e-6, 1e-6}, "simd");
  Check(MakeCase("Gelu", {}, {F32({70001}, 6)}), {4e-6, 1e-6}, "simd");  // large enough for a team
}

TEST_F(CpuConformance, UnaryF32AtTheEdges) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor x =
      Tensor::Of<float>({9}, {0.0f, -0.0f, inf, -inf, nan, 1e-40f, -1e-40f, 88.8f, -200});
  for (const char* op :
       {"Relu", "Tanh", "Erf", "Exp", "Sigmoid", "Sqrt", "Neg", "Abs", "Sign", "Ceil", "Floor",
        "Round", "Reciprocal", "Log", "Softplus", "LeakyRelu", "Elu", "HardSigmoid"}) {
    Check(MakeCase(op, {}, {x}), {1e-37, 1e-6}, "simd");
  }
}

TEST_F(CpuConformance, Clip) {
  const float nan = std::nanf("");
  const Tensor x = Tensor::Of<float>({6}, {-3, 0.5f, 3, nan, -INFINITY, INFINITY});
  const Tensor low = Tensor::Scalar(-1.0f), high = Tensor::Of<float>({1}, {1});
  Check(MakeCase("Clip", {}, {x}), kExact, "simd");
  Check(MakeCase("Clip", {}, {x, low}), kExact, "simd");
  Check(MakeCase("Clip", {}, {x, Tensor(), high}), kExact, "simd");
  Check(MakeCase("Clip", {}, {x, high, low}), kExact, "simd");
  Check(MakeCase("Clip", {}, {F32({3, 70001}), low, high}), kExact, "simd");
}

// --- Rows ---------------------------------------------------------------------------------------
TEST_F(CpuConformance, Softmax) {
  for (int i = 0; i < 40; ++i) {
    const Shape shape = RandomShape(1, 4);
    const int64_t axis = static_cast<int64_t>(random_() % (2 * shape.rank())) - shape.rank();
    const Attrs attrs = MakeAttrs({{"axis", axis}});
    Check(MakeCase("Softmax", attrs, {F32(shape, 10)}), {1e-12, 4e-6}, "simd");
    Check(MakeCase("LogSoftmax", attrs, {F32(shape, 10)}), {2e-6, 1e-6}, "simd");
  }
  Check(MakeCase("LogSoftmax", {}, {F32({64, 1100}, 30)}), {1e-5, 1e-6}, "simd");
  Check(MakeCase("Softmax", {}, {F32({64, 1100}, 30)}), {1e-12, 4e-6}, "simd");
  Check(MakeCase("Softmax", MakeAttrs({{"axis", int64_t{1}}}), {F32({20, 60, 70}, 30)}),
        {1e-12, 4e-6}, "simd");
}

TEST_F(CpuConformance, SoftmaxOfHugeAndInfiniteElements) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::Of<float>({3, 3}, {1e30f, 0, -1e30f, -inf, 0, 1, -inf, -inf, -inf});
  Check(MakeCase("Softmax", {}, {x}), {1e-12, 4e-6}, "simd");
}

TEST_F(CpuConformance, LayerNormalization) {
  for (int i = 0; i < 40; ++i) {
    const Shape shape = RandomShape(1, 4);
    const int axis = static_cast<int>(random_() % shape.rank());
    const Shape normalized(shape.dims().subspan(axis));
    const Attrs attrs = MakeAttrs({{"axis", int64_t{axis}}, {"epsilon", 1e-3}});
    std::vector<Tensor> inputs = {F32(shape), F32(normalized)};
    if (i % 2) inputs.push_back(F32(normalized));
    // Where all elements are alike, the mean's rounding is all there is, times 1 / sqrt(epsilon).
    Check(MakeCase("LayerNormalization", attrs, inputs, 1 + i % 3), {2e-5, 1e-5}, "simd");
  }
  Check(MakeCase("LayerNormalization", {}, {F32({100, 768}), F32({768}), F32({768})}, 3),
        {1e-5, 1e-5}, "simd");
}

TEST_F(CpuConformance, ReduceSumOverAnyAxes) {
  for (int i = 0; i < 80; ++i) {
    const Shape shape = RandomShape(1, 5);
    Ints axes;
    for (int d = 0; d < shape.rank(); ++d) {
      if (random_() % 2) axes.push_back(random_() % 2 ? d : d - shape.rank());
    }
    const Attrs attrs =
        MakeAttrs({{"keepdims", int64_t{i % 2}}, {"noop_with_empty_axes", int64_t{i / 2 % 2}}});
    const Tensor axes_tensor = Tensor::FromSpan<int64_t>({static_cast<int64_t>(axes.size())}, axes);
    std::vector<Tensor> inputs = {F32(shape)};
    if (i % 5) inputs.push_back(axes_tensor);
    Check(MakeCase("ReduceSum", attrs, inputs), SumTolerance(NumElements(shape), 1), "simd");
  }
}

TEST_F(CpuConformance, ReduceMeanAndGlobalAveragePool) {
  Check(MakeCase("ReduceMean", {}, {F32({5, 7})}), {1e-6, 1e-6}, "simd");
  Check(MakeCase("ReduceMean", MakeAttrs({{"axes", Ints{0, 2}}, {"keepdims", int64_t{0}}}),
                 {F32({33, 5, 700})}),
        {1e-6, 1e-5}, "simd");
  Check(MakeCase("ReduceMean", MakeAttrs({{"axes", Ints{1}}}), {F32({3, 900, 130})}), {1e-6, 1e-5},
        "simd");
  Check(MakeCase("ReduceMean", MakeAttrs({{"axes", Ints{0}}}), {F32({1000, 67})}), {1e-6, 1e-5},
        "simd");
  for (const Shape& shape :
       {Shape{2, 3, 7}, Shape{1, 17, 5, 5}, Shape{2, 300, 14, 14}, Shape{1, 2, 3, 4, 5}}) {
    Check(MakeCase("GlobalAveragePool", {}, {F32(shape)}), {1e-6, 1e-6}, "simd");
  }
}

TEST_F(CpuConformance, ReductionsOverAnyAxes) {
  for (const char* op : {"ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                         "ReduceSumSquare", "ReduceLogSum", "ReduceMean"}) {
    for (int i = 0; i < 40; ++i) {
      const Shape shape = RandomShape(1, 5);
      Ints axes;
      for (int d = 0; d < shape.rank(); ++d) {
        if (random_() % 2) axes.push_back(d);
      }
      Tensor x = F32(shape);
      if (op == std::string_view("ReduceProd")) {  // keep the product within floats
        for (int64_t k = 0; k < x.num_elements(); ++k) x.Set(k, 1 + 1e-3 * x.AsDouble(k));
      }
      if (op == std::string_view("ReduceLogSum")) {
        for (int64_t k = 0; k < x.num_elements(); ++k) x.Set(k, 0.5 + std::abs(x.AsDouble(k)));
      }
      const Attrs attrs = MakeAttrs({{"axes", axes}, {"keepdims", int64_t{i % 2}}});
      const bool extreme =
          op == std::string_view("ReduceMax") || op == std::string_view("ReduceMin");
      Check(MakeCase(op, attrs, {x}),
            extreme ? kExact : Tolerance{2e-7 * static_cast<double>(NumElements(shape) + 8), 1e-5},
            "simd");
    }
    Check(MakeCase(op, MakeAttrs({{"axes", Ints{1}}}), {F32({3, 0})}), kExact, "simd");
  }
}

TEST_F(CpuConformance, LargestKeepsNaNWhereverItIs) {
  for (int64_t at = 0; at < 37; ++at) {
    Tensor rows = F32({37}), columns = F32({37, 40});
    rows.Set(at, std::nan(""));
    columns.Set(at * 40 + at, std::nan(""));
    for (const char* op : {"ReduceMax", "ReduceMin"}) {
      Check(MakeCase(op, {}, {rows}), kExact, "simd");
      Check(MakeCase(op, MakeAttrs({{"axes", Ints{0}}}), {columns}), kExact, "simd");
    }
  }
}

TEST_F(CpuConformance, MeanOfNothingIsNaNAndSumOfNothingIsZero) {
  Check(MakeCase("ReduceSum", {}, {F32({3, 0}), Tensor::Of<int64_t>({1}, {1})}), kExact, "simd");
  Check(MakeCase("ReduceMean", MakeAttrs({{"axes", Ints{1}}}), {F32({3, 0})}), kExact, "simd");
}

TEST_F(CpuConformance, MaxPool) {
  for (int i = 0; i < 60; ++i) {
    const int rank = 1 + i % 3;
    Shape shape = {Draw({1, 2}), Draw({1, 3})};
    Ints kernel, strides, dilations, pads(2 * rank);
    for (int d = 0; d < rank; ++d) {
      shape.push_back(Draw({9, 12, 20, 41}));
      kernel.push_back(Draw({1, 2, 3}));
      strides.push_back(Draw({1, 1, 2, 2, 3}));
      dilations.push_back(Draw({1, 1, 2}));
      const int64_t most = (kernel[d] - 1) * dilations[d];
      pads[d] = std::min(most, Draw({0, 1, 2}));
      pads[d + rank] = std::min(most, Draw({0, 1, 2}));
    }
    Attrs attrs = MakeAttrs({{"kernel_shape", kernel},
                             {"strides", strides},
                             {"dilations", dilations},
                             {"ceil_mode", int64_t{i % 2}}});
    if (i % 4 == 3) {
      attrs.Set("auto_pad", std::string(i % 8 == 3 ? "SAME_UPPER" : "SAME_LOWER"));
      attrs.Erase("ceil_mode");
    } else {
      attrs.Set("pads", pads);
    }
    Check(MakeCase("MaxPool", attrs, {F32(shape)}), kExact, "simd");
  }
  const Attrs resnet = MakeAttrs(
      {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  Check(MakeCase("MaxPool", resnet, {F32({1, 16, 112, 112})}), kExact, "simd");
  Check(MakeCase("MaxPool", resnet, {F32({1, 2, 9, 9})}, 2), kExact, "reference");
}

TEST_F(CpuConformance, MaxPoolKeepsNaNAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  Tensor x = F32({1, 1, 40, 40});
  for (int64_t i = 0; i < 1600; i += 7) x.Set(i, i % 2 ? std::nan("") : -inf);
  for (int64_t i = 800; i < 1000; ++i) x.Set(i, -inf);
  for (int64_t stride : {1, 2, 3}) {
    const Attrs attrs =
        MakeAttrs({{"kernel_shape", Ints{3, 3}}, {"strides", Ints{stride, stride}}});
    Check(MakeCase("MaxPool", attrs, {x}), kExact, "simd");
  }
}

// --- Copies -------------------------------------------------------------------------------------
TEST_F(CpuConformance, RenamesOfEveryType) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const Tensor x = RandomTensor(random_, static_cast<DType>(d), {3, 4, 5}, 100);
    Check(MakeCase("Identity", {}, {x}), kExact, "copy");
    Check(MakeCase("Flatten", {}, {x}), kExact, "copy");
    Check(MakeCase("Reshape", {}, {x, Tensor::Of<int64_t>({2}, {-1, 6})}), kExact, "copy");
  }
  Check(MakeCase("Identity", {}, {F32({300, 1000})}), kExact, "copy");
  Check(MakeCase("Reshape", {}, {F32({}), Tensor::Of<int64_t>({1}, {1})}), kExact, "copy");
}

TEST_F(CpuConformance, TransposeOfEveryTypeAndPermutation) {
  for (int i = 0; i < 120; ++i) {
    const DType dtype = static_cast<DType>(i % kNumDTypes);
    const Shape shape = RandomShape(0, 5);
    Ints perm;
    for (int d = 0; d < shape.rank(); ++d) perm.push_back(d);
    std::shuffle(perm.begin(), perm.end(), random_);
    const Attrs attrs = i % 10 ? MakeAttrs({{"perm", perm}}) : Attrs();
    Check(MakeCase("Transpose", attrs, {RandomTensor(random_, dtype, shape, 100)}), kExact, "copy");
  }
  Check(MakeCase("Transpose", MakeAttrs({{"perm", Ints{0, 2, 3, 1}}}), {F32({2, 33, 40, 41})}),
        kExact, "copy");
  Check(MakeCase("Transpose", MakeAttrs({{"perm", Ints{0, 2, 1, 3}}}), {F32({1, 128, 12, 64})}),
        kExact, "copy");
}

TEST_F(CpuConformance, ConcatAndSplit) {
  for (int i = 0; i < 60; ++i) {
    const DType dtype = static_cast<DType>(i % kNumDTypes);
    Shape shape = RandomShape(1, 4);
    const int axis = static_cast<int>(random_() % shape.rank());
    const Attrs attrs = MakeAttrs({{"axis", int64_t{i % 2 ? axis : axis - shape.rank()}}});
    std::vector<Tensor> parts;
    std::vector<int64_t> sizes;
    for (int64_t part = Draw({1, 2, 3}); part > 0; --part) {
      shape[axis] = Draw({0, 1, 2, 5});
      sizes.push_back(shape[axis]);
      parts.push_back(RandomTensor(random_, dtype, shape, 100));
    }
    const KernelCase concat = MakeCase("Concat", attrs, parts);
    const bool nothing = concat.query.outputs[0]->shape[axis] == 0;
    Check(concat, kExact, nothing ? "empty" : "copy");
    const Tensor whole = RandomTensor(random_, dtype, concat.query.outputs[0]->shape, 100);
    const int count = static_cast<int>(sizes.size());
    const Tensor sizes_tensor = Tensor::FromSpan<int64_t>({count}, sizes);
    Check(MakeCase("Split", attrs, {whole, sizes_tensor}, count), kExact,
          nothing ? "empty" : "copy");
  }
  const Attrs last = MakeAttrs({{"axis", int64_t{-1}}});
  Check(MakeCase("Split", last, {F32({500, 300})}, 3), kExact, "copy");
}

TEST_F(CpuConformance, Gather) {
  for (int i = 0; i < 40; ++i) {
    const DType dtype = static_cast<DType>(i % kNumDTypes);
    const Shape shape = RandomShape(1, 4);
    const int axis = static_cast<int>(random_() % shape.rank());
    const double most = static_cast<double>(shape[axis]) - 1;
    const DType index = i % 2 ? DType::kI32 : DType::kI64;
    Tensor indices = RandomTensor(random_, index, RandomShape(0, 2), most);
    Check(MakeCase("Gather", MakeAttrs({{"axis", int64_t{axis}}}),
                   {RandomTensor(random_, dtype, shape, 100), indices}),
          kExact, "copy");
  }
}

Tensor IntList(const Ints& values) {
  return Tensor::FromSpan<int64_t>({static_cast<int64_t>(values.size())}, values);
}

TEST_F(CpuConformance, SlicesOfEveryType) {
  for (int i = 0; i < 80; ++i) {
    const DType dtype = static_cast<DType>(i % kNumDTypes);
    const Shape shape = RandomShape(1, 4);
    Ints starts, ends, axes, steps;
    for (int d = 0; d < shape.rank(); ++d) {
      if (random_() % 3 == 0) continue;
      const bool backwards = random_() % 3 == 0;
      const int64_t a = static_cast<int64_t>(random_() % shape[d]);
      axes.push_back(d);
      starts.push_back(backwards ? -1 : a / 2);
      ends.push_back(backwards ? -shape[d] - 1 : a + 1);
      steps.push_back((backwards ? -1 : 1) * Draw({1, 1, 2, 3}));
    }
    Check(MakeCase("Slice", {},
                   {RandomTensor(random_, dtype, shape, 100), IntList(starts), IntList(ends),
                    IntList(axes), IntList(steps)}),
          kExact, "copy");
  }
  Check(MakeCase("Slice", {},
                 {F32({40, 80, 90}), IntList({1, 2}), IntList({39, 88}), IntList({0, 2}),
                  IntList({2, 1})}),
        kExact, "copy");
}

TEST_F(CpuConformance, RepeatsOfEveryType) {
  for (int i = 0; i < 60; ++i) {
    const DType dtype = static_cast<DType>(i % kNumDTypes);
    const Shape full = RandomShape(0, 4);
    Ints repeats;
    for (int d = 0; d < full.rank(); ++d) repeats.push_back(Draw({1, 1, 2, 3}));
    Check(MakeCase("Tile", {}, {RandomTensor(random_, dtype, full, 100), IntList(repeats)}), kExact,
          "copy");
    const Ints dims(full.begin(), full.end());
    Check(MakeCase("Expand", {},
                   {RandomTensor(random_, dtype, Narrowed(random_, full), 100), IntList(dims)}),
          kExact, "copy");
  }
}

TEST_F(CpuConformance, PadsOfEveryType) {
  for (int i = 0; i < 80; ++i) {
    const DType dtype = static_cast<DType>(i % kNumDTypes);
    const Shape shape = RandomShape(1, 4);
    Ints pads;
    for (int d = 0; d < 2 * shape.rank(); ++d) pads.push_back(Draw({0, 0, 1, 2, 5}));
    if (shape[0] > 2) pads[0] = -1;
    const char* const kModes[] = {"constant", "reflect", "edge", "wrap"};
    const Attrs attrs = MakeAttrs({{"mode", std::string(kModes[i % 4])}});
    std::vector<Tensor> inputs = {RandomTensor(random_, dtype, shape, 100), IntList(pads)};
    if (i % 8 == 0) inputs.push_back(RandomTensor(random_, dtype, {}, 100));
    Check(MakeCase("Pad", attrs, inputs), kExact, "copy");
  }
  Check(MakeCase("Pad", {}, {F32({20, 3, 60, 60}), IntList({0, 0, 1, 1, 0, 0, 1, 1})}), kExact,
        "copy");
}

TEST_F(CpuConformance, CopiesThatNobodyKnewWhilePreparingAreTheReferences) {
  KernelCase c = MakeCase("Slice", {}, {F32({5, 6}), IntList({1}), IntList({4})});
  c.query.known.clear();
  Check(c, kExact, "reference");
}

// --- Contractions -------------------------------------------------------------------------------
TEST_F(CpuConformance, MatMulWithBroadcastBatches) {
  for (int i = 0; i < 80; ++i) {
    const int64_t m = Draw({1, 3, 4, 7, 20}), k = Draw({1, 2, 16, 45}),
                  n = Draw({1, 5, 16, 40, 70});
    const Shape batch = RandomShape(0, 2);
    Shape a = Narrowed(random_, batch), b = i % 3 ? Narrowed(random_, batch) : batch;
    for (int64_t d : {m, k}) a.push_back(d);
    for (int64_t d : {k, n}) b.push_back(d);
    Check(MakeCase("MatMul", {}, {F32(a), F32(b)}), SumTolerance(k, 4));
  }
  Check(MakeCase("MatMul", {}, {F32({7}), F32({7})}), SumTolerance(7, 4), "simd");
  Check(MakeCase("MatMul", {}, {F32({7}), F32({3, 7, 5})}), SumTolerance(7, 4), "simd");
  Check(MakeCase("MatMul", {}, {F32({3, 2, 7}), F32({7})}), SumTolerance(7, 4), "simd");
  Check(MakeCase("MatMul", {}, {F32({2, 0}), F32({0, 3})}), kExact, "simd");
}

TEST_F(CpuConformance, MatMulLargeEnoughForALibrary) {
  const std::string_view fast = OneDnnFast();
  Check(MakeCase("MatMul", {}, {F32({64, 200}), F32({200, 100})}), SumTolerance(200, 4), fast);
  Check(MakeCase("MatMul", {}, {F32({6, 30, 40}), F32({6, 40, 50})}), SumTolerance(40, 4), fast);
  Check(MakeCase("MatMul", {}, {F32({2, 1, 30, 40}), F32({3, 40, 50})}), SumTolerance(40, 4), fast);
}

TEST_F(CpuConformance, Gemm) {
  for (int i = 0; i < 120; ++i) {
    const bool large = i % 3 == 2;
    const int64_t m = large ? 33 : Draw({1, 4, 9}), k = large ? 80 : Draw({1, 16, 37});
    const int64_t n = large ? 70 : Draw({1, 10, 33});
    const bool ta = random_() % 2, tb = random_() % 2;
    const Attrs attrs = MakeAttrs({{"transA", int64_t{ta}},
                                   {"transB", int64_t{tb}},
                                   {"alpha", i % 2 ? 1.0 : 0.5},
                                   {"beta", i % 4 ? 1.0 : -2.0}});
    std::vector<Tensor> inputs = {F32(ta ? Shape{k, m} : Shape{m, k}),
                                  F32(tb ? Shape{n, k} : Shape{k, n})};
    const Shape c[] = {{}, {n}, {1, n}, {m, 1}, {m, n}, {1}};
    if (i % 7) inputs.push_back(F32(c[i % 7 - 1]));
    const auto expected = !large && !(ta && tb) ? "simd" : OneDnnFast();
    Check(MakeCase("Gemm", attrs, inputs), SumTolerance(k + 1, 4), expected);
  }
}

TEST_F(CpuConformance, Conv) {
  for (int i = 0; i < 90; ++i) {
    const int rank = 1 + i % 3;
    const int64_t groups = Draw({1, 1, 2, 4}), in = groups * Draw({1, 2, 3});
    const int64_t out = groups * Draw({1, 3, 4});
    Shape x = {Draw({1, 2}), in}, w = {out, in / groups};
    Ints strides, dilations, pads(2 * rank);
    int64_t taps = in / groups;
    for (int d = 0; d < rank; ++d) {
      x.push_back(Draw({7, 9, 12}));
      w.push_back(i % 5 == 0 ? 1 : Draw({1, 2, 3}));
      strides.push_back(Draw({1, 1, 2}));
      dilations.push_back(Draw({1, 1, 2}));
      pads[d] = Draw({0, 1, 2});
      pads[d + rank] = Draw({0, 1, 2});
      taps *= w[d + 2];
    }
    Attrs attrs = MakeAttrs({{"group", groups}, {"strides", strides}, {"dilations", dilations}});
    if (i % 5 == 4) {
      attrs.Set("auto_pad", std::string(i % 2 ? "SAME_UPPER" : "SAME_LOWER"));
    } else if (i % 5 != 0) {
      attrs.Set("pads", pads);
    }
    std::vector<Tensor> inputs = {F32(x), F32(w)};
    if (i % 2) inputs.push_back(F32({out}));
    Check(MakeCase("Conv", attrs, inputs), SumTolerance(taps, 4));
  }
}

TEST_F(CpuConformance, ConvOfRealisticSizes) {
  const Attrs same = MakeAttrs({{"pads", Ints{1, 1, 1, 1}}});
  Check(MakeCase("Conv", same, {F32({1, 20, 28, 28}), F32({24, 20, 3, 3}), F32({24})}),
        SumTolerance(180, 4), OneDnnFast());
  Check(MakeCase("Conv", {}, {F32({2, 64, 14, 14}), F32({32, 64, 1, 1})}), SumTolerance(64, 4),
        OneDnnFast());
  const Attrs depthwise = MakeAttrs({{"group", int64_t{48}}, {"pads", Ints{1, 1, 1, 1}}});
  Check(MakeCase("Conv", depthwise, {F32({1, 48, 28, 28}), F32({48, 1, 3, 3})}), SumTolerance(9, 4),
        OneDnnFast());
  Check(MakeCase("Conv", same, {F32({3, 1, 8, 8}), F32({16, 1, 3, 3}), F32({16})}),
        SumTolerance(9, 4), "simd");
}

// --- Nothing to do ------------------------------------------------------------------------------
TEST_F(CpuConformance, ResultsWithoutElements) {
  const Tensor none = F32({0, 5});
  Check(MakeCase("Add", {}, {none, F32({5})}), kExact, "empty");
  Check(MakeCase("Tanh", {}, {none}), kExact, "empty");
  Check(MakeCase("Softmax", {}, {none}), kExact, "empty");
  Check(MakeCase("Transpose", {}, {none}), kExact, "empty");
  Check(MakeCase("MatMul", {}, {none, F32({5, 3})}), kExact, "empty");
  Check(MakeCase("Identity", {}, {none}), kExact, "empty");
}

}  // namespace
}  // namespace millrace
