// `plan --mesh auto`: what is asked for, and the page that says what was found.
#ifndef MILLRACE_TOOLS_AUTO_PAGE_H_
#define MILLRACE_TOOLS_AUTO_PAGE_H_

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/machine.h"
#include "graph/status.h"
#include "passes/parallel/auto_mesh.h"
#include "tools/output.h"

namespace millrace {

// Whether a mesh is to be searched for.
inline bool IsAutoMesh(std::string_view mesh) { return mesh.starts_with("auto"); }

// "auto", or "auto,tensor=8,pipeline=4": axes that are fixed. UsageError for anything else.
absl::Status ParseAutoMesh(std::string_view text, MeshRequest& request);

// Best plan first; then the best one of each other mesh, up to five.
std::string AutoPage(const Graph& graph, const MachineSpec& machine, const PartitionRegime& regime,
                     const MeshRequest& request, const MeshSearch& search);
Json AutoJson(const Graph& graph, const MachineSpec& machine, const PartitionRegime& regime,
              const MeshRequest& request, const MeshSearch& search);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_AUTO_PAGE_H_
