// Coordinates of devices in a mesh and their linear numbers, row-major.
#ifndef MILLRACE_GRAPH_MESH_COORDINATES_H_
#define MILLRACE_GRAPH_MESH_COORDINATES_H_

#include <cstdint>
#include <vector>

#include "graph/mesh.h"

namespace millrace {

// `linear` in [0, mesh.num_devices()).
std::vector<int64_t> CoordinatesOf(const Mesh& mesh, int64_t linear);
int64_t LinearCoordinate(const std::vector<int64_t>& coordinate, const Mesh& mesh);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_MESH_COORDINATES_H_
