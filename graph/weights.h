// WeightStore: turns the DataSources of a graph's params and constants into tensors, opening each
// weight file once, inside the graph's folder only (no "..", no absolute path, no link out).
#ifndef MILLRACE_GRAPH_WEIGHTS_H_
#define MILLRACE_GRAPH_WEIGHTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"
#include "graph/safetensors.h"
#include "graph/status.h"

namespace millrace {

class WeightStore {
 public:
  explicit WeightStore(const Graph& graph) : graph_(&graph) {}  // outlived by the graph

  // The data of a param or constant, whole (GlobalType): mapped, expanded or generated. Types must agree exactly, and a
  // weight file with a "sha256" must have that hash: BadInputError.
  absl::StatusOr<Tensor> Get(ValueId value);

  // The weight file of that key. Opened once, and refused once: later calls give the same answer.
  absl::StatusOr<const SafetensorsFile*> Open(const std::string& key);

 private:
  const Graph* graph_;
  std::map<std::string, absl::StatusOr<SafetensorsFile>> files_;
};

// That all data that lie in weight files are there, and of the declared types; nested graphs
// included. Reads headers only, unless a file is to have a certain hash. `pointer`: of the graph in
// its file.
void VerifyWeights(const Graph& graph, Diagnostics& diagnostics, std::string_view pointer = "");

// BadInputError when data of this type cannot be made so: he_normal and xavier_uniform need rank 2
// or more, all but zeros and ones a float dtype; ranges must be finite, low < high, std >= 0.
absl::Status CheckInit(const TensorType& type, const Init& init);

// Seeded data: element i depends on (seed, i) alone, so shards can be made apart.
absl::StatusOr<Tensor> GenerateInit(const TensorType& type, const Init& init);

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four
// random words for each counter under each key.
std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key);

// Uniform in [0, 1) with 24 bits. The stream of `seed` and `step` is the words of Philox blocks 0, 1,
// 2, ... with the seed as the key and (block, step) as the counter; `counter` counts its elements,
// four to a block. Initial data are of step 0.
float UniformAt(uint64_t seed, uint64_t counter, uint64_t step = 0);
// Standard normal by Box-Muller on the same stream: words 0 and 1 of a block give its elements 0
// and 1 (cosine, sine), words 2 and 3 the other two.
float NormalAt(uint64_t seed, uint64_t counter, uint64_t step = 0);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_WEIGHTS_H_
