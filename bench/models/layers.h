// What the models of the zoo are built from: names in nested scopes, as exporters give them, seeded
// weights whose spread keeps activations of order 1, and the nodes of common layers.
#ifndef MILLRACE_BENCH_MODELS_LAYERS_H_
#define MILLRACE_BENCH_MODELS_LAYERS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"

namespace millrace {

Attrs MakeAttrs(std::initializer_list<std::pair<const char*, AttrValue>> items);

class LayerBuilder {
 public:
  explicit LayerBuilder(std::string_view model) : builder_(std::string(model)) {}

  // While it lives, names of what is made start with `name` and a '/'.
  class Scope {
   public:
    Scope(LayerBuilder& layers, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    LayerBuilder& layers_;
    size_t outer_size_;
  };

  ValueId Input(std::string_view name, const TensorType& type);
  void Output(ValueId value) { builder_.Output(value); }
  GraphBuilder& builder() { return builder_; }

  // --- Params in f32, each with a seed of its own
  // -------------------------------------------------
  ValueId Normal(std::string_view name, const Shape& shape, double deviation);
  ValueId Uniform(std::string_view name, const Shape& shape, double low, double high,
                  bool trainable = true);

  // Not trained: what a step leaves for the next one, zeros at first.
  ValueId State(std::string_view name, const Shape& shape);

  // --- Constants ---------------------------------------------------------------------------------
  ValueId Float(float value);
  ValueId Ints(const std::vector<int64_t>& values);
  ValueId Int(int64_t value);                        // of rank 0
  ValueId Range(int64_t count, const Shape& shape);  // 0, 1, ... count - 1

  // --- Nodes
  // ---------------------------------------------------------------------------------------
  ValueId Op(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  // All results of a node that has several.
  std::vector<ValueId> OpWithResults(std::string_view op, std::vector<ValueId> inputs,
                                     int num_results, Attrs attrs = {});
  std::vector<ValueId> Split(ValueId x, int64_t axis, const std::vector<int64_t>& sizes);
  ValueId Reshape(ValueId x, const std::vector<int64_t>& dims);
  ValueId Transpose(ValueId x, const std::vector<int64_t>& perm);
  ValueId Concat(std::vector<ValueId> parts, int64_t axis);
  ValueId Relu(ValueId x) { return Op("Relu", {x}); }

  // x [rows, in] as a Gemm with its weight as [out, in]. `gain`: the weights' variance times `in`:
  // 1 keeps the variance of what comes in; 2 makes up for a Relu before.
  ValueId Gemm(std::string_view name, ValueId x, int64_t in, int64_t out, double gain);
  // x [..., in] as MatMul and Add.
  ValueId Linear(std::string_view name, ValueId x, int64_t in, int64_t out, double gain = 1);

  // The graph, with all types inferred.
  Graph Finish() &&;

 private:
  std::string Scoped(std::string_view name) const;

  GraphBuilder builder_;
  std::string scope_;  // "layer1/0", or empty
  uint64_t seed_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_BENCH_MODELS_LAYERS_H_
