#include "graph/mesh_coordinates.h"

namespace millrace {

std::vector<int64_t> CoordinatesOf(const Mesh& mesh, int64_t linear) {
  std::vector<int64_t> coordinates(mesh.axes.size(), 0);
  for (size_t axis = coordinates.size(); axis-- > 0;) {
    coordinates[axis] = linear % mesh.axes[axis].size;
    linear /= mesh.axes[axis].size;
  }
  return coordinates;
}

int64_t LinearCoordinate(const std::vector<int64_t>& coordinate, const Mesh& mesh) {
  int64_t linear = 0;
  for (size_t i = 0; i < coordinate.size(); ++i) {
    linear = linear * mesh.axes[i].size + coordinate[i];
  }
  return linear;
}

}  // namespace millrace
