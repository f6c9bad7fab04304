// How error messages name things: sites, instances, contents of memory.
#ifndef MILLRACE_GRAPH_CHECK_PLAN_NAMES_H_
#define MILLRACE_GRAPH_CHECK_PLAN_NAMES_H_

#include <cstdint>
#include <span>
#include <string>

#include "graph/check/byte_map.h"
#include "graph/check/mesh_classes.h"
#include "graph/check/plan_model.h"
#include "graph/check/section_index.h"
#include "graph/check/terms.h"

namespace millrace {

// A program at a representative coordinate: what is looked at as one device.
struct PlanSite {
  int32_t program = 0;
  int32_t coordinate = 0;  // of MeshClasses
};

class PlanNames {
 public:
  PlanNames(const PlanModel& model, const MeshClasses& classes)
      : model_(model), classes_(classes) {}

  // "program 'stage0'", and " at data=1" in a mesh.
  std::string SiteName(PlanSite site) const;
  // "step #14 launch h (reference) h <- x (segment 'forward' microbatch 1)", with
  // "stream 'main' " in front.
  std::string InstanceName(PlanSite site, const SectionIndex& index, int32_t instance) const;
  // "launch ... in body 'then' of " in front of the above when `inner` is an instruction of a body.
  std::string InstanceName(PlanSite site, const SectionIndex& index, int32_t instance,
                           const Instruction* inner) const;
  std::string StreamName(PlanSite site, const SectionIndex& index, int32_t instance) const;
  // "buffer 'arena' bytes [0,64)"
  std::string BytesName(PlanSite site, BufferId buffer, int64_t begin, int64_t end) const;
  // "'h'"
  std::string ValueName(int32_t global_value) const;
  // "'h' of microbatch 1", "param 'w' of the start of the step", "nothing"; with " at data=1" where
  // devices differ.
  std::string TermName(const Terms& terms, int32_t term) const;

  const PlanModel& model() const { return model_; }

 private:
  std::string Coordinate(std::span<const int64_t> coordinate) const;  // " at data=1", or ""
  std::string LeafCoordinate(int32_t coordinate) const;

  const PlanModel& model_;
  const MeshClasses& classes_;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_PLAN_NAMES_H_
