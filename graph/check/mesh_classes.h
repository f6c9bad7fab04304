// MeshClasses: which coordinates of the mesh must be looked at so that nothing is missed. A mesh
// may have thousands of devices; all those along an axis that no expression of the plan mentions do
// exactly the same, and one of them stands for all.
#ifndef MILLRACE_GRAPH_CHECK_MESH_CLASSES_H_
#define MILLRACE_GRAPH_CHECK_MESH_CLASSES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/check/error_list.h"
#include "graph/check/plan_model.h"
#include "graph/mesh_coordinates.h"

namespace millrace {

struct MeshClasses {
  std::vector<std::vector<int64_t>> coordinates;  // representatives, row-major order; at least one
  std::vector<int64_t> linear;                    // their linear coordinates, ascending

  // Which representative a coordinate is; -1: none.
  int32_t Find(const std::vector<int64_t>& coordinate, const Mesh& mesh) const;
};

// Adds kComm errors for peers outside the mesh, and kStructure when there are too many classes.
MeshClasses FindMeshClasses(const PlanModel& model, ErrorList& errors);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_MESH_CLASSES_H_
