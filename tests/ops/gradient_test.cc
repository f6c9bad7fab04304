// Gradient builders against central differences in f64: for each op and case, the graph a builder
// makes is inferred, evaluated with reference kernels, and compared element by element with
//   d/dx <R, op(x)> = (<R, op(x + h)> - <R, op(x - h)>) / 2h
// for fixed random R, the gradients that flow back from the results.
#include <cmath>

#include "graph/verify.h"
#include "gtest/gtest.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

using optest::OpCase;

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;

bool IsData(const Tensor& t) { return t.has_data() && t.dtype() == DType::kF64; }

std::vector<Tensor> RunCase(const OpCase& c, const std::vector<Tensor>& inputs) {
  auto results = optest::RunReference(c.op, c.attrs, inputs, c.num_outputs);
  EXPECT_TRUE(results.ok()) << c.name << ": " << results.status();
  return *std::move(results);
}

// <R, op(inputs)>, over results with an R.
double Loss(const OpCase& c, const std::vector<Tensor>& inputs, const std::vector<Tensor>& r) {
  const std::vector<Tensor> y = RunCase(c, inputs);
  double loss = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!r[i].has_data()) continue;
    for (int64_t e = 0; e < y[i].num_elements(); ++e) loss += y[i].AsDouble(e) * r[i].AsDouble(e);
  }
  return loss;
}

// The gradients of the case's inputs, by the op's builder; no data where there is none.
std::vector<Tensor> BuiltGradients(const OpCase& c, const std::vector<Tensor>& r) {
  GraphBuilder builder;
  std::vector<ValueId> operands;
  std::vector<Tensor> data;
  for (const Tensor& t : c.inputs) {
    if (!t.has_data()) {
      operands.push_back(ValueId());
    } else if (!IsData(t)) {  // shapes, axes, positions, scales, conditions
      operands.push_back(builder.Constant("k", t));
    } else {
      operands.push_back(builder.Input("x", t.type()));
      data.push_back(t);
    }
  }
  builder.AddNode(c.op, operands, c.attrs, "node", c.num_outputs);
  EXPECT_EQ(InferTypes(builder.graph()), absl::OkStatus()) << c.name;

  std::vector<ValueId> output_grads;
  for (const Tensor& t : r) {
    output_grads.push_back(t.has_data() ? builder.Constant("r", t) : ValueId());
  }
  GradientContext context{builder, NodeId(0), output_grads, {}, {}};
  for (const Tensor& t : c.inputs) context.wanted.push_back(IsData(t));
  EXPECT_EQ(FindOp(c.op)->gradient(context), absl::OkStatus()) << c.name;
  EXPECT_EQ(context.input_grads.size(), c.inputs.size()) << c.name;

  for (ValueId id : context.input_grads) {
    if (id.valid()) builder.Output(builder.Op("Identity", {id}));  // outputs are distinct
  }
  Graph graph = std::move(builder).Build();
  EXPECT_EQ(InferTypes(graph), absl::OkStatus()) << c.name;
  EXPECT_EQ(VerifyGraphAfter(graph, "gradient"), absl::OkStatus()) << c.name;
  const auto outputs = optest::Evaluate(graph, data);
  EXPECT_TRUE(outputs.ok()) << c.name << ": " << outputs.status();
  std::vector<Tensor> grads(c.inputs.size());
  for (size_t i = 0, k = 0; i < grads.size(); ++i) {
    if (context.input_grads[i].valid()) grads[i] = (*outputs)[k++];
  }
  return grads;
}

void CheckCase(const OpCase& c, const std::vector<Tensor>& r) {
  const std::vector<Tensor> grads = BuiltGradients(c, r);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!IsData(c.inputs[i])) continue;
    SCOPED_TRACE(c.name + " input " + std::to_string(i));
    if (grads[i].has_data()) {
      ASSERT_EQ(grads[i].type(), c.inputs[i].type());
    }
    for (int64_t e = 0; e < c.inputs[i].num_elements(); ++e) {
      std::vector<Tensor> inputs = c.inputs;
      const auto loss_at = [&](double step) {
        inputs[i] = optest::Converted(c.inputs[i], DType::kF64);
        inputs[i].Set(e, c.inputs[i].AsDouble(e) + step);
        return Loss(c, inputs, r);
      };
      const double expected = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      const double built = grads[i].has_data() ? grads[i].AsDouble(e) : 0;
      ASSERT_NEAR(built, expected, kTolerance * std::max(1.0, std::abs(expected)))
          << "element " << e;
    }
  }
}

class GradientTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GradientTest, AgreesWithCentralDifferences) {
  for (const OpCase& c : optest::OpCases()) {
    if (c.op != GetParam()) continue;
    const std::vector<Tensor> y = RunCase(c, c.inputs);
    std::vector<Tensor> r(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (IsData(y[i])) r[i] = optest::RandomTensor(y[i].type(), 100 + i);
    }
    CheckCase(c, r);
    if (y.size() < 2) continue;
    for (size_t only = 0; only < y.size(); ++only) {  // the other results have no gradient
      if (!r[only].has_data()) continue;
      std::vector<Tensor> one(y.size());
      one[only] = r[only];
      CheckCase(c, one);
    }
  }
}

std::vector<std::string> DifferentiableOps() {
  std::vector<std::string> names;
  for (const OpDef& op : AllOps()) {
    if (op.gradient != nullptr) names.push_back(op.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllOps, GradientTest, ::testing::ValuesIn(DifferentiableOps()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace millrace
