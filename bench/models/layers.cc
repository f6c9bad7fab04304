#include "bench/models/layers.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "graph/strings.h"
#include "ops/infer.h"

namespace millrace {

Attrs MakeAttrs(std::initializer_list<std::pair<const char*, AttrValue>> items) {
  Attrs attrs;
  for (const auto& [name, value] : items) attrs.Set(name, value);
  return attrs;
}

LayerBuilder::Scope::Scope(LayerBuilder& layers, std::string_view name)
    : layers_(layers), outer_size_(layers.scope_.size()) {
  layers_.scope_ = layers_.Scoped(name);
}

LayerBuilder::Scope::~Scope() { layers_.scope_.resize(outer_size_); }

std::string LayerBuilder::Scoped(std::string_view name) const {
  return scope_.empty() ? std::string(name) : StrCat(scope_, "/", name);
}

ValueId LayerBuilder::Input(std::string_view name, const TensorType& type) {
  return builder_.Input(name, type);
}

ValueId LayerBuilder::Normal(std::string_view name, const Shape& shape, double deviation) {
  const Init init = {.kind = InitKind::kNormal, .seed = ++seed_, .std = deviation};
  return builder_.Param(Scoped(name), {DType::kF32, shape}, InitData(init));
}

ValueId LayerBuilder::Uniform(std::string_view name, const Shape& shape, double low, double high,
                              bool trainable) {
  const Init init = {.kind = InitKind::kUniform, .seed = ++seed_, .low = low, .high = high};
  return builder_.Param(Scoped(name), {DType::kF32, shape}, InitData(init), trainable);
}

ValueId LayerBuilder::State(std::string_view name, const Shape& shape) {
  return builder_.Param(Scoped(name), {DType::kF32, shape}, InitData({.kind = InitKind::kZeros}),
                        /*trainable=*/false);
}

ValueId LayerBuilder::Float(float value) {
  return builder_.Constant(Scoped("constant"), Tensor::Scalar(value));
}

ValueId LayerBuilder::Ints(const std::vector<int64_t>& values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return builder_.Constant(Scoped("constant"),
                           Tensor::FromSpan(shape, std::span<const int64_t>(values)));
}

ValueId LayerBuilder::Int(int64_t value) {
  return builder_.Constant(Scoped("constant"), Tensor::Scalar(value));
}

ValueId LayerBuilder::Range(int64_t count, const Shape& shape) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = i;
  return builder_.Constant(Scoped("range"),
                           Tensor::FromSpan(shape, std::span<const int64_t>(values)));
}

ValueId LayerBuilder::Op(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  return OpWithResults(op, std::move(inputs), 1, std::move(attrs))[0];
}

std::vector<ValueId> LayerBuilder::OpWithResults(std::string_view op, std::vector<ValueId> inputs,
                                                 int num_results, Attrs attrs) {
  Node& node = builder_.AddNode(op, std::move(inputs), std::move(attrs),
                                Scoped(absl::AsciiStrToLower(AbslView(op))), num_results);
  node.scope = scope_;
  return node.outputs;
}

std::vector<ValueId> LayerBuilder::Split(ValueId x, int64_t axis,
                                         const std::vector<int64_t>& sizes) {
  return OpWithResults("Split", {x, Ints(sizes)}, static_cast<int>(sizes.size()),
                       MakeAttrs({{"axis", axis}}));
}

ValueId LayerBuilder::Reshape(ValueId x, const std::vector<int64_t>& dims) {
  return Op("Reshape", {x, Ints(dims)});
}

ValueId LayerBuilder::Transpose(ValueId x, const std::vector<int64_t>& perm) {
  return Op("Transpose", {x}, MakeAttrs({{"perm", perm}}));
}

ValueId LayerBuilder::Concat(std::vector<ValueId> parts, int64_t axis) {
  return Op("Concat", std::move(parts), MakeAttrs({{"axis", axis}}));
}

ValueId LayerBuilder::Gemm(std::string_view name, ValueId x, int64_t in, int64_t out, double gain) {
  const Scope scope(*this, name);
  const ValueId weight =
      Normal("weight", Shape{out, in}, std::sqrt(gain / static_cast<double>(in)));
  const ValueId bias = Uniform("bias", Shape{out}, -0.1, 0.1);
  return Op("Gemm", {x, weight, bias}, MakeAttrs({{"transB", true}}));
}

ValueId LayerBuilder::Linear(std::string_view name, ValueId x, int64_t in, int64_t out,
                             double gain) {
  const Scope scope(*this, name);
  const ValueId weight =
      Normal("weight", Shape{in, out}, std::sqrt(gain / static_cast<double>(in)));
  const ValueId bias = Uniform("bias", Shape{out}, -0.1, 0.1);
  return Op("Add", {bias, Op("MatMul", {x, weight})});
}

Graph LayerBuilder::Finish() && {
  Graph graph = std::move(builder_).Build();
  MILLRACE_CHECK(InferTypes(graph).ok());
  return graph;
}

}  // namespace millrace
