// fused.Conv and fused.MatMul: the reference against the plain op and the ops behind it, every cpu
// kernel against the reference, and what is refused.
#include "ops/fused_product.h"

#include "gmock/gmock.h"
#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/scalar_program.h"
#include "tests/ops/cpu_kernel_runner.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// A node behind the product; of its operands the one without data is what comes before.
struct Step {
  std::string op;
  std::vector<Tensor> inputs = {Tensor()};
  Attrs attrs = {};
};

// A product, step by step and fused.
struct ProductCase {
  KernelCase fused;
  Tensor expected;
};

NodeQuery StepQuery(const Step& step, const TensorType& type) {
  NodeQuery query;
  query.op = step.op;
  query.attrs = step.attrs;
  for (const Tensor& t : step.inputs) query.inputs.push_back(t.has_data() ? t.type() : type);
  query.outputs = {type};
  return query;
}

// The first input of a step without data is the result so far; others are omitted.
ProductCase Fuse(const KernelCase& plain, const std::vector<Step>& steps) {
  FusedProduct product = *FusedProductOf(plain.query);
  std::vector<Tensor> inputs = plain.inputs;
  inputs.resize(product.first_operand);
  FusedProgram& epilogue = product.epilogue;
  ScalarTerm term{&epilogue, epilogue.outputs[0].value, DType::kF32};
  epilogue.outputs.clear();
  const TensorType type = *plain.query.outputs[0];
  Tensor result = (*optest::RunReference(plain.query.op, plain.query.attrs, plain.inputs))[0];
  for (const Step& step : steps) {
    std::vector<ScalarTerm> terms;
    std::vector<Tensor> operands;
    for (const Tensor& t : step.inputs) {
      operands.push_back(t.has_data() ? t : result);
      if (!t.has_data()) {
        terms.push_back(term);
      } else if (t.num_elements() == 1) {
        terms.push_back(ScalarConstant(term, t.AsDouble(0)));
      } else {
        terms.push_back(LoadOperand(epilogue, t.type(), type.shape));
        product.operands.push_back(t.type());
        inputs.push_back(t);
      }
    }
    term = AppendNode(StepQuery(step, type), terms);
    result = (*optest::RunReference(step.op, step.attrs, operands))[0];
  }
  StoreOutput(epilogue, term);
  const NodeQuery query = QueryOf(product);
  inputs.resize(query.inputs.size());
  return {MakeCase(query.op, query.attrs, inputs, 1), result};
}

class Products : public ::testing::Test {
 protected:
  Tensor Data(const Shape& shape, double limit = 1) {
    return RandomTensor(random_, DType::kF32, shape, limit);
  }
  Tensor One(float value) { return Tensor::FromSpan<float>({}, std::vector<float>{value}); }

  KernelCase Conv(const Shape& x, const Shape& w, bool bias, Attrs attrs) {
    std::vector<Tensor> inputs = {Data(x), Data(w, 0.3)};
    if (bias) inputs.push_back(Data({w[0]}));
    return MakeCase("Conv", std::move(attrs), std::move(inputs), 1);
  }

  // The names of the variants that were compared.
  std::vector<std::string> CheckAll(const KernelCase& plain, const std::vector<Step>& steps,
                                    double tolerance = 3e-5) {
    const ProductCase product = Fuse(plain, steps);
    std::vector<std::string> names;
    for (const KernelVariant& variant : CpuTarget().Variants(product.fused.query)) {
      for (const int threads : {1, 2, 3}) {
        const auto results = RunVariant(*library_, product.fused, variant, {.threads = threads});
        EXPECT_TRUE(results.ok()) << variant.name << ": " << results.status();
        if (!results.ok()) continue;
        EXPECT_LT(optest::MaxError((*results)[0], product.expected), tolerance)
            << variant.name << " with " << threads;
      }
      names.push_back(variant.name.substr(0, variant.name.find(':')));
    }
    return names;
  }

  std::mt19937 random_{7};
  std::unique_ptr<KernelLibrary> library_ = CreateCpuKernelLibrary();
};

bool HasOneDnn() {
#ifdef MILLRACE_HAVE_ONEDNN
  return true;
#else
  return false;
#endif
}

// Every step that oneDNN takes, behind a convolution with odd sizes, padding, strides and groups.
TEST_F(Products, ConvolutionsGoThroughActivations) {
  const std::vector<std::vector<Step>> chains = {
      {{"Relu"}},
      {{"LeakyRelu", {Tensor()}, MakeAttrs({{"alpha", 0.1}})}},
      {{"Elu", {Tensor()}, MakeAttrs({{"alpha", 0.7}})}},
      {{"Clip", {Tensor(), One(-0.5f), One(0.75f)}}},
      {{"Relu"}, {"Clip", {Tensor(), One(0.25f), One(0.75f)}}},
      {{"Sigmoid"}},
      {{"Tanh"}},
      {{"Gelu"}},
      {{"Gelu", {Tensor()}, MakeAttrs({{"approximate", "tanh"}})}},
      {{"HardSwish"}},
      {{"HardSigmoid", {Tensor()}, MakeAttrs({{"alpha", 0.2}, {"beta", 0.5}})}},
      {{"Swish", {Tensor()}, MakeAttrs({{"alpha", 1.5}})}},
      {{"Mul", {Tensor(), One(0.5f)}}},
      {{"Sub", {Tensor(), One(0.25f)}}},
      {{"Abs"}},
      {{"Sub", {Tensor(), One(0.25f)}}, {"Abs"}},
  };
  for (const std::vector<Step>& chain : chains) {
    std::string text;
    for (const Step& step : chain) StrAppend(&text, step.op, " ");
    SCOPED_TRACE(text);
    const KernelCase plain = Conv(
        {2, 6, 9, 7}, {10, 3, 3, 2}, /*bias=*/true,
        MakeAttrs({{"group", int64_t{2}}, {"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 1}}}));
    const std::vector<std::string> names = CheckAll(plain, chain);
    if (HasOneDnn()) {
      EXPECT_THAT(names, ::testing::Contains("onednn"));
    }
  }
}

// A residual of the result's size, which the result may lie on, and operands for each channel.
TEST_F(Products, ConvolutionsAddResidualsInPlace) {
  const Shape y{2, 32, 8, 8};
  const KernelCase plain = Conv({2, 16, 8, 8}, {32, 16, 1, 1}, /*bias=*/false, {});
  const std::vector<Step> steps = {{"Mul", {Tensor(), Data({32, 1, 1})}},
                                   {"Add", {Data(y), Tensor()}},
                                   {"Relu"},
                                   {"Add", {Tensor(), Data({1, 32, 1, 1})}}};
  const std::vector<std::string> names = CheckAll(plain, steps);
  if (HasOneDnn()) {
    EXPECT_THAT(names, ::testing::Contains("onednn"));
  }
  const ProductCase product = Fuse(plain, steps);
  for (const KernelVariant& variant : CpuTarget().Variants(product.fused.query)) {
    const auto results =
        RunVariant(*library_, product.fused, variant, {.threads = 2, .in_place = {0, 4}});
    ASSERT_TRUE(results.ok()) << variant.name << ": " << results.status();
    EXPECT_LT(optest::MaxError((*results)[0], product.expected), 3e-5) << variant.name;
  }
}

// What post-ops do not express is left to the reference.
TEST_F(Products, OtherEpiloguesAreForTheReference) {
  const Shape y{2, 8, 5, 5};
  const std::vector<std::vector<Step>> chains = {
      {{"Mul", {Tensor(), Data(y)}}},                                // a gate of its own
      {{"Add", {Tensor(), Data({5, 5})}}},                           // one for each position
      {{"Add", {Tensor(), Data(y)}}, {"Add", {Tensor(), Data(y)}}},  // two residuals
      {{"Sub", {Data({8, 1, 1}), Tensor()}}},                        // the product subtracted
      {{"Pow", {Tensor(), One(2)}}},
      // oneDNN 2.6 gave the second function the numbers of the first.
      {{"Mul", {Tensor(), One(0.5f)}}, {"Sub", {Tensor(), One(0.25f)}}},
      {{"Add", {One(2), Tensor()}}, {"Neg"}},
  };
  for (const std::vector<Step>& chain : chains) {
    SCOPED_TRACE(chain[0].op);
    const KernelCase plain = Conv({2, 4, 5, 5}, {8, 4, 1, 1}, /*bias=*/false, {});
    EXPECT_THAT(CheckAll(plain, chain), ::testing::ElementsAre("reference"));
  }
}

// Tiles that end at the border, more than one image, panels that are not whole.
TEST_F(Products, WinogradIsAConvolution) {
  const auto pads = [](const Ints& all) { return MakeAttrs({{"pads", all}}); };
  struct Sizes {
    Shape x, w;
    Ints pads;
  };
  for (const Sizes& s : {Sizes{{1, 64, 16, 16}, {64, 64, 3, 3}, {1, 1, 1, 1}},
                         Sizes{{2, 32, 15, 13}, {48, 32, 3, 3}, {1, 0, 2, 1}},
                         Sizes{{3, 48, 22, 9}, {80, 48, 3, 3}, {0, 0, 0, 0}}}) {
    for (const bool bias : {false, true}) {
      const KernelCase plain = Conv(s.x, s.w, bias, pads(s.pads));
      const std::vector<std::string> alone = CheckAll(plain, {{"Relu"}}, 1e-4);
      EXPECT_THAT(alone, ::testing::Contains("winograd")) << ToString(s.x);
      const Tensor residual = Data(plain.query.outputs[0]->shape);
      const std::vector<std::string> summed = CheckAll(
          plain, {{"Add", {Tensor(), residual}}, {"Clip", {Tensor(), One(-1), One(2)}}}, 1e-4);
      EXPECT_THAT(summed, ::testing::Contains("winograd")) << ToString(s.x);
    }
  }
}

TEST_F(Products, MatricesHaveTheReference) {
  const KernelCase plain = MakeCase("MatMul", {}, {Data({2, 3, 4}), Data({4, 5})}, 1);
  EXPECT_THAT(CheckAll(plain, {{"Add", {Tensor(), Data({5})}}, {"Gelu"}}),
              ::testing::Contains("reference"));
  const KernelCase gemm = MakeCase("Gemm", MakeAttrs({{"beta", 0.5}, {"transB", true}}),
                                   {Data({3, 4}), Data({5, 4}), Data({5})}, 1);
  FusedProduct split = *FusedProductOf(gemm.query);
  EXPECT_EQ(split.operands.size(), 1u);
  const KernelCase whole = MakeCase("fused.MatMul", QueryOf(split).attrs, gemm.inputs, 1);
  const Tensor expected = (*optest::RunReference("Gemm", gemm.query.attrs, gemm.inputs))[0];
  const Tensor actual = (*optest::RunReference("fused.MatMul", whole.query.attrs, whole.inputs))[0];
  EXPECT_LT(optest::MaxError(actual, expected), 1e-6);
}

std::string ErrorOfConv(std::string_view epilogue, std::vector<Tensor> inputs) {
  const auto result = optest::RunReference(
      "fused.Conv", MakeAttrs({{"epilogue", std::string(epilogue)}}), std::move(inputs));
  return result.ok() ? "ok" : std::string(result.status().message());
}

TEST_F(Products, EpiloguesThatDoNotFitAreRefused) {
  const Tensor x = Data({1, 2, 3, 4}), w = Data({2, 2, 1, 1}), b;
  const std::string tanh = "%0 = load f32 @0; %1 = tanh f32 %0; out f32 [24, 12, 4, 1] = %1";
  EXPECT_EQ(ErrorOfConv("dims [1 outer, 2 outer, 3 outer, 4 outer]; in f32 [24, 12, 4, 1]; " + tanh,
                        {x, w}),
            "ok");
  EXPECT_THAT(ErrorOfConv("nonsense", {x, w}), HasSubstr("nonsense"));
  EXPECT_THAT(
      ErrorOfConv("dims [1 outer, 2 outer, 3 outer, 5 outer]; in f32 [30, 15, 5, 1]; %0 = load f32 "
                  "@0; out f32 [30, 15, 5, 1] = %0",
                  {x, w}),
      HasSubstr("the epilogue is over [1,2,3,5], but the product is f32[1,2,3,4]"));
  EXPECT_THAT(
      ErrorOfConv("dims [1 outer, 2 outer, 3 outer, 4 outer]; in f32 [24, 12, 1, 3]; " + tanh,
                  {x, w}),
      HasSubstr("must be dense"));
  EXPECT_THAT(
      ErrorOfConv("dims [1 outer, 2 outer, 3 outer, 4 outer]; in f32 [24, 12, 4, 1]; in f32 "
                  "[0, 1, 0, 0]; " +
                      tanh,
                  {x, w}),
      HasSubstr("2 operands"));
  EXPECT_THAT(
      ErrorOfConv("dims [1 outer, 2 outer, 3 outer, 4 reduce]; in f32 [24, 12, 4, 1]; " + tanh,
                  {x, w}),
      HasSubstr("does not reduce"));
}

}  // namespace
}  // namespace millrace
