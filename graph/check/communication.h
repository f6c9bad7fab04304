// Communication: which instances of a section meet. A Send meets the Recv of the same place on its
// channel, a Collective the same instance of all members of its group.
#ifndef MILLRACE_GRAPH_CHECK_COMMUNICATION_H_
#define MILLRACE_GRAPH_CHECK_COMMUNICATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/check/error_list.h"
#include "graph/check/mesh_classes.h"
#include "graph/check/plan_model.h"
#include "graph/check/plan_names.h"
#include "graph/check/section_index.h"

namespace millrace {

struct Arrival {
  int32_t site = 0;
  int32_t instance = 0;
};

struct Rendezvous {
  int32_t first_arrival = 0;
  int32_t num_arrivals = 0;  // Send, then Recv; or members by ascending coordinate
};

struct Communication {
  std::vector<Rendezvous> rendezvous;
  std::vector<Arrival> arrivals;
  // By site and place among the program's communications: its rendezvous, and the instance before
  // it on the same channel in the same direction (-1: none).
  std::vector<std::vector<int32_t>> rendezvous_of, previous_of;

  std::span<const Arrival> ArrivalsOf(int32_t r) const {
    return std::span(arrivals).subspan(rendezvous[r].first_arrival, rendezvous[r].num_arrivals);
  }
};

// Sites are programs x representatives: site = program * representatives + coordinate.
std::vector<PlanSite> SitesOf(const PlanModel& model, const MeshClasses& classes);

// False, with kComm errors, when some have nobody to meet, or the two sides differ in size or type.
bool PairCommunication(const PlanModel& model, const MeshClasses& classes,
                       std::span<const PlanSite> sites, const SectionIndex& index,
                       Communication& communication, ErrorList& errors);

// Mailboxes of one name carry one size and dtype, in all programs.
void CheckMailboxes(const PlanModel& model, ErrorList& errors);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_COMMUNICATION_H_
