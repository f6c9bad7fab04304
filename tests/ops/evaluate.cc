#include "tests/ops/evaluate.h"

#include <cmath>
#include <limits>

#include "ops/evaluate.h"

namespace millrace::optest {

absl::StatusOr<std::vector<Tensor>> RunReference(std::string_view op, const Attrs& attrs,
                                                 const std::vector<Tensor>& inputs,
                                                 int num_outputs) {
  NodeQuery query{std::string(op), attrs, {}, {}};
  for (const Tensor& t : inputs) {
    query.inputs.push_back(t.has_data() ? std::optional(t.type()) : std::nullopt);
  }
  query.outputs.resize(num_outputs, TensorType{});
  MILLRACE_ASSIGN_OR_RETURN(query, ResolveQuery(query, inputs));
  return millrace::RunReference(query, inputs);
}

std::string ErrorOf(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  return std::string(RunReference(op, attrs, inputs).status().message());
}

absl::StatusOr<std::vector<Tensor>> Evaluate(const Graph& graph, std::span<const Tensor> inputs) {
  std::vector<Tensor> values(graph.values.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) values[graph.inputs[i].index] = inputs[i];
  for (ValueId id : graph.constants) values[id.index] = *ConstantTensor(graph, id);
  for (const Node& node : graph.nodes) {
    std::vector<Tensor> operands;
    for (ValueId id : node.inputs) {
      operands.push_back(id.valid() ? values[id.index] : Tensor());
    }
    MILLRACE_ASSIGN_OR_RETURN(
        const std::vector<Tensor> results,
        RunReference(node.op, node.attrs, operands, static_cast<int>(node.outputs.size())));
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i].valid()) values[node.outputs[i].index] = results[i];
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(values[id.index]);
  return outputs;
}

Tensor RandomTensor(const TensorType& type, uint64_t seed, double low, double high) {
  Tensor tensor = Tensor::Zeros(type);
  uint64_t state = seed * 0x9e3779b97f4a7c15u;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);  // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const double x = low + (high - low) * static_cast<double>(z >> 11) * 0x1p-53;
    tensor.Set(i, IsFloat(type.dtype) ? x : std::floor(x));
  }
  return tensor;
}

Tensor Converted(const Tensor& tensor, DType dtype) {
  Tensor result = Tensor::Zeros({dtype, tensor.shape()});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) result.Set(i, tensor.AsDouble(i));
  return result;
}

namespace {

// f(outer index, position along `dim`, inner index, element) in row-major order.
template <typename F>
void ForEachElement(const Shape& shape, int dim, F&& f) {
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    f(i / inner / shape[dim], i / inner % shape[dim], i % inner, i);
  }
}

}  // namespace

Tensor SliceOf(const Tensor& tensor, int dim, int64_t begin, int64_t end) {
  Shape shape = tensor.shape();
  shape[dim] = end - begin;
  Tensor result = Tensor::Zeros({tensor.dtype(), shape});
  int64_t at = 0;
  ForEachElement(tensor.shape(), dim, [&](int64_t, int64_t p, int64_t, int64_t i) {
    if (p >= begin && p < end) result.Set(at++, tensor.AsDouble(i));
  });
  return result;
}

Tensor Joined(std::span<const Tensor> parts, int dim) {
  Shape shape = parts[0].shape();
  shape[dim] = 0;
  for (const Tensor& part : parts) shape[dim] += part.shape()[dim];
  Tensor result = Tensor::Zeros({parts[0].dtype(), shape});
  int64_t inner = 1, start = 0;
  for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  for (const Tensor& part : parts) {
    ForEachElement(part.shape(), dim, [&](int64_t o, int64_t p, int64_t in, int64_t i) {
      result.Set((o * shape[dim] + start + p) * inner + in, part.AsDouble(i));
    });
    start += part.shape()[dim];
  }
  return result;
}

double MaxError(const Tensor& a, const Tensor& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a.type() != b.type()) return kInfinite;
  double worst = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.AsDouble(i), y = b.AsDouble(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double error = std::abs(x - y) / std::max(1.0, std::abs(y));
    worst = std::isnan(error) ? kInfinite : std::max(worst, error);
  }
  return worst;
}

}  // namespace millrace::optest
