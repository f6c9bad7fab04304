// Einsum as the pipeline runs it, lowered to products of matrices, against its own kernel.
#include <gtest/gtest.h>

#include <random>

#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/evaluate_graph.h"
#include "ops/infer.h"
#include "tests/run/run_graph.h"

namespace millrace {
namespace {

// Small integers, so that sums are exact in whatever order they are taken.
Tensor SmallIntegers(DType dtype, const Shape& shape, std::mt19937& random) {
  Tensor tensor = Tensor::Zeros({dtype, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, static_cast<double>(random() % 7) - 3);
  }
  return tensor;
}

struct Sample {
  std::string equation;
  std::vector<Shape> shapes;
};

// Two to four operands over up to six labels; now and then a dim of 1 for another size.
Sample RandomSample(std::mt19937& random) {
  Sample sample;
  std::string seen;
  const std::string letters = "abcdef";
  const int64_t sizes[] = {2, 3, 1, 4, 2, 3};
  const int operands = 2 + static_cast<int>(random() % 3);
  for (int i = 0; i < operands; ++i) {
    std::string labels = letters;
    std::shuffle(labels.begin(), labels.end(), random);
    labels.resize(random() % 4 + (i == 0 ? 1 : 0));
    Shape shape;
    for (char c : labels) {
      shape.push_back(random() % 8 == 0 ? 1 : sizes[c - 'a']);
      if (seen.find(c) == std::string::npos) seen += c;
    }
    StrAppend(&sample.equation, i == 0 ? "" : ",", labels);
    sample.shapes.push_back(shape);
  }
  std::shuffle(seen.begin(), seen.end(), random);
  seen.resize(random() % (seen.size() + 1));
  StrAppend(&sample.equation, "->", seen);
  return sample;
}

TEST(Einsum, LoweredGivesTheSame) {
  std::mt19937 random(5);
  for (int round = 0; round < 150; ++round) {
    const Sample sample = RandomSample(random);
    const DType dtype = round % 3 == 0 ? DType::kI32 : DType::kF32;
    SCOPED_TRACE(StrCat(sample.equation, " of ", DTypeName(dtype)));
    GraphBuilder b;
    std::vector<ValueId> operands;
    NamedTensors inputs;
    std::vector<Tensor> in_order;
    for (size_t i = 0; i < sample.shapes.size(); ++i) {
      const std::string name = StrCat("x", i);
      operands.push_back(b.Input(name, {dtype, sample.shapes[i]}));
      in_order.push_back(SmallIntegers(dtype, sample.shapes[i], random));
      inputs[name] = in_order.back();
    }
    Attrs attrs;
    attrs.Set("equation", sample.equation);
    b.Output(b.Op("Einsum", operands, std::move(attrs)));
    Graph graph = std::move(b).Build();
    ASSERT_TRUE(InferTypes(graph).ok());
    const auto expected = EvaluateGraph(graph, in_order);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto results = RunGraph(graph, {inputs});
    ASSERT_TRUE(results.ok()) << results.status();
    const Tensor &actual = (*results)[0][0], &wanted = (*expected)[0];
    ASSERT_EQ(ToString(actual.type()), ToString(wanted.type()));
    for (int64_t i = 0; i < wanted.num_elements(); ++i) {
      ASSERT_EQ(actual.AsDouble(i), wanted.AsDouble(i)) << "element " << i;
    }
  }
}

}  // namespace
}  // namespace millrace
