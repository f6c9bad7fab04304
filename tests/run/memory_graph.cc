#include "tests/run/memory_graph.h"

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/assert.h"
#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/infer.h"

namespace millrace {
namespace {

constexpr int64_t kMostElements = 400;

class Maker {
 public:
  Maker(uint64_t seed, bool params_as_inputs)
      : random_(seed), params_as_inputs_(params_as_inputs), builder_("random") {}

  Graph Run(int num_nodes) {
    condition_ = builder_.Input("c", {DType::kBool, {}});
    for (int i = 0; i < kMemoryGraphInputs; ++i) {
      Add(builder_.Input(StrCat("x", i), {DType::kF32, {2, 3, 16}}), {2, 3, 16});
    }
    for (int i = 0; i < kMemoryGraphParams; ++i) {
      const TensorType type{DType::kF32, {16, 3}};
      const ValueId id = params_as_inputs_
                             ? builder_.Input(StrCat("p", i), type)
                             : builder_.Param(StrCat("p", i), type, InitData({InitKind::kOnes}));
      params_.push_back(id);
      Add(id, type.shape);
    }
    for (int n = 0; n < num_nodes; ++n) AddNode();
    End();
    Graph graph = std::move(builder_).Build();
    const absl::Status status = InferTypes(graph);
    MILLRACE_CHECK(status.ok());
    return graph;
  }

 private:
  struct Known {
    ValueId id;
    Shape shape;
  };

  int Pick(int count) { return static_cast<int>(random_() % count); }
  void Add(ValueId id, Shape shape) { values_.push_back({id, std::move(shape)}); }
  // Any value, new ones more often than old ones.
  Known Any() {
    const int n = static_cast<int>(values_.size());
    return values_[Pick(3) == 0 ? Pick(n) : n - 1 - Pick(std::min(n, 5))];
  }
  // Another value of the shape, where there is one.
  ValueId Like(const Known& value) {
    for (int tries = 0; tries < 6; ++tries) {
      const Known other = Any();
      if (other.shape == value.shape) return other.id;
    }
    return value.id;
  }
  ValueId Ints(std::vector<int64_t> values) {
    const int64_t count = std::ssize(values);
    return builder_.Constant("k", Tensor::FromSpan<int64_t>({count}, values));
  }
  static Attrs Axis(int axis) {
    Attrs attrs;
    attrs.Set("axis", int64_t{axis});
    return attrs;
  }

  void AddNode() {
    const Known in = Any();
    const int rank = in.shape.rank();
    switch (Pick(11)) {
      case 0:
        return Add(builder_.Op("Relu", {in.id}), in.shape);
      case 1:
        return Add(builder_.Op("Neg", {in.id}), in.shape);
      case 2:
      case 3:
        return Add(builder_.Op(Pick(2) == 0 ? "Add" : "Sub", {in.id, Like(in)}), in.shape);
      case 4:
        return AddReshape(in);
      case 5:
        return Add(builder_.Op("Identity", {in.id}), in.shape);
      case 6:
        if (rank > 0) AddJoin(in, Pick(rank));
        return;
      case 7:
        if (rank > 0) AddSplit(in, Pick(2) == 0 ? 0 : Pick(rank));
        return;
      case 8:
        if (rank > 0) AddSlice(in, Pick(2) == 0 ? 0 : Pick(rank));
        return;
      case 9:
        return AddBranch(in);
      default:
        return AddLoop(in);
    }
  }

  void AddReshape(const Known& in) {
    std::vector<int64_t> dims;
    int64_t left = NumElements(in.shape);
    for (int64_t factor : {2, 3, 16}) {
      if (left == 0 || left % factor != 0 || Pick(2) == 0) continue;
      dims.push_back(factor);
      left /= factor;
    }
    dims.push_back(left);
    if (Pick(2) == 0) dims.insert(dims.begin(), 1);
    Attrs attrs;
    attrs.Set("allowzero", true);
    Add(builder_.Op("Reshape", {in.id, Ints(dims)}, std::move(attrs)),
        Shape(std::span<const int64_t>(dims)));
  }

  void AddJoin(const Known& in, int axis) {
    const int parts = 2 + Pick(2);
    Shape shape = in.shape;
    shape[axis] *= parts;
    if (NumElements(shape) > kMostElements) return;
    std::vector<ValueId> inputs = {in.id};
    while (std::ssize(inputs) < parts) inputs.push_back(Like(in));
    Add(builder_.Op("Concat", std::move(inputs), Axis(axis)), shape);
  }

  void AddSplit(const Known& in, int axis) {
    const int64_t first = Pick(static_cast<int>(in.shape[axis]) + 1);  // may leave nothing
    const std::vector<ValueId> parts =
        builder_.AddNode("Split", {in.id, Ints({first, in.shape[axis] - first})}, Axis(axis), "", 2)
            .outputs;
    Shape shape = in.shape;
    shape[axis] = first;
    Add(parts[0], shape);
    shape[axis] = in.shape[axis] - first;
    Add(parts[1], shape);
  }

  void AddSlice(const Known& in, int axis) {
    const int size = static_cast<int>(in.shape[axis]);
    const int64_t begin = Pick(size + 1), end = begin + Pick(size - static_cast<int>(begin) + 1);
    Shape shape = in.shape;
    shape[axis] = end - begin;
    Add(builder_.Op("Slice", {in.id, Ints({begin}), Ints({end}), Ints({axis})}), shape);
  }

  // then: a - b; else: b or a, as it is.
  void AddBranch(const Known& in) {
    const TensorType type{DType::kF32, in.shape};
    GraphBuilder yes("yes"), no("no");
    const ValueId a = yes.Input("a", type), b = yes.Input("b", type);
    yes.Output(yes.Op("Relu", {yes.Op("Sub", {a, b})}));
    const ValueId other_a = no.Input("a", type), other_b = no.Input("b", type);
    no.Output(Pick(2) == 0 ? other_a : other_b);
    const ValueId like = Like(in);
    Node& node = builder_.AddNode("If", {condition_, in.id, like});
    node.subgraphs.push_back({"then_branch", std::move(yes).Build()});
    node.subgraphs.push_back({"else_branch", std::move(no).Build()});
    Add(node.outputs[0], in.shape);
  }

  // Three trips of v <- relu(v - k) - v, or of two values changing places.
  void AddLoop(const Known& in) {
    const TensorType type{DType::kF32, in.shape};
    const bool swaps = Pick(2) == 0;
    GraphBuilder body("body");
    body.Input("n", {DType::kI64, {}});
    body.Output(body.Input("go", {DType::kBool, {}}));
    const ValueId v = body.Input("v", type), k = body.Input("k", type);
    if (swaps) {
      body.Output(k);
      body.Output(v);
    } else {
      body.Output(body.Op("Sub", {body.Op("Relu", {body.Op("Sub", {v, k})}), v}));
    }
    const ValueId trips = builder_.Constant("trips", Tensor::Scalar<int64_t>(3));
    const ValueId like = Like(in);
    Attrs attrs;
    if (!swaps) attrs.Set("num_captures", int64_t{1});
    Node& node = builder_.AddNode("Loop", {trips, ValueId(), in.id, like}, std::move(attrs), "",
                                  swaps ? 2 : 1);
    node.subgraphs.push_back({"body", std::move(body).Build()});
    const std::vector<ValueId> outputs = node.outputs;
    for (ValueId out : outputs) Add(out, in.shape);
  }

  // Outputs: the last value, and some others, whatever they are. Params become what they are not.
  void End() {
    const int count = 1 + Pick(4);
    std::vector<ValueId> outputs;
    for (int i = 0; i < count; ++i) {
      const ValueId id = i == 0 ? values_.back().id : values_[Pick(values_.size())].id;
      if (std::ranges::find(outputs, id) == outputs.end()) outputs.push_back(id);
    }
    std::vector<ValueId> updates;
    for (ValueId param : params_) {
      const Known like{param, {16, 3}};
      updates.push_back(Pick(3) == 0 ? Like(like) : builder_.Op("Sub", {Like(like), param}));
    }
    for (ValueId id : outputs) builder_.Output(id);
    for (size_t i = 0; i < params_.size(); ++i) {
      if (params_as_inputs_) {
        builder_.Output(builder_.Op("Identity", {updates[i]}));
      } else {
        builder_.AddUpdate(params_[i], updates[i]);
      }
    }
  }

  std::mt19937_64 random_;
  const bool params_as_inputs_;
  GraphBuilder builder_;
  ValueId condition_;
  std::vector<Known> values_;
  std::vector<ValueId> params_;
};

}  // namespace

Graph RandomMemoryGraph(uint64_t seed, int num_nodes, bool params_as_inputs) {
  return Maker(seed, params_as_inputs).Run(num_nodes);
}

}  // namespace millrace
