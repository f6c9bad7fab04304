// Gradients of whole small models in f64, against central differences of what the graphs mean.
#include "passes/autodiff.h"

#include <gmock/gmock.h>

#include <cmath>

#include "absl/strings/match.h"
#include "graph/strings.h"
#include "graph/verify.h"
#include "graph/weights.h"
#include "ops/evaluate_graph.h"
#include "tests/passes/typed_graph.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr double kStep = 1e-5, kTolerance = 1e-6;

ValueId FindValue(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].name == name) return ValueId(i);
  }
  ADD_FAILURE() << "no value " << name;
  return ValueId();
}

std::vector<ValueId> FloatInputs(const Graph& graph) {
  std::vector<ValueId> ids;
  for (const ValueId id : graph.inputs) {
    if (IsFloat(graph.value(id).type.dtype)) ids.push_back(id);
  }
  return ids;
}

// Floats from -1 to 1, classes 0 to 2.
std::vector<Tensor> RandomInputs(const Graph& graph) {
  std::vector<Tensor> tensors;
  for (const ValueId id : graph.inputs) {
    tensors.push_back(Tensor::Zeros(graph.value(id).type));
    for (int64_t i = 0; i < tensors.back().num_elements(); ++i) {
      const double uniform = UniformAt(tensors.size(), i);
      const bool real = IsFloat(tensors.back().dtype());
      tensors.back().Set(i, real ? 2 * uniform - 1 : std::floor(3 * uniform));
    }
  }
  return tensors;
}

double LossAt(const Graph& graph, const std::vector<Tensor>& inputs) {
  const auto outputs = EvaluateGraph(graph, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return (*outputs)[0].AsDouble(0);
}

// `graph` has one output, the loss. Compares its gradients by all float inputs, at most 40 elements
// of each.
void CheckGradients(const Graph& graph) {
  const std::vector<ValueId> wanted = FloatInputs(graph);
  GraphBuilder builder(graph);
  const auto gradients = AppendGradients(builder, graph.outputs[0], wanted);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  builder.graph().outputs.clear();
  for (const ValueId id : *gradients) {
    ASSERT_TRUE(id.valid());
    builder.Output(builder.Op("Identity", {id}));
  }
  Graph with = std::move(builder).Build();
  ASSERT_EQ(InferTypes(with), absl::OkStatus());
  ASSERT_EQ(VerifyGraphAfter(with, "autodiff"), absl::OkStatus());
  std::vector<Tensor> inputs = RandomInputs(graph);
  const auto built = EvaluateGraph(with, inputs);
  ASSERT_TRUE(built.ok()) << built.status();
  size_t which = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!IsFloat(inputs[i].dtype())) continue;
    const Tensor& gradient = (*built)[which++];
    ASSERT_EQ(gradient.type(), inputs[i].type());
    const int64_t stride = 1 + inputs[i].num_elements() / 40;
    for (int64_t e = 0; e < inputs[i].num_elements(); e += stride) {
      const Tensor before = inputs[i];
      const auto loss_at = [&](double step) {
        inputs[i] = Tensor::FromSpan(before.shape(), before.data<double>());
        inputs[i].Set(e, before.AsDouble(e) + step);
        return LossAt(graph, inputs);
      };
      const double expected = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      inputs[i] = before;
      EXPECT_NEAR(gradient.AsDouble(e), expected, kTolerance * std::max(1.0, std::abs(expected)))
          << graph.value(graph.inputs[i]).name << " element " << e;
    }
  }
}

constexpr std::string_view kMlp = R"(graph mlp
  input x : f64[4,5]
  input labels : i64[4]
  input w1 : f64[5,6]
  input b1 : f64[6]
  input w2 : f64[6,3]
  input b2 : f64[3]
  h = Gemm(x, w1, b1)
  a = Tanh(h)
  scores = Gemm(a, w2, b2)
  loss = SoftmaxCrossEntropyLoss(scores, labels)
  output loss
)";

TEST(AutodiffTest, MultilayerPerceptron) { CheckGradients(TypedGraph(kMlp)); }

TEST(AutodiffTest, ConvolutionalNet) {
  CheckGradients(TypedGraph(R"(graph cnn
    input x : f64[2,2,6,6]
    input labels : i64[2]
    input w1 : f64[4,2,3,3]
    input b1 : f64[4]
    input scale : f64[4]
    input shift : f64[4]
    input w2 : f64[36,3]
    const mean : f64[4] = splat 0
    const var : f64[4] = splat 1
    c = Conv(x, w1, b1) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}
    n = BatchNormalization(c, scale, shift, mean, var) {training_mode = true}
    r = Relu(n)
    p = MaxPool(r) {kernel_shape = [2, 2], strides = [2, 2]}
    f = Flatten(p) {axis = 1}
    scores = MatMul(f, w2)
    loss = SoftmaxCrossEntropyLoss(scores, labels)
    output loss
  )"));
}

TEST(AutodiffTest, Lstm) {
  CheckGradients(TypedGraph(R"(graph lstm
    input x : f64[5,2,3]
    input labels : i64[10]
    input w : f64[1,16,3]
    input r : f64[1,16,4]
    input b : f64[1,32]
    input out : f64[4,3]
    const axes : i64[1] = inline [1]
    const rows : i64[2] = inline [10, 4]
    y, _, _ = LSTM(x, w, r, b) {hidden_size = 4}
    s = Squeeze(y, axes)
    flat = Reshape(s, rows)
    scores = MatMul(flat, out)
    loss = SoftmaxCrossEntropyLoss(scores, labels)
    output loss
  )"));
}

TEST(AutodiffTest, TransformerBlock) {
  CheckGradients(TypedGraph(R"(graph transformer
    input x : f64[2,3,8]
    input target : f64[2,3,8]
    input g1 : f64[8]
    input s1 : f64[8]
    input wqkv : f64[8,24]
    input wo : f64[8,8]
    input g2 : f64[8]
    input s2 : f64[8]
    input w1 : f64[8,12]
    input w2 : f64[12,8]
    const heads : i64[4] = inline [2, 3, 2, 4]
    const joined : i64[3] = inline [2, 3, 8]
    const scale : f64[] = splat 0.5
    n1 = LayerNormalization(x, g1, s1)
    qkv = MatMul(n1, wqkv)
    q, k, v = Split(qkv) {axis = 2}
    qh = Reshape(q, heads)
    kh = Reshape(k, heads)
    vh = Reshape(v, heads)
    qt = Transpose(qh) {perm = [0, 2, 1, 3]}
    kt = Transpose(kh) {perm = [0, 2, 3, 1]}
    vt = Transpose(vh) {perm = [0, 2, 1, 3]}
    dots = MatMul(qt, kt)
    scaled = Mul(dots, scale)
    p = Softmax(scaled) {axis = 3}
    mixed = MatMul(p, vt)
    back = Transpose(mixed) {perm = [0, 2, 1, 3]}
    flat = Reshape(back, joined)
    attended = MatMul(flat, wo)
    x2 = Add(x, attended)
    n2 = LayerNormalization(x2, g2, s2)
    up = MatMul(n2, w1)
    act = Gelu(up)
    down = MatMul(act, w2)
    y = Add(x2, down)
    d = Sub(y, target)
    dd = Mul(d, d)
    loss = ReduceMean(dd) {keepdims = false}
    output loss
  )"));
}

// The gradient of (a number made of) the gradient.
TEST(AutodiffTest, SecondOrderIsAutodiffTwice) {
  const Graph graph = TypedGraph(R"(graph smooth
    input x : f64[3,4]
    input w : f64[4,2]
    z = MatMul(x, w)
    t = Tanh(z)
    e = Exp(t)
    loss = ReduceSum(e) {keepdims = false}
    output loss
  )");
  GraphBuilder builder(graph);
  const auto first = AppendGradients(builder, graph.outputs[0], FloatInputs(graph));
  ASSERT_TRUE(first.ok()) << first.status();
  Attrs attrs;
  attrs.Set("keepdims", false);
  const ValueId norm = builder.Op("ReduceSumSquare", {(*first)[1]}, attrs, "norm");
  ASSERT_EQ(InferTypes(builder.graph()), absl::OkStatus());
  builder.graph().outputs = {norm};
  CheckGradients(builder.graph());
}

TEST(AutodiffTest, SeveralUsesAreSummed) {
  CheckGradients(TypedGraph(R"(graph uses
    input x : f64[3]
    a = Mul(x, x)
    b = Add(a, x)
    c = Sin(x)
    d = Mul(b, c)
    e = Add(d, d)
    loss = ReduceSum(e) {keepdims = false}
    output loss
  )"));
}

TEST(AutodiffTest, OnlyWhatLiesBetweenIsDifferentiated) {
  const Graph graph = TypedGraph(R"(graph part
    input x : f32[3]
    input unused : f32[3]
    input w : f32[3]
    before = Exp(x)
    y = Mul(before, w)
    loss = ReduceSum(y) {keepdims = false}
    after = Exp(y)
    output loss
    output after
  )");
  GraphBuilder builder(graph);
  const std::vector<ValueId> wanted = {FindValue(graph, "w"), FindValue(graph, "unused")};
  const auto gradients = AppendGradients(builder, FindValue(graph, "loss"), wanted);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ(builder.graph().value((*gradients)[0]).name, "grad/w");
  EXPECT_FALSE((*gradients)[1].valid());
  for (size_t n = graph.nodes.size(); n < builder.graph().nodes.size(); ++n) {
    const Node& node = builder.graph().nodes[n];
    EXPECT_TRUE(absl::StartsWith(node.name, "grad/")) << node.name;
    EXPECT_FALSE(absl::StrContains(node.name, "after")) << node.name;
    EXPECT_FALSE(absl::StrContains(node.name, "before")) << node.name;
  }
}

TEST(AutodiffTest, WhatTheLossDoesNotReachAddsNothing) {
  const Graph graph = TypedGraph(R"(graph apart
    input x : f32[3]
    input w : f32[3]
    loss = ReduceSum(x) {keepdims = false}
    output loss
  )");
  GraphBuilder builder(graph);
  const auto gradients =
      AppendGradients(builder, graph.outputs[0], std::vector<ValueId>{FindValue(graph, "w")});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_FALSE((*gradients)[0].valid());
  EXPECT_THAT(builder.graph().nodes, SizeIs(graph.nodes.size()));
}

// Integers carry no gradient: what is picked by ArgMax is a constant.
TEST(AutodiffTest, IntegersCarryNothing) {
  CheckGradients(TypedGraph(R"(graph picked
    input x : f64[4,3]
    i = ArgMax(x) {axis = 1, keepdims = false}
    f = Cast(i) {to = "f64"}
    s = ReduceSum(f) {keepdims = false}
    q = ReduceSumSquare(x) {keepdims = false}
    loss = Mul(q, s)
    output loss
  )"));
}

std::string RefusalOf(std::string_view text) {
  const Graph graph = TypedGraph(text);
  GraphBuilder builder(graph);
  const auto gradients = AppendGradients(builder, graph.outputs[0], FloatInputs(graph));
  EXPECT_FALSE(gradients.ok());
  return std::string(gradients.status().message());
}

TEST(AutodiffTest, OpsWithoutGradientAreNamed) {
  EXPECT_THAT(RefusalOf(R"(graph g
                input x : f32[2,2]
                q, s, z = DynamicQuantizeLinear(x)
                loss = ReduceSum(s) {keepdims = false}
                output loss
              )"),
              HasSubstr("node 'q' (DynamicQuantizeLinear) lies between 'loss' and what it is to be "
                        "differentiated by, but is not differentiable"));
}

TEST(AutodiffTest, NestedGraphsAreRefusedWithTheReason) {
  EXPECT_THAT(RefusalOf(R"(graph g
                input c : bool[]
                input x : f32[]
                y = If(c, x) graph then_branch {
                  input a : f32[]
                  t = Exp(a)
                  output t
                } graph else_branch {
                  input a : f32[]
                  t = Neg(a)
                  output t
                }
                loss = Exp(y)
                output loss
              )"),
              HasSubstr("node 'y' (If) lies between 'loss' and what it is to be differentiated by, "
                        "but gradients do not go through nested graphs"));
}

TEST(AutodiffTest, TheLossIsOneFloat) {
  EXPECT_THAT(RefusalOf("graph g\n input x : f32[2]\n y = Exp(x)\n output y\n"),
              HasSubstr("'y' is f32[2]; what is differentiated must be a float of one element"));
}

}  // namespace
}  // namespace millrace
