#include "bench/models/small.h"

#include <cmath>
#include <string>
#include <utility>

#include "graph/builder.h"
#include "ops/infer.h"

namespace millrace {
namespace {

Attrs OneAttr(const char* name, AttrValue value) {
  Attrs attrs;
  attrs.Set(name, std::move(value));
  return attrs;
}

// Builds layers with weights of their own, each with another seed.
class SmallLayers {
 public:
  explicit SmallLayers(const char* name) : b(name) {}

  ValueId Weight(const Shape& shape) {
    const Init init = {.kind = InitKind::kUniform, .seed = ++seed_, .low = -0.1, .high = 0.1};
    return b.Param("w", {DType::kF32, shape}, InitData(init));
  }
  ValueId Dense(ValueId x, int64_t in, int64_t out) {
    return b.Op("Gemm", {x, Weight({in, out}), Weight({out})});
  }
  ValueId Project(ValueId x, int64_t in, int64_t out) {
    return b.Op("Add", {b.Op("MatMul", {x, Weight({in, out})}), Weight({out})});
  }
  ValueId Conv(ValueId x, int64_t in, int64_t out, int64_t stride) {
    Attrs attrs = OneAttr("pads", std::vector<int64_t>{1, 1, 1, 1});
    attrs.Set("strides", std::vector<int64_t>{stride, stride});
    return b.Op("Relu",
                {b.Op("Conv", {x, Weight({out, in, 3, 3}), Weight({out})}, std::move(attrs))});
  }
  ValueId Norm(ValueId x, int64_t width) {
    return b.Op("LayerNormalization", {x, Weight({width}), Weight({width})});
  }
  ValueId Reshape(ValueId x, const std::vector<int64_t>& dims) {
    Tensor shape = Tensor::Zeros({DType::kI64, {std::ssize(dims)}});
    for (size_t i = 0; i < dims.size(); ++i) {
      shape.Set(static_cast<int64_t>(i), static_cast<double>(dims[i]));
    }
    return b.Op("Reshape", {x, b.Constant("dims", std::move(shape))});
  }
  ValueId Transpose(ValueId x, const std::vector<int64_t>& perm) {
    return b.Op("Transpose", {x}, OneAttr("perm", perm));
  }
  Graph Finish(ValueId output) {
    b.Output(output);
    Graph graph = std::move(b).Build();
    MILLRACE_CHECK(InferTypes(graph).ok());
    return graph;
  }

  GraphBuilder b;

 private:
  uint64_t seed_ = 0;
};

// Self-attention over `heads` heads.
ValueId SmallAttention(SmallLayers& l, ValueId x, int64_t tokens, int64_t width, int64_t heads) {
  const int64_t per_head = width / heads;
  const auto split = [&](ValueId v, const std::vector<int64_t>& perm) {
    return l.Transpose(l.Reshape(v, {tokens, heads, per_head}), perm);
  };
  const ValueId query = split(l.Project(x, width, width), {1, 0, 2});
  const ValueId key = split(l.Project(x, width, width), {1, 2, 0});
  const ValueId value = split(l.Project(x, width, width), {1, 0, 2});
  const float scale = 1 / std::sqrt(static_cast<float>(per_head));
  const ValueId factor = l.b.Constant("scale", Tensor::Of<float>({}, {scale}));
  const ValueId scores = l.b.Op("Mul", {l.b.Op("MatMul", {query, key}), factor});
  const ValueId mixed = l.b.Op("MatMul", {l.b.Op("Softmax", {scores}), value});
  return l.Project(l.Reshape(l.Transpose(mixed, {1, 0, 2}), {tokens, width}), width, width);
}

}  // namespace

Graph SmallMlpGraph(int64_t batch) {
  SmallLayers l("mlp");
  ValueId x = l.b.Input("x", {DType::kF32, {batch, 784}});
  x = l.b.Op("Relu", {l.Dense(x, 784, 1024)});
  x = l.b.Op("Relu", {l.Dense(x, 1024, 1024)});
  return l.Finish(l.b.Op("Softmax", {l.Dense(x, 1024, 10)}));
}

Graph SmallCnnGraph(int64_t batch) {
  SmallLayers l("cnn");
  ValueId x = l.b.Input("x", {DType::kF32, {batch, 3, 32, 32}});
  x = l.Conv(x, 3, 32, 1);
  x = l.Conv(x, 32, 32, 1);
  x = l.Conv(x, 32, 64, 2);
  x = l.Conv(x, 64, 64, 1);
  x = l.Conv(x, 64, 64, 2);
  x = l.b.Op("Flatten", {l.b.Op("GlobalAveragePool", {x})});
  return l.Finish(l.b.Op("Softmax", {l.Dense(x, 64, 10)}));
}

Graph SmallTransformerGraph(int64_t layers, int64_t tokens, int64_t width, int64_t heads) {
  SmallLayers l("transformer");
  ValueId x = l.b.Input("x", {DType::kF32, {tokens, width}});
  for (int64_t layer = 0; layer < layers; ++layer) {
    x = l.b.Op("Add", {SmallAttention(l, l.Norm(x, width), tokens, width, heads), x});
    const ValueId hidden = l.b.Op("Gelu", {l.Project(l.Norm(x, width), width, 4 * width)});
    x = l.b.Op("Add", {l.Project(hidden, 4 * width, width), x});
  }
  return l.Finish(l.Norm(x, width));
}

}  // namespace millrace
