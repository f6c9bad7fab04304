// WeightStore: turns the DataSources of a graph's params and constants into tensors, opening each
// weight file once, inside the graph's folder only (no "..", no absolute path, no link out).
#ifndef MILLRACE_GRAPH_WEIGHTS_H_
#define MILLRACE_GRAPH_WEIGHTS_H_

#include <map>
#include <string>

#include "graph/graph.h"
#include "graph/safetensors.h"
#include "graph/status.h"

namespace millrace {

class WeightStore {
 public:
  explicit WeightStore(const Graph& graph) : graph_(&graph) {}  // outlived by the graph

  // The data of a param or constant: mapped, expanded or generated. Types must agree exactly.
  absl::StatusOr<Tensor> Get(ValueId value);

 private:
  absl::StatusOr<const SafetensorsFile*> Open(const std::string& key);

  const Graph* graph_;
  std::map<std::string, SafetensorsFile> files_;
};

// BadInputError when data of this type cannot be made so: he_normal and xavier_uniform need rank 2
// or more, all but zeros and ones a float dtype; ranges must be finite, low < high, std >= 0.
absl::Status CheckInit(const TensorType& type, const Init& init);

// Seeded data: element i depends on (seed, i) alone, so shards can be made apart.
absl::StatusOr<Tensor> GenerateInit(const TensorType& type, const Init& init);

// Uniform in [0, 1) with 24 bits, from Philox4x32-10 keyed by (seed, counter).
float UniformAt(uint64_t seed, uint64_t counter);
// Standard normal by Box-Muller on the same stream.
float NormalAt(uint64_t seed, uint64_t counter);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_WEIGHTS_H_
