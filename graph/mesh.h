// Mesh and Sharding: named axes of devices, and how one value is spread over them.
#ifndef MILLRACE_GRAPH_MESH_H_
#define MILLRACE_GRAPH_MESH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"

namespace millrace {

struct MeshAxis {
  std::string name;  // "data", "tensor"
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

// Row-major: the last axis varies fastest in a device's linear coordinate.
struct Mesh {
  std::vector<MeshAxis> axes;
  bool operator==(const Mesh&) const = default;

  int64_t num_devices() const;                   // product of the sizes; 1 for no axes
  int FindAxis(std::string_view name) const;     // -1 when absent
};

enum class Reduction : uint8_t { kSum, kMax, kMin, kProd, kMean };
std::string_view ReductionName(Reduction reduction);  // "sum", ...

// What one mesh axis does to a value.
struct AxisSharding {
  enum class Kind : uint8_t { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  int dim = -1;                            // kShard
  Reduction reduction = Reduction::kSum;   // kPartial
  bool operator==(const AxisSharding&) const = default;
};

// One entry per mesh axis, in the mesh's order.
struct Sharding {
  std::vector<AxisSharding> axes;
  bool operator==(const Sharding&) const = default;
};

// "data=2,tensor=4"; "" is the empty mesh. Both directions; Parse gives UsageError.
std::string ToString(const Mesh& mesh);
absl::StatusOr<Mesh> ParseMesh(std::string_view text);

// "data:0,tensor:partial(sum)": axis:dim shards, axes not named replicate. "" replicates on all.
std::string ToString(const Sharding& sharding, const Mesh& mesh);
absl::StatusOr<Sharding> ParseSharding(std::string_view text, const Mesh& mesh);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_MESH_H_
